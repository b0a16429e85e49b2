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
from vecall.errors import InvalidArgumentError
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


def read_demo(app_name: str) -> list[Conversation]:
    """Return the conversations that come with vecall; questions with an answer."""
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
                if asked["user_id"] == user and asked["evidence"]
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
