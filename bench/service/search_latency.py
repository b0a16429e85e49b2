"""p50 and p99 of search_memory for users of 600 to 10,000 memories, warm.

    python -m bench.service.search_latency path/to/locomo10.json

The whole call is timed from Python, on an event loop and blocking: words, cached query
vector, engine, texts, entries. Vectors are random, since their values do not change the
work.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from vecall import FunctionEmbedder, MemoryService
from vecall.evaluation.datasets import Conversation, read_locomo
from vecall.types import Session

from bench.common import arguments

APP = "bench"
DIM = 512
ROUNDS = 5
SIZES = (1_000, 10_000)
QUESTIONS = 400


def vectors(texts: list[str]) -> np.ndarray:
    """Random vectors, the same for the same text."""
    seeds = [hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts]
    rows = [
        np.random.default_rng(int.from_bytes(seed, "big")).standard_normal(DIM)
        for seed in seeds
    ]
    return np.array(rows, np.float32)


def show(name: str, seconds: list[float]) -> None:
    """Print one row."""
    ordered = sorted(seconds)
    p50 = 1e6 * ordered[len(ordered) // 2]
    p99 = 1e6 * ordered[len(ordered) * 99 // 100]
    print(
        f"{name:40} p50 {p50:6.0f} us   p99 {p99:6.0f} us   {len(ordered):,} searches"
    )


def blocking(memory: MemoryService, told: list[Conversation]) -> list[float]:
    """Time searches through memory.sync."""
    times = []
    for one in told:
        for question in one.questions:
            before = time.perf_counter()
            memory.sync.search_memory(
                app_name=APP, user_id=one.user_id, query=question.text
            )
            times.append(time.perf_counter() - before)
    return times


async def awaited(memory: MemoryService, told: list[Conversation]) -> list[float]:
    """Time searches on an event loop."""
    times = []
    for one in told:
        for question in one.questions:
            before = time.perf_counter()
            await memory.search_memory(
                app_name=APP, user_id=one.user_id, query=question.text
            )
            times.append(time.perf_counter() - before)
    return times


def one_user(told: list[Conversation], count: int) -> Conversation:
    """All conversations as those of one user, told again until there are enough."""
    sessions: list[Session] = []
    left = count
    for time_ in itertools.count():
        for one in told:
            for session in one.sessions:
                prefix = f"{time_}-{one.user_id}-"
                events = [
                    replace(event, id=f"{prefix}{event.id}")
                    for event in session.events[:left]
                ]
                left -= len(events)
                sessions.append(Session(APP, "one", prefix + session.id, events))
                if not left:
                    asked = [question for each in told for question in each.questions]
                    return Conversation("one", sessions, asked[:QUESTIONS])
    raise AssertionError


def main() -> None:
    """Print p50 and p99."""
    parser = arguments.parser(__doc__)
    parser.add_argument("locomo", type=Path, help="locomo10.json")
    everybody = read_locomo(parser.parse_args().locomo, APP)
    # Three users at a time keep all questions within the query vectors' cache.
    measure(everybody[2:5], "three users of 600")
    for count in SIZES:
        measure([one_user(everybody, count)], f"one user of {count:,}")


def measure(told: list[Conversation], what: str) -> None:
    """Print p50 and p99 of searches by words, and by words and vectors."""
    print(f"\n{what}")
    for name, embedder in (
        ("words", None),
        ("words and vectors", FunctionEmbedder(vectors, dimensions=DIM)),
    ):
        with (
            tempfile.TemporaryDirectory() as folder,
            MemoryService(Path(folder) / "m.db", embedder=embedder) as memory,
        ):
            for one in told:
                for session in one.sessions:
                    memory.sync.add_session_to_memory(session)
            blocking(memory, told)
            show(
                f"{name}, blocking",
                [t for _ in range(ROUNDS) for t in blocking(memory, told)],
            )
            show(
                f"{name}, on an event loop",
                [t for _ in range(ROUNDS) for t in asyncio.run(awaited(memory, told))],
            )


if __name__ == "__main__":
    main()
