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


def vectors_finding(model: object, memories: int, lacking: int) -> Finding:
    """Return whether memories are searched by words alone, and why.

    Args:
        model: The model of the vectors; None if there are none.
        memories: The number of memories.
        lacking: How many of them have no vector.
    """
    if not lacking:
        message = f"all {memories} memories have one" if memories else "no memories"
        return Finding("ok", "vectors", message)
    if model is None:
        message = (
            f"none: {memories} memories are searched by words alone, as no service "
            "with an embedder wrote here. One adds the vectors in the background, as "
            '"auto" does with vecall[local]; or use `vecall reembed`'
        )
    else:
        message = (
            f"{lacking} of {memories} memories have none and are found by words alone; "
            f"they get one when a service with the embedder of {model} is opened"
        )
    return Finding("note", "vectors", message)
