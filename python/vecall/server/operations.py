"""All operations of the HTTP server: their paths, methods, access and answers."""

from __future__ import annotations

import logging

from vecall.limits import HttpLimits, Limits
from vecall.server import handlers
from vecall.server.listings import of_lists
from vecall.server.routing import (
    Operation,
)
from vecall.server.schemas import FLAG, YES, declared
from vecall.service.admin import MemoryAdmin
from vecall.service.memory_service import MemoryService

# All operations of the server.


_USER = "/apps/{app}/users/{user}"


DEFAULT_K = 5
DEFAULT_PAGE = 100


def all_operations(limits: HttpLimits, of_memory: Limits) -> list[Operation]:
    """Return the operations.

    Args:
        limits: The limits of the server.
        of_memory: The limits of the memory service.
    """
    operations = [
        *_of_sessions(),
        *_of_memories(of_memory.max_top_k),
        *_of_one_memory(of_memory.max_top_k),
        *of_lists(),
        *_of_the_server(),
    ]
    return [declared(each, limits, of_memory) for each in operations]


def _of_memories(max_top_k: int) -> list[Operation]:
    """Operations on a user's memories."""
    return [
        Operation(
            id="addMemories",
            method="POST",
            path=f"{_USER}/memories",
            access="write",
            handler=handlers.add,
            calls=MemoryService.add_memory,
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
            access="read",
            handler=handlers.run,
            calls=MemoryService.search_memory,
            renamed={"top_k": "k"},
            defaults={"top_k": min(DEFAULT_K, max_top_k)},
            body="Search",
            answer="Found",
            repeat="always",
        ),
        Operation(
            id="preloadMemories",
            method="POST",
            path=f"{_USER}/memories/preload",
            summary="Return the block of memories that an agent gets with a message.",
            access="read",
            handler=handlers.preload,
            body="Preload",
            answer="Preloaded",
            repeat="always",
        ),
        Operation(
            id="listMemories",
            method="GET",
            path=f"{_USER}/memories",
            access="read",
            handler=handlers.run,
            calls=MemoryService.list_memories,
            left_out=("filter", "include_expired"),
            defaults={"limit": min(DEFAULT_PAGE, max_top_k)},
            answer="Page",
            errors=(404,),
            repeat="always",
        ),
        Operation(
            id="listWhere",
            method="POST",
            path=f"{_USER}/memories/list",
            access="read",
            handler=handlers.run,
            calls=MemoryService.list_memories,
            defaults={"limit": min(DEFAULT_PAGE, max_top_k)},
            body="ListWhere",
            answer="Page",
            errors=(404,),
            repeat="always",
        ),
        Operation(
            id="countMemories",
            method="POST",
            path=f"{_USER}/memories/count",
            access="read",
            handler=handlers.run,
            calls=MemoryService.count_memories,
            body="CountWhere",
            answer="Counted",
            repeat="always",
        ),
        Operation(
            id="deleteUser",
            method="DELETE",
            path=f"{_USER}/memories",
            access="write",
            handler=handlers.run,
            calls=MemoryService.delete_user,
            query={"confirm": YES},
            needs=("confirm",),
            answer="Deleted",
        ),
        Operation(
            id="markUsed",
            method="POST",
            path=f"{_USER}/memories/used",
            access="write",
            handler=handlers.run,
            calls=MemoryService.mark_used,
            renamed={"memory_ids": "ids"},
            body="Used",
            answer="Marked",
        ),
        Operation(
            id="touchMemories",
            method="POST",
            path=f"{_USER}/memories/touch",
            access="write",
            handler=handlers.run,
            calls=MemoryService.touch_memories,
            renamed={"memory_ids": "ids"},
            body="Touch",
            answer="Touched",
            repeat="always",
        ),
        Operation(
            id="deleteWhere",
            method="POST",
            path=f"{_USER}/memories/delete",
            access="write",
            handler=handlers.run,
            calls=MemoryService.delete_where,
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


def _of_one_memory(max_top_k: int) -> list[Operation]:
    """Operations on one memory."""
    return [
        Operation(
            id="getMemory",
            method="GET",
            path=f"{_USER}/memories/{{id}}",
            access="read",
            handler=handlers.run,
            calls=MemoryService.get_memory,
            answer="Memory",
            errors=(404,),
            repeat="always",
        ),
        Operation(
            id="updateMemory",
            method="PATCH",
            path=f"{_USER}/memories/{{id}}",
            access="write",
            handler=handlers.update_memory,
            calls=MemoryService.update_memory,
            left_out=("max_trust",),
            body="Change",
            body_limit="text",
            answer="Memory",
            errors=(404, 409),
        ),
        Operation(
            id="deleteMemory",
            method="DELETE",
            path=f"{_USER}/memories/{{id}}",
            access="write",
            handler=handlers.run,
            calls=MemoryService.delete_memory,
            status=204,
            errors=(409,),
            repeat="always",
        ),
        Operation(
            id="memoryHistory",
            method="GET",
            path=f"{_USER}/memories/{{id}}/history",
            access="read",
            handler=handlers.run,
            calls=MemoryService.memory_history,
            answer="History",
            errors=(404,),
            repeat="always",
        ),
        Operation(
            id="explainMemory",
            method="POST",
            path=f"{_USER}/memories/{{id}}/explain",
            access="read",
            handler=handlers.run,
            calls=MemoryService.explain_memory,
            renamed={"top_k": "k"},
            defaults={"top_k": min(DEFAULT_K, max_top_k)},
            body="Explain",
            answer="Explanation",
            errors=(404,),
            repeat="always",
        ),
        Operation(
            id="archiveMemory",
            method="POST",
            path=f"{_USER}/memories/{{id}}/archive",
            access="write",
            handler=handlers.run,
            calls=MemoryService.archive_memory,
            status=204,
            errors=(404,),
        ),
        Operation(
            id="restoreMemory",
            method="POST",
            path=f"{_USER}/memories/{{id}}/restore",
            access="write",
            handler=handlers.run,
            calls=MemoryService.restore_memory,
            answer="Ids",
            errors=(404,),
        ),
        Operation(
            id="releaseMemory",
            method="POST",
            path=f"{_USER}/memories/{{id}}/release",
            access="review",
            handler=handlers.run,
            calls=MemoryService.release_memory,
            summary="Make a quarantined memory live; needs the right to review.",
            body="Release",
            answer="Ids",
            errors=(404, 409),
        ),
        Operation(
            id="proposeForget",
            method="POST",
            path=f"{_USER}/forget",
            access="write",
            handler=handlers.run,
            calls=MemoryService.propose_forget,
            renamed={"top_k": "k"},
            body="Forget",
            answer="Proposal",
        ),
        Operation(
            id="confirmForget",
            method="POST",
            path=f"{_USER}/forget/confirm",
            access="write",
            handler=handlers.run,
            calls=MemoryService.confirm_forget,
            body="ConfirmForget",
            answer="Deleted",
            errors=(404,),
        ),
        Operation(
            id="consolidate",
            method="POST",
            path=f"{_USER}/consolidate",
            access="write",
            handler=handlers.run,
            calls=MemoryService.consolidate,
            defaults={"dry_run": True},
            summary="Merge duplicates and summarize old memories; dry run by default.",
            body="Consolidate",
            answer="Consolidation",
        ),
        Operation(
            id="duplicates",
            method="GET",
            path=f"{_USER}/duplicates",
            access="read",
            handler=handlers.run,
            calls=MemoryService.consolidate,
            left_out=("older_than", "summarizer", "merge", "fold", "dry_run"),
            defaults={"dry_run": True},
            summary="Show what `consolidate` would merge; change nothing.",
            answer="Consolidation",
            repeat="always",
        ),
        Operation(
            id="conflicts",
            method="GET",
            path=f"{_USER}/conflicts",
            access="read",
            handler=handlers.run,
            calls=MemoryService.conflicts,
            answer="Conflicts",
            repeat="always",
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
            access="write",
            handler=handlers.add,
            calls=MemoryService.add_events_to_memory,
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
            access="write",
            handler=handlers.run,
            calls=MemoryService.delete_session,
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
            handler=handlers.metrics,
            answer="text/plain",
            repeat="always",
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
        Operation(
            id="adminDeleteApp",
            method="DELETE",
            path="/admin/apps/{app}",
            access="admin_write",
            handler=handlers.run,
            calls=MemoryAdmin.delete_app,
            query={"confirm": YES},
            needs=("confirm",),
            answer="Deleted",
            timed=False,
        ),
        Operation(
            id="adminDeleteUser",
            method="DELETE",
            path="/admin/apps/{app}/users/{user}",
            access="admin_write",
            handler=handlers.run,
            calls=MemoryService.delete_user,
            query={"confirm": YES},
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
            id="live",
            method="GET",
            path="/livez",
            summary="Return that the server is alive.",
            access="public",
            handler=handlers.health,
            answer="Health",
            repeat="always",
        ),
        Operation(
            id="ready",
            method="GET",
            path="/readyz",
            summary="Return that the storage answers and the server is not about to "
            "end.",
            access="public",
            handler=handlers.ready,
            answer="Health",
            errors=(503,),
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


_log = logging.getLogger("vecall.server")
