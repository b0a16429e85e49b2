"""Conversations for `vecall eval`, and a way to run it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from vecall import MemoryEntry, MemoryService
from vecall.cli.main import main
from vecall.evaluation.datasets import Conversation, Question

NOUNS = (
    "zebra piano lantern canoe kettle violin carpet telescope hammock tractor "
    "umbrella saddle"
).split()
USERS = ("ann", "ben", "cleo")
CITIES = {"ann": "Lisbon", "ben": "Oslo", "cleo": "Turin"}


def lines() -> Iterator[dict[str, Any]]:
    """Three users who bought things that nobody else has, and what they are asked."""
    for user in USERS:
        for i, noun in enumerate(NOUNS):
            bought = f"I bought a {noun}{user} in {CITIES[user]}"
            yield {
                "user_id": user,
                "session_id": f"s{i // 6}",
                "id": f"{user}-{i}",
                "author": user,
                "timestamp": f"2024-03-{i + 1:02}T10:00:00Z",
                "text": f"{bought} with cousin {user}{i}.",
            }
            yield {
                "user_id": user,
                "question": f"Which cousin was there when I bought the {noun}{user}?",
                "category": "odd" if i % 2 else "even",
                "evidence": [f"{user}-{i}"],
            }
        yield {
            "user_id": user,
            "question": "Who sold me the submarine?",
            "category": "none",
            "evidence": [],
        }


def written(path: Path, told: Any) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in told))
    return path


def runner(capsys: Any) -> Callable[..., Any]:
    """Run `vecall eval`; return its JSON, its text, or what it said on failure."""

    def run(*arguments: Any, fails: bool = False) -> Any:
        code = main(["eval", *map(str, arguments)])
        printed = capsys.readouterr()
        assert code == (1 if fails else 0), printed.err
        assert "Traceback" not in printed.err
        if fails:
            return printed.err
        return json.loads(printed.out) if "--json" in arguments else printed.out

    return run


def tell(service: MemoryService, conversations: Sequence[Conversation]) -> None:
    for conversation in conversations:
        for session in conversation.sessions:
            service.sync.add_session_to_memory(session)


def asked_of(
    conversations: Sequence[Conversation],
) -> Iterator[tuple[Conversation, Question]]:
    for one in conversations:
        yield from ((one, question) for question in one.questions)


def search(
    service: MemoryService,
    conversation: Conversation,
    question: Question,
    top_k: int,
    **options: Any,
) -> list[MemoryEntry]:
    return service.sync.search_memory(
        app_name=conversation.sessions[0].app_name,
        user_id=conversation.user_id,
        query=question.text,
        top_k=top_k,
        **options,
    ).memories
