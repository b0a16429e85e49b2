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

    With a query it deletes nothing and answers `{"status": "confirm", "token": …,
    "memories": […]}`, or `{"status": "nothing_found", "memories": []}`. The memories
    are those that match about as well as the best one, numbered from 1; of more than
    one, `"choose": true` says that the user should choose. With the token it deletes
    those whose ids are given, all of them without ids, and answers `{"status":
    "forgotten", "count": n}`. A token that is unknown, used, too old or another user's
    gives `{"status": "unknown_token"}`, and so does one of memories that say something
    else by now. What was deleted does not come back when the conversation it was said
    in is ingested again.

    The steps keep a model from deleting unseen memories. They cannot make it ask
    the user; a framework that can ask should.

    Args:
        memory: The memory service; None where there is none.
        app_name: The app.
        user_id: The user.
        max_entries: At most this many memories go at once.
        on_missing: As in `MemoryTool`.
        **look: `max_tokens`, `count_tokens`, `scores` and `neutralise`, as in
            `SearchTool`.

    Raises:
        InvalidArgumentError: A name that cannot be one, or `max_entries` below 1.
        ConfigError: Another `on_missing`.
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
        # If every argument is required, models send "" for an omitted one.
        arguments = {name: value for name, value in given.items() if value != ""}
        if ("query" in arguments) == ("token" in arguments):
            msg = "query, token: expected exactly one of them"
            raise InvalidArgumentError(msg)
        if "token" in arguments:
            return await self._confirm(memory, arguments["token"], arguments.get("ids"))
        if arguments.get("ids"):
            msg = "ids: expected together with the token of the first call"
            raise InvalidArgumentError(msg)
        return await self._propose(memory, check_query(arguments["query"]))

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
            # The token must not delete a memory that was not shown.
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
