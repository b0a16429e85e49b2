"""Adapts the methods and the search results of any memory service to tools.

Every memory service has `add_session_to_memory` and `search_memory`. A tool that needs
another method checks for it, and raises a typed error if the service lacks it.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any

from vecall.content import get_field, text_parts
from vecall.errors import ConfigError, VecallError
from vecall.filters.rights import FULL, Rights
from vecall.limits import Limits
from vecall.protocols import BaseMemoryService
from vecall.services.vector_store import VectorStoreMemoryService
from vecall.services.vector_store_rows import scope_of_filter
from vecall.timestamps import to_seconds
from vecall.types import Filter, MemoryEntry, SearchMemoryResponse
from vecall.validation import check_filter

_NAMES = ("id", "author", "session_id", "event_id", "kind", "source", "trust")


def limits_of(memory: object) -> Limits:
    """Return the limits of a service; the default limits if it has none."""
    limits = getattr(memory, "limits", None)
    return limits if isinstance(limits, Limits) else Limits()


def can(memory: object, *names: str) -> bool:
    """Return whether a service has the named methods and supports them."""
    if set(names) & set(getattr(memory, "lacking", ())):
        return False
    if isinstance(memory, BaseMemoryService):
        inherited = {name for name in names if hasattr(BaseMemoryService, name)}
        required = {"add_session_to_memory", "search_memory"}
        if not inherited - required <= memory.capabilities:
            return False
    return all(callable(getattr(memory, name, None)) for name in names)


def require(memory: object, who: str, *names: str) -> None:
    """Raise ConfigError if a service lacks methods that a tool or a call needs."""
    if not can(memory, *names):
        needed = " and ".join(names)
        msg = f"{who}: this memory service has no {needed}, which is needed"
        raise ConfigError(msg)


def restricted(memory: Any, rights: Rights) -> Any:
    """Return a service for a caller with fewer rights; None stays None.

    Raises:
        ConfigError: There is a floor on trust, and the service cannot apply it.
    """
    if memory is None or rights == FULL:
        return memory
    if callable(restrict := getattr(memory, "restricted", None)):
        return restrict(rights)
    if rights.has_floor:
        msg = "min_trust: this memory service has no method `restricted`"
        raise ConfigError(msg)
    return memory


def checked_filter(memory: object, condition: object) -> Filter | None:
    """Return the filter of a tool's searches, or None.

    Args:
        memory: The memory service, or None.
        condition: A `Filter`, a mapping with its fields, or None.

    Raises:
        InvalidArgumentError: The filter is invalid, or the service's search does not
            support one of its conditions.
        ConfigError: The service's search takes no filter.
    """
    if condition is None:
        return None
    checked = check_filter(condition, limits_of(memory), by_metadata=True)
    if isinstance(memory, VectorStoreMemoryService):
        scope_of_filter("app", "user", checked, memory.store)
    elif memory is not None and not takes(
        getattr(memory, "search_memory", None), "filter"
    ):
        msg = "filter: this memory service's search takes none"
        raise ConfigError(msg)
    return checked


def takes(method: object, name: str) -> bool:
    """Return whether a method takes an argument of this name."""
    known = _arguments(getattr(method, "__func__", method))
    return name in known or "**" in known


@lru_cache(maxsize=256)
def _arguments(function: Any) -> frozenset[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return frozenset({"**"})
    return frozenset(
        "**" if each.kind is inspect.Parameter.VAR_KEYWORD else each.name
        for each in parameters
    )


def taken(method: object, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that a method takes."""
    return {name: value for name, value in arguments.items() if takes(method, name)}


def found_by(response: object) -> SearchMemoryResponse:
    """Return a search result as vecall's own types, for any service.

    Raises:
        VecallError: The response is not a search result.
    """
    if isinstance(response, SearchMemoryResponse):
        return response
    memories = get_field(response, "memories")
    if not isinstance(memories, list | tuple):
        msg = "the memory service returned something else than memories"
        raise VecallError(msg)
    return SearchMemoryResponse([_entry(each) for each in memories])


def _entry(memory: object) -> MemoryEntry:
    """Read a memory of another library, such as google-adk's MemoryEntry."""
    if isinstance(memory, MemoryEntry):
        return memory
    content = memory if isinstance(memory, str) else get_field(memory, "content")
    if content is None:
        content = get_field(memory, "text")
    given = {name: get_field(memory, name) for name in _NAMES}
    named: dict[str, Any] = {
        name: value for name, value in given.items() if isinstance(value, str)
    }
    own = get_field(memory, "custom_metadata")
    return MemoryEntry(
        "\n".join(text_parts(content)),
        timestamp=_seconds(get_field(memory, "timestamp")),
        custom_metadata=dict(own) if isinstance(own, Mapping) else {},
        **named,
    )


def _seconds(given: object) -> float | None:
    """Return a time in seconds. Without an offset it is local, as in google-adk."""
    if isinstance(given, str):
        try:
            given = datetime.fromisoformat(given)
        except ValueError:
            return None
    if isinstance(given, datetime):
        return given.astimezone(timezone.utc).timestamp()
    if isinstance(given, int | float) and not isinstance(given, bool):
        return to_seconds(given, "timestamp")
    return None
