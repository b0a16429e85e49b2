"""`forget_memory`: the model proposes memories to delete, and deletes them later."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

from vecall.content import as_list
from vecall.errors import InvalidArgumentError, InvalidTypeError, NotFoundError
from vecall.protocols import MemoryProtocol
from vecall.tools.base import Answer, MemoryTool, OnMissing, Schema, at_least_one
from vecall.tools.json_output import NOTE, checked_look, shown
from vecall.validation import check_name, check_query


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
    _properties: ClassVar[Schema] = {
        "query": {"type": "string", "description": "What to forget"},
        "token": {
            "type": "string",
            "description": "The token of the first call, to confirm it",
        },
        "ids": {
            "type": "array",
            "items": {"type": "string"},
            "description": "With the token: the ids of the memories to forget; "
            "without ids all that were shown go",
        },
    }
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

    async def _confirm(self, memory: Any, token: object, ids: object) -> dict[str, Any]:
        if not isinstance(token, str):
            msg = "token: expected a string"
            raise InvalidTypeError(msg)
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
