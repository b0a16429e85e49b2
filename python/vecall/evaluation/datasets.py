"""Conversations over many sessions, with questions and the turns that answer them.

LoCoMo is Maharana et al., "Evaluating Very Long-Term Conversational Memory of LLM
Agents" (2024); BEAM is Tavakoli et al., "Beyond a Million Tokens: Benchmarking and
Enhancing Long-Term Memory in LLMs" (2025). They are not part of vecall; their readers
take a path. The demo's conversations are.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from itertools import count
from pathlib import Path
from typing import Any

from vecall.demo import load_conversations
from vecall.errors import ConfigError, InvalidArgumentError
from vecall.types import Event, MemoryEntry, Session

_EVIDENCE = re.compile(r"D(\d+):(\d+)")  # some entries hold several in one string
_TURN_SECONDS = 60.0  # turns carry no time of their own, only their session does


@dataclass(frozen=True, slots=True)
class Question:
    """A question and what answers it.

    Attributes:
        text: The question.
        category: A name of the data set's own.
        evidence: The ids of all events and memories that answer it, or a part of it.
        groups: The pieces of evidence, where one piece may be found in several places:
            a piece counts as found when any of its ids is found. Empty: each id of
            `evidence` is a piece.
    """

    text: str
    category: str
    evidence: frozenset[str]
    groups: tuple[frozenset[str], ...] = ()

    @property
    def pieces(self) -> tuple[frozenset[str], ...]:
        """The pieces of evidence, each as the ids of which one is enough."""
        return self.groups or tuple(frozenset({one}) for one in sorted(self.evidence))


@dataclass(frozen=True, slots=True)
class Conversation:
    """The sessions and memories of one user, and questions about them.

    Attributes:
        user_id: The user.
        sessions: What `add_session_to_memory` takes.
        questions: The questions.
        memories: What `add_memory` takes; each has an id.
    """

    user_id: str
    sessions: list[Session]
    questions: list[Question]
    memories: list[MemoryEntry] = field(default_factory=list)


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


def read_beam(path: Path, app_name: str) -> list[Conversation]:
    """Return the chats of a file of BEAM in its short form.

    That is {"conversations": [{"user", "sessions": [{"id", "events": [[id, author,
    seconds, text], …]}], "questions": [{"text", "category", "groups": [[id, …], …]}],
    "unanswerable": [text, …]}, …]}. Of the ids of a group one is enough.

    Raises:
        InvalidArgumentError: The file has another shape.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return [_beam(chat, app_name) for chat in document["conversations"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        msg = "file: expected BEAM's JSON, an object with conversations"
        raise InvalidArgumentError(msg) from None


def _beam(chat: dict[str, Any], app_name: str) -> Conversation:
    user = str(chat["user"])
    sessions = [
        Session(
            app_name,
            user,
            str(session["id"]),
            [
                Event(text, author, seconds, str(name))
                for name, author, seconds, text in session["events"]
            ],
        )
        for session in chat["sessions"]
    ]
    questions = []
    for asked in chat["questions"]:
        groups = tuple(frozenset(map(str, _list(ids))) for ids in asked["groups"])
        evidence = frozenset[str]().union(*groups)
        category = str(asked["category"])
        questions.append(Question(str(asked["text"]), category, evidence, groups))
    questions += [
        Question(str(text), "unanswerable", frozenset())
        for text in _list(chat["unanswerable"])
    ]
    return Conversation(user, sessions, questions)


class _Lines:
    """What the lines of one user say."""

    def __init__(self) -> None:
        self.sessions: dict[str, list[Event]] = {}
        self.memories: list[MemoryEntry] = []
        self.questions: list[Question] = []
        self.ids: set[str] = set()

    def add(self, told: dict[str, Any]) -> None:
        if "question" in told:
            evidence = frozenset(map(str, _list(told["evidence"])))
            asked = Question(str(told["question"]), str(told["category"]), evidence)
            self.questions.append(asked)
            return
        name = str(told["id"])
        if name in self.ids:
            raise ValueError
        self.ids.add(name)
        if "memory" in told:
            self.memories.append(
                MemoryEntry(
                    str(told["memory"]),
                    id=name,
                    timestamp=told["timestamp"],
                    kind=told.get("kind"),
                )
            )
            return
        event = Event(str(told["text"]), told["author"], told["timestamp"], name)
        self.sessions.setdefault(str(told["session_id"]), []).append(event)


def read_jsonl(path: Path, app_name: str) -> list[Conversation]:
    """Return the conversations of a file of JSON lines.

    A line with "text" is a turn: user_id, session_id, id, author, timestamp (seconds
    or ISO 8601) and text, in the order of the conversation. A line with "memory" is a
    memory of its own: user_id, id, timestamp, memory, and kind if it has one. A line
    with "question" is a question to that user's memory: user_id, question, category,
    and evidence, the list of the ids of the turns and memories; an empty list says that
    nothing answers it.

    Raises:
        InvalidArgumentError: A line has another shape, or names an unknown turn.
    """
    users: dict[str, _Lines] = {}
    line = 0
    try:
        # JSON may hold other ends of lines in its strings; splitlines would cut there.
        for text in path.read_text(encoding="utf-8").split("\n"):
            line += 1
            if text.strip():
                told = json.loads(text)
                users.setdefault(str(told["user_id"]), _Lines()).add(told)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        msg = (
            f"file, line {max(line, 1)}: expected a turn with user_id, session_id, a "
            "new id, author, timestamp and text, a memory with user_id, a new id, "
            "timestamp and memory, or a question with user_id, category and evidence"
        )
        raise InvalidArgumentError(msg) from None
    if not any(of.questions for of in users.values()):
        msg = "file: expected JSON lines of turns and of questions"
        raise InvalidArgumentError(msg)
    for of in users.values():
        if not all(asked.evidence <= of.ids for asked in of.questions) or not of.ids:
            msg = "file: a question names a user or a turn that is not in it"
            raise InvalidArgumentError(msg)
    return [
        Conversation(
            user,
            [
                Session(app_name, user, name, turns)
                for name, turns in of.sessions.items()
            ],
            of.questions,
            of.memories,
        )
        for user, of in users.items()
    ]


def with_other_half(told: Conversation) -> Conversation:
    """Accept the other half of an exchange as evidence too.

    Where a user's message is evidence, the reply that follows it is accepted, and where
    a reply is, the message before it: an agent that reads either learns the same.
    """
    halves: dict[str, str] = {}
    for session in told.sessions:
        for first, second in zip(session.events, session.events[1:], strict=False):
            if first.author == "user" and second.author != "user":
                halves[str(first.id)] = str(second.id)
                halves[str(second.id)] = str(first.id)
    questions = []
    for asked in told.questions:
        groups = tuple(
            piece | {halves[one] for one in piece if one in halves}
            for piece in asked.pieces
        )
        evidence = frozenset[str]().union(*groups)
        questions.append(replace(asked, evidence=evidence, groups=groups))
    return replace(told, questions=questions)


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
