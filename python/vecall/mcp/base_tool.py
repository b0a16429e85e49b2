"""What the tools of the server share: the shown texts, and reading one memory."""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from vecall.errors import InvalidArgumentError, InvalidTypeError, NotFoundError
from vecall.limits import Limits
from vecall.mcp.access import Access
from vecall.scopes import Owner
from vecall.tools.json_output import Look, as_json, shown
from vecall.tools.snippets import Piece
from vecall.types import MemoryEntry
from vecall.validation import check_name

_NO_MEMORY = "id: this user has no such memory"
_MAX_SHOWN = 10_000
_TOO_LONG = "(the labels of this memory are too long to show)"

ID: dict[str, Any] = {"type": "string", "description": "The id of the memory"}
"""The schema of the argument `id`."""

TIME_FORMS = '"2025-06-18" or "2025-06-18T10:00:00+02:00"; without an offset it is UTC'
"""What a time may look like, for descriptions."""


class ShownTexts:
    """The texts that answers showed, with the ids of their memories.

    `add_memory` does not store a text again that a model copied from an answer.
    """

    def __init__(self) -> None:
        """Create the object without texts."""
        self._ids: OrderedDict[bytes, str] = OrderedDict()

    def put(self, memory: Mapping[str, Any]) -> None:
        """Record a memory of an answer; the oldest of 10,000 is discarded."""
        if (id_ := memory.get("id")) is None:
            return
        self._ids[digest(memory["text"])] = id_
        self._ids.move_to_end(digest(memory["text"]))
        while len(self._ids) > _MAX_SHOWN:
            self._ids.popitem(last=False)

    def id_of(self, text: str) -> str | None:
        """Return the id of the memory that was shown with a text."""
        return self._ids.get(digest(text))


def digest(text: str) -> bytes:
    """Return a short hash of a text without surrounding blank space."""
    return hashlib.sha256(text.strip().encode(errors="surrogatepass")).digest()[:16]


class Desk:
    """What the tools of one server share.

    Args:
        memory: The memory service.
        access: The user of the server.
        limits: The limits of the service.
        look: How memories are shown.
    """

    def __init__(self, memory: Any, access: Access, limits: Limits, look: Look) -> None:
        """Create the object without shown texts."""
        self.memory = memory
        self.access = access
        self.limits = limits
        self.look = look
        self.shown = ShownTexts()
        self.owner: Owner = {"app_name": access.app_name, "user_id": access.user_id}

    async def get(self, id_: object) -> MemoryEntry:
        """Return a memory that the client may read.

        Raises:
            InvalidArgumentError: The id is invalid, or the user has no such memory.
        """
        if not isinstance(id_, str):
            msg = "id: expected a string"
            raise InvalidTypeError(msg)
        checked = check_name(id_, "id", self.limits)
        try:
            found: MemoryEntry = await self.memory.get_memory(
                **self.owner, memory_id=checked
            )
        except NotFoundError:
            raise InvalidArgumentError(_NO_MEMORY) from None
        return found

    async def show(self, entry: MemoryEntry) -> dict[str, Any]:
        """Return a memory as JSON values; its text is cut if it is long."""
        pieces, _ = await shown([entry], "", self.look)
        if pieces:
            return pieces[0]
        # Its labels alone are too long.
        return as_json(Piece(MemoryEntry(_TOO_LONG, id=entry.id)), self.look)


def whole(
    given: Mapping[str, Any], name: str, default: int, low: int, high: int
) -> int:
    """Return an argument that is a whole number in a range.

    Raises:
        InvalidTypeError: It is not a whole number.
        InvalidArgumentError: It is outside the range.
    """
    value = given.get(name, default)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value != int(value):
        msg = f"{name}: expected a whole number"
        raise InvalidTypeError(msg)
    if not low <= value <= high:
        msg = f"{name}: must be from {low} to {high}"
        raise InvalidArgumentError(msg)
    return int(value)
