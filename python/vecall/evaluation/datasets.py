"""Data sets: conversations, questions about them, and the turns that answer them.

LoCoMo is Maharana et al., "Evaluating Very Long-Term Conversational Memory of LLM
Agents" (2024); BEAM is Tavakoli et al., "Beyond a Million Tokens: Benchmarking and
Enhancing Long-Term Memory in LLMs" (2025). vecall does not ship them: their readers
take a path. vecall ships the demo's conversations.
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

_EVIDENCE = re.compile(r"D(\d+):(\d+)")  # a string may contain several ids
_TURN_SECONDS = 60.0  # interval of turns: LoCoMo has times of sessions only


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the ids of its evidence."""

    text: str
    category: str  # the data set's name for this kind of question
    # The events and memories that answer it or a part of it; empty: it is unanswerable.
    evidence: frozenset[str]
    # The pieces of evidence. Several ids may hold the same piece: a piece is found when
    # any of its ids is found. Empty: each id of `evidence` is a piece.
    groups: tuple[frozenset[str], ...] = ()
    # When it is asked, in seconds since 1970: later memories do not exist yet. None:
    # all of them do.
    before: float | None = None

    @property
    def evidence_pieces(self) -> tuple[frozenset[str], ...]:
        """The pieces of evidence. Any id of a piece is enough."""
        return self.groups or tuple(frozenset({id_}) for id_ in sorted(self.evidence))


@dataclass(frozen=True, slots=True)
class Conversation:
    """The sessions and memories of one user, and questions about them."""

    user_id: str
    sessions: list[Session]
    questions: list[Question]
    memories: list[MemoryEntry] = field(default_factory=list)


def read_locomo(path: Path, app_name: str) -> list[Conversation]:
    """Return the conversations of a LoCoMo file."""
    try:
        samples = json.loads(path.read_text(encoding="utf-8"))
        conversations = [_locomo_conversation(sample, app_name) for sample in samples]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        conversations = []
    if not any(conversation.questions for conversation in conversations):
        msg = "file: expected LoCoMo's JSON, a list of conversations with questions"
        raise InvalidArgumentError(msg)
    return conversations


def _locomo_conversation(sample: dict[str, Any], app_name: str) -> Conversation:
    dialogue = sample["conversation"]
    user_id = str(sample["sample_id"])
    sessions = []
    known: set[str] = set()
    for number in count(1):
        name = f"session_{number}"
        if f"{name}_date_time" not in dialogue:
            break
        # Such as "1:56 pm on 8 May, 2023", which has no time zone.
        date = datetime.strptime(dialogue[f"{name}_date_time"], "%I:%M %p on %d %B, %Y")
        start = date.replace(tzinfo=timezone.utc).timestamp()
        events = [
            Event(
                turn["text"], turn["speaker"], start + i * _TURN_SECONDS, _turn_id(turn)
            )
            for i, turn in enumerate(dialogue.get(name, []))
        ]
        known.update(str(event.id) for event in events)
        sessions.append(Session(app_name, user_id, name, events))
    questions = []
    for qa in sample["qa"]:
        named = [_EVIDENCE.findall(entry) for entry in qa.get("evidence", [])]
        found = {f"D{int(s)}:{int(t)}" for entry in named for s, t in entry} & known
        if found:
            question = str(qa["question"])
            category = str(qa["category"])
            questions.append(Question(question, category, frozenset(found)))
    return Conversation(user_id, sessions, questions)


def read_beam(path: Path, app_name: str) -> list[Conversation]:
    """Return the chats of a file of BEAM in its short form.

    The form is {"conversations": [{"user", "sessions": [{"id", "events": [[id, author,
    seconds, text], …]}], "questions": [{"text", "category", "groups": [[id, …], …]}],
    "unanswerable": [text, …]}, …]}. Any id of a group is enough. A question with
    "after": N is asked when only the first N sessions are stored.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return [
            _beam_conversation(chat, app_name) for chat in document["conversations"]
        ]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        msg = "file: expected BEAM's JSON, an object with conversations"
        raise InvalidArgumentError(msg) from None


def _beam_conversation(chat: dict[str, Any], app_name: str) -> Conversation:
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
    for question in chat["questions"]:
        groups = tuple(
            frozenset(map(str, _checked_json_list(ids))) for ids in question["groups"]
        )
        evidence = frozenset[str]().union(*groups)
        category = str(question["category"])
        text, before = str(question["text"]), None
        if "after" in question:
            before = float(chat["sessions"][question["after"]]["events"][0][2])
        questions.append(Question(text, category, evidence, groups, before))
    questions += [
        Question(str(text), "unanswerable", frozenset())
        for text in _checked_json_list(chat["unanswerable"])
    ]
    return Conversation(user, sessions, questions)


@dataclass
class _Lines:
    """The sessions, memories and questions of one user, read from JSON lines."""

    sessions: dict[str, list[Event]] = field(default_factory=dict)
    memories: list[MemoryEntry] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)

    def add_json_line(self, line: dict[str, Any]) -> None:
        if "question" in line:
            evidence = frozenset(map(str, _checked_json_list(line["evidence"])))
            question = Question(str(line["question"]), str(line["category"]), evidence)
            self.questions.append(question)
            return
        name = str(line["id"])
        if name in self.ids:
            raise ValueError
        self.ids.add(name)
        if "memory" in line:
            text, time, kind = str(line["memory"]), line["timestamp"], line.get("kind")
            memory = MemoryEntry(text, id=name, timestamp=time, kind=kind)
            self.memories.append(memory)
            return
        event = Event(str(line["text"]), line["author"], line["timestamp"], name)
        self.sessions.setdefault(str(line["session_id"]), []).append(event)


def read_jsonl(path: Path, app_name: str) -> list[Conversation]:
    """Return the conversations of a file of JSON lines.

    A line with "text" is a turn: user_id, session_id, id, author, timestamp (seconds or
    ISO 8601) and text. Turns are in the order of the conversation. A line with "memory"
    is a memory: user_id, id, timestamp, memory, and optionally kind. A line with
    "question" is a question to that user's memory: user_id, question, category and
    evidence, a list of ids of turns and memories. An empty list marks the question as
    unanswerable.
    """
    users: dict[str, _Lines] = {}
    line = 0
    try:
        # JSON strings may contain other line ends, at which splitlines would split.
        for text in path.read_text(encoding="utf-8").split("\n"):
            line += 1
            if text.strip():
                record = json.loads(text)
                users.setdefault(str(record["user_id"]), _Lines()).add_json_line(record)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InvalidArgumentError(
            f"file, line {max(line, 1)}: expected a turn with user_id, session_id, a "
            "new id, author, timestamp and text, a memory with user_id, a new id, "
            "timestamp and memory, or a question with user_id, category and evidence"
        ) from None
    if not any(user.questions for user in users.values()):
        msg = "file: expected JSON lines of turns and of questions"
        raise InvalidArgumentError(msg)
    found = []
    for id_, user in users.items():
        known = all(question.evidence <= user.ids for question in user.questions)
        if not known or not user.ids:
            msg = "file: a question names a user or a turn that is not in it"
            raise InvalidArgumentError(msg)
        sessions = [Session(app_name, id_, *each) for each in user.sessions.items()]
        found.append(Conversation(id_, sessions, user.questions, user.memories))
    return found


def accept_both_halves(conversation: Conversation) -> Conversation:
    """Return the conversation with both halves of an exchange accepted as evidence."""
    # If a user's message is evidence, the reply after it counts too. If a reply is
    # evidence, the message before it counts too. An agent learns the same from either.
    halves: dict[str, str] = {}
    for session in conversation.sessions:
        for first, second in zip(session.events, session.events[1:], strict=False):
            if first.author == "user" and second.author != "user":
                halves[str(first.id)] = str(second.id)
                halves[str(second.id)] = str(first.id)
    questions = []
    for question in conversation.questions:
        groups = tuple(
            piece | {halves[id_] for id_ in piece if id_ in halves}
            for piece in question.evidence_pieces
        )
        evidence = frozenset[str]().union(*groups)
        questions.append(replace(question, evidence=evidence, groups=groups))
    return replace(conversation, questions=questions)


def _checked_json_list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError
    return value


def chosen(conversations: list[Conversation], selection: str) -> list[Conversation]:
    """Return the conversations that a selection such as "2-9" or "0,3" names."""
    numbers: list[int] = []
    last_number = len(conversations) - 1
    try:
        for part in selection.split(","):
            first, _, last = part.partition("-")
            begin, end = int(first), int(last or first)
            if not 0 <= begin <= end <= last_number:
                raise ValueError
            numbers += range(begin, end + 1)
    except ValueError:
        msg = f"--conversations: numbers from 0 to {last_number}, such as 2-9 or 0,3"
        raise ConfigError(msg) from None
    return [conversations[number] for number in dict.fromkeys(numbers)]


def read_demo(app_name: str, *, unanswerable: bool = False) -> list[Conversation]:
    """Return the conversations that come with vecall."""
    data = load_conversations()
    found: dict[str, Conversation] = {}
    for session in data["sessions"]:
        user = session["user_id"]
        turns = [
            Event(turn["text"], turn["author"], turn["timestamp"], _turn_id(turn))
            for turn in session["events"]
        ]
        conversation = found.setdefault(user, Conversation(user, [], []))
        conversation.sessions.append(Session(app_name, user, session["id"], turns))
    for asked in data["questions"]:
        evidence = frozenset(asked["evidence"])
        if asked["user_id"] in found and (evidence or unanswerable):
            question = Question(asked["question"], asked["kind"], evidence)
            found[asked["user_id"]].questions.append(question)
    return list(found.values())


def _turn_id(turn: dict[str, Any]) -> str:
    return str(turn.get("dia_id") or turn["id"])
