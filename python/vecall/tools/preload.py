"""`preload_memory`: recalls memories before each call of the model."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, TypeVar, get_args

from vecall import types
from vecall.content import text_parts
from vecall.errors import ConfigError
from vecall.ingest.parts import is_instruction_role
from vecall.lexical.small_talk import asking_of_message
from vecall.limits import UNASKED_RELEVANCE
from vecall.prompts.render import render, token_counter
from vecall.protocols import MemoryProtocol
from vecall.tools import base, output

C = TypeVar("C")

_LEAST_SHARE = 0.15  # of the best score; see bench/results/recall.md

UnaskedFloor = float | types.Unset | None
"""The `min_confidence` of what recalls memories by itself, such as `PreloadMemory`.

UNSET, the default, is the `min_confidence` of the service. If it has none, nothing
passes if the `relevance` of the response is below 0.2, as after "Thanks!", and
otherwise every memory that is not far below the best one. None is the service's floor
alone, a number replaces both, and 0 lets everything pass.
"""


def checked_floor(floor: UnaskedFloor) -> UnaskedFloor:
    """Return a floor that is valid.

    Raises:
        InvalidArgumentError: A number outside [0, 1].
    """
    if isinstance(floor, types.Unset) or floor is None:
        return floor
    return types.check_share(floor, "min_confidence")


def confidence_floor_of(memory: object, floor: UnaskedFloor) -> float | None:
    """Return the confidence that each memory needs; None: none does."""
    own: float | None = getattr(memory, "min_confidence", None)
    return own if floor is None or isinstance(floor, types.Unset) else floor


async def search_unasked(
    memory: Any, floor: UnaskedFloor, **arguments: Any
) -> list[types.MemoryEntry]:
    """Return the memories for a text with which nobody asked for memories.

    A floor also holds for services whose search takes none. There a memory without a
    confidence passes, as one of another library.

    Args:
        memory: The memory service, of vecall or another library.
        floor: The floor on the confidence.
        **arguments: The other arguments of vecall's `search_memory`.

    Raises:
        ConfigError: The service's search does not support the filter.
    """
    is_number = floor is not None and not isinstance(floor, types.Unset)
    if is_number and base.takes_argument(memory.search_memory, "min_confidence"):
        arguments["min_confidence"] = floor
    found, _ = await base.search_with_fallback(memory, **arguments)
    return memories_worth_telling(memory, arguments["query"], found, floor)


def memories_worth_telling(
    memory: object, query: str, found: types.SearchMemoryResponse, floor: UnaskedFloor
) -> list[types.MemoryEntry]:
    """Return what passes of memories that were found for a text that did not ask."""
    least = confidence_floor_of(memory, floor)
    if isinstance(floor, types.Unset) and least is None:
        if found.relevance is not None:
            if found.relevance < UNASKED_RELEVANCE:
                return []
            best = max((each.score or 0.0 for each in found), default=0.0)
            # Those that are not far below the best one; all with a reranker's scores.
            below = _LEAST_SHARE * best if best > 0.0 else -math.inf
            return [each for each in found if (each.score or 0.0) >= below]
        if asking_of_message(query).nothing:
            return []
        least = UNASKED_RELEVANCE
    return [
        each
        for each in found.memories
        if least is None or each.confidence is None or each.confidence >= least
    ]


PreloadFormat = Literal["past_conversations", "bullets", "json", "secure"]

_log = logging.getLogger("vecall")


class PreloadMemory(base.MemoryTool):
    """Recalls memories for every turn of a user; the model does not call it.

    The tool has no declaration. If a model calls it anyway, the answer is `{"status":
    "passive_only"}`. `block` never raises an error for a turn. Without a service, a
    text or a match the block is "". After a failure the block is "" too, and the error
    is logged without content.

        block = await preload.block(text, turn=turn_id)
        answer = await model(preload.place(messages, block))

    The block is for the requests of this turn only; do not store it in the history.
    The same memories give the same text. With placement "user" the system text and all
    earlier messages do not change, so a provider's prompt cache stays valid.

    Args:
        memory: The memory service, or None, which is logged once.
        app_name: The app.
        user_id: The user.
        max_entries: The most memories in a block.
        max_tokens: The most tokens in a block, including its frame; None is unlimited.
            Long texts are cut to the part relevant to the question, with a note that
            has the memory's id. If the block is still too long, memories are dropped:
            first those that do not fit alone, then cut texts, then those with the
            lowest `confidence * importance`, or the lowest rank without scores.
        min_confidence: The least confidence of a memory, in [0, 1]. Default: the
            service's `min_confidence`. If it has none, a message that asks nothing of
            the memory gets no block, and any other the best memories. None: the
            service's alone. 0: no floor.
        format: As in `render`.
        placement: Where `place` inserts a block.
        scores: Whether to show confidence and importance. They depend on the question
            and the time, so the text changes with both.
        secret: As in `render`, for the format "secure".
        count_tokens: Your model's tokenizer; None uses `estimate_tokens`.
        turns: Records the memories shown in each turn, for the tools that search.
        filter: Which memories may be in a block: a `Filter`, or a mapping with its
            fields.

    Raises:
        InvalidArgumentError: A name, a number, the secret or the filter is invalid.
        ConfigError: The format or the placement is invalid, or the service's search
            takes no filter.

    Attributes:
        placement: Where `place` inserts a block.
        turns: The memories shown in each turn.
    """

    name = "preload_memory"
    description = "Recalls past conversations before every turn, without being called."
    _takes = ()
    _without_memory: ClassVar[base.Answer] = {"status": "passive_only"}

    def __init__(
        self,
        memory: MemoryProtocol | None,
        app_name: str,
        user_id: str,
        *,
        max_entries: int = 5,
        max_tokens: int | None = output.DEFAULT_MAX_TOKENS,
        min_confidence: UnaskedFloor = types.UNSET,
        format: PreloadFormat = "past_conversations",
        placement: base.Placement = "user",
        scores: bool = False,
        secret: bytes | str | None = None,
        count_tokens: Callable[[str], int] | None = None,
        turns: output.ShownMemories | None = None,
        filter: types.FilterLike | None = None,
    ) -> None:
        """Bind the tool to one user."""
        super().__init__(memory, app_name, user_id, on_missing="empty")
        if format not in get_args(PreloadFormat):
            msg = f"format: must be one of {', '.join(get_args(PreloadFormat))}"
            raise ConfigError(msg)
        if placement not in get_args(base.Placement):
            raise ConfigError('placement: must be "user" or "system"')
        self.placement = placement
        self.turns = output.ShownMemories() if turns is None else turns
        self._filter = base.checked_filter(memory, filter)
        self._max_entries = base.at_least_one(max_entries, "max_entries")
        self._min_confidence = checked_floor(min_confidence)
        self._max_tokens = max_tokens
        self._count = token_counter(count_tokens)
        self._look: dict[str, Any]
        self._look = {"format": format, "scores": scores, "secret": secret}
        # Raise errors of the options now, not at the first turn.
        render([], **self._look, max_tokens=max_tokens, count_tokens=count_tokens)

    def declaration(self) -> None:
        """Return None: models cannot call the tool."""
        return

    async def block(self, text: object, *, turn: Hashable = None) -> str:
        """Return the memories for a user's message, as a block of text.

        Args:
            text: The user's message: a text, or a content with parts.
            turn: An id of the turn, unique for the user. Another call for the same turn
                returns the same block without a search.

        Returns:
            The text for the prompt; "" without memories.
        """
        memory = self._memory
        if memory is None:
            return ""
        user = (self.app_name, self.user_id)
        if turn is not None and (known := self.turns.get(user, turn)):
            return known.block
        query = " ".join(text_parts(text))
        given = (
            await self._recall(memory, query) if query.strip() else output.ShownBlock()
        )
        self.turns.put(user, turn, given)
        return given.block

    def place(self, messages: Sequence[base.Message], block: str) -> list[base.Message]:
        """Return a request's messages with the block inserted.

        Args:
            messages: The request's messages in the format of chat APIs: dicts with
                "role" and "content". They are not changed.
            block: The result of `block`; "" inserts nothing.

        Returns:
            A new list. With placement "user" the block is a separate user message at
            the end. With "system" the block is appended to the system text, or is a new
            system message if there is none.
        """
        given = list(messages)
        if not block:
            return given
        if self.placement == "user":
            return [*given, {"role": "user", "content": block}]
        for at, message in enumerate(given):
            if is_instruction_role(message.get("role")):
                content = message.get("content")
                if isinstance(content, list):
                    content = [*content, {"type": "text", "text": block}]
                else:
                    content = f"{content}\n\n{block}" if content else block
                given[at] = {**message, "content": content}
                return given
        return [{"role": "system", "content": block}, *given]

    async def _recall(self, memory: Any, query: str) -> output.ShownBlock:
        try:
            found = await search_unasked(
                memory,
                self._min_confidence,
                **self._owner,
                query=query,
                top_k=min(self._max_entries, self._limits.max_top_k),
                filter=self._filter,
            )
            if sum(len(each.text) for each in found) >= output.INLINE_CHARACTERS:
                return await asyncio.to_thread(self._fit_block_to_budget, found, query)
            return self._fit_block_to_budget(found, query)
        except Exception as error:
            why = error if isinstance(error, ConfigError) else type(error).__name__
            _log.warning("nothing was preloaded: %s", why)
            return output.ShownBlock()

    def _fit_block_to_budget(
        self, given: Sequence[types.MemoryEntry], query: str
    ) -> output.ShownBlock:
        if self._max_tokens is None:
            pieces = output.shown_pieces(given)
        else:
            one = types.MemoryEntry(".")
            frame = 2 * self._block_token_cost(one) - self._block_token_cost(one, one)
            pieces = output.cut_output_to_limit(
                given,
                query,
                self._max_tokens - frame,
                lambda a: self._block_token_cost(output.with_part_notes(a)) - frame,
            )
        found = list(map(output.with_part_notes, pieces))
        is_cut = {
            id(each) for each, piece in zip(found, pieces, strict=True) if piece.cut
        }
        shown = [each for each in found if self._fits_tokens(self._render_block(each))]
        while shown:
            block = self._render_block(*shown)
            if self._fits_tokens(block):
                return output.ShownBlock(block, frozenset(map(output.key_of, shown)))
            # Drop a cut text before a whole one.
            cut_ones = [at for at, each in enumerate(shown) if id(each) in is_cut]
            places = cut_ones or list(range(len(shown)))
            del shown[places[_least_relevant_index([shown[at] for at in places])]]
        return output.ShownBlock()

    def _render_block(self, *memories: types.MemoryEntry) -> str:
        return render(memories, **self._look)

    def _block_token_cost(self, *memories: types.MemoryEntry) -> int:
        return self._count(self._render_block(*memories))

    def _fits_tokens(self, block: str) -> bool:
        return self._max_tokens is None or self._count(block) <= self._max_tokens

    async def _call_tool(
        self, _memory: Any, _given: base.Given, _turn: Hashable, /
    ) -> base.Answer:
        return {**self._without_memory}


def _least_relevant_index(memories: Sequence[types.MemoryEntry]) -> int:
    """Return the index of the least relevant memory; the last one of equals."""
    worth = [
        None
        if each.confidence is None or each.importance is None
        else each.confidence * each.importance
        for each in memories
    ]
    known = [(-value, at) for at, value in enumerate(worth) if value is not None]
    return max(known)[1] if len(known) == len(worth) else len(memories) - 1


class RunMemory(base.RunOwner[C]):
    """The memory of the user of an agent's run: recall, and what is said in the run.

    Args:
        memory: The memory service.
        app_name: The app, or a function of a run's context.
        user_id: The user, or a function of a run's context.
        **options: As in `PreloadMemory`.

    Raises:
        InvalidArgumentError: A name or an option is invalid.
    """

    def __init__(
        self,
        memory: Any,
        app_name: str | Callable[[C], str],
        user_id: str | Callable[[C], str],
        **options: Any,
    ) -> None:
        """Check the names that are no functions, and the options."""
        super().__init__(memory, app_name, user_id)
        self._memory = memory
        self._options = {"format": "secure", **options}
        PreloadMemory(memory, "app", "user", **self._options)

    async def message_block(
        self, context: C, text: object, filter: types.FilterLike | None = None
    ) -> str:
        """Return the memories for a user's message; see `PreloadMemory.block`."""
        options = (
            self._options if filter is None else {**self._options, "filter": filter}
        )
        preload = PreloadMemory(self._memory, *self.of(context), **options)
        return await preload.block(text)

    async def remember_turns(
        self, context: C, turns: Iterable[types.Event], session_id: str | None
    ) -> bool:
        """Store turns of now, in their order; return whether it was possible.

        A failure is logged without content.
        """
        now = time.time()
        try:
            events = [
                replace(each, timestamp=now + at / 1e6) for at, each in enumerate(turns)
            ]
            if events:
                user = self._memory.user(*self.of(context))
                await user.add_events(events, session_id=session_id)
        except Exception as error:
            _log.warning("turns were not remembered: %s", type(error).__name__)
            return False
        return True
