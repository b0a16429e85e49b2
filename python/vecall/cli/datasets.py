"""Conversations over many sessions, with questions and the turns that answer them.

LoCoMo is Maharana et al., "Evaluating Very Long-Term Conversational Memory of LLM
Agents" (2024). It is not part of vecall; its reader takes a path. The demo's
conversations are.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import count
from pathlib import Path
from typing import Any

from vecall.demo import load_conversations
from vecall.errors import ConfigError, InvalidArgumentError
from vecall.types import Event, Session

_EVIDENCE = re.compile(r"D(\d+):(\d+)")  # some entries hold several in one string
_TURN_SECONDS = 60.0  # turns carry no time of their own, only their session does


@dataclass(frozen=True, slots=True)
class Question:
    """A question, its category, and the events that answer it."""

    text: str
    category: str
    evidence: frozenset[str]


@dataclass(frozen=True, slots=True)
class Conversation:
    """One long conversation: the sessions of one user, and questions about them."""

    user_id: str
    sessions: list[Session]
    questions: list[Question]


def read_locomo(path: Path, app_name: str) -> list[Conversation]:
    """Return the conversations of a LoCoMo file.

    Raises:
        InvalidArgumentError: The file has another shape.
    """
    try:
        samples = json.loads(path.read_text(encoding="utf-8"))
        told = [_conversation(sample, app_name) for sample in samples]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        told = []
    if not any(one.questions for one in told):
        msg = "file: expected LoCoMo's JSON, a list of conversations with questions"
        raise InvalidArgumentError(msg)
    return told


def _conversation(sample: dict[str, Any], app_name: str) -> Conversation:
    told = sample["conversation"]
    user_id = str(sample["sample_id"])
    sessions = []
    known: set[str] = set()
    for number in count(1):
        name = f"session_{number}"
        if f"{name}_date_time" not in told:
            break
        start = _parse_date(told[f"{name}_date_time"])
        events = [
            Event(turn["text"], turn["speaker"], start + i * _TURN_SECONDS, _id(turn))
            for i, turn in enumerate(told.get(name, []))
        ]
        known.update(str(event.id) for event in events)
        sessions.append(Session(app_name, user_id, name, events))
    questions = []
    for asked in sample["qa"]:
        named = [_EVIDENCE.findall(entry) for entry in asked.get("evidence", [])]
        found = {f"D{int(s)}:{int(t)}" for entry in named for s, t in entry} & known
        if found:
            question = str(asked["question"])
            category = str(asked["category"])
            questions.append(Question(question, category, frozenset(found)))
    return Conversation(user_id, sessions, questions)


def read_jsonl(path: Path, app_name: str) -> list[Conversation]:
    """Return the conversations of a file of JSON lines.

    A line with "text" is a turn: user_id, session_id, id, author, timestamp (seconds
    or ISO 8601) and text, in the order of telling. A line with "question" is a question
    to that user's memory: user_id, question, category, and evidence, the list of the
    ids of the turns; an empty list says that nothing answers it.

    Raises:
        InvalidArgumentError: A line has another shape, or names an unknown turn.
    """
    turns: dict[str, dict[str, list[Event]]] = {}
    questions: dict[str, list[Question]] = {}
    ids: dict[str, set[str]] = {}
    line = 0
    try:
        # JSON may hold other ends of lines in its strings; splitlines would cut there.
        for text in path.read_text(encoding="utf-8").split("\n"):
            line += 1
            if not text.strip():
                continue
            told = json.loads(text)
            user = str(told["user_id"])
            if "question" in told:
                evidence = frozenset(map(str, _list(told["evidence"])))
                asked = Question(str(told["question"]), str(told["category"]), evidence)
                questions.setdefault(user, []).append(asked)
                continue
            event = Event(
                str(told["text"]), told["author"], told["timestamp"], str(told["id"])
            )
            if event.id in ids.setdefault(user, set()):
                raise ValueError
            ids[user].add(str(event.id))
            sessions = turns.setdefault(user, {})
            sessions.setdefault(str(told["session_id"]), []).append(event)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        msg = (
            f"file, line {max(line, 1)}: expected a turn with user_id, session_id, a "
            "new id, author, timestamp and text, or a question with user_id, category "
            "and evidence"
        )
        raise InvalidArgumentError(msg) from None
    for user, asked_of in questions.items():
        for asked in asked_of:
            if user not in turns or not asked.evidence <= ids[user]:
                msg = "file: a question names a user or a turn that is not in it"
                raise InvalidArgumentError(msg)
    if not questions:
        msg = "file: expected JSON lines of turns and of questions"
        raise InvalidArgumentError(msg)
    return [
        Conversation(
            user,
            [Session(app_name, user, name, events) for name, events in told.items()],
            questions.get(user, []),
        )
        for user, told in turns.items()
    ]


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError
    return value


def chosen(conversations: list[Conversation], given: str) -> list[Conversation]:
    """Return those that a text such as "2-9" or "0,3" names, counted from 0.

    Raises:
        ConfigError: Another text, or a number that is too large.
    """
    numbers: list[int] = []
    most = len(conversations) - 1
    try:
        for part in given.split(","):
            first, _, last = part.partition("-")
            begin, end = int(first), int(last or first)
            if not 0 <= begin <= end <= most:
                raise ValueError
            numbers += range(begin, end + 1)
    except ValueError:
        msg = f"--conversations: numbers from 0 to {most}, such as 2-9 or 0,3"
        raise ConfigError(msg) from None
    return [conversations[number] for number in dict.fromkeys(numbers)]


def read_demo(app_name: str, *, unanswerable: bool = False) -> list[Conversation]:
    """Return the conversations that come with vecall.

    Args:
        app_name: The app of their sessions.
        unanswerable: Whether questions without evidence are among them.
    """
    told = load_conversations()
    users = dict.fromkeys(session["user_id"] for session in told["sessions"])
    return [
        Conversation(
            user,
            [
                Session(
                    app_name,
                    user,
                    session["id"],
                    [
                        Event(
                            turn["text"], turn["author"], turn["timestamp"], _id(turn)
                        )
                        for turn in session["events"]
                    ],
                )
                for session in told["sessions"]
                if session["user_id"] == user
            ],
            [
                Question(asked["question"], asked["kind"], frozenset(asked["evidence"]))
                for asked in told["questions"]
                if asked["user_id"] == user and (asked["evidence"] or unanswerable)
            ],
        )
        for user in users
    ]


def _id(turn: dict[str, Any]) -> str:
    return str(turn.get("dia_id") or turn["id"])


def _parse_date(text: str) -> float:
    """Read "1:56 pm on 8 May, 2023"; the data names no time zone, so UTC it is."""
    date = datetime.strptime(text, "%I:%M %p on %d %B, %Y").replace(tzinfo=timezone.utc)
    return date.timestamp()
