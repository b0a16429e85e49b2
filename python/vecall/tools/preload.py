"""`preload_memory`: recalls memories before the model is called."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, ClassVar, Literal, get_args

from vecall.content import text_parts
from vecall.errors import ConfigError
from vecall.prompts.budget import counter
from vecall.prompts.render import render
from vecall.protocols import MemoryProtocol
from vecall.tools.any_service import checked_filter
from vecall.tools.base import Answer, MemoryTool, Schema, at_least_one
from vecall.tools.fallback import search_with_fallback
from vecall.tools.insertion import Message, Placement, insert_block
from vecall.tools.shown_memories import ShownBlock, ShownMemories, key_of
from vecall.tools.snippets import DEFAULT_MAX_TOKENS, bounded, marked
from vecall.types import FilterLike, MemoryEntry, check_share

PreloadFormat = Literal["past_conversations", "bullets", "json", "secure"]

_log = logging.getLogger("vecall")

_INLINE_CHARACTERS = 65_536  # longer texts are cut on another thread


class PreloadMemory(MemoryTool):
    """Recalls memories for every turn of a user, without a call of the model.

    Passive: it has no declaration, and a model that calls it anyway is answered
    `{"status": "passive_only"}`. It never raises for a turn: without a service, a text
    or a hit the block is "", and so it is after a failure, which is logged without
    content.

        block = await preload.block(text, turn=turn_id)
        answer = await model(preload.place(messages, block))

    The block is for this turn's requests only; keep it out of the stored history. The
    same hits give the same text, and with placement "user" the system text and all
    earlier messages stay as they are, so that a provider's prompt cache holds.

    Args:
        memory: The memory service; None where there is none, which is logged once.
        app_name: The app.
        user_id: The user.
        max_entries: At most this many memories in a block.
        max_tokens: At most this many tokens in a block, its frame included; None is
            no bound. Long texts are cut to the part that the question is about, and
            say so with the memory's id. What does not fit even so is left out: what
            does not fit alone, then texts that were cut, then the lowest `confidence *
            importance`, or the lowest in rank where memories lack a score.
        min_confidence: Floor on the confidence in [0, 1], as in `search_memory`.
        format: As in `render`.
        placement: Where `place` puts a block.
        scores: Show confidence and importance. They change with the question and with
            time, and the text with them.
        secret: As in `render`, for the format "secure".
        count_tokens: Your model's tokenizer; without one, `estimate_tokens`.
        turns: Where to keep what each turn was given, for the tools that search.
        filter: Which memories may be in a block: a `Filter`, or a mapping with its
            fields.

    Raises:
        InvalidArgumentError: A name, number, secret or filter that cannot be one.
        ConfigError: Another format or placement, or a filter for a service whose search
            takes none.

    Attributes:
        placement: Where `place` puts a block.
        turns: What each turn was given.
    """

    name = "preload_memory"
    description = "Recalls past conversations before every turn, without being called."
    _properties: ClassVar[Schema] = {}
    _without_memory: ClassVar[Answer] = {"status": "passive_only"}

    def __init__(
        self,
        memory: MemoryProtocol | None,
        app_name: str,
        user_id: str,
        *,
        max_entries: int = 5,
        max_tokens: int | None = DEFAULT_MAX_TOKENS,
        min_confidence: float | None = None,
        format: PreloadFormat = "past_conversations",
        placement: Placement = "user",
        scores: bool = False,
        secret: bytes | str | None = None,
        count_tokens: Callable[[str], int] | None = None,
        turns: ShownMemories | None = None,
        filter: FilterLike | None = None,
    ) -> None:
        """Bind it to one user."""
        super().__init__(memory, app_name, user_id, on_missing="empty")
        if format not in get_args(PreloadFormat):
            msg = f"format: must be one of {', '.join(get_args(PreloadFormat))}"
            raise ConfigError(msg)
        if placement not in get_args(Placement):
            msg = 'placement: must be "user" or "system"'
            raise ConfigError(msg)
        self.placement = placement
        self.turns = ShownMemories() if turns is None else turns
        self._filter = checked_filter(memory, filter)
        self._max_entries = at_least_one(max_entries, "max_entries")
        self._min_confidence = min_confidence
        if min_confidence is not None:
            check_share(min_confidence, "min_confidence")
        self._max_tokens = max_tokens
        self._count = counter(count_tokens)
        self._look: dict[str, Any] = {
            "format": format,
            "scores": scores,
            "secret": secret,
        }
        # Fail now rather than at the first turn.
        render([], **self._look, max_tokens=max_tokens, count_tokens=count_tokens)

    def declaration(self) -> None:
        """Return None: models cannot call it."""
        return

    async def block(self, text: object, *, turn: Hashable = None) -> str:
        """Return the memories for a user's message, as a block of text.

        Args:
            text: What the user said, or a content with parts.
            turn: An id of the turn, unique for the user. Asked again for the same
                turn, the same block is returned without another search.

        Returns:
            The text for the prompt; "" where there is nothing.
        """
        memory = self._memory
        if memory is None:
            return ""
        user = (self.app_name, self.user_id)
        if turn is not None and (known := self.turns.get(user, turn)):
            return known.block
        query = " ".join(text_parts(text))
        given = await self._given(memory, query) if query.strip() else ShownBlock()
        self.turns.put(user, turn, given)
        return given.block

    def place(self, messages: Sequence[Message], block: str) -> list[Message]:
        """Return a request's messages with the block inserted.

        Args:
            messages: The request's messages as chat APIs take them, each a dict with
                "role" and "content". They are not changed.
            block: What `block` returned; "" leaves everything as it is.

        Returns:
            A new list. With placement "user" the block is a message of the user after
            all others; with "system" it ends the system text, which is made if there
            is none.
        """
        return insert_block(messages, block, self.placement)

    async def _given(self, memory: Any, query: str) -> ShownBlock:
        try:
            found, _ = await search_with_fallback(
                memory,
                app_name=self.app_name,
                user_id=self.user_id,
                query=query,
                top_k=min(self._max_entries, self._limits.max_top_k),
                min_confidence=self._min_confidence,
                filter=self._filter,
            )
            many = sum(len(each.text) for each in found.memories) >= _INLINE_CHARACTERS
            if many:
                return await asyncio.to_thread(self._shown, found.memories, query)
            return self._shown(found.memories, query)
        except Exception as error:
            why = error if isinstance(error, ConfigError) else type(error).__name__
            _log.warning("nothing was preloaded: %s", why)
            return ShownBlock()

    def _shown(self, given: Sequence[MemoryEntry], query: str) -> ShownBlock:
        found, pieces = list(given), set[int]()
        if self._max_tokens is not None:
            one = MemoryEntry(".")
            frame = 2 * self._cost([one]) - self._cost([one, one])
            cut = bounded(
                found,
                query,
                self._max_tokens - frame,
                lambda piece: self._cost([marked(piece)]) - frame,
            )
            found = [
                each if piece.cut is None else marked(piece)
                for each, piece in zip(found, cut, strict=True)
            ]
            pieces = {
                id(each) for each, (_, cut_at) in zip(found, cut, strict=True) if cut_at
            }
        shown = [each for each in found if self._fits(render([each], **self._look))]
        while shown:
            block = render(shown, **self._look)
            if self._fits(block):
                return ShownBlock(block, frozenset(map(key_of, shown)))
            # Drop a cut text before a whole one.
            cut_ones = [at for at, each in enumerate(shown) if id(each) in pieces]
            places = cut_ones or list(range(len(shown)))
            del shown[places[_least([shown[at] for at in places])]]
        return ShownBlock()

    def _cost(self, memories: Sequence[MemoryEntry]) -> int:
        return self._count(render(memories, **self._look))

    def _fits(self, block: str) -> bool:
        return self._max_tokens is None or self._count(block) <= self._max_tokens

    async def _answer(
        self, _memory: Any, _given: Mapping[str, Any], _turn: Hashable, /
    ) -> dict[str, Any]:
        return dict(self._without_memory)


def _least(memories: Sequence[MemoryEntry]) -> int:
    """Return the index of the least relevant memory; of equals the last."""
    worth = [
        None
        if each.confidence is None or each.importance is None
        else each.confidence * each.importance
        for each in memories
    ]
    known = [value for value in worth if value is not None]
    if len(known) < len(worth):
        return len(memories) - 1
    return max(at for at, value in enumerate(known) if value == min(known))
