"""All operations of the HTTP server: their paths, methods, access and answers."""

from __future__ import annotations

from functools import partial

from vecall.limits import HttpLimits, Limits
from vecall.server import handlers
from vecall.server.routing import Operation
from vecall.server.schemas import FLAG, YES, declared
from vecall.service.admin import MemoryAdmin
from vecall.service.memory_service import MemoryService

_USER = "/apps/{app}/users/{user}"

_run = partial(Operation, handler=handlers.run_operation)
_get = partial(_run, method="GET", access="read", repeat="always")
_ask = partial(_run, method="POST", access="read", repeat="always")
_write = partial(_run, method="POST", access="write")


def all_operations(limits: HttpLimits, of_memory: Limits) -> list[Operation]:
    """Return the operations of a server and of its memory service."""
    operations = [
        *_of_sessions(),
        *_of_memories(),
        *_of_one_memory(),
        *_of_lists(),
        *_of_the_server(),
    ]
    return [declared(each, limits, of_memory) for each in operations]


def _of_memories() -> list[Operation]:
    """Operations on a user's memories."""
    return [
        _write(
            id="addMemories",
            path=f"{_USER}/memories",
            handler=handlers.add,
            calls=MemoryService.add_memory,
            body="AddMemories",
            body_limit="batch",
            status=201,
            answer="Added",
            errors=(404, 409),
            repeat="with_key",
        ),
        _ask(
            id="searchMemories",
            path=f"{_USER}/memories/search",
            calls=MemoryService.search_memory,
            renamed={"top_k": "k"},
            body="Search",
            answer="Found",
        ),
        _ask(
            id="preloadMemories",
            path=f"{_USER}/memories/preload",
            summary="Return the block of memories that an agent gets with a message.",
            handler=handlers.preload,
            body="Preload",
            answer="Preloaded",
        ),
        _get(
            id="listMemories",
            path=f"{_USER}/memories",
            calls=MemoryService.list_memories,
            left_out=("filter", "include_expired"),
            answer="Page",
            errors=(404,),
        ),
        _ask(
            id="listWhere",
            path=f"{_USER}/memories/list",
            calls=MemoryService.list_memories,
            body="ListWhere",
            answer="Page",
            errors=(404,),
        ),
        _ask(
            id="countMemories",
            path=f"{_USER}/memories/count",
            calls=MemoryService.count_memories,
            body="CountWhere",
            answer="Counted",
        ),
        _write(
            id="deleteUser",
            method="DELETE",
            path=f"{_USER}/memories",
            calls=MemoryService.delete_user,
            query={"confirm": YES},
            needs=("confirm",),
            answer="Deleted",
        ),
        _write(
            id="markUsed",
            path=f"{_USER}/memories/used",
            calls=MemoryService.mark_used,
            renamed={"memory_ids": "ids"},
            body="Used",
            answer="Marked",
        ),
        _write(
            id="touchMemories",
            path=f"{_USER}/memories/touch",
            calls=MemoryService.touch_memories,
            renamed={"memory_ids": "ids"},
            body="Touch",
            answer="Touched",
            repeat="always",
        ),
        _write(
            id="deleteWhere",
            path=f"{_USER}/memories/delete",
            calls=MemoryService.delete_where,
            body="DeleteWhere",
            answer="Deleted",
        ),
        _get(
            id="exportUser",
            path=f"{_USER}/export",
            summary="Stream all memories of a user as JSON lines.",
            handler=handlers.export_user,
            query={"vectors": FLAG},
            answer="application/x-ndjson",
            timed=False,
        ),
    ]


def _of_one_memory() -> list[Operation]:
    """Operations on one memory."""
    return [
        _get(
            id="getMemory",
            path=f"{_USER}/memories/{{id}}",
            calls=MemoryService.get_memory,
            answer="Memory",
            errors=(404,),
        ),
        _write(
            id="updateMemory",
            method="PATCH",
            path=f"{_USER}/memories/{{id}}",
            handler=handlers.update_memory,
            calls=MemoryService.update_memory,
            left_out=("max_trust",),
            body="Change",
            body_limit="text",
            answer="Memory",
            errors=(404, 409),
        ),
        _write(
            id="deleteMemory",
            method="DELETE",
            path=f"{_USER}/memories/{{id}}",
            calls=MemoryService.delete_memory,
            status=204,
            errors=(409,),
            repeat="always",
        ),
        _get(
            id="memoryHistory",
            path=f"{_USER}/memories/{{id}}/history",
            calls=MemoryService.memory_history,
            answer="History",
            errors=(404,),
        ),
        _ask(
            id="explainMemory",
            path=f"{_USER}/memories/{{id}}/explain",
            calls=MemoryService.explain_memory,
            renamed={"top_k": "k"},
            body="Explain",
            answer="Explanation",
            errors=(404,),
        ),
        _write(
            id="archiveMemory",
            path=f"{_USER}/memories/{{id}}/archive",
            calls=MemoryService.archive_memory,
            status=204,
            errors=(404,),
        ),
        _write(
            id="restoreMemory",
            path=f"{_USER}/memories/{{id}}/restore",
            calls=MemoryService.restore_memory,
            answer="Ids",
            errors=(404,),
        ),
        _run(
            id="releaseMemory",
            method="POST",
            path=f"{_USER}/memories/{{id}}/release",
            access="review",
            calls=MemoryService.release_memory,
            summary="Make a quarantined memory live; needs the right to review.",
            body="Release",
            answer="Ids",
            errors=(404, 409),
        ),
        _write(
            id="proposeForget",
            path=f"{_USER}/forget",
            calls=MemoryService.propose_forget,
            renamed={"top_k": "k"},
            body="Forget",
            answer="Proposal",
        ),
        _write(
            id="confirmForget",
            path=f"{_USER}/forget/confirm",
            calls=MemoryService.confirm_forget,
            body="ConfirmForget",
            answer="Deleted",
            errors=(404,),
        ),
        _write(
            id="consolidate",
            path=f"{_USER}/consolidate",
            calls=MemoryService.consolidate,
            defaults={"dry_run": True},
            summary="Merge duplicates and summarize old memories; dry run by default.",
            body="Consolidate",
            answer="Consolidation",
        ),
        _get(
            id="duplicates",
            path=f"{_USER}/duplicates",
            calls=MemoryService.consolidate,
            left_out=("older_than", "summarizer", "merge", "fold", "dry_run"),
            defaults={"dry_run": True},
            summary="Show what `consolidate` would merge; change nothing.",
            answer="Consolidation",
        ),
        _get(
            id="conflicts",
            path=f"{_USER}/conflicts",
            calls=MemoryService.conflicts,
            answer="Conflicts",
        ),
    ]


def _of_sessions() -> list[Operation]:
    """Operations on sessions and turns."""
    return [
        _write(
            id="ingestSession",
            method="PATCH",
            path=f"{_USER}/memory",
            summary="Store the turns of a session that the session loader returns.",
            handler=handlers.ingest_session,
            body="Ingest",
            answer="Added",
            errors=(404,),
            repeat="always",
        ),
        _write(
            id="addEvents",
            path=f"{_USER}/events",
            handler=handlers.add,
            calls=MemoryService.add_events_to_memory,
            body="AddEvents",
            body_limit="batch",
            status=201,
            answer="Added",
            errors=(409,),
            repeat="with_key",
        ),
        _write(
            id="deleteSession",
            method="DELETE",
            path=f"{_USER}/sessions/{{session}}",
            calls=MemoryService.delete_session,
            answer="Deleted",
        ),
        _write(
            id="observeSession",
            path=f"{_USER}/sessions/{{session}}/observe",
            summary="Buffer new turns until the trigger fires.",
            handler=handlers.observe_session,
            body="Turns",
            body_limit="batch",
            answer="Ids",
            errors=(404,),
        ),
        _write(
            id="endSession",
            path=f"{_USER}/sessions/{{session}}/end",
            summary="Make memories of the buffered turns of a session.",
            handler=handlers.end_session,
            body="Turns",
            body_limit="batch",
            answer="Ids",
            errors=(404,),
        ),
    ]


def _of_lists() -> list[Operation]:
    """Operations on what a token may know."""
    return [
        _get(
            id="listApps",
            path="/apps",
            access="any",
            handler=handlers.list_apps,
            calls=MemoryAdmin.list_apps,
            summary="Return the apps that the token may know, in order of names.",
            answer="Apps",
        ),
        _get(
            id="listUsers",
            path="/apps/{app}/users",
            access="list",
            handler=handlers.list_users,
            calls=MemoryAdmin.list_users,
            summary="Return the users that the token may know, in order of names.",
            answer="Users",
        ),
        _get(
            id="listSessions",
            path=f"{_USER}/sessions",
            calls=MemoryService.list_sessions,
            answer="Sessions",
        ),
        _get(
            id="memoryFigures",
            path=f"{_USER}/figures",
            calls=MemoryService.memory_figures,
            answer="Figures",
        ),
        _get(
            id="showToken",
            path="/token",
            summary="Return what the token permits.",
            access="any",
            handler=handlers.show_token,
            answer="TokenRights",
        ),
    ]


def _of_the_server() -> list[Operation]:
    """Operations on a whole user, and on the server."""
    return [
        _get(
            id="metrics",
            path="/metrics",
            summary="Return metrics in the text format of Prometheus.",
            access="admin",
            handler=handlers.metrics,
            answer="text/plain",
        ),
        Operation(
            id="backup",
            method="POST",
            path="/admin/backup",
            summary="Copy the file to the folder of backups.",
            access="admin",
            handler=handlers.backup,
            status=201,
            answer="Backup",
            errors=(409, 507),
            timed=False,
        ),
        _run(
            id="adminDeleteApp",
            method="DELETE",
            path="/admin/apps/{app}",
            access="admin_write",
            calls=MemoryAdmin.delete_app,
            query={"confirm": YES},
            needs=("confirm",),
            answer="Deleted",
            timed=False,
        ),
        _run(
            id="adminDeleteUser",
            method="DELETE",
            path="/admin/apps/{app}/users/{user}",
            access="admin_write",
            calls=MemoryService.delete_user,
            query={"confirm": YES},
            needs=("confirm",),
            answer="Deleted",
        ),
        _get(
            id="health",
            path="/healthz",
            summary="Return that the server is alive.",
            access="public",
            handler=handlers.health,
            answer="Health",
        ),
        _get(
            id="live",
            path="/livez",
            summary="Return that the server is alive.",
            access="public",
            handler=handlers.health,
            answer="Health",
        ),
        _get(
            id="ready",
            path="/readyz",
            summary="Return that the storage answers and the server is not about to "
            "end.",
            access="public",
            handler=handlers.ready,
            answer="Health",
            errors=(503,),
        ),
        _get(
            id="openapi",
            path="/openapi.json",
            summary="Return this document.",
            access="public",
            handler=handlers.document,
            answer="Document",
        ),
    ]
