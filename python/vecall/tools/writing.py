"""The base class of tools that write memories."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar

from vecall.content import as_list
from vecall.errors import (
    InvalidArgumentError,
    NotFoundError,
    WriteRejectedError,
)
from vecall.filters.rights import may_correct
from vecall.protocols import MemoryProtocol
from vecall.tools.base import (
    Answer,
    MemoryTool,
    OnMissing,
    at_least_one,
    taken,
    takes,
)
from vecall.tools.output import NOTE, checked_look, shown
from vecall.validation import check_name, check_query

# `forget_memory`: the model proposes memories to delete, and deletes them later.


class ForgetMemory(MemoryTool):
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
    _without_memory: ClassVar[Answer] = {"status": "nothing_found", "memories": []}
    _needs = ("propose_forget", "confirm_forget")

    def __init__(
        self,
        memory: MemoryProtocol | None,
        app_name: str,
        user_id: str,
        *,
        max_entries: int = 5,
        on_missing: OnMissing = "error",
        **look: Any,
    ) -> None:
        """Bind the tool to one user."""
        super().__init__(memory, app_name, user_id, on_missing=on_missing)
        self._look = checked_look(**look)
        self._max_entries = at_least_one(max_entries, "max_entries")

    async def _answer(
        self, memory: Any, given: Mapping[str, Any], _turn: Hashable, /
    ) -> dict[str, Any]:
        if ("query" in given) == ("token" in given):
            msg = "query, token: expected exactly one of them"
            raise InvalidArgumentError(msg)
        if "token" in given:
            return await self._confirm(memory, given["token"], given.get("ids"))
        if given.get("ids"):
            msg = "ids: expected together with the token of the first call"
            raise InvalidArgumentError(msg)
        return await self._propose(memory, check_query(given["query"]))

    async def _propose(self, memory: Any, query: str) -> dict[str, Any]:
        proposal = await memory.propose_forget(
            app_name=self.app_name,
            user_id=self.user_id,
            query=query,
            top_k=min(self._max_entries, self._limits.max_top_k),
        )
        if not proposal.memories:
            return {"status": "nothing_found", "memories": []}
        memories, left_out = await shown(proposal.memories, query, self._look)
        if left_out:
            # A token must not delete memories that were not shown.
            return {"error": "query: finds too much to show; say what to forget"}
        answer: dict[str, Any] = {
            "status": "confirm",
            "token": proposal.token,
            "memories": [
                {"number": number, **each} for number, each in enumerate(memories, 1)
            ],
            "note": NOTE,
        }
        if len(memories) > 1:
            answer["choose"] = True
        return answer

    async def _confirm(self, memory: Any, token: str, ids: object) -> dict[str, Any]:
        chosen = None if ids is None else as_list(ids, "ids")
        try:
            check_name(token, "token", self._limits)
        except InvalidArgumentError:
            return {"status": "unknown_token"}  # not in the format of a token
        try:
            count = await memory.confirm_forget(
                app_name=self.app_name, user_id=self.user_id, token=token, ids=chosen
            )
        except NotFoundError:
            return {"status": "unknown_token"}
        return {"status": "forgotten", "count": count}


SOURCE = "tool"
"""The source of memories that a model wrote."""


class WritingTool(MemoryTool):
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
        on_missing: OnMissing = "error",
    ) -> None:
        """Bind the tool to one user, and to one author."""
        super().__init__(memory, app_name, user_id, on_missing=on_missing)
        self._author = check_name(author, "author", self._limits)
        self._trust = check_name(trust, "trust", self._limits)
        self._source = check_name(source, "source", self._limits)


def checked_text(given: Mapping[str, Any]) -> str:
    """Return the argument `text`, which must not be blank.

    Raises:
        InvalidArgumentError: The argument is blank.
    """
    text: str = given["text"]
    if not text.strip():
        msg = "text: must not be blank"
        raise InvalidArgumentError(msg)
    return text


# `remember`: the model stores a memory.


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

    _look = checked_look(scores=False)

    name = "remember"
    description = (
        "Remember one fact, preference or decision of the user for later "
        'conversations. If the answer lists "similar" memories that the text makes '
        "outdated or only repeats, call it again with the same text and their ids in "
        "supersedes."
    )
    _takes: ClassVar[tuple[str, ...]] = ("text", "kind", "importance", "supersedes")
    _required = ("text",)
    _without_memory: ClassVar[Answer] = {"status": "not_remembered"}
    _needs = ("add_memory",)

    async def _answer(
        self, memory: Any, given: Mapping[str, Any], _turn: Hashable, /
    ) -> dict[str, Any]:
        text, kind = checked_text(given), given.get("kind")
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
            if older and not takes(memory.add_memory, "supersedes"):
                msg = "supersedes: this memory service replaces no memories"
                raise InvalidArgumentError(msg)
            if not await self._may_replace(memory, older):
                return dict(self._without_memory)
            more["supersedes"] = older
        try:
            ids = await memory.add_memory(
                app_name=self.app_name,
                user_id=self.user_id,
                memories=[entry],
                **taken(memory.add_memory, more),
            )
        except WriteRejectedError:
            ids = []
        if ids is None:
            return {"status": "remembered"}  # this service returns no ids
        if not ids or ids[0] is None:
            return dict(self._without_memory)
        answer = {"status": "remembered", "id": ids[0]}
        similar = await self._similar(getattr(ids, "similar", ()))
        return {**answer, "similar": similar, "note": NOTE} if similar else answer

    async def _may_replace(self, memory: Any, ids: list[Any]) -> bool:
        """Whether the model may correct each of the memories.

        Raises:
            InvalidArgumentError: There is no such memory.
        """
        for id_ in ids:
            checked = check_name(id_, "supersedes", self._limits)
            try:
                known = await memory.get_memory(
                    app_name=self.app_name, user_id=self.user_id, memory_id=checked
                )
            except NotFoundError:
                msg = "supersedes: this user has no such memory"
                raise InvalidArgumentError(msg) from None
            if not may_correct(known.trust, self._trust):
                return False
        return True

    async def _similar(self, found: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
        """Return the memories that the model may replace, as JSON values."""
        offered = [
            each
            for each in (found[0] if found else ())
            if may_correct(each.memory.trust, self._trust)
        ]
        memories, _ = await shown([each.memory for each in offered], "", self._look)
        return [
            {**memory, "score": round(each.score, 2), "says": each.says}
            for memory, each in zip(memories, offered, strict=False)
        ]


# `update_memory`: the model corrects a memory.


_NOT_UPDATED = {"status": "not_updated"}


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
    _without_memory: ClassVar[Answer] = _NOT_UPDATED
    _needs = ("get_memory", "update_memory")

    async def _answer(
        self, memory: Any, given: Mapping[str, Any], _turn: Hashable, /
    ) -> dict[str, Any]:
        text = checked_text(given)
        which = {
            "app_name": self.app_name,
            "user_id": self.user_id,
            "memory_id": check_name(given["id"], "id", self._limits),
        }
        changes = {"content": text, "author": self._author, "source": self._source}
        if "importance" in given:
            changes["importance"] = given["importance"]
        try:
            known = await memory.get_memory(**which)
            if not may_correct(known.trust, self._trust):
                return dict(_NOT_UPDATED)
            await memory.update_memory(**which, **changes)
        except NotFoundError:
            msg = "id: this user has no such memory"
            raise InvalidArgumentError(msg) from None
        except WriteRejectedError:
            return dict(_NOT_UPDATED)
        return {"status": "updated", "id": given["id"]}
