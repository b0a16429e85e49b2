"""The methods of `UserMemory`, and calls of them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from vecall import MemoryService

from helpers.all_methods import READING, WRITING
from helpers.memories import ALICE

BOUND = {
    "add": "add_memory",
    "add_events": "add_events_to_memory",
    "search": "search_memory",
    "explain": "explain_memory",
    "get": "get_memory",
    "get_many": "get_memories",
    "expand_session": "expand_session",
    "list": "list_memories",
    "count": "count_memories",
    "list_sessions": "list_sessions",
    "figures": "memory_figures",
    "history": "memory_history",
    "update": "update_memory",
    "archive": "archive_memory",
    "restore": "restore_memory",
    "release": "release_memory",
    "mark_used": "mark_used",
    "touch": "touch_memories",
    "delete": "delete_memory",
    "delete_many": "delete_memories",
    "delete_session": "delete_session",
    "delete_where": "delete_where",
    "delete_all": "delete_user",
    "propose_forget": "propose_forget",
    "confirm_forget": "confirm_forget",
    "end_session": "end_session",
    "consolidate": "consolidate",
    "conflicts": "conflicts",
}
"""The method of the service behind each method of the handle."""

Call = Callable[..., Any]


def arguments_of(name: str) -> dict[str, Any]:
    """Arguments without the names, for which a method of the handle does something."""
    given = {**WRITING, **READING}[BOUND[name]]
    if name == "add":  # else chance makes the id
        given = {"memories": [{"id": "new", "content": "zebra new"}]}
    return {key: value for key, value in given.items() if key not in ALICE}


def handles(service: MemoryService, app_name: str, user_id: str) -> list[Call]:
    """Ways to call a method of a handle by its name: blocking, and on an event loop."""

    def blocking(name: str, *args: Any, **named: Any) -> Any:
        return getattr(service.sync.user(app_name, user_id), name)(*args, **named)

    def on_loop(name: str, *args: Any, **named: Any) -> Any:
        async def call() -> Any:
            method = getattr(service.user(app_name, user_id), name)
            return await method(*args, **named)

        return asyncio.run(call())

    return [blocking, on_loop]


def methods(handle: type[Any]) -> dict[str, Call]:
    """The public methods of a handle's class by name."""
    return {
        name: method
        for name, method in inspect.getmembers(handle, inspect.isfunction)
        if not name.startswith("_")
    }
