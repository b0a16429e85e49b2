"""The tools that a model calls: they search, read, write and forget."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar

from vecall.content import as_list
from vecall.errors import InvalidArgumentError, NotFoundError, WriteRejectedError
from vecall.filters.rights import Rights, may_correct_tier
from vecall.lexical.features import query_asks_list
from vecall.protocols import MemoryProtocol
from vecall.tools import base, output
from vecall.types import Filter, FilterLike, MemoryEntry
from vecall.validation import check_name, check_query

_MOST_OF_LIST = 50  # memories that are looked at for a list


class SearchTool(base.MemoryTool):
    """A tool that answers `{"memories": […], "note": …}`, best first.

    An answer has at most `max_tokens`. Long texts are cut to the part relevant to the
    query: `"cut": {"from": …, "to": …, "of": …}` is the range of characters shown.
    `ExpandSession` reads the rest by the memory's id. Memories that still do not fit
    are dropped, the last first; `"left_out"` is the number of these, and of those that
    a query for a list finds beyond the limit. The note tells the model
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

    _without_memory: ClassVar[base.Answer] = {"memories": []}

    def __init__(
        self,
        memory: MemoryProtocol | None,
        app_name: str,
        user_id: str,
        *,
        turns: output.ShownMemories | None = None,
        on_missing: base.OnMissing = "error",
        max_tokens: int | None = output.DEFAULT_MAX_TOKENS,
        count_tokens: Callable[[str], int] | None = None,
        scores: bool = True,
        neutralise: bool = True,
        filter: FilterLike | None = None,
    ) -> None:
        """Bind the tool to one user."""
        super().__init__(memory, app_name, user_id, on_missing=on_missing)
        self._filter = base.checked_filter(memory, filter)
        self._turns = output.ShownMemories() if turns is None else turns
        self._look = output.checked_look_options(
            max_tokens, count_tokens, scores=scores, neutralise=neutralise
        )

    async def _search(
        self,
        memory: Any,
        query: object,
        most: int,
        turn: Hashable,
        condition: Filter | None = None,
        widest: int | None = None,
    ) -> base.Answer:
        """Return up to `most` memories; of a list, up to `widest` half as good."""
        known = self._turns.already_recalled((self.app_name, self.user_id), turn)
        query = check_query(query)
        is_list = widest is not None and query_asks_list(query)
        asked = max(most, _MOST_OF_LIST) if is_list else most
        found, is_by_words = await base.search_with_fallback(
            memory,
            **self._owner,
            query=query,
            top_k=min(asked + len(known), self._limits.max_top_k),
            filter=self._filter if condition is None else condition,
        )
        fresh = [each for each in found.memories if output.key_of(each) not in known]
        alike = most
        if is_list:
            best = found.memories[0].score if found.memories else None
            alike = max(most, _count_alike_memories(fresh, best))
            most = min(alike, max(most, widest or 0))
        memories, left_out = await output.show_memories(fresh[:most], query, self._look)
        left_out += len(fresh[most:alike])
        answer: base.Answer = {"memories": memories}
        if left_out:
            answer["left_out"] = left_out
        again = sum(output.key_of(each) in known for each in found.memories[:most])
        if again:
            answer["already_in_context"] = again
        if memories:
            answer["note"] = output.NOTE
        elif again:
            answer["note"] = _already_in_context_note(again)
        if is_by_words:
            answer["searched"] = "by words alone"
        return answer


def _count_alike_memories(memories: Sequence[MemoryEntry], best: float | None) -> int:
    """Return how many of the memories match at least half as well as the best one."""
    if best is None or best <= 0.0:
        return 0  # another library's score
    return sum(each.score is not None and 2 * each.score >= best for each in memories)


def _already_in_context_note(count: int) -> str:
    if count == 1:
        return "1 matching memory is already in the context above"
    return f"{count} matching memories are already in the context above"


NO_MEMORY = "id: this user has no such memory"
_SHARE_OF_REQUESTED = 0.7  # share of the tokens for the requested memory


class ExpandSession(base.MemoryTool):
    """The tool `expand_session(id, turns_before, turns_after, begin)`.

    The answer is `{"memories": […], "note": …}`: the memory of that id and the turns
    around it in its session, in order. The text of the requested memory starts at the
    character `begin`. If the text is cut, `"cut"` has the range of characters shown,
    and the model reads on with `begin` at the end of that range. An unknown id returns
    `{"error": …}`.

    Args:
        memory: The memory service, or None.
        app_name: The app.
        user_id: The user.
        on_missing: As in `MemoryTool`.
        max_tokens: As in `RecallMemory`.
        count_tokens: As in `RecallMemory`.
        neutralise: As in `RecallMemory`.
        min_trust: As in `Rights`: memories below it do not exist for the tool.

    Raises:
        InvalidArgumentError: A name, a number or the trust tier is invalid.
        ConfigError: `on_missing` is invalid, or the service has no `expand_session`, or
            cannot apply `min_trust`.
    """

    name = "expand_session"
    description = (
        "Read a memory in full, by its id, with the turns before and after it. Use it "
        'where a recalled text has "cut", or where its context is needed.'
    )
    _takes = ("id", "turns_before", "turns_after", "begin")
    _clamps = True
    _required = ("id",)
    _without_memory: ClassVar[base.Answer] = {"memories": []}
    _needs = ("expand_session",)

    def __init__(
        self,
        memory: MemoryProtocol | None,
        app_name: str,
        user_id: str,
        *,
        on_missing: base.OnMissing = "error",
        max_tokens: int | None = output.DEFAULT_MAX_TOKENS,
        count_tokens: Callable[[str], int] | None = None,
        neutralise: bool = True,
        min_trust: str | None = None,
    ) -> None:
        """Bind the tool to one user."""
        memory = base.restrict_service(memory, Rights(min_trust=min_trust))
        super().__init__(memory, app_name, user_id, on_missing=on_missing)
        self._look = output.checked_look_options(
            max_tokens, count_tokens, neutralise=neutralise
        )

    async def _call_tool(
        self, memory: Any, given: base.Given, _turn: Hashable, /
    ) -> base.Answer:
        id_ = check_name(given["id"], "id", self._limits)
        try:
            found = await memory.expand_session(
                **self._owner,
                memory_id=id_,
                turns_before=given["turns_before"],
                turns_after=given["turns_after"],
            )
        except NotFoundError:
            raise InvalidArgumentError(NO_MEMORY) from None
        if all(each.id != id_ for each in found):
            raise InvalidArgumentError(NO_MEMORY)
        pieces = self._pieces_around(found, id_, given["begin"])
        memories = [output.as_json(piece, self._look) for piece in pieces]
        answer: base.Answer = {"memories": memories, "note": output.NOTE}
        if left_out := len(found) - len(pieces):
            answer["left_out"] = left_out
        return answer

    def _pieces_around(
        self, found: Sequence[MemoryEntry], id_: str, begin: int
    ) -> list[output.Piece]:
        """Return the requested memory, and as many other turns as fit."""
        at = next(n for n, each in enumerate(found) if each.id == id_)
        pieces = [output.Piece(output.cleaned(each)) for each in found]
        look = self._look
        most = look.max_tokens
        cost = output.token_cost(look)
        room = sum(map(cost, pieces)) if most is None else most - output.FRAME
        others = [piece.memory for n, piece in enumerate(pieces) if n != at]
        share = int(room * _SHARE_OF_REQUESTED) if others else room
        needed = min(sum(cost(output.Piece(each)) for each in others), room - share)
        requested = output.cut_from_character(pieces[at], begin, room - needed, cost)
        left = room - cost(requested)
        beside = output.cut_output_to_limit(others, "", left, cost) if others else []
        shown = {at: requested}
        # The nearest turns first.
        places = [n for n in range(len(pieces)) if n != at]
        for n, piece in sorted(
            zip(places, beside, strict=True), key=lambda pair: abs(pair[0] - at)
        ):
            left -= cost(piece)
            if left < 0:
                break
            shown[n] = piece
        return [shown[n] for n in sorted(shown)]


class RecallMemory(SearchTool):
    """The tool `recall_memory(query, limit)`.

    Without a `limit` the answer has five memories at most. A query for a list, a count
    of times or a summary gets up to `max_limit`, as many as match at least half as well
    as the best one. A `limit` outside [1, `max_limit`] is clamped to that range.

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
    _takes = ("query", "limit")
    _required = ("query",)

    def __init__(
        self,
        memory: MemoryProtocol | None,
        app_name: str,
        user_id: str,
        *,
        max_limit: int = 20,
        turns: output.ShownMemories | None = None,
        on_missing: base.OnMissing = "error",
        **look: Any,
    ) -> None:
        """Bind the tool to one user."""
        super().__init__(
            memory, app_name, user_id, turns=turns, on_missing=on_missing, **look
        )
        self._max_limit = base.at_least_one(max_limit, "max_limit")

    async def _call_tool(
        self, memory: Any, given: base.Given, turn: Hashable, /
    ) -> base.Answer:
        asked = given.get("limit", base.DEFAULT_LIMIT)
        most = int(max(1, min(self._max_limit, asked)))
        widest = None if "limit" in given else self._max_limit
        return await self._search(memory, given.get("query"), most, turn, widest=widest)


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
    _takes = ("query",)
    _required = ("query",)

    def __init__(
        self,
        memory: MemoryProtocol | None,
        app_name: str,
        user_id: str,
        *,
        max_entries: int = 5,
        turns: output.ShownMemories | None = None,
        on_missing: base.OnMissing = "error",
        **look: Any,
    ) -> None:
        """Bind the tool to one user."""
        super().__init__(
            memory, app_name, user_id, turns=turns, on_missing=on_missing, **look
        )
        self._max_entries = base.at_least_one(max_entries, "max_entries")

    async def _call_tool(
        self, memory: Any, given: base.Given, turn: Hashable, /
    ) -> base.Answer:
        return await self._search(memory, given.get("query"), self._max_entries, turn)


class ForgetMemory(base.MemoryTool):
    """The tool `forget_memory`, in two steps.

    The first call has a query and deletes nothing. It answers `{"status": "confirm",
    "token": …, "memories": […]}`, or `{"status": "nothing_found", "memories": []}`. The
    memories match about as well as the best one and are numbered from 1. With several
    memories, `"choose": true` tells the model to let the user choose.

    The second call has the token. It deletes the memories with the given ids, or all
    without ids, and answers `{"status": "forgotten", "count": n}`. If the token is
    unknown, used, expired or another user's, or if a proposed memory has changed, the
    answer is `{"status": "unknown_token"}`. Ingesting the conversation again does not
    bring deleted memories back.

    The two steps keep a model from deleting memories that it has not seen. They cannot
    make the model ask the user. If your framework can ask the user, let it do so.

    Args:
        memory: The memory service, or None.
        app_name: The app.
        user_id: The user.
        max_entries: The most memories in a proposal, at least 1.
        on_missing: As in `MemoryTool`.
        **look: `max_tokens`, `count_tokens`, `scores` and `neutralise`, as in
            `SearchTool`.

    Raises:
        InvalidArgumentError: A name is invalid, or `max_entries` is below 1.
        ConfigError: `on_missing` is invalid.
    """

    name = "forget_memory"
    description = (
        "Forget what is remembered of the user, in two steps. First call it with "
        "query: it deletes nothing and returns the memories and a token. Show them to "
        "the user, and only if the user agrees call it again with the token and the "
        "ids of those that the user wants forgotten."
    )
    _takes = ("query", "token", "ids")
    _without_memory: ClassVar[base.Answer] = {"status": "nothing_found", "memories": []}
    _needs = ("propose_forget", "confirm_forget")

    def __init__(
        self,
        memory: MemoryProtocol | None,
        app_name: str,
        user_id: str,
        *,
        max_entries: int = 5,
        on_missing: base.OnMissing = "error",
        **look: Any,
    ) -> None:
        """Bind the tool to one user."""
        super().__init__(memory, app_name, user_id, on_missing=on_missing)
        self._look = output.checked_look_options(**look)
        self._max_entries = base.at_least_one(max_entries, "max_entries")

    async def _call_tool(
        self, memory: Any, given: base.Given, _turn: Hashable, /
    ) -> base.Answer:
        if ("query" in given) == ("token" in given):
            raise InvalidArgumentError("query, token: expected exactly one of them")
        if "token" in given:
            return await self._confirm(memory, given["token"], given.get("ids"))
        if given.get("ids"):
            msg = "ids: expected together with the token of the first call"
            raise InvalidArgumentError(msg)
        return await self._propose_forgetting(memory, check_query(given["query"]))

    async def _propose_forgetting(self, memory: Any, query: str) -> base.Answer:
        proposal = await memory.propose_forget(
            **self._owner,
            query=query,
            top_k=min(self._max_entries, self._limits.max_top_k),
        )
        if not proposal.memories:
            return {"status": "nothing_found", "memories": []}
        memories, left_out = await output.show_memories(
            proposal.memories, query, self._look
        )
        if left_out:
            # A token must not delete memories that were not shown.
            return {"error": "query: finds too much to show; say what to forget"}
        answer: base.Answer = {
            "status": "confirm",
            "token": proposal.token,
            "memories": [
                {"number": number, **each} for number, each in enumerate(memories, 1)
            ],
            "note": output.NOTE,
        }
        if len(memories) > 1:
            answer["choose"] = True
        return answer

    async def _confirm(self, memory: Any, token: str, ids: object) -> base.Answer:
        chosen = None if ids is None else as_list(ids, "ids")
        try:
            check_name(token, "token", self._limits)
        except InvalidArgumentError:
            return {"status": "unknown_token"}  # not in the format of a token
        try:
            count = await memory.confirm_forget(**self._owner, token=token, ids=chosen)
        except NotFoundError:
            return {"status": "unknown_token"}
        return {"status": "forgotten", "count": count}


SOURCE = "tool"
"""The source of memories that a model wrote."""


class WritingTool(base.MemoryTool):
    """A tool that writes memories; your code sets their author, trust and source."""

    def __init__(
        self,
        memory: MemoryProtocol | None,
        app_name: str,
        user_id: str,
        *,
        author: str = "agent",
        trust: str = "unknown",
        source: str = SOURCE,
        on_missing: base.OnMissing = "error",
    ) -> None:
        """Bind the tool to one user, and to one author."""
        super().__init__(memory, app_name, user_id, on_missing=on_missing)
        self._author = check_name(author, "author", self._limits)
        self._trust = check_name(trust, "trust", self._limits)
        self._source = check_name(source, "source", self._limits)


def checked_fact_text(given: base.Given) -> str:
    """Return the argument `text`, which must not be blank."""
    text: str = given["text"]
    if not text.strip():
        raise InvalidArgumentError("text: must not be blank")
    return text


class Remember(WritingTool):
    """The tool `remember(text, kind, importance, supersedes)`.

    The answer has `"similar"` if the text may replace memories: at most three that the
    model may replace, each with its id, text, time and `score`, and with what the new
    text `"says"`: "update", or "same" in other words. Nothing is replaced before the
    model names their ids in `supersedes`; what it replaces stays in the history. As in
    `UpdateMemory`, it replaces only memories whose trust is `trust` or "unknown"; for
    others the answer is `{"status": "not_remembered"}`.

    Anyone who talks to the model can make it write, so these memories are marked: your
    code sets their author, trust and source. Writing the same text
    twice makes one memory. Writing a forgotten text stores it again. If the service's
    write hook rejects a text, the answer is `{"status": "not_remembered"}`. The answer
    does not reveal that a text was quarantined.

    Args:
        memory: The memory service, or None.
        app_name: The app.
        user_id: The user.
        author: The author of the memories.
        trust: The trust of the memories.
        source: The source of the memories.
        on_missing: As in `MemoryTool`.

    Raises:
        InvalidArgumentError: A name is invalid.
        ConfigError: `on_missing` is invalid.
    """

    _look = output.checked_look_options(scores=False)

    name = "remember"
    description = (
        "Remember one fact, preference or decision of the user for later "
        'conversations. If the answer lists "similar" memories that the text makes '
        "outdated or only repeats, call it again with the same text and their ids in "
        "supersedes."
    )
    _takes: ClassVar[tuple[str, ...]] = ("text", "kind", "importance", "supersedes")
    _required = ("text",)
    _without_memory: ClassVar[base.Answer] = {"status": "not_remembered"}
    _needs = ("add_memory",)

    async def _call_tool(
        self, memory: Any, given: base.Given, _turn: Hashable, /
    ) -> base.Answer:
        text, kind = checked_fact_text(given), given.get("kind")
        entry = {
            "text": text,
            "kind": None if kind is None else check_name(kind, "kind", self._limits),
            "importance": given.get("importance"),
            "author": self._author,
            "source": self._source,
            "trust": self._trust,
        }
        if "timestamp" in given:
            entry["timestamp"] = given["timestamp"]
        # An explicit request to remember overrides a tombstone of the same text.
        more: dict[str, Any] = {"restore": True, "similar": True}
        if "supersedes" in given:
            older = as_list(given["supersedes"], "supersedes")
            if older and not base.takes_argument(memory.add_memory, "supersedes"):
                msg = "supersedes: this memory service replaces no memories"
                raise InvalidArgumentError(msg)
            if not await self._may_correct_memories(memory, older):
                return {**self._without_memory}
            more["supersedes"] = older
        try:
            ids = await memory.add_memory(
                **self._owner,
                memories=[entry],
                **base.arguments_taken_by(memory.add_memory, more),
            )
        except WriteRejectedError:
            ids = []
        if ids is None:
            return {"status": "remembered"}  # this service returns no ids
        if not ids or ids[0] is None:
            return {**self._without_memory}
        answer = {"status": "remembered", "id": ids[0]}
        similar = await self._similar_as_json(getattr(ids, "similar", ()))
        return (
            {**answer, "similar": similar, "note": output.NOTE} if similar else answer
        )

    async def _may_correct_memories(self, memory: Any, ids: list[Any]) -> bool:
        """Whether the model may correct each of the memories, which must exist."""
        for id_ in ids:
            checked = check_name(id_, "supersedes", self._limits)
            try:
                known = await memory.get_memory(**self._owner, memory_id=checked)
            except NotFoundError:
                msg = "supersedes: this user has no such memory"
                raise InvalidArgumentError(msg) from None
            if not may_correct_tier(known.trust, self._trust):
                return False
        return True

    async def _similar_as_json(
        self, found: Sequence[Sequence[Any]]
    ) -> list[dict[str, Any]]:
        """Return the memories that the model may replace, as JSON values."""
        offered = [
            each
            for each in (found[0] if found else ())
            if may_correct_tier(each.memory.trust, self._trust)
        ]
        memories, _ = await output.show_memories(
            [each.memory for each in offered], "", self._look
        )
        return [
            {**memory, "score": round(each.score, 2), "says": each.says}
            for memory, each in zip(memories, offered, strict=False)
        ]


class UpdateMemory(WritingTool):
    """The tool `update_memory(id, text, importance)`.

    The former text stays in the memory's history. A corrected memory is marked like
    memories of `remember`: your code sets its author and source. The
    model can correct only memories whose trust is `trust` or "unknown". For other
    memories, and if the write hook rejects the text, the answer is `{"status":
    "not_updated"}`.

    Args:
        memory: The memory service, or None.
        app_name: The app.
        user_id: The user.
        author: The author of the correction.
        trust: The trust of memories that may be corrected, besides "unknown".
        source: The source of the correction.
        on_missing: As in `MemoryTool`.

    Raises:
        InvalidArgumentError: A name is invalid.
        ConfigError: `on_missing` is invalid, or the service has no `update_memory`.
    """

    name = "update_memory"
    description = (
        "Correct one memory, by its id, where the user says that it is wrong or no "
        "longer true."
    )
    _takes = ("id", "text", "importance")
    _required = ("id", "text")
    _without_memory: ClassVar[base.Answer] = {"status": "not_updated"}
    _needs = ("get_memory", "update_memory")

    async def _call_tool(
        self, memory: Any, given: base.Given, _turn: Hashable, /
    ) -> base.Answer:
        text = checked_fact_text(given)
        id_ = check_name(given["id"], "id", self._limits)
        which = {**self._owner, "memory_id": id_}
        changes = {"content": text, "author": self._author, "source": self._source}
        if "importance" in given:
            changes["importance"] = given["importance"]
        try:
            known = await memory.get_memory(**which)
            if not may_correct_tier(known.trust, self._trust):
                return {**self._without_memory}
            await memory.update_memory(**which, **changes)
        except NotFoundError:
            raise InvalidArgumentError(NO_MEMORY) from None
        except WriteRejectedError:
            return {**self._without_memory}
        return {"status": "updated", "id": id_}
