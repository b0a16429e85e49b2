"""What the tools that search have in common."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, ClassVar

from vecall.config import check_query
from vecall.service import MemoryService
from vecall.tools.answers import as_json
from vecall.tools.base import Answer, MemoryTool, OnMissing
from vecall.tools.degraded import search_or_words
from vecall.tools.turns import Turns, key_of


class SearchTool(MemoryTool):
    """A tool that answers `{"memories": […]}`, best first.

    Memories that `PreloadMemory` gave in the same turn are left out. Others take their
    place, and "already_in_context" counts those that would have been among the answer.
    Where the embedder fails, the search goes by words, and `"searched": "by words
    alone"` says so.

    Args:
        memory: The memory service; None where there is none.
        app_name: The app.
        user_id: The user.
        turns: What `PreloadMemory` gave; the same object that it has.
        on_missing: As in `MemoryTool`.

    Raises:
        InvalidArgumentError: A name that cannot be one.
        ConfigError: Another `on_missing`.
    """

    _without_memory: ClassVar[Answer] = {"memories": []}

    def __init__(
        self,
        memory: MemoryService | None,
        app_name: str,
        user_id: str,
        *,
        turns: Turns | None = None,
        on_missing: OnMissing = "error",
    ) -> None:
        """Bind the tool to one user."""
        super().__init__(memory, app_name, user_id, on_missing=on_missing)
        self._turns = Turns() if turns is None else turns

    async def _found(
        self, memory: MemoryService, query: object, most: int, turn: Hashable
    ) -> dict[str, Any]:
        known = self._turns.already_recalled((self.app_name, self.user_id), turn)
        found, is_by_words = await search_or_words(
            memory,
            app_name=self.app_name,
            user_id=self.user_id,
            query=check_query(query),
            top_k=min(most + len(known), self._limits.max_top_k),
        )
        fresh = [each for each in found.memories if key_of(each) not in known]
        answer: dict[str, Any] = {"memories": [as_json(each) for each in fresh[:most]]}
        if again := sum(key_of(each) in known for each in found.memories[:most]):
            answer["already_in_context"] = again
        if is_by_words:
            answer["searched"] = "by words alone"
        return answer
