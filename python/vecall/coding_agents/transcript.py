"""Reads the turns of a session from the transcripts of Claude Code, Codex and Cursor.

A transcript is a file of JSON lines that the agent appends to. Only what the user and
the assistant said is a turn; thoughts, tool calls, tool results and what the agent put
into the context itself are not. Each line is recognised by its own form, so no option
names the agent. The formats are not documented by their makers, except that of Codex,
whose source is public; a line of another form is skipped.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from vecall.content import to_valid_utf8
from vecall.text import without_blocks

MOST_BYTES = 32 * 1024 * 1024
"""Of a longer transcript the end is read; earlier hooks have read the beginning, unless
they were installed later."""

MOST_LINE_BYTES = 4 * 1024 * 1024
"""A longer line is skipped: it holds an image or the output of a tool."""

MOST_TEXT_CHARACTERS = 32_000
"""Of a longer text the beginning and the end are kept, with a note between them.

A hook has a few seconds, so it cannot store all of a text in passages.
"""

_ROLES = ("user", "assistant")
_REMINDER = "<system-reminder>", "</system-reminder>"
_TIMESTAMP = "<timestamp>", "</timestamp>"
_QUERY = "<user_query>", "</user_query>"
# What Claude Code writes in the name of the user.
_NOT_SAID = (
    "<command-",
    "<local-command-",
    "<bash-",
    "<task-notification>",
    "[Request interrupted",
    "Caveat: The messages below",
)
# What Codex puts before the first prompt in the name of the user.
_NOT_SAID_IN_CODEX = ("<", "# AGENTS.md")


class TranscriptError(ValueError):
    """A transcript cannot be read; the message has no path and no text."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What the user or the assistant said.

    Attributes:
        id: Unique in the session, and the same each time the transcript is read.
        author: "user" or "assistant".
        text: What was said.
        timestamp: When, in ISO 8601 with an offset; None if the transcript lacks it.
        metadata: The agent, and the folder and branch if they are known.
    """

    id: str
    author: str
    text: str
    timestamp: str | None
    metadata: dict[str, str] = field(default_factory=dict)


def find_transcript(given: str | None, session_id: str | None) -> Path | None:
    """Return the path of a transcript; None if there is none.

    Cursor's command line does not name the transcript. It is then looked up by the
    session below `~/.cursor/projects`.
    """
    if given is not None:
        return Path(given).expanduser()
    if session_id is None or not re.fullmatch(r"[A-Za-z0-9_-]{8,64}", session_id):
        return None
    projects = Path("~/.cursor/projects").expanduser()
    for name in (f"{session_id}.jsonl", f"{session_id}/{session_id}.jsonl"):
        for found in projects.glob(f"*/agent-transcripts/{name}"):
            return found
    return None


class Transcript(NamedTuple):
    """What was read of a transcript.

    Attributes:
        turns: The turns in order.
        unread: The bytes that were not read: before the last `MOST_BYTES`, or after
            the time was over.
    """

    turns: list[Turn]
    unread: int


def read_turns(path: Path, left: Callable[[], float] = lambda: math.inf) -> Transcript:
    """Return the turns of a transcript.

    Args:
        path: The transcript.
        left: Returns the seconds that are left. Half of them are for reading, so that
            what was read can be stored.

    Raises:
        TranscriptError: The path is not that of a regular file.
        OSError: The file cannot be read.
    """
    turns: list[Turn] = []
    spare: list[Turn] = []  # Codex' messages to the model, if it wrote no events
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(file, "rb") as stream:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode):
            msg = "the transcript is not a regular file"
            raise TranscriptError(msg)
        storing = left() / 2
        unread = at = _seek_end(stream, about.st_size)
        while line := stream.readline():
            if left() < storing:
                unread += max(about.st_size - at, 0)
                break
            if len(line) <= MOST_LINE_BYTES and line.strip():
                _read_line(line, at, turns, spare)
            at += len(line)
    return Transcript(turns or spare, unread)


def _seek_end(stream: BinaryIO, size: int) -> int:
    """Go to the first whole line of the last `MOST_BYTES`; return its offset."""
    at = max(0, size - MOST_BYTES)
    if at:
        stream.seek(at)
        at += len(stream.readline())
    return at


def _read_line(line: bytes, at: int, turns: list[Turn], spare: list[Turn]) -> None:
    """Append the turns of a line, whatever agent has written it."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return
    if not isinstance(entry, dict):
        return
    if isinstance(entry.get("payload"), dict):
        turns += _codex_event(entry)
        spare += _codex_item(entry)
    elif entry.get("type") in _ROLES:
        turns += _claude_code(entry)
    elif entry.get("role") in _ROLES:
        turns += _cursor(entry, at)


def _claude_code(entry: Mapping[str, Any]) -> Iterator[Turn]:
    skipped = ("isMeta", "isSidechain", "isCompactSummary", "isApiErrorMessage")
    message, uuid = entry.get("message"), entry.get("uuid")
    if not isinstance(message, dict) or not isinstance(uuid, str):
        return
    if any(entry.get(name) for name in skipped):
        return
    text = without_blocks(_text_of(message.get("content")), *_REMINDER).strip()
    if text and not text.startswith(_NOT_SAID):
        yield _turn(entry, uuid, entry["type"], text, "claude-code")


def _codex_event(entry: Mapping[str, Any]) -> Iterator[Turn]:
    authors = {"user_message": "user", "agent_message": "assistant"}
    payload = entry["payload"]
    author = authors.get(str(payload.get("type")))
    text = payload.get("message")
    if entry.get("type") == "event_msg" and author and isinstance(text, str):
        yield from _codex(entry, author, text.strip())


def _codex_item(entry: Mapping[str, Any]) -> Iterator[Turn]:
    payload = entry["payload"]
    author = payload.get("role")
    if entry.get("type") != "response_item" or payload.get("type") != "message":
        return
    text = _text_of(payload.get("content")).strip()
    injected = author == "user" and text.startswith(_NOT_SAID_IN_CODEX)
    if author in _ROLES and not injected:
        yield from _codex(entry, str(author), text)


def _codex(entry: Mapping[str, Any], author: str, text: str) -> Iterator[Turn]:
    if text:
        named = _hashed(str(entry.get("timestamp")), author, text)
        yield _turn(entry, named, author, text, "codex")


def _cursor(entry: Mapping[str, Any], offset: int) -> Iterator[Turn]:
    message = entry.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    text = without_blocks(_text_of(content), *_TIMESTAMP).strip()
    begin, end = _QUERY
    if text.startswith(begin) and text.endswith(end):
        text = text[len(begin) : -len(end)].strip()
    if text:
        # Lines have neither ids nor times; the file only grows, so offsets stay.
        named = _hashed(str(offset), str(entry["role"]), text)
        yield _turn(entry, named, str(entry["role"]), text, "cursor")


def _turn(
    entry: Mapping[str, Any], named: str, author: str, text: str, agent: str
) -> Turn:
    metadata = {"agent": agent}
    for name, key in (("cwd", "folder"), ("gitBranch", "branch")):
        value = entry.get(name)
        if isinstance(value, str) and 0 < len(value) <= 1_024:
            metadata[key] = to_valid_utf8(value)
    moment = entry.get("timestamp")
    return Turn(
        id=to_valid_utf8(named)[:256],
        author=author,
        text=_cut(to_valid_utf8(text)),
        timestamp=moment if isinstance(moment, str) else None,
        metadata=metadata,
    )


def _text_of(content: object) -> str:
    """Return the text blocks of a message; Codex names them input and output text."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = [
        block.get("text")
        for block in content
        if isinstance(block, dict)
        and block.get("type") in ("text", "input_text", "output_text")
    ]
    return "\n".join(text for text in texts if isinstance(text, str))


def _hashed(*parts: str) -> str:
    data = "\0".join(parts).encode("utf-8", "replace")
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _cut(text: str) -> str:
    more = len(text) - MOST_TEXT_CHARACTERS
    if more <= 0:
        return text
    half = MOST_TEXT_CHARACTERS // 2
    return f"{text[:half]}\n[{more} more characters]\n{text[-half:]}"
