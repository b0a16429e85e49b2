"""The interface of memory services: two required methods, and optional ones.

Code that only stores sessions and searches them can accept any `MemoryProtocol`. To
write your own service, derive from `BaseMemoryService` and define the two methods.
Optional methods raise NotImplementedError until you define them; `capabilities` returns
the defined ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from vecall.types import SearchMemoryResponse

_OPTIONAL = ("add_events_to_memory", "add_memory", "get_memory", "delete_memory")


@runtime_checkable
class MemoryProtocol(Protocol):
    """The two methods that every memory service has."""

    async def add_session_to_memory(self, session: Any) -> Any:
        """Store the turns of a session."""
        ...

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """Return this user's memories for a query, best first."""
        ...


class BaseMemoryService(ABC):
    """A memory service whose optional methods raise NotImplementedError."""

    @abstractmethod
    async def add_session_to_memory(self, session: Any) -> Any:
        """Store the turns of a session."""

    @abstractmethod
    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """Return this user's memories for a query, best first."""

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Any],
        session_id: str | None = None,
        custom_metadata: Mapping[str, Any] | None = None,
    ) -> Any:
        """Store turns of a session."""
        raise self._lacks_method(self.add_events_to_memory)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[Any],
        custom_metadata: Mapping[str, Any] | None = None,
    ) -> Any:
        """Store facts and decisions."""
        raise self._lacks_method(self.add_memory)

    async def get_memory(self, *, app_name: str, user_id: str, memory_id: str) -> Any:
        """Return one memory by its id."""
        raise self._lacks_method(self.get_memory)

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> bool | None:
        """Delete one memory of this user permanently."""
        raise self._lacks_method(self.delete_memory)

    @property
    def capabilities(self) -> frozenset[str]:
        """The optional methods that this service has."""
        return frozenset(
            name
            for name in _OPTIONAL
            if getattr(type(self), name) is not getattr(BaseMemoryService, name)
        )

    def _lacks_method(self, method: Callable[..., Any]) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} has no {method.__name__}")
