"""All operations of the server."""

from __future__ import annotations

from vecall.server import admin_handlers as admin
from vecall.server import handlers
from vecall.server.routing import Operation
from vecall.server.schemas import FLAG, NAME, SECONDS, STATE, YES, page_size

_USER = "/apps/{app}/users/{user}"


def all_operations(max_top_k: int) -> list[Operation]:
    """Return the operations.

    Args:
        max_top_k: The maximum number of memories in a page.
    """
    return [
        *_of_sessions(),
        *_of_memories(max_top_k),
        *_of_one_memory(),
        *_of_the_server(),
    ]


def _of_memories(max_top_k: int) -> list[Operation]:
    """Operations on a user's memories."""
    return [
        Operation(
            id="addMemories",
            method="POST",
            path=f"{_USER}/memories",
            summary="Store memories.",
            access="write",
            handler=handlers.add_memories,
            body="AddMemories",
            body_limit="batch",
            status=201,
            answer="Added",
            errors=(404, 409),
            repeat="with_key",
        ),
        Operation(
            id="searchMemories",
            method="POST",
            path=f"{_USER}/memories/search",
            summary="Search a user's memories, best first.",
            access="read",
            handler=handlers.search,
            body="Search",
            answer="Found",
            repeat="always",
        ),
        Operation(
            id="listMemories",
            method="GET",
            path=f"{_USER}/memories",
            summary="List memories in the order in which they were stored.",
            access="read",
            handler=handlers.list_memories,
            query={"state": STATE, "cursor": NAME, "limit": page_size(max_top_k)},
            answer="Page",
            errors=(404,),
            repeat="always",
        ),
        Operation(
            id="listWhere",
            method="POST",
            path=f"{_USER}/memories/list",
            summary="List the memories that pass a filter, in the order of storing.",
            access="read",
            handler=handlers.list_where,
            body="ListWhere",
            answer="Page",
            errors=(404,),
            repeat="always",
        ),
        Operation(
            id="countMemories",
            method="POST",
            path=f"{_USER}/memories/count",
            summary="Count the memories that pass a filter.",
            access="read",
            handler=handlers.count_memories,
            body="CountWhere",
            answer="Counted",
            repeat="always",
        ),
        Operation(
            id="deleteUser",
            method="DELETE",
            path=f"{_USER}/memories",
            summary="Delete all memories of a user.",
            access="write",
            handler=handlers.delete_user,
            query={"confirm": YES, "forget": FLAG},
            needs=("confirm",),
            answer="Deleted",
        ),
        Operation(
            id="markUsed",
            method="POST",
            path=f"{_USER}/memories/used",
            summary="Record that memories were used.",
            access="write",
            handler=handlers.mark_used,
            body="Used",
            answer="Marked",
        ),
        Operation(
            id="deleteWhere",
            method="POST",
            path=f"{_USER}/memories/delete",
            summary="Delete the memories that match a filter.",
            access="write",
            handler=handlers.delete_where,
            body="DeleteWhere",
            answer="Deleted",
        ),
        Operation(
            id="exportUser",
            method="GET",
            path=f"{_USER}/export",
            summary="Stream all memories of a user as JSON lines.",
            access="read",
            handler=handlers.export_user,
            query={"vectors": FLAG},
            answer="application/x-ndjson",
            timed=False,
            repeat="always",
        ),
    ]


def _of_one_memory() -> list[Operation]:
    """Operations on one memory."""
    return [
        Operation(
            id="getMemory",
            method="GET",
            path=f"{_USER}/memories/{{id}}",
            summary="Return one memory.",
            access="read",
            handler=handlers.get_memory,
            answer="Memory",
            errors=(404,),
            repeat="always",
        ),
        Operation(
            id="updateMemory",
            method="PATCH",
            path=f"{_USER}/memories/{{id}}",
            summary="Correct one memory; its former text stays in its history.",
            access="write",
            handler=handlers.update_memory,
            body="Change",
            body_limit="text",
            answer="Memory",
            errors=(404, 409),
        ),
        Operation(
            id="deleteMemory",
            method="DELETE",
            path=f"{_USER}/memories/{{id}}",
            summary="Delete one memory.",
            access="write",
            handler=handlers.delete_memory,
            query={"if_version": SECONDS},
            status=204,
            errors=(409,),
            repeat="always",
        ),
        Operation(
            id="memoryHistory",
            method="GET",
            path=f"{_USER}/memories/{{id}}/history",
            summary="Return the revisions of a memory, oldest first.",
            access="read",
            handler=handlers.memory_history,
            answer="History",
            errors=(404,),
            repeat="always",
        ),
        Operation(
            id="archiveMemory",
            method="POST",
            path=f"{_USER}/memories/{{id}}/archive",
            summary="Archive a memory: searches do not return it.",
            access="write",
            handler=handlers.archive_memory,
            status=204,
            errors=(404,),
        ),
        Operation(
            id="restoreMemory",
            method="POST",
            path=f"{_USER}/memories/{{id}}/restore",
            summary="Restore an archived memory.",
            access="write",
            handler=handlers.restore_memory,
            answer="Ids",
            errors=(404,),
        ),
        Operation(
            id="releaseMemory",
            method="POST",
            path=f"{_USER}/memories/{{id}}/release",
            summary="Release a quarantined memory; needs the right to review.",
            access="review",
            handler=handlers.release_memory,
            body="Release",
            answer="Ids",
            errors=(404, 409),
        ),
        Operation(
            id="consolidate",
            method="POST",
            path=f"{_USER}/consolidate",
            summary="Merge duplicates and summarize old memories; dry run by default.",
            access="write",
            handler=handlers.consolidate,
            body="Consolidate",
            answer="Consolidation",
        ),
    ]


def _of_sessions() -> list[Operation]:
    """Operations on sessions and turns."""
    return [
        Operation(
            id="ingestSession",
            method="PATCH",
            path=f"{_USER}/memory",
            summary="Store the turns of a session that the session loader returns.",
            access="write",
            handler=handlers.ingest_session,
            body="Ingest",
            answer="Added",
            errors=(404,),
            repeat="always",
        ),
        Operation(
            id="addEvents",
            method="POST",
            path=f"{_USER}/events",
            summary="Store turns of a conversation.",
            access="write",
            handler=handlers.add_events,
            body="AddEvents",
            body_limit="batch",
            status=201,
            answer="Added",
            errors=(409,),
            repeat="with_key",
        ),
        Operation(
            id="deleteSession",
            method="DELETE",
            path=f"{_USER}/sessions/{{session}}",
            summary="Delete the memories of one session.",
            access="write",
            handler=handlers.delete_session,
            answer="Deleted",
        ),
        Operation(
            id="observeSession",
            method="POST",
            path=f"{_USER}/sessions/{{session}}/observe",
            summary="Buffer new turns until the trigger fires.",
            access="write",
            handler=handlers.observe_session,
            body="Turns",
            body_limit="batch",
            answer="Ids",
            errors=(404,),
        ),
        Operation(
            id="endSession",
            method="POST",
            path=f"{_USER}/sessions/{{session}}/end",
            summary="Make memories of the buffered turns of a session.",
            access="write",
            handler=handlers.end_session,
            body="Turns",
            body_limit="batch",
            answer="Ids",
            errors=(404,),
        ),
    ]


def _of_the_server() -> list[Operation]:
    """Operations on a whole user, and on the server."""
    return [
        Operation(
            id="metrics",
            method="GET",
            path="/metrics",
            summary="Return metrics in the text format of Prometheus.",
            access="admin",
            handler=admin.metrics,
            answer="text/plain",
            repeat="always",
        ),
        Operation(
            id="backup",
            method="POST",
            path="/admin/backup",
            summary="Copy the file to the folder of backups.",
            access="admin",
            handler=admin.backup,
            status=201,
            answer="Backup",
            errors=(409, 507),
            timed=False,
        ),
        Operation(
            id="adminDeleteApp",
            method="DELETE",
            path="/admin/apps/{app}",
            summary="Delete all memories of all users of an app.",
            access="admin_write",
            handler=admin.delete_app,
            query={"confirm": YES, "forget": FLAG},
            needs=("confirm",),
            answer="Deleted",
            timed=False,
        ),
        Operation(
            id="adminDeleteUser",
            method="DELETE",
            path="/admin/apps/{app}/users/{user}",
            summary="Delete all memories of a user.",
            access="admin_write",
            handler=handlers.delete_user,
            query={"confirm": YES, "forget": FLAG},
            needs=("confirm",),
            answer="Deleted",
        ),
        Operation(
            id="health",
            method="GET",
            path="/healthz",
            summary="Return that the server is alive.",
            access="public",
            handler=handlers.health,
            answer="Health",
            repeat="always",
        ),
        Operation(
            id="openapi",
            method="GET",
            path="/openapi.json",
            summary="Return this document.",
            access="public",
            handler=handlers.document,
            answer="Document",
            repeat="always",
        ),
    ]
