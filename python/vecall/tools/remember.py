"""`remember`: the model writes down what it should know later."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

from vecall.errors import WriteRejectedError
from vecall.tools.any_service import taken
from vecall.tools.base import Answer, Schema
from vecall.tools.writing import IMPORTANCE, SOURCE, WritingTool, checked_text
from vecall.validation import check_name


class Remember(WritingTool):
    """The tool `remember(text, kind, importance)`.

    Whoever can talk to the model can have it write, so what it writes is marked:
    its source is "tool", and author and trust are what is given here, in code. The same
    text told twice is one memory. A text that was forgotten and is told again is
    remembered again. What the service's write hook refuses gives `{"status":
    "not_remembered"}`; of what it holds back the model learns nothing.

    Args:
        memory: The memory service; None where there is none.
        app_name: The app.
        user_id: The user.
        author: Who is said to have written it.
        trust: How far it is trusted.
        on_missing: As in `MemoryTool`.

    Raises:
        InvalidArgumentError: A name that cannot be one.
        ConfigError: Another `on_missing`.
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
            "source": SOURCE,
            "trust": self._trust,
        }
        # Told anew it is a new wish, so a tombstone does not stand in its way.
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
            return {"status": "remembered"}  # this service names no ids
        if not ids or ids[0] is None:
            return dict(self._without_memory)
        return {"status": "remembered", "id": ids[0]}
