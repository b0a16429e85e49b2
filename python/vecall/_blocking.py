"""The blocking twin of MemoryService, for callers without an event loop."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from vecall._memory import Memory
from vecall.types import (
    Content,
    Event,
    Filter,
    MemoryEntry,
    SearchMemoryResponse,
    Session,
)

T = TypeVar("T")


async def _blocking(future: Future[T]) -> T:
    return future.result()


def _run(operation: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends, because all its waits block."""
    try:
        operation.send(None)
    except StopIteration as finished:
        result: T = finished.value
        return result
    operation.close()
    msg = "a blocking operation suspended"
    raise RuntimeError(msg)


class SyncMemoryService:
    """The methods of `MemoryService` for callers without an event loop.

    Each does exactly what its namesake does, and blocks until it is done.
    """

    def __init__(self, memory: Memory) -> None:
        """Share a service's memory."""
        self._memory = memory

    def add_session_to_memory(
        self,
        session: Session | Mapping[str, Any] | object,
        *,
        restore: bool = False,
        replace: bool = False,
    ) -> list[str]:
        """Remember the turns of a session."""
        return _run(
            self._memory.add_session(
                _blocking, session, restore=restore, replace=replace
            )
        )

    def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event | Mapping[str, Any] | object],
        session_id: str | None = None,
        custom_metadata: Mapping[str, Any] | None = None,
        restore: bool = False,
    ) -> list[str]:
        """Remember some turns."""
        return _run(
            self._memory.add_events(
                _blocking,
                app_name,
                user_id,
                events,
                session_id,
                custom_metadata,
                restore=restore,
            )
        )

    def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry | Content | object],
        custom_metadata: Mapping[str, Any] | None = None,
        restore: bool = False,
    ) -> list[str]:
        """Remember what was learned or decided."""
        return _run(
            self._memory.add_entries(
                _blocking, app_name, user_id, memories, custom_metadata, restore=restore
            )
        )

    def search_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        query: str,
        top_k: int | None = None,
        min_score: float | None = None,
        min_confidence: float | None = None,
        filter: Filter | None = None,
    ) -> SearchMemoryResponse:
        """Find what this user's past says about a query."""
        return _run(
            self._memory.search(
                _blocking,
                app_name,
                user_id,
                query,
                top_k,
                min_score,
                min_confidence,
                filter,
            )
        )

    def get_memory(self, *, app_name: str, user_id: str, memory_id: str) -> MemoryEntry:
        """Return one memory by its id."""
        return _run(self._memory.get(_blocking, app_name, user_id, memory_id))

    def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Delete one memory of this user for good."""
        _run(self._memory.delete(_blocking, app_name, user_id, memory_id))

    def warm(self, *, app_name: str, user_id: str) -> None:
        """Load a user's memories ahead of the first search."""
        _run(self._memory.warm(_blocking, app_name, user_id))

    def stats(self) -> dict[str, Any]:
        """Return counts over the whole file."""
        return _run(self._memory.stats(_blocking))
