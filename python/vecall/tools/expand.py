"""`expand_session`: the model reads a cut memory and the turns around it."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from vecall.errors import InvalidArgumentError, InvalidTypeError, NotFoundError
from vecall.filters.rights import Rights
from vecall.protocols import MemoryProtocol
from vecall.text import strip_invisible
from vecall.tools.any_service import restricted
from vecall.tools.base import Answer, MemoryTool, OnMissing, Schema
from vecall.tools.json_output import FRAME, NOTE, as_json, checked_look, cost_of
from vecall.tools.snippets import (
    DEFAULT_MAX_TOKENS,
    Piece,
    bounded,
    from_character,
)
from vecall.types import MemoryEntry
from vecall.validation import check_name

_NO_MEMORY = "id: this user has no such memory"
_MAX_TURNS = 10
_SHARE_OF_REQUESTED = 0.7  # share of the tokens for the requested memory


class ExpandSession(MemoryTool):
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
    _properties: ClassVar[Schema] = {
        "id": {"type": "string", "description": "The id of the memory"},
        "turns_before": {
            "type": "number",
            "description": "Turns before it, 0 to 10 (default: 2)",
        },
        "turns_after": {
            "type": "number",
            "description": "Turns after it, 0 to 10 (default: 2)",
        },
        "begin": {
            "type": "number",
            "description": "The character of its text to begin at (default: 0)",
        },
    }
    _required = ("id",)
    _without_memory: ClassVar[Answer] = {"memories": []}
    _needs = ("expand_session",)

    def __init__(
        self,
        memory: MemoryProtocol | None,
        app_name: str,
        user_id: str,
        *,
        on_missing: OnMissing = "error",
        max_tokens: int | None = DEFAULT_MAX_TOKENS,
        count_tokens: Callable[[str], int] | None = None,
        neutralise: bool = True,
        min_trust: str | None = None,
    ) -> None:
        """Bind the tool to one user."""
        memory = restricted(memory, Rights(min_trust=min_trust))
        super().__init__(memory, app_name, user_id, on_missing=on_missing)
        self._look = checked_look(max_tokens, count_tokens, neutralise=neutralise)

    async def _answer(
        self, memory: Any, given: Mapping[str, Any], _turn: Hashable, /
    ) -> dict[str, Any]:
        id_ = given.get("id")
        if not isinstance(id_, str):
            msg = "id: expected a string"
            raise InvalidTypeError(msg)
        check_name(id_, "id", self._limits)
        before, after = (_turns(given.get(name, 2), name) for name in _AROUND)
        try:
            found = await memory.expand_session(
                app_name=self.app_name,
                user_id=self.user_id,
                memory_id=id_,
                turns_before=before,
                turns_after=after,
            )
        except NotFoundError:
            raise InvalidArgumentError(_NO_MEMORY) from None
        if all(each.id != id_ for each in found):
            raise InvalidArgumentError(_NO_MEMORY)
        pieces = self._pieces(found, id_, _whole(given.get("begin", 0), "begin"))
        memories = [as_json(piece, self._look) for piece in pieces]
        answer: dict[str, Any] = {"memories": memories, "note": NOTE}
        if left_out := len(found) - len(pieces):
            answer["left_out"] = left_out
        return answer

    def _pieces(
        self, found: Sequence[MemoryEntry], id_: str, begin: int
    ) -> list[Piece]:
        """Return the requested memory, and as many other turns as fit."""
        at = next(n for n, each in enumerate(found) if each.id == id_)
        pieces = [
            Piece(replace(each, content=strip_invisible(each.text))) for each in found
        ]
        look = self._look
        most = look.max_tokens
        cost = cost_of(look)
        room = sum(map(cost, pieces)) if most is None else most - FRAME
        others = [piece.memory for n, piece in enumerate(pieces) if n != at]
        share = int(room * _SHARE_OF_REQUESTED) if others else room
        needed = min(sum(cost(Piece(each)) for each in others), room - share)
        requested = from_character(pieces[at], begin, room - needed, cost)
        left = room - cost(requested)
        beside = bounded(others, "", left, cost) if others else []
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


_AROUND = ("turns_before", "turns_after")


def _turns(value: object, name: str) -> int:
    return min(_whole(value, name), _MAX_TURNS)


def _whole(value: object, name: str) -> int:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value):  # type: ignore[arg-type]
        msg = f"{name}: expected a number"
        raise InvalidTypeError(msg)
    return max(int(value), 0)  # type: ignore[call-overload, no-any-return]
