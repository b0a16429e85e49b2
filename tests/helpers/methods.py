"""The public methods of a memory service; those of its `admin` as "admin.name"."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from vecall import MemoryAdmin, MemoryService, SyncMemoryAdmin, SyncMemoryService

NOT_CALLS = {"close", "aclose", "user"}


def method_of(service: Any, name: str) -> Callable[..., Any]:
    """The bound method of a service, of its `sync` or of one's `admin`."""
    method: Callable[..., Any] = attrgetter(name)(service)
    return method


def coroutines(service: type[Any] = MemoryService) -> dict[str, Callable[..., Any]]:
    """The coroutine functions of a service class and of its `admin`, by name."""
    return _public(service, MemoryAdmin, inspect.iscoroutinefunction)


def blocking_functions() -> dict[str, Callable[..., Any]]:
    """The methods of `MemoryService.sync` and of its `admin`, by name."""
    return _public(SyncMemoryService, SyncMemoryAdmin, inspect.isfunction)


def _public(
    service: type[Any], admin: type[Any], kind: Callable[[Any], bool]
) -> dict[str, Callable[..., Any]]:
    return {
        prefix + name: method
        for prefix, owner in (("", service), ("admin.", admin))
        for name, method in inspect.getmembers(owner, kind)
        if not name.startswith("_") and name not in NOT_CALLS
    }
