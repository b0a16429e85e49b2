"""The base class of tools that write memories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vecall.errors import InvalidArgumentError, InvalidTypeError
from vecall.protocols import MemoryProtocol
from vecall.tools.base import MemoryTool, OnMissing
from vecall.validation import check_name

SOURCE = "tool"
"""The source of memories that a model wrote."""

IMPORTANCE: dict[str, Any] = {
    "type": "number",
    "description": "How much it matters, from 0 to 1",
    "minimum": 0,
    "maximum": 1,
}
"""The schema of the argument `importance`."""


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
    """Return the argument `text`, which must be a string and not blank.

    Raises:
        InvalidTypeError: The argument is missing or not a string.
        InvalidArgumentError: The argument is blank.
    """
    text = given.get("text")
    if not isinstance(text, str):
        msg = "text: expected a string"
        raise InvalidTypeError(msg)
    if not text.strip():
        msg = "text: must not be blank"
        raise InvalidArgumentError(msg)
    return text
