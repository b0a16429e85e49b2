"""Turns that a conversation really has, and that cost a memory its neighbours before.

Each is said between two ordinary turns, through every door. The neighbours must be
stored and found, and the turn itself as its outcome says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from helpers.paths import DOCS

Outcome = Literal["stored", "passages", "no_text", "role"]
"""Stored whole, stored as passages, or left out with this reason."""

PHOTO = "data:image/png;base64," + "iVBORw0KGgo" * 127_000
"""A photo of 1.4 MB as chat histories carry it."""

BEFORE = "Before it I said that I keep a zebra."
AFTER = "After it I said that my favourite colour is teal."
NEIGHBOURS = {"zebra": BEFORE, "favourite colour teal": AFTER}
"""What finds the neighbours, and what they say."""


class AwkwardTurn(NamedTuple):
    """One turn in the shape of OpenAI's chat messages.

    Attributes:
        name: What it is, in the table of the documentation.
        message: The message: role, content, and more.
        outcome: What becomes of it.
        finds: A question that finds it, and a text that the memory found has.
    """

    name: str
    message: Mapping[str, Any]
    outcome: Outcome
    finds: tuple[str, str] | None = None

    @property
    def text(self) -> str | None:
        """The content if it is a text; None for parts and for no content."""
        content = self.message.get("content")
        return content if isinstance(content, str) else None


def _lines(count: int) -> str:
    lines = [
        f"2026-01-01 12:{at // 60 % 60:02}:{at % 60:02} INFO worker {at % 7}, job {at}"
        for at in range(count)
    ]
    lines[count // 2] = "2026-01-01 13:00:00 ERROR the okapi gateway refused a request"
    lines[-1] = "2026-01-01 14:00:00 FATAL the narwhal gateway went down"
    return "\n".join(lines)


def _story(words: int) -> str:
    names = "river mountain village harbour winter morning lantern orchard".split()
    text = " ".join(names[at * at % 8] for at in range(words - 9))
    return f"{text}. In the end the lighthouse keeper found his brass compass."


_CALL = {"id": "c1", "type": "function"}
_NAMED = {"name": "search_hotels", "arguments": '{"city": "Oslo"}'}

AWKWARD_TURNS = [
    AwkwardTurn(
        "a text above max_text_bytes",
        {"role": "user", "content": _story(60_000)},
        "passages",
        ("lighthouse keeper brass compass", "brass compass"),
    ),
    AwkwardTurn(
        "a photo of 1.4 MB with a text",
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "This is my dog Rex on the beach."},
                {"type": "image_url", "image_url": {"url": PHOTO}},
            ],
        },
        "stored",
        ("dog Rex beach", "Rex"),
    ),
    AwkwardTurn(
        "content None with a tool call",
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{**_CALL, "function": _NAMED}],
        },
        "no_text",
    ),
    AwkwardTurn("an empty reply", {"role": "assistant", "content": ""}, "no_text"),
    AwkwardTurn(
        "a lone surrogate",
        {"role": "user", "content": "The walrus \ud83d is my mascot."},
        "stored",
        ("walrus mascot", "walrus"),
    ),
    AwkwardTurn(
        "a NUL",
        {"role": "user", "content": "The pelican \0 is my mascot."},
        "stored",
        ("pelican mascot", "pelican"),
    ),
    AwkwardTurn(
        "a system message",
        {"role": "system", "content": "Never reveal the discount code wombat."},
        "role",
    ),
    AwkwardTurn(
        "a tool call beside a text",
        {
            "role": "assistant",
            "content": "Let me ask the booking desk about Bergen.",
            "tool_calls": [{**_CALL, "function": _NAMED}],
        },
        "stored",
        ("booking desk Bergen", "Bergen"),
    ),
    AwkwardTurn(
        "the result of a tool",
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": '{"hotels": ["the wombat inn"]}',
        },
        "role",
    ),
    AwkwardTurn(
        "10,000 lines of a log",
        {"role": "user", "content": _lines(10_000)},
        "passages",
        ("okapi gateway refused", "okapi gateway"),
    ),
    AwkwardTurn(
        "a story of 3,000 words",
        {"role": "user", "content": _story(3_000)},
        "stored",
        ("lighthouse keeper brass compass", "brass compass"),
    ),
    AwkwardTurn(
        "an emoji",
        {"role": "user", "content": "\U0001f99c"},
        "stored",
    ),
]
"""The turns in the order of the table."""


def conversation(turn: AwkwardTurn) -> Sequence[Mapping[str, Any]]:
    """Return the turn between its neighbours, as OpenAI's chat messages."""
    return [
        {"role": "user", "content": BEFORE},
        turn.message,
        {"role": "user", "content": AFTER},
    ]


def told() -> dict[tuple[str, str], str]:
    """Return the page's cells by door and turn; a row is for one or several doors."""
    text = (DOCS / "reference/awkward-turns.md").read_text("utf-8")
    lines = text.partition("## Doors\n")[2].splitlines()
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in lines
        if line.startswith("| ")
    ]
    (_, *turns), *rows = rows
    return {
        (door, turn): cell
        for doors, *cells in rows
        for door in doors.split("; ")
        for turn, cell in zip(turns, cells, strict=True)
    }
