"""Damages a file in many ways and asks what a service makes of each.

    python file_corruption.py FOLDER flips|cuts COUNT SEED

A process of its own, since a crash is one of the outcomes. Prints how often each
outcome was seen, as JSON.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from pathlib import Path

from vecall import MemoryEntry, MemoryService, StorageOptions, VecallError

USERS = ("alice", "alicf", "bob", "carol")
WORDS = "zebra okapi quagga parrot gnu".split()
VECTOR_DIM = 6

Answer = dict[tuple[str, str], list[tuple[str, float | None, float]]]


def embed(texts: list[str]) -> list[list[float]]:
    made = []
    for text in texts:
        rng = random.Random(text)
        made.append([rng.gauss(0, 1) for _ in range(VECTOR_DIM)])
    return made


def opened(path: Path) -> MemoryService:
    return MemoryService(
        path, embedder=embed, storage=StorageOptions(durability="process")
    )


def answers(service: MemoryService, users: tuple[str, ...] = USERS) -> Answer:
    found: Answer = {}
    for user in users:
        for word in WORDS:
            got = service.sync.search_memory(
                app_name="app", user_id=user, query=word, top_k=50
            )
            found[user, word] = [
                (memory.text, memory.similarity, memory.score or 0.0)
                for memory in got.memories
            ]
    return found


def whole_file(folder: Path) -> tuple[bytes, Answer]:
    """A file of four users, two of whom have names that differ by one bit."""
    path = folder / "whole.db"
    with opened(path) as service:
        for n, user in enumerate(USERS):
            scope = {"app_name": "app", "user_id": user}
            entries = [
                MemoryEntry(
                    f"{user} saw a {WORDS[i % 5]} and a {WORDS[(i * i + n) % 5]} {i}",
                    id=f"m{i}",
                    author="user",
                    session_id=f"s{i % 3}",
                    custom_metadata={"n": i},
                )
                for i in range(24)
            ]
            service.sync.add_memory(**scope, memories=entries)
            service.sync.delete_memory(**scope, memory_id="m7")
            changed = MemoryEntry(f"{user} saw a gnu again", id="m3")
            service.sync.add_memory(**scope, memories=[changed])
            used = [f"m{i}" for i in range(n, 24, 2)]
            service.sync.mark_used(**scope, memory_ids=used)
        expected = answers(service)
    with opened(path) as service:
        assert answers(service) == expected
    return path.read_bytes(), expected


def outcome(folder: str, number: int, data: bytes, expected: Answer) -> str:
    """What a service makes of damaged bytes. In a process that may crash."""
    path = Path(folder) / f"{number}.db"
    path.write_bytes(data)
    got = "right"
    try:
        with opened(path) as service:
            for user in USERS:
                try:
                    mine = answers(service, (user,))
                    scope = {"app_name": "app", "user_id": user}
                    service.sync.mark_used(**scope, memory_ids=["m1", "m2", "m3"])
                except VecallError:
                    got = "an error"
                    continue
                if any(mine[key] != expected[key] for key in mine):
                    return "wrong"
    except VecallError:
        return "an error"
    finally:
        for part in Path(folder).glob(f"{number}.db*"):
            if part.is_file():
                part.unlink()
    return got


def main(folder: Path, kind: str, count: int, seed: int) -> None:
    data, expected = whole_file(folder)
    rng = random.Random(seed)
    seen: Counter[str] = Counter()
    for number in range(count):
        if kind == "cuts":
            damaged = data[: rng.randrange(1, len(data))]
        else:
            copy = bytearray(data)
            copy[rng.randrange(len(copy))] ^= rng.choice([0x01, 0x80, 0xFF])
            damaged = bytes(copy)
        seen[outcome(str(folder), number, damaged, expected)] += 1
    sys.stdout.write(json.dumps(seen))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
