"""The formats plain, bullets and past_conversations."""

from __future__ import annotations

from vecall.prompts.record import Recalled, shown_scores, shown_time
from vecall.text import indented, speaker, strip_invisible

BULLETS_HEAD = "Relevant prior context:\n"
PAST_HEAD = (
    "The following content is from your previous conversations with the user.\n"
    "They may be useful for answering the user's current query.\n"
    "<PAST_CONVERSATIONS>\n"
)
PAST_TAIL = "\n</PAST_CONVERSATIONS>\n"


def plain(memory: Recalled, scores: bool) -> str:
    """Return the text without invisible characters."""
    return _before(memory, scores, timed=False) + strip_invisible(memory.text)


def bullet(memory: Recalled, scores: bool) -> str:
    """Return "- [time] author: text"."""
    where = _before(memory, scores, timed=True)
    return f"- {where}{speaker(memory.author)}: {indented(memory.text)}"


def turn(memory: Recalled, scores: bool) -> str:
    """Return "Time: …" and "author: text" on lines of their own, as google-adk does."""
    lines = []
    if time := shown_time(memory):
        lines.append(f"Time: {time}")
    if scores and (known := shown_scores(memory)):
        lines.append("Scores: " + _listed(known))
    lines.append(f"{speaker(memory.author)}: {indented(memory.text)}")
    return "\n".join(lines)


def _before(memory: Recalled, scores: bool, *, timed: bool) -> str:
    parts = [shown_time(memory)] if timed else []
    if scores:
        parts.append(_listed(shown_scores(memory)))
    shown = ", ".join(part for part in parts if part)
    return f"[{shown}] " if shown else ""


def _listed(scores: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in scores.items())
