"""`remember`: the model stores a memory."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

from vecall.errors import WriteRejectedError
from vecall.tools.any_service import taken
from vecall.tools.base import Answer, Schema
from vecall.tools.writing import IMPORTANCE, WritingTool, checked_text
from vecall.validation import check_name


class Remember(WritingTool):
    """The tool `remember(text, kind, importance)`.

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

    name = "remember"
    description = (
        "Remember one fact, preference or decision of the user for later conversations."
    )
    _properties: ClassVar[Schema] = {
        "text": {
            "type": "string",
            "description": "What to remember, as a sentence that is clear by itself",
        },
        "kind": {
            "type": "string",
            "description": 'What it is: "fact", "preference" or "decision"',
        },
        "importance": IMPORTANCE,
    }
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
        try:
            ids = await memory.add_memory(
                app_name=self.app_name,
                user_id=self.user_id,
                memories=[entry],
                **taken(memory.add_memory, {"restore": True}),
            )
        except WriteRejectedError:
            ids = []
        if ids is None:
            return {"status": "remembered"}  # this service returns no ids
        if not ids or ids[0] is None:
            return dict(self._without_memory)
        return {"status": "remembered", "id": ids[0]}
