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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from vecall.content import to_valid_utf8
from vecall.ingest.parts import is_spoken_role, is_user_name
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


class PayloadError(ValueError):
    """The input of a hook, or its transcript, is not usable.

    The message has no path and no text of the user.
    """


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
            raise PayloadError("the transcript is not a regular file")
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
                found = turns_of_transcript_line(line, at)
                kept = spare if found.is_spare else turns
                kept += [_cut_text_of_turn(turn) for turn in found.turns]
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
        if isinstance(each, dict) and is_spoken_role(each.get("role")):
            about = {**each, "cwd": fields.get("cwd")}
            text, named = _text_of(each.get("text")), str(each.get("id"))
            turns += _turns_of_entry(about, each["role"], text, "opencode", named)
    answer = fields.get("prompt_response")
    asked = prompt_of_payload(fields) if isinstance(answer, str) else None
    moment = f"{fields.get('session_id')} {fields.get('timestamp')}"
    for author, said in ("user", asked), ("assistant", answer):
        text = _text_of(said)
        turns += _turns_of_entry(fields, author, text, "gemini-cli", at=moment)
    return [_cut_text_of_turn(e) for e in turns if e.text != _NO_ANSWER]


class LineTurns(NamedTuple):
    """What one line of a transcript says, with whole texts.

    Spare are Codex' messages to the model, which count if it wrote no events. Known is
    a line of the form of one of the agents.
    """

    turns: list[Turn]
    session_id: str | None = None  # if the line names it
    is_spare: bool = False
    is_known: bool = True


def turns_of_transcript_line(line: bytes, at: int) -> LineTurns:
    """Return the turns of a line at an offset, whatever agent has written it."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        entry = None
    if not isinstance(entry, dict):
        return LineTurns([], is_known=False)
    session, payload = entry.get("sessionId"), entry.get("payload")
    kind, data, role = entry.get("type"), entry.get("data"), entry.get("role")
    has_message = isinstance(entry.get("message"), dict)
    if isinstance(data, dict) and str(kind) in _COPILOT:
        turns = _copilot_turns(entry, data, at)
        return LineTurns(turns, _agent_name_or_none(data.get("sessionId")))
    if isinstance(payload, dict):
        session = payload.get("id") if kind == "session_meta" else session
        turns = _codex_event_turns(entry, payload)
        spare = [] if turns else _codex_message_turns(entry, payload)
        return LineTurns(turns or spare, _agent_name_or_none(session), bool(spare))
    if kind in _SAID and has_message:
        return LineTurns(_claude_code_turns(entry), _agent_name_or_none(session))
    if is_spoken_role(role) and has_message:
        return LineTurns(_cursor_turns(entry, at))
    return LineTurns([], _agent_name_or_none(session), is_known=session is not None)


def _agent_name_or_none(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _claude_code_turns(entry: Mapping[str, Any]) -> list[Turn]:
    skipped = ("isMeta", "isSidechain", "isCompactSummary", "isApiErrorMessage")
    uuid = entry.get("uuid")
    if not isinstance(uuid, str) or any(entry.get(name) for name in skipped):
        return []
    text = without_blocks(_text_of(entry["message"].get("content")), *_REMINDER).strip()
    if text.startswith(_NOT_SAID):
        return []
    return _turns_of_entry(entry, entry["type"], text, "claude-code", uuid)


def _codex_event_turns(
    entry: Mapping[str, Any], payload: Mapping[str, Any]
) -> list[Turn]:
    authors = {"user_message": "user", "agent_message": "assistant"}
    author, text = authors.get(str(payload.get("type"))), payload.get("message")
    if entry.get("type") != "event_msg" or not author or not isinstance(text, str):
        return []
    return _turns_of_entry(entry, author, text, "codex", at=entry.get("timestamp"))


def _codex_message_turns(
    entry: Mapping[str, Any], payload: Mapping[str, Any]
) -> list[Turn]:
    author, text = payload.get("role"), _text_of(payload.get("content")).strip()
    is_message = (entry.get("type"), payload.get("type")) == (
        "response_item",
        "message",
    )
    injected = is_user_name(author) and text.startswith(_NOT_SAID_IN_CODEX)
    if not is_message or injected or not is_spoken_role(author):
        return []
    return _turns_of_entry(entry, str(author), text, "codex", at=entry.get("timestamp"))


def _copilot_turns(
    entry: Mapping[str, Any], data: Mapping[str, Any], offset: int
) -> list[Turn]:
    # Skills and commands speak in the name of the user, subagents in a tool call.
    if data.get("source") not in (None, "user") or data.get("parentToolCallId"):
        return []
    author, text = entry["type"].partition(".")[0], _text_of(data.get("content"))
    named = _agent_name_or_none(entry.get("id"))
    return _turns_of_entry(entry, author, text, "copilot-cli", named, offset)


def _cursor_turns(entry: Mapping[str, Any], offset: int) -> list[Turn]:
    text = without_blocks(
        _text_of(entry["message"].get("content")), *_TIMESTAMP
    ).strip()
    begin, end = _QUERY
    if text.startswith(begin) and text.endswith(end):
        text = text[len(begin) : -len(end)]
    # Lines have neither ids nor times; the file only grows, so offsets stay.
    return _turns_of_entry(entry, str(entry["role"]), text, "cursor", at=offset)


def _turns_of_entry(
    entry: Mapping[str, Any],
    author: str,
    text: str,
    agent: str,
    named: str | None = None,
    at: object = None,
) -> list[Turn]:
    """Return the turn of an entry, if it says something."""
    # Without a name, its id is made of where or when it was said, by whom, and what.
    text = text.strip()
    if not text:
        return []
    if not named:
        data = "\0".join((str(at), author, text)).encode("utf-8", "replace")
        named = hashlib.blake2b(data, digest_size=16).hexdigest()
    metadata = {"agent": agent}
    for name, key in (("cwd", "folder"), ("gitBranch", "branch")):
        value = entry.get(name)
        if isinstance(value, str) and 0 < len(value) <= 1_024:
            metadata[key] = to_valid_utf8(value)
    moment = entry.get("timestamp")
    time = moment if isinstance(moment, str) else None
    named = to_valid_utf8(named)[:256]
    return [Turn(named, author, to_valid_utf8(text), time, metadata)]


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


def _cut_text_of_turn(turn: Turn) -> Turn:
    more = len(turn.text) - MOST_TEXT_CHARACTERS
    if more <= 0:
        return turn
    half = MOST_TEXT_CHARACTERS // 2
    cut = f"{turn.text[:half]}\n[{more} more characters]\n{turn.text[-half:]}"
    return replace(turn, text=cut)
