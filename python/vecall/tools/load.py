"""`load_memory`: the model searches its memory."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

from vecall.protocols import MemoryProtocol
from vecall.tools.base import OnMissing, Schema, at_least_one
from vecall.tools.search import SearchTool
from vecall.tools.shown_memories import ShownMemories


class LoadMemory(SearchTool):
    """The tool `load_memory(query)`, with the same name as in google-adk.

    Args:
        memory: The memory service, or None.
        app_name: The app.
        user_id: The user.
        max_entries: The most memories in an answer, at least 1.
        turns: The memories that `PreloadMemory` showed in this turn; answers omit them.
        on_missing: As in `MemoryTool`.
        **look: `max_tokens`, `count_tokens`, `scores`, `neutralise` and `filter`, as in
            `SearchTool`.

    Raises:
        InvalidArgumentError: A name is invalid, or `max_entries` is below 1.
        ConfigError: `on_missing` is invalid.
    """

    name = "load_memory"
    description = "Load what is remembered from past conversations with the user."
    _properties: ClassVar[Schema] = {
        "query": {"type": "string", "description": "What to look for"}
    }
    _required = ("query",)

    def __init__(
        self,
        memory: MemoryProtocol | None,
        app_name: str,
        user_id: str,
        *,
        max_entries: int = 5,
        turns: ShownMemories | None = None,
        on_missing: OnMissing = "error",
        **look: Any,
    ) -> None:
        """Bind the tool to one user."""
        super().__init__(
            memory, app_name, user_id, turns=turns, on_missing=on_missing, **look
        )
        self._max_entries = at_least_one(max_entries, "max_entries")

    async def _answer(
        self, memory: Any, given: Mapping[str, Any], turn: Hashable, /
    ) -> dict[str, Any]:
        return await self._found(memory, given.get("query"), self._max_entries, turn)
