"""`update_memory`: the model corrects a memory."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

from vecall.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    NotFoundError,
    WriteRejectedError,
)
from vecall.tools.base import Answer, Schema
from vecall.tools.writing import IMPORTANCE, SOURCE, WritingTool, checked_text
from vecall.validation import check_name

_NOT_UPDATED = {"status": "not_updated"}


class UpdateMemory(WritingTool):
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
        "importance": IMPORTANCE,
    }
    _required = ("id", "text")
    _without_memory: ClassVar[Answer] = _NOT_UPDATED
    _needs = ("get_memory", "update_memory")

    async def _answer(
        self, memory: Any, given: Mapping[str, Any], _turn: Hashable, /
    ) -> dict[str, Any]:
        if not isinstance(given.get("id"), str):
            msg = "id: expected a string"
            raise InvalidTypeError(msg)
        text = checked_text(given)
        which = {
            "app_name": self.app_name,
            "user_id": self.user_id,
            "memory_id": check_name(given["id"], "id", self._limits),
        }
        changes = {"content": text, "author": self._author, "source": SOURCE}
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
