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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from vecall.content import to_valid_utf8
from vecall.ingest.parts import is_spoken, is_user
from vecall.system import open_to_read
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

_SAID = ("user", "assistant")  # lines of Claude Code
_REMINDER = "<system-reminder>", "</system-reminder>"
_TIMESTAMP = "<timestamp>", "</timestamp>"
_QUERY = "<user_query>", "</user_query>"
_ADDED = "<hook_context>", "</hook_context>"  # by hooks, to a prompt of Gemini CLI
# What Claude Code writes in the name of the user.
_NOT_SAID = (
    "<command-",
    "<local-command-",
    "<bash-",
    "<task-notification>",
    "[Request interrupted",
    "Caveat: The messages below",
)
# Lines of Copilot CLI.
_COPILOT = ("session.start", "user.message", "assistant.message")
# What Codex puts before the first prompt in the name of the user.
_NOT_SAID_IN_CODEX = ("<", "# AGENTS.md")
_NO_ANSWER = "[no response text]"  # of Gemini CLI


class TranscriptError(ValueError):
    """A transcript cannot be read; the message has no path and no text."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What the user or the assistant said; `metadata` has agent, folder and branch."""

    id: str  # the same each time the transcript is read
    author: str  # "user" or "assistant"
    text: str
    timestamp: str | None  # in ISO 8601 with an offset
    metadata: dict[str, str] = field(default_factory=dict)


def find_transcript(given: str | None, session_id: str | None) -> Path | None:
    """Return the path of a transcript; Cursor's is found by the session."""
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
    """What was read of a transcript."""

    turns: list[Turn]
    unread: int  # bytes before the last MOST_BYTES, or after the time was over


def read_turns(path: Path, left: Callable[[], float] = lambda: math.inf) -> Transcript:
    """Return the turns of a regular file; half of the seconds left are for storing."""
    turns: list[Turn] = []
    spare: list[Turn] = []  # Codex' messages to the model, if it wrote no events
    file = open_to_read(path)
    with os.fdopen(file, "rb") as stream:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode):
            raise TranscriptError("the transcript is not a regular file")
        storing = left() / 2
        at = max(0, about.st_size - MOST_BYTES)
        if at:  # to the first whole line
            stream.seek(at)
            at += len(stream.readline())
        unread = at
        while line := stream.readline():
            if left() < storing:
                unread += max(about.st_size - at, 0)
                break
            if len(line) <= MOST_LINE_BYTES and line.strip():
                found = turns_of_line(line, at)
                kept = spare if found.is_spare else turns
                kept += [_with_cut_text(turn) for turn in found.turns]
            at += len(line)
    return Transcript(turns or spare, unread)


def prompt_of_payload(fields: Mapping[str, Any]) -> str:
    """Return the prompt in the input of a hook; "" without one."""
    text = to_valid_utf8(_text_of(fields.get("prompt")))
    return without_blocks(text, *_ADDED).strip()


def turns_of_payload(fields: Mapping[str, Any]) -> list[Turn]:
    """Return the turns in the input of a hook, as of Gemini CLI and opencode."""
    turns: list[Turn] = []
    said = fields.get("turns")
    for each in said if isinstance(said, list) else ():
        if isinstance(each, dict) and is_spoken(each.get("role")):
            about = {**each, "cwd": fields.get("cwd")}
            text, named = _text_of(each.get("text")).strip(), str(each.get("id"))
            turns.append(_turn_of_entry(about, named, each["role"], text, "opencode"))
    answer = fields.get("prompt_response")
    asked = prompt_of_payload(fields) if isinstance(answer, str) else None
    for author, said in ("user", asked), ("assistant", answer):
        text = _text_of(said).strip()
        moment = f"{fields.get('session_id')} {fields.get('timestamp')}"
        named = _hashed_turn_id(moment, author, text)
        turns.append(_turn_of_entry(fields, named, author, text, "gemini-cli"))
    return [_with_cut_text(e) for e in turns if e.text and e.text != _NO_ANSWER]


class LineTurns(NamedTuple):
    """What one line of a transcript says, with whole texts.

    Spare are Codex' messages to the model, which count if it wrote no events. Known is
    a line of the form of one of the agents.
    """

    turns: list[Turn]
    session_id: str | None = None  # if the line names it
    is_spare: bool = False
    is_known: bool = True


def turns_of_line(line: bytes, at: int) -> LineTurns:
    """Return the turns of a line at an offset, whatever agent has written it."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        entry = None
    if not isinstance(entry, dict):
        return LineTurns([], is_known=False)
    session, payload = entry.get("sessionId"), entry.get("payload")
    data = entry.get("data")
    if isinstance(data, dict) and str(entry.get("type")) in _COPILOT:
        session = data.get("sessionId")
        return LineTurns([*_copilot_turns(entry, at)], _name_or_none(session))
    if isinstance(payload, dict):
        if entry.get("type") == "session_meta":
            session = payload.get("id")
        turns = [*_codex_event(entry)]
        spare = [] if turns else [*_codex_item(entry)]
        return LineTurns(turns or spare, _name_or_none(session), bool(spare))
    if entry.get("type") in _SAID and isinstance(entry.get("message"), dict):
        return LineTurns([*_claude_code(entry)], _name_or_none(session))
    if is_spoken(entry.get("role")) and isinstance(entry.get("message"), dict):
        return LineTurns([*_cursor_turns(entry, at)])
    return LineTurns([], _name_or_none(session), is_known=session is not None)


def _name_or_none(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _claude_code(entry: Mapping[str, Any]) -> Iterator[Turn]:
    skipped = ("isMeta", "isSidechain", "isCompactSummary", "isApiErrorMessage")
    message, uuid = entry.get("message"), entry.get("uuid")
    if not isinstance(message, dict) or not isinstance(uuid, str):
        return
    if any(entry.get(name) for name in skipped):
        return
    text = without_blocks(_text_of(message.get("content")), *_REMINDER).strip()
    if text and not text.startswith(_NOT_SAID):
        yield _turn_of_entry(entry, uuid, entry["type"], text, "claude-code")


def _codex_event(entry: Mapping[str, Any]) -> Iterator[Turn]:
    authors = {"user_message": "user", "agent_message": "assistant"}
    payload = entry["payload"]
    author = authors.get(str(payload.get("type")))
    text = payload.get("message")
    if entry.get("type") == "event_msg" and author and isinstance(text, str):
        yield from _codex_turns(entry, author, text.strip())


def _codex_item(entry: Mapping[str, Any]) -> Iterator[Turn]:
    payload = entry["payload"]
    author = payload.get("role")
    if entry.get("type") != "response_item" or payload.get("type") != "message":
        return
    text = _text_of(payload.get("content")).strip()
    injected = is_user(author) and text.startswith(_NOT_SAID_IN_CODEX)
    if is_spoken(author) and not injected:
        yield from _codex_turns(entry, str(author), text)


def _codex_turns(entry: Mapping[str, Any], author: str, text: str) -> Iterator[Turn]:
    if text:
        named = _hashed_turn_id(str(entry.get("timestamp")), author, text)
        yield _turn_of_entry(entry, named, author, text, "codex")


def _copilot_turns(entry: Mapping[str, Any], offset: int) -> Iterator[Turn]:
    data, author = entry["data"], entry["type"].partition(".")[0]
    text = _text_of(data.get("content")).strip()
    # Skills and commands speak in the name of the user, subagents in a tool call.
    said = data.get("source") in (None, "user") and not data.get("parentToolCallId")
    if text and said:  # the line of a start has no content
        named = _name_or_none(entry.get("id"))
        named = named or _hashed_turn_id(str(offset), author, text)
        yield _turn_of_entry(entry, named, author, text, "copilot-cli")


def _cursor_turns(entry: Mapping[str, Any], offset: int) -> Iterator[Turn]:
    message = entry.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    text = without_blocks(_text_of(content), *_TIMESTAMP).strip()
    begin, end = _QUERY
    if text.startswith(begin) and text.endswith(end):
        text = text[len(begin) : -len(end)].strip()
    if text:
        # Lines have neither ids nor times; the file only grows, so offsets stay.
        named = _hashed_turn_id(str(offset), str(entry["role"]), text)
        yield _turn_of_entry(entry, named, str(entry["role"]), text, "cursor")


def _turn_of_entry(
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
        text=to_valid_utf8(text),
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


def _hashed_turn_id(*parts: str) -> str:
    data = "\0".join(parts).encode("utf-8", "replace")
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _with_cut_text(turn: Turn) -> Turn:
    more = len(turn.text) - MOST_TEXT_CHARACTERS
    if more <= 0:
        return turn
    half = MOST_TEXT_CHARACTERS // 2
    cut = f"{turn.text[:half]}\n[{more} more characters]\n{turn.text[-half:]}"
    return replace(turn, text=cut)
