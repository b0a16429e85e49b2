"""`update_memory`: the model corrects what it remembers."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

from vecall.config import check_name
from vecall.contract import MemoryProtocol
from vecall.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    NotFoundError,
    WriteRejectedError,
)
from vecall.tools.base import Answer, MemoryTool, OnMissing, Schema
from vecall.tools.remember import SOURCE

_NOT_UPDATED = {"status": "not_updated"}


class UpdateMemory(MemoryTool):
    """The tool `update_memory(id, text, importance)`.

    What the memory said before stays in its history. A corrected memory is marked as
    what `remember` writes: its source is "tool", its author is given here, in code. A
    memory of another trust than `trust` or "unknown" is not the model's to correct:
    `{"status": "not_updated"}`, as for what the write hook refuses.

    Args:
        memory: The memory service; None where there is none.
        app_name: The app.
        user_id: The user.
        author: Who is said to have written the correction.
        trust: Which memories may be corrected beside those of unknown trust.
        on_missing: As in `MemoryTool`.

    Raises:
        InvalidArgumentError: A name that cannot be one.
        ConfigError: Another `on_missing`, or a service without `update_memory`.
    """

    name = "update_memory"
    description = (
        "Correct one memory, by its id, where the user says that it is wrong or no "
        "longer true."
    )
    _properties: ClassVar[Schema] = {
        "id": {"type": "string", "description": "The id of the memory"},
        "text": {
            "type": "string",
            "description": "What it should say, as a sentence that is clear by itself",
        },
        "importance": {
            "type": "number",
            "description": "How much it matters, from 0 to 1",
            "minimum": 0,
            "maximum": 1,
        },
    }
    _required = ("id", "text")
    _without_memory: ClassVar[Answer] = _NOT_UPDATED
    _needs = ("get_memory", "update_memory")

    def __init__(
        self,
        memory: MemoryProtocol | None,
        app_name: str,
        user_id: str,
        *,
        author: str = "agent",
        trust: str = "unknown",
        on_missing: OnMissing = "error",
    ) -> None:
        """Bind the tool to one user, and to one author."""
        super().__init__(memory, app_name, user_id, on_missing=on_missing)
        self._author = check_name(author, "author", self._limits)
        self._trust = check_name(trust, "trust", self._limits)

    async def _answer(
        self, memory: Any, given: Mapping[str, Any], _turn: Hashable, /
    ) -> dict[str, Any]:
        for name in ("id", "text"):
            if not isinstance(given.get(name), str):
                msg = f"{name}: expected a string"
                raise InvalidTypeError(msg)
        if not given["text"].strip():
            msg = "text: must not be blank"
            raise InvalidArgumentError(msg)
        which = {
            "app_name": self.app_name,
            "user_id": self.user_id,
            "memory_id": check_name(given["id"], "id", self._limits),
        }
        changes = {"content": given["text"], "author": self._author, "source": SOURCE}
        if "importance" in given:
            changes["importance"] = given["importance"]
        try:
            known = await memory.get_memory(**which)
            if known.trust not in (None, "unknown", self._trust):
                return dict(_NOT_UPDATED)
            await memory.update_memory(**which, **changes)
        except NotFoundError:
            msg = "id: this user has no such memory"
            raise InvalidArgumentError(msg) from None
        except WriteRejectedError:
            return dict(_NOT_UPDATED)
        return {"status": "updated", "id": given["id"]}
