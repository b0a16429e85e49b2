"""All operations of the HTTP server: their paths, methods, access and answers."""

from __future__ import annotations

from functools import partial

from vecall.limits import HttpLimits, Limits
from vecall.server import handlers
from vecall.server.routing import Operation
from vecall.server.schemas import FLAG, YES, with_fields
from vecall.service.admin import MemoryAdmin
from vecall.service.memory_service import MemoryService

_USER = "/apps/{app}/users/{user}"
_MEMORIES = f"{_USER}/memories"
_MEMORY = f"{_MEMORIES}/{{id}}"
_SESSION = f"{_USER}/sessions/{{session}}"

_run = partial(Operation, handler=handlers.run_operation)
_get = partial(_run, method="GET", access="read", repeat="always")
_ask = partial(_run, method="POST", access="read", repeat="always")
_write = partial(_run, method="POST", access="write")
_delete = partial(_write, method="DELETE")
_delete_all = partial(_delete, query={"confirm": YES}, needs=("confirm",))
_store = partial(
    _write, handler=handlers.store, body_limit="batch", status=201, repeat="with_key"
)
_take_turns = partial(_write, body="Turns", body_limit="batch", errors=(404,))
_probe = partial(_get, access="public")


def all_operations(limits: HttpLimits, of_memory: Limits) -> list[Operation]:
    """Return the operations of a server and of its memory service."""
    return [with_fields(each, limits, of_memory) for each in _OPERATIONS]


_OPERATIONS: list[Operation] = [
    # Sessions and turns.
    _write(
        "ingestSession",
        f"{_USER}/memory",
        "Added",
        method="PATCH",
        handler=handlers.ingest_session,
        body="Ingest",
        errors=(404,),
        repeat="always",
    ),
    _store(
        "addEvents",
        f"{_USER}/events",
        "Added",
        MemoryService.add_events_to_memory,
        body="AddEvents",
        errors=(409,),
    ),
    _delete("deleteSession", _SESSION, "Deleted", MemoryService.delete_session),
    _take_turns(
        "observeSession", f"{_SESSION}/observe", "Ids", handler=handlers.observe_session
    ),
    _take_turns("endSession", f"{_SESSION}/end", "Ids", handler=handlers.end_session),
    # The memories of a user.
    _store(
        "addMemories",
        _MEMORIES,
        "Added",
        MemoryService.add_memory,
        body="AddMemories",
        errors=(404, 409),
    ),
    _ask(
        "searchMemories",
        f"{_MEMORIES}/search",
        "Found",
        MemoryService.search_memory,
        body="Search",
    ),
    _ask(
        "preloadMemories",
        f"{_MEMORIES}/preload",
        "Preloaded",
        handler=handlers.preload_memories,
        body="Preload",
    ),
    _get(
        "listMemories",
        _MEMORIES,
        "Page",
        MemoryService.list_memories,
        left_out=("filter", "include_expired"),
        errors=(404,),
    ),
    _ask(
        "listWhere",
        f"{_MEMORIES}/list",
        "Page",
        MemoryService.list_memories,
        body="ListWhere",
        errors=(404,),
    ),
    _ask(
        "countMemories",
        f"{_MEMORIES}/count",
        "Counted",
        MemoryService.count_memories,
        body="CountWhere",
    ),
    _delete_all("deleteUser", _MEMORIES, "Deleted", MemoryService.delete_user),
    _write(
        "markUsed", f"{_MEMORIES}/used", "Marked", MemoryService.mark_used, body="Used"
    ),
    _write(
        "touchMemories",
        f"{_MEMORIES}/touch",
        "Touched",
        MemoryService.touch_memories,
        body="Touch",
        repeat="always",
    ),
    _write(
        "deleteWhere",
        f"{_MEMORIES}/delete",
        "Deleted",
        MemoryService.delete_where,
        body="DeleteWhere",
    ),
    _get(
        "exportUser",
        f"{_USER}/export",
        "application/x-ndjson",
        handler=handlers.export_user,
        query={"vectors": FLAG},
        timed=False,
    ),
    # One memory.
    _get("getMemory", _MEMORY, "Memory", MemoryService.get_memory, errors=(404,)),
    _write(
        "updateMemory",
        _MEMORY,
        "Memory",
        MemoryService.update_memory,
        method="PATCH",
        handler=handlers.update_memory,
        left_out=("max_trust",),
        body="Change",
        body_limit="text",
        errors=(404, 409),
    ),
    _delete(
        "deleteMemory",
        _MEMORY,
        None,
        MemoryService.delete_memory,
        status=204,
        errors=(409,),
        repeat="always",
    ),
    _get(
        "memoryHistory",
        f"{_MEMORY}/history",
        "History",
        MemoryService.memory_history,
        errors=(404,),
    ),
    _ask(
        "explainMemory",
        f"{_MEMORY}/explain",
        "Explanation",
        MemoryService.explain_memory,
        body="Explain",
        errors=(404,),
    ),
    _write(
        "archiveMemory",
        f"{_MEMORY}/archive",
        None,
        MemoryService.archive_memory,
        status=204,
        errors=(404,),
    ),
    _write(
        "restoreMemory",
        f"{_MEMORY}/restore",
        "Ids",
        MemoryService.restore_memory,
        errors=(404,),
    ),
    _write(
        "releaseMemory",
        f"{_MEMORY}/release",
        "Ids",
        MemoryService.release_memory,
        access="review",
        summary="Make a quarantined memory live; needs the right to review.",
        body="Release",
        errors=(404, 409),
    ),
    _write(
        "proposeForget",
        f"{_USER}/forget",
        "Proposal",
        MemoryService.propose_forget,
        body="Forget",
    ),
    _write(
        "confirmForget",
        f"{_USER}/forget/confirm",
        "Deleted",
        MemoryService.confirm_forget,
        body="ConfirmForget",
        errors=(404,),
    ),
    _write(
        "consolidate",
        f"{_USER}/consolidate",
        "Consolidation",
        MemoryService.consolidate,
        defaults={"dry_run": True},
        summary="Merge duplicates and summarize old memories; dry run by default.",
        body="Consolidate",
    ),
    _get(
        "duplicates",
        f"{_USER}/duplicates",
        "Consolidation",
        MemoryService.consolidate,
        left_out=("older_than", "merge", "fold", "dry_run"),
        defaults={"dry_run": True},
        summary="Show what `consolidate` would merge; change nothing.",
    ),
    _get("conflicts", f"{_USER}/conflicts", "Conflicts", MemoryService.conflicts),
    # What a token may know.
    _get(
        "listApps",
        "/apps",
        "Apps",
        MemoryAdmin.list_apps,
        access="any",
        handler=handlers.list_apps,
        summary="Return the apps that the token may know, in order of names.",
    ),
    _get(
        "listUsers",
        "/apps/{app}/users",
        "Users",
        MemoryAdmin.list_users,
        access="list",
        handler=handlers.list_users,
        summary="Return the users that the token may know, in order of names.",
    ),
    _get("listSessions", f"{_USER}/sessions", "Sessions", MemoryService.list_sessions),
    _get("memoryFigures", f"{_USER}/figures", "Figures", MemoryService.memory_figures),
    _get(
        "showToken", "/token", "TokenRights", access="any", handler=handlers.show_token
    ),
    # The file, and the server.
    _get("metrics", "/metrics", "text/plain", access="admin", handler=handlers.metrics),
    _write(
        "backup",
        "/admin/backup",
        "Backup",
        access="admin",
        handler=handlers.make_backup,
        status=201,
        errors=(409, 507),
        timed=False,
    ),
    _delete_all(
        "adminDeleteApp",
        "/admin/apps/{app}",
        "Deleted",
        MemoryAdmin.delete_app,
        access="admin_write",
        timed=False,
    ),
    _delete_all(
        "adminDeleteUser",
        "/admin/apps/{app}/users/{user}",
        "Deleted",
        MemoryService.delete_user,
        access="admin_write",
    ),
    _probe("health", "/healthz", "Health", handler=handlers.report_alive),
    _probe("live", "/livez", "Health", handler=handlers.report_alive),
    _probe("ready", "/readyz", "Health", handler=handlers.report_ready, errors=(503,)),
    _probe("openapi", "/openapi.json", "Document", handler=handlers.openapi_response),
]
