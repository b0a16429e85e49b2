"""The evaluation sets, each of one kind of memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

from vecall.evaluation.datasets import (
    Conversation,
    accept_both_halves,
    read_beam,
    read_demo,
    read_jsonl,
    read_locomo,
)
from vecall.evaluation.runner import APP

CONVERSATIONS = Path(__file__).parent / "conversations"
HELD_OUT = (
    "people",
    "facts beside people",
    "people beside facts",
    "held-out-assistants",
    "locomo",
    "facts beside locomo",
    "locomo beside facts",
    "beam",
    "passing",
    "needs",
    "messages",
)
"""Sets with which nothing is fitted: no map of queries, no confidence."""


class Set(NamedTuple):
    """Conversations of one kind.

    Attributes:
        name: As tables show it.
        kind: What sort of memories it holds; the rule looks at each kind.
        conversations: The conversations and their questions.
        reading: How it differs from a set that is there already; "" if it does not.
            "lenient": the other half of an exchange counts as evidence too. "one
            session": all memories of a user have the same session_id.
    """

    name: str
    kind: str
    conversations: list[Conversation]
    reading: str = ""


_KINDS = {
    "people": "people",
    "assistants": "assistants",
    "long-assistants": "assistants",
    "held-out-assistants": "assistants",
    "languages": "languages",
    "sentences": "languages",
    "facts": "facts",
    "documents": "documents",
    "code": "code",
}


class Turn(NamedTuple):
    """A message that asks nothing of a memory.

    Attributes:
        part: "held out", or what the rules and weights were made with.
        sort: What it is, such as "thanks" or "code".
        language: Its language.
        text: The message.
    """

    part: str
    sort: str
    language: str
    text: str


def read_turns() -> list[Turn]:
    """Return the messages that ask nothing of a memory."""
    text = (CONVERSATIONS / "turns.json").read_text(encoding="utf-8")
    return [Turn(**each) for each in json.loads(text)]


def all_sets(
    *,
    locomo: Path | None = None,
    beam: Path | None = None,
    more: Sequence[Path] = (),
) -> Iterator[Set]:
    """Return the project's own sets, and those whose file is given.

    Args:
        locomo: LoCoMo's file.
        beam: BEAM's file.
        more: Files in the form of BEAM's, each a kind of its own by its name.
    """
    yield Set("demo", "assistants", read_demo(APP, unanswerable=True))
    for name, kind in _KINDS.items():
        file = CONVERSATIONS / f"{name}.jsonl"
        if file.exists():
            yield from _readings(name, kind, read_jsonl(file, APP))
    yield from _told_in_passing()
    facts = read_jsonl(CONVERSATIONS / "facts.jsonl", APP)
    yield from _mixed(facts, read_jsonl(CONVERSATIONS / "people.jsonl", APP), "people")
    if locomo is not None:
        people = read_locomo(locomo, APP)
        yield Set("locomo", "people", people)
        yield from _mixed(facts, people, "locomo")
    for file in more:
        name = file.stem.removesuffix("-dev")
        yield Set(name, name, read_beam(file, APP))
    if beam is not None:
        yield from _readings("beam", "assistants", read_beam(beam, APP))


def _readings(name: str, kind: str, conversations: list[Conversation]) -> Iterator[Set]:
    yield Set(name, kind, conversations)
    if kind == "assistants":
        again, reading = [accept_both_halves(one) for one in conversations], "lenient"
    elif kind in ("facts", "documents"):
        again, reading = [_in_one_session(one) for one in conversations], "one session"
    else:
        return
    yield Set(f"{name}, {reading}", kind, again, reading)


def _told_in_passing() -> Iterator[Set]:
    """What users of long-assistants say beside a request, asked for in three ways.

    By a question, by a message whose need it meets in other words, and by a request
    that depends on it.
    """
    chats = read_jsonl(CONVERSATIONS / "long-assistants.jsonl", APP)
    sessions = {each.user_id: each.sessions for each in chats}
    told = read_jsonl(CONVERSATIONS / "passing.jsonl", APP)
    for name, category in _ASKED_AS.items():
        lives = [
            replace(
                one,
                sessions=[*sessions[one.user_id], *one.sessions],
                questions=[each for each in one.questions if each.category == category],
            )
            for one in told
        ]
        yield Set(name, name, lives)


_ASKED_AS = {"passing": "passing", "needs": "need", "messages": "message"}


def _mixed(
    facts: list[Conversation], chats: list[Conversation], name: str
) -> Iterator[Set]:
    """One life: the facts of one user, and the chat of another as this user's."""
    pairs = list(zip(facts, cycle(chats)))
    lives = [
        Conversation(
            fact.user_id,
            [replace(one, user_id=fact.user_id) for one in chat.sessions],
            fact.questions,
            fact.memories,
        )
        for fact, chat in pairs
    ]
    yield Set(f"facts beside {name}", "facts beside chats", lives)
    asked = [
        replace(life, questions=chat.questions)
        for life, (_, chat) in zip(lives, pairs, strict=True)
    ]
    yield Set(f"{name} beside facts", "chats beside facts", asked)


def _in_one_session(conversation: Conversation) -> Conversation:
    memories = [replace(one, session_id="all") for one in conversation.memories]
    return replace(conversation, memories=memories)
