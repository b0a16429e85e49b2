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
from vecall.tools.writing import IMPORTANCE, WritingTool, checked_text
from vecall.validation import check_name

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
        changes = {"content": text, "author": self._author, "source": self._source}
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
