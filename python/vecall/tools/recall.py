"""`recall_memory`: the model searches its memory and sets a limit."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

from vecall.errors import InvalidTypeError
from vecall.protocols import MemoryProtocol
from vecall.tools.base import OnMissing, Schema, at_least_one
from vecall.tools.search import SearchTool
from vecall.tools.shown_memories import ShownMemories

DEFAULT_LIMIT = 5


class RecallMemory(SearchTool):
    """The tool `recall_memory(query, limit)`.

    A `limit` outside [1, `max_limit`] is clamped to that range.

    Args:
        memory: The memory service, or None.
        app_name: The app.
        user_id: The user.
        max_limit: The upper bound of the model's `limit`.
        turns: The memories that `PreloadMemory` showed in this turn; answers omit them.
        on_missing: As in `MemoryTool`.
        **look: `max_tokens`, `count_tokens`, `scores`, `neutralise` and `filter`, as in
            `SearchTool`.

    Raises:
        InvalidArgumentError: A name is invalid, or `max_limit` is below 1.
        ConfigError: `on_missing` is invalid.
    """

    name = "recall_memory"
    description = "Search memory for past conversations."
    _properties: ClassVar[Schema] = {
        "query": {"type": "string", "description": "What to search for"},
        "limit": {
            "type": "number",
            "description": f"Max results (default: {DEFAULT_LIMIT})",
        },
    }
    _required = ("query",)

    def __init__(
        self,
        memory: MemoryProtocol | None,
        app_name: str,
        user_id: str,
        *,
        max_limit: int = 20,
        turns: ShownMemories | None = None,
        on_missing: OnMissing = "error",
        **look: Any,
    ) -> None:
        """Bind the tool to one user."""
        super().__init__(
            memory, app_name, user_id, turns=turns, on_missing=on_missing, **look
        )
        self._max_limit = at_least_one(max_limit, "max_limit")

    async def _answer(
        self, memory: Any, given: Mapping[str, Any], turn: Hashable, /
    ) -> dict[str, Any]:
        limit = given.get("limit", DEFAULT_LIMIT)
        if isinstance(limit, bool) or not isinstance(limit, int | float):
            msg = "limit: expected a number"
            raise InvalidTypeError(msg)
        # The order matters: min() of a number and NaN returns its first argument.
        most = int(max(1, min(self._max_limit, limit)))
        return await self._found(memory, given.get("query"), most, turn)
