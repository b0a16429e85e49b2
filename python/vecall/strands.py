"""Memory as a store of Strands Agents. Needs vecall[strands]."""

from __future__ import annotations

import uuid
from typing import Any

from vecall.errors import InvalidTypeError, ReadOnlyError, needs_extra
from vecall.service.memory_service import MemoryService
from vecall.tools import UnaskedFloor, checked_floor, search_unasked
from vecall.types import UNSET, MemoryEntry
from vecall.validation import check_top_k

with needs_extra(__name__, "strands-agents", "strands"):
    from strands.memory import MemoryEntry as StrandsEntry
    from strands.memory import MemoryStore

__all__ = ["VecallMemoryStore"]


class VecallMemoryStore(MemoryStore):
    """A memory store of one user for Strands' `MemoryManager`.

    Metadata are any JSON object and come back as they went in. A text that is added
    twice is two memories.

    Args:
        memory: The memory service.
        app_name: The app.
        user_id: The user.
        name: The name of the store among those of an agent.
        description: What the store holds, for models.
        max_search_results: Default number of results of a search; None is the
            service's.
        writable: Whether anything may be added; `add` refuses it otherwise.
        extraction: Strands' extraction settings; None extracts nothing.
        min_confidence: The least confidence of a memory, in [0, 1]; default: see
            `vecall.tools.PreloadMemory`. It holds for all searches, as a manager
            inserts what they find by itself.

    Raises:
        InvalidArgumentError: A name or a number is invalid.
    """

    def __init__(
        self,
        memory: MemoryService,
        app_name: str,
        user_id: str,
        *,
        name: str = "vecall",
        description: str | None = "Long-term memories of the user.",
        max_search_results: int | None = None,
        writable: bool = True,
        extraction: Any = None,
        min_confidence: UnaskedFloor = UNSET,
    ) -> None:
        """Bind the store to one user."""
        self._memory = memory
        self._user = memory.user(app_name, user_id)
        self.name = name
        self.description = description
        self.max_search_results = max_search_results
        if max_search_results is not None:
            check_top_k(max_search_results, memory.limits)
        self.writable = writable
        self.extraction = extraction
        self._min_confidence = checked_floor(min_confidence)

    async def search(self, query: str, options: Any = None) -> list[StrandsEntry]:
        """Return the memories that are relevant to a query, best first.

        Raises:
            InvalidArgumentError: An invalid number of results.
        """
        most = (options or {}).get("max_search_results")
        found = await search_unasked(
            self._memory,
            self._min_confidence,
            app_name=self._user.app_name,
            user_id=self._user.user_id,
            query=query,
            top_k=self.max_search_results if most is None else most,
        )
        return [
            StrandsEntry(content=each.text, metadata=each.custom_metadata or None)
            for each in found
        ]

    async def add(self, content: str, metadata: dict[str, Any] | None = None) -> str:
        """Store a memory, durably; return its id.

        Raises:
            ReadOnlyError: The store, or its service, may only be read.
            InvalidTypeError: The content is not a text.
            InvalidArgumentError: A blank text, or metadata that are not JSON.
        """
        if not self.writable:
            raise ReadOnlyError("this store was made with writable=False")
        untyped: object = content
        if not isinstance(untyped, str):
            raise InvalidTypeError("content: expected a text")
        own = {} if metadata is None else metadata
        entry = MemoryEntry(
            content, id=uuid.uuid4().hex, author="agent", custom_metadata=own
        )
        (id_,) = await self._user.add([entry], verbatim=True)
        return str(id_)

    async def initialize(self) -> None:
        """Do nothing: the service is open."""

    def get_tools(self) -> list[Any]:
        """Return no tools besides those of the manager."""
        return []
