"""Write hooks that decide by a memory's words, and reads of the resulting states."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from vecall import MemoryService, PendingWrite, Verdict, redact
from vecall.hooks import ALLOW, QUARANTINE, REJECT

from helpers.memories import ALICE
from helpers.methods import method_of

SECRET = "hunter2pw"
MASK = "[masked]"
BY_WORD = {"held": QUARANTINE, "refused": REJECT, "dropped": redact(" ")}


class ReviewHook:
    """A hook: "held", "refused", "dropped" and a secret decide what becomes of a text.

    Attributes:
        seen: Every write that it was asked about.
        rules: The verdicts by word; may be changed.
    """

    def __init__(self) -> None:
        self.seen: list[PendingWrite] = []
        self.rules = dict(BY_WORD)

    def __call__(self, write: PendingWrite) -> Verdict:
        self.seen.append(write)
        text = write.memory.text
        for word, verdict in self.rules.items():
            if word in text:
                return verdict
        return redact(text.replace(SECRET, MASK)) if SECRET in text else ALLOW

    @property
    def texts(self) -> list[str]:
        return [write.memory.text for write in self.seen]


class AsyncReviewHook(ReviewHook):
    """The same as a coroutine function."""

    async def __call__(self, write: PendingWrite) -> Verdict:  # type: ignore[override]
        return ReviewHook.__call__(self, write)


def found(service: MemoryService, query: str = "zebra", **options: Any) -> list[str]:
    """The texts that a search finds, sorted."""
    asked = {**ALICE, "query": query, "top_k": 1000, **options}
    answer = service.sync.search_memory(**asked)
    return sorted(memory.text for memory in answer.memories)


def listed(service: MemoryService, state: str = "live", **options: Any) -> list[str]:
    """The texts of a user's memories of one state."""
    asked: dict[str, Any] = {**ALICE, "state": state, "limit": 1000, **options}
    return [memory.text for memory in service.sync.list_memories(**asked)]


def dump(path: Path) -> list[str]:
    """All that a file says, but not where in the file."""
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


def dump_without_random_bits(path: Path) -> list[str]:
    """What `dump` returns, with 0 for the random bits of changes."""
    with (
        closing(sqlite3.connect(path)) as connection,
        closing(sqlite3.connect(":memory:")) as copy,
    ):
        connection.backup(copy)
        copy.executescript("UPDATE part SET head = 0; UPDATE chg SET head = 0")
        return list(copy.iterdump())


def bytes_of(folder: Path) -> bytes:
    """The bytes of all files of a folder."""
    return b"".join(each.read_bytes() for each in _files(folder))


def _files(folder: Path) -> Iterator[Path]:
    return (each for each in sorted(folder.rglob("*")) if each.is_file())


def twins(service: MemoryService) -> list[Callable[..., Any]]:
    """Ways to call a method by its name: blocking, and on an event loop."""

    def blocking(name: str, **options: Any) -> Any:
        return method_of(service.sync, name)(**options)

    def on_loop(name: str, **options: Any) -> Any:
        async def call() -> Any:
            return await method_of(service, name)(**options)

        return asyncio.run(call())

    return [blocking, on_loop]
