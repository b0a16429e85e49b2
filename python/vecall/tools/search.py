"""The base class of tools that search."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, ClassVar

from vecall.protocols import MemoryProtocol
from vecall.tools.any_service import checked_filter
from vecall.tools.base import Answer, MemoryTool, OnMissing
from vecall.tools.fallback import search_with_fallback
from vecall.tools.json_output import NOTE, checked_look, shown
from vecall.tools.shown_memories import ShownMemories, key_of
from vecall.tools.snippets import DEFAULT_MAX_TOKENS
from vecall.types import Filter, FilterLike
from vecall.validation import check_query


class SearchTool(MemoryTool):
    """A tool that answers `{"memories": […], "note": …}`, best first.

    An answer has at most `max_tokens`. Long texts are cut to the part relevant to the
    query: `"cut": {"from": …, "to": …, "of": …}` is the range of characters shown.
    `ExpandSession` reads the rest by the memory's id. Memories that still do not fit
    are dropped, the last first; `"left_out"` is their number. The note tells the model
    that recalled text is data.

    Memories that `PreloadMemory` showed in the same turn are omitted, and other
    memories take their place. `"already_in_context"` counts the omitted memories that
    would have been in the answer. If the embedder fails, the search uses words only,
    and the answer has `"searched": "by words alone"`.

    Args:
        memory: The memory service, or None.
        app_name: The app.
        user_id: The user.
        turns: The object `turns` of the `PreloadMemory` for the same model.
        on_missing: As in `MemoryTool`.
        max_tokens: The most tokens in an answer, at least 64; None is unlimited.
        count_tokens: Your model's tokenizer; None uses `estimate_tokens`.
        scores: Whether to show relevance and confidence.
        filter: Which memories may be shown: a `Filter`, or a mapping with its fields.
            No argument of a tool call changes it.
        neutralise: Whether to escape "<" and the markup of chat templates in shown
            texts, as `render` does. A memory then cannot pose as another speaker.

    Raises:
        InvalidArgumentError: A name, a number or the filter is invalid.
        ConfigError: `on_missing` is invalid, or the service's search takes no filter.
    """

    _without_memory: ClassVar[Answer] = {"memories": []}

    def __init__(
        self,
        memory: MemoryProtocol | None,
        app_name: str,
        user_id: str,
        *,
        turns: ShownMemories | None = None,
        on_missing: OnMissing = "error",
        max_tokens: int | None = DEFAULT_MAX_TOKENS,
        count_tokens: Callable[[str], int] | None = None,
        scores: bool = True,
        neutralise: bool = True,
        filter: FilterLike | None = None,
    ) -> None:
        """Bind the tool to one user."""
        super().__init__(memory, app_name, user_id, on_missing=on_missing)
        self._filter = checked_filter(memory, filter)
        self._turns = ShownMemories() if turns is None else turns
        self._look = checked_look(
            max_tokens, count_tokens, scores=scores, neutralise=neutralise
        )

    async def _found(
        self,
        memory: Any,
        query: object,
        most: int,
        turn: Hashable,
        condition: Filter | None = None,
    ) -> dict[str, Any]:
        known = self._turns.already_recalled((self.app_name, self.user_id), turn)
        query = check_query(query)
        found, is_by_words = await search_with_fallback(
            memory,
            app_name=self.app_name,
            user_id=self.user_id,
            query=query,
            top_k=min(most + len(known), self._limits.max_top_k),
            filter=self._filter if condition is None else condition,
        )
        fresh = [each for each in found.memories if key_of(each) not in known]
        memories, left_out = await shown(fresh[:most], query, self._look)
        answer: dict[str, Any] = {"memories": memories}
        if left_out:
            answer["left_out"] = left_out
        again = sum(key_of(each) in known for each in found.memories[:most])
        if again:
            answer["already_in_context"] = again
        if memories:
            answer["note"] = NOTE
        elif again:
            answer["note"] = _already(again)
        if is_by_words:
            answer["searched"] = "by words alone"
        return answer


def _already(count: int) -> str:
    if count == 1:
        return "1 matching memory is already in the context above"
    return f"{count} matching memories are already in the context above"
