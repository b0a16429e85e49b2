"""The result of one check of a file or a database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "note", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    Attributes:
        level: The severity; "error": data is damaged or unreadable, or users are not
            held apart.
        about: The subject of the check.
        message: The result, and the action to take.
    """

    level: Level
    about: str
    message: str


def old_checksums(count: int) -> str:
    """Return the part of a message about checksums of an earlier spelling."""
    return f", {count} of them one of an earlier release" if count else ""
