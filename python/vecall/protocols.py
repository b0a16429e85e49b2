"""What any memory service offers: two methods that it must have, others that it may.

Code that only remembers sessions and searches can take any `MemoryProtocol`. A service
of your own derives from `BaseMemoryService` and writes the two methods; the others
raise NotImplementedError until it writes them too, and `capabilities` tells which it
has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from vecall.types import SearchMemoryResponse

_OPTIONAL = (
    "add_events_to_memory",
    "add_memory",
    "get_memory",
    "delete_memory",
)


@runtime_checkable
class MemoryProtocol(Protocol):
    """The two methods that every memory service has."""

    async def add_session_to_memory(self, session: Any) -> Any:
        """Remember the turns of a session."""
        ...

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """Find what this user's past says about a query."""
        ...


class BaseMemoryService(ABC):
    """A memory service whose optional methods raise NotImplementedError."""

    @abstractmethod
    async def add_session_to_memory(self, session: Any) -> Any:
        """Remember the turns of a session."""

    @abstractmethod
    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """Find what this user's past says about a query."""

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Any],
        session_id: str | None = None,
        custom_metadata: Mapping[str, Any] | None = None,
    ) -> Any:
        """Remember some turns."""
        raise self._lacks(self.add_events_to_memory)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[Any],
        custom_metadata: Mapping[str, Any] | None = None,
    ) -> Any:
        """Remember what was learned or decided."""
        raise self._lacks(self.add_memory)

    async def get_memory(self, *, app_name: str, user_id: str, memory_id: str) -> Any:
        """Return one memory by its id."""
        raise self._lacks(self.get_memory)

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Delete one memory of this user for good."""
        raise self._lacks(self.delete_memory)

    @property
    def capabilities(self) -> frozenset[str]:
        """The optional methods that this service has."""
        return frozenset(
            name
            for name in _OPTIONAL
            if getattr(type(self), name) is not getattr(BaseMemoryService, name)
        )

    def _lacks(self, method: Callable[..., Any]) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} has no {method.__name__}")
