"""Calls of several users that both a child process and its judge know beforehand.

The same seed gives the same calls, so what the file has to hold after each of them is
known without asking the process that made them.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from vecall import Drop, Limits, MemoryEntry, MemoryService, Put, StorageOptions

from helpers.options import grouped

APP = "app"
FILE = "m.db"
_TESTS = Path(__file__).parents[1]


def roomy(min_free_bytes: int = 0) -> dict[str, Any]:
    """Options under which a small disk is no reason to refuse, nor a long answer."""
    return {
        "limits": Limits(max_top_k=10_000),
        "storage": StorageOptions(min_free_bytes=min_free_bytes),
    }


@dataclass
class Call:
    """One call, and what its user has after it: texts, and items as `item_text`."""

    add: dict[str, str] = field(default_factory=dict)
    delete: str | None = None
    turns: list[tuple[str, str]] = field(default_factory=list)
    items: dict[tuple[str, str], str | None] = field(default_factory=dict)
    after: frozenset[str] = frozenset()

    def make(self, service: MemoryService, user: str) -> None:
        scope = {"app_name": APP, "user_id": user}
        if self.delete is not None:
            service.sync.delete_memory(**scope, memory_id=self.delete)
        elif self.items:
            operations = [
                Drop((namespace,), key)
                if text is None
                else Put((namespace,), key, text, vectors=[len(text) + 1.0, 1.0])
                for (namespace, key), text in self.items.items()
            ]
            service.items.sync.write(operations, **scope)
        elif self.turns:
            events = [
                {"id": id_, "author": "user", "text": text} for id_, text in self.turns
            ]
            told: dict[str, Any] = {**scope, "id": "s", "events": events}
            service.sync.add_session_to_memory(told, replace=True)
        else:
            entries = [MemoryEntry(text, id=id_) for id_, text in self.add.items()]
            service.sync.add_memory(**scope, memories=entries, restore=False)


def plan(
    seed: int, user: str, count: int, most_bytes: int, most_at_once: int
) -> list[Call]:
    """Adds, batches, upserts, deletions, sessions that are replaced, items.

    A batch of items puts some and drops some, in two namespaces.
    """
    rng = random.Random(f"{seed}/{user}")
    live: dict[str, str] = {}
    gone: list[str] = []
    turns: list[tuple[str, str]] = []
    items: dict[tuple[str, str], str] = {}
    calls = []
    for number in range(count):

        def text(part: int, number: int = number) -> str:
            size = rng.choice([0, 40, most_bytes // 8, most_bytes])
            padding = rng.randbytes(rng.randint(0, size) // 2).hex()
            return f"zebra {user} call{number} part{part} {padding}"

        kind = rng.random()
        if kind < 0.15 and live:
            call = Call(delete=rng.choice(sorted(live)))
            gone.append(call.delete or "")
            del live[call.delete or ""]
        elif kind < 0.25:
            kept = [turn for turn in turns if rng.random() < 0.7]
            new = range(rng.randint(1, 6))
            turns = kept + [(f"e{number}.{part}", text(part)) for part in new]
            call = Call(turns=list(turns))
        elif kind < 0.4:
            places = [(name, f"k{key}") for name in "ab" for key in range(6)]
            chosen = rng.sample(places, rng.randint(1, 5))
            call = Call(
                items={
                    place: None if place in items and rng.random() < 0.4 else text(part)
                    for part, place in enumerate(chosen)
                }
            )
            for place, value in call.items.items():
                items.pop(place, None)
                if value is not None:
                    items[place] = value
        else:
            size = rng.choice(
                [1, 1, 1, rng.randint(2, 6), rng.randint(7, most_at_once)]
            )
            made = {f"c{number}.{part}": text(part) for part in range(size)}
            if live and rng.random() < 0.3:
                made[rng.choice(sorted(live))] = text(size)
            live |= made
            if gone and rng.random() < 0.3:  # a deletion outlives being told again
                made[rng.choice(gone)] = text(size + 1)
            call = Call(add=made)
        kept_items = [item_text(*place, value) for place, value in items.items()]
        told = [text for _, text in turns]
        call.after = frozenset({*live.values(), *told, *kept_items})
        calls.append(call)
    return calls


def item_text(namespace: str, key: str, value: str) -> str:
    """How an item appears among the texts of its user."""
    return f"item {namespace} {key} {value}"


class Run(NamedTuple):
    """Which calls a process makes, and how they are kept."""

    seed: int
    users: int
    count: int
    durability: Literal["full", "process"]
    most_bytes: int = 6_000
    most_at_once: int = 25

    def plans(self) -> dict[str, list[Call]]:
        return {
            user: plan(self.seed, user, self.count, self.most_bytes, self.most_at_once)
            for user in (f"u{number}" for number in range(self.users))
        }

    def command(self, folder: Path) -> list[str]:
        """What makes the calls in a process of its own."""
        script = (
            f"import sys; sys.path.insert(0, {str(_TESTS)!r}); "
            "from helpers.storage_work import Run, work; "
            f"work({str(folder)!r}, {self!r})"
        )
        return [sys.executable, "-c", script]


def work(folder: str, run: Run) -> None:
    """Make the calls, each user on a thread; mark each that was acknowledged.

    The service is closed and opened again half way, and never closed at the end.
    """
    ack = os.open(f"{folder}/ACK", os.O_WRONLY)
    todo = run.plans()
    middle = run.count // 2
    for half in range(2):
        service = MemoryService(
            f"{folder}/{FILE}",
            **grouped(**roomy(), durability=run.durability),
            embedder=None,
        )

        def one(user: str, service: MemoryService = service, half: int = half) -> None:
            for number in range(middle * half, (middle, run.count)[half]):
                todo[user][number].make(service, user)
                os.write(ack, f"{user} {number}".encode())
                if number % 10 == 0:  # from then on the user is kept in memory
                    found_by_search(service, user)

        threads = [threading.Thread(target=one, args=(user,)) for user in todo]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if half == 0:
            service.close()
    os.write(ack, b"done")
    os._exit(0)


def acknowledged(marks: Sequence[str], users: Sequence[str]) -> dict[str, int]:
    """How many calls of each user were acknowledged; they come in order."""
    counts = dict.fromkeys(users, 0)
    for user, number in (mark.split() for mark in marks if mark != "done"):
        assert int(number) == counts[user], "acknowledged out of order"
        counts[user] += 1
    return counts


def found_by_search(service: MemoryService, user: str) -> frozenset[str]:
    """The texts that a search finds, and the items that one by vector finds."""
    scope = {"app_name": APP, "user_id": user}
    answer = service.sync.search_memory(**scope, query="zebra", top_k=10_000)
    items = service.items.sync.find(**scope, vector=[1.0, 1.0], limit=1_000)
    return frozenset(
        [
            *(memory.text for memory in answer.memories),
            *(item_text(item.namespace[0], item.key, item.value) for item in items),
        ]
    )


def stored(path: Path) -> dict[str, frozenset[str]]:
    """The texts and items in a closed file, by user; it agrees with itself."""
    connection = sqlite3.connect(path)
    try:
        verdict = connection.execute("PRAGMA integrity_check").fetchall()
        assert verdict == [("ok",)], verdict
        rows = connection.execute(
            "SELECT user, text FROM mem JOIN part ON part.id = mem.part"
        ).fetchall()
        items = connection.execute(
            "SELECT user, ns, key, value FROM item JOIN part ON part.id = item.part"
        ).fetchall()
        miscounted = connection.execute(
            "SELECT user, live, bytes FROM part WHERE (live, bytes) != "
            "(SELECT count(*), coalesce(sum(length(CAST(text AS BLOB))), 0) "
            "FROM mem WHERE mem.part = part.id)"
        ).fetchall()
        assert miscounted == [], "the counts of a partition are not those of its rows"
    finally:
        connection.close()
    texts: dict[str, set[str]] = {}
    for user, text in rows:
        texts.setdefault(user, set()).add(text)
    for user, namespace, key, value in items:
        # A label ends with the separator.
        shown = item_text(namespace.rstrip("\x1f"), key, json.loads(value))
        texts.setdefault(user, set()).add(shown)
    count = len(rows) + len(items)
    assert sum(map(len, texts.values())) == count, "a memory is there twice"
    return {user: frozenset(kept) for user, kept in texts.items()}


def calls_there(
    calls: Sequence[Call], texts: frozenset[str], newest: int
) -> int | None:
    """How many of a user's first calls a file holds: all of each, and none besides.

    Args:
        calls: The user's calls.
        texts: What the file holds.
        newest: The most that can be there.

    Returns:
        None where the texts are not those after any call: one is torn, or a deletion
        or an earlier call was lost.
    """
    for count in range(min(newest, len(calls)), 0, -1):
        if calls[count - 1].after == texts:
            return count
    return None if texts else 0
