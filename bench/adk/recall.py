"""Recall and latency of google-adk's memory services and of vecall's, on LoCoMo.

    python -m bench.adk.recall path/to/locomo10.json [--rounds 5] [--embedder none]

All services ingest the same google-adk sessions and answer the same questions, in one
process, in an order that a seed shuffles. "google-adk's classes alone" builds the
adapter's response again from plain values, as google-adk's own services build theirs.
A time is the lowest of the rounds' percentiles; ratios are of p50s.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from google.adk.memory import InMemoryMemoryService
from google.adk.memory._sqlite_memory_service import SqliteMemoryService
from vecall import MemoryService, StorageOptions
from vecall.adk import VecallMemoryService
from vecall.evaluation.datasets import Conversation, Question, read_locomo
from vecall.evaluation.metrics import mean, percentile, recall_at

from bench.adk.services import (
    ADAPTER,
    APP,
    CLASSES,
    CORE,
    IN_MEMORY,
    SQLITE,
    identity,
    rebuilding,
    searches,
    tell,
    text_of,
)
from bench.common import arguments
from bench.service.lifecycle_data import head, row

K = 10


class Asked(NamedTuple):
    """One question of one user, and a service's answer by name."""

    user: str
    question: Question
    found: dict[str, list[str]]
    entries: dict[str, int]
    characters: dict[str, int]


class Measured(NamedTuple):
    """What one embedder's run gave."""

    asked: list[Asked]
    times: dict[str, list[list[float]]]
    ingest_s: dict[str, float]


async def ask(
    one: Conversation,
    services: dict[str, Any],
    rounds: int,
    times: dict[str, list[list[float]]],
) -> list[Asked]:
    """Ask one user's questions, in every round all services every question."""
    asked, turns = [], []
    for question in one.questions:
        calls = searches(services, one.user_id, question.text)
        found: dict[str, list[str]] = {}
        entries, characters = {}, {}
        for name in services:
            response = await calls[name]()
            memories = response.memories
            found[name] = [identity(name, entry) for entry in memories]
            entries[name] = len(memories)
            characters[name] = sum(len(text_of(name, entry)) for entry in memories)
            if name == ADAPTER:
                calls[CLASSES] = rebuilding(response)
                assert await calls[CLASSES]() == response
        asked.append(Asked(one.user_id, question, found, entries, characters))
        turns.append(calls)
    chance = random.Random(0)
    clock = time.perf_counter
    quick = [name for name in (CORE, ADAPTER, CLASSES) if name in turns[0]]
    slow = [name for name in turns[0] if name not in quick]
    for number in range(rounds):
        # What takes milliseconds is asked apart: it leaves nothing in the caches.
        for group in (quick, slow):
            for calls in turns:
                for name in chance.sample(group, len(group)):
                    answer = calls[name]
                    begin = clock()
                    await answer()
                    times[name][number].append(clock() - begin)
    return asked


async def measure(
    told: Sequence[Conversation], embedder: str | None, rounds: int, *, others: bool
) -> Measured:
    """Tell and ask everything."""
    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = {
            "embedder": embedder,
            "top_k": K,
            "storage": StorageOptions(maintenance_interval=None),
        }
        services: dict[str, Any] = {
            CORE: MemoryService(
                Path(folder) / "core.db", **{"embedder": None, **options}
            ),
            ADAPTER: VecallMemoryService(
                Path(folder) / "adapter.db", **{"embedder": None, **options}
            ),
        }
        if others:
            services[SQLITE] = SqliteMemoryService(Path(folder) / "adk.db")
            services[IN_MEMORY] = InMemoryMemoryService()
        ingest_s = await tell(told, services)
        gc.collect()
        gc.freeze()  # a collection would go through google-adk's events again
        times: dict[str, list[list[float]]] = {
            name: [[] for _ in range(rounds)] for name in (*services, CLASSES)
        }
        asked = []
        for one in told:
            asked += await ask(one, services, rounds, times)
        for service in services.values():
            closed = getattr(service, "close", lambda: None)()
            if inspect.isawaitable(closed):
                await closed
        return Measured(asked, times, ingest_s)


def lowest(rounds: list[list[float]], percent: int) -> float:
    """The lowest of the rounds' percentiles, in microseconds."""
    return 1e6 * min(percentile(times, percent) or 0.0 for times in rounds)


def ratios(of: Measured) -> list[float]:
    """Every round's (adapter - classes) / core, of p50s."""
    middles = {
        name: [statistics.median(times) for times in of.times[name]]
        for name in (CORE, ADAPTER, CLASSES)
    }
    return [
        (adapter - classes) / core
        for core, adapter, classes in zip(*middles.values(), strict=True)
    ]


def figures(of: Measured, name: str) -> dict[str, Any]:
    """One row of the table."""
    told: dict[str, Any] = {
        "p50_us": lowest(of.times[name], 50),
        "p99_us": lowest(of.times[name], 99),
    }
    if name == CLASSES:
        return told
    kept = [(one.found[name], one.question.evidence_pieces) for one in of.asked]
    return {
        "recall@10": mean([recall_at(found, right, K) for found, right in kept]),
        "recall of all": mean(
            [recall_at(found, right, len(found)) for found, right in kept]
        ),
        "entries": mean([one.entries[name] for one in of.asked]),
        "characters": mean([one.characters[name] for one in of.asked]),
        **told,
        "ingest_s": of.ingest_s[name],
    }


def show(document: dict[str, Any]) -> None:
    head("", "recall@10", "of all", "entries", "characters", "p50 us", "p99", "told, s")
    for run, told in document.items():
        for name, one in told["services"].items():
            if name in (SQLITE, IN_MEMORY):
                label = f"google-adk's {name}"
            else:
                label = f"vecall, {run}: {name}"
            shares = [""] * 4
            if name != CLASSES:
                shares = [
                    f"{100 * one['recall@10']:.1f}",
                    f"{100 * one['recall of all']:.1f}",
                    f"{one['entries']:.1f}",
                    f"{one['characters']:,.0f}",
                ]
            seconds = f"{one['ingest_s']:.2f}" if "ingest_s" in one else ""
            row(
                label,
                *shares,
                f"{one['p50_us']:,.0f}",
                f"{one['p99_us']:,.0f}",
                seconds,
            )
    for run, told in document.items():
        rounds = ", ".join(f"{ratio:.2f}" for ratio in told["ratios"])
        print(
            f"\n{run}: {told['same']:,} of {told['questions']:,} questions have the "
            "same memories in the same order through adapter and core; (adapter - "
            f"classes) / core, round by round: {rounds}"
        )


def main() -> None:
    """Measure and print."""
    parser = arguments.parser(__doc__)
    parser.add_argument("file", type=Path, help="locomo10.json")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--embedder", choices=("none", "local"), action="append")
    parser.add_argument("--conversations", type=int, help="only the first so many")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    told = read_locomo(options.file, APP)[: options.conversations]
    document: dict[str, Any] = {}
    for embedder in options.embedder or ("none", "local"):
        of = asyncio.run(
            measure(
                told,
                None if embedder == "none" else embedder,
                options.rounds,
                others=not document,
            )
        )
        document["words" if embedder == "none" else embedder] = {
            "questions": len(of.asked),
            "same": sum(one.found[CORE] == one.found[ADAPTER] for one in of.asked),
            "ratios": ratios(of),
            "services": {name: figures(of, name) for name in of.times},
        }
    if options.json:
        print(json.dumps(document))
    else:
        show(document)


if __name__ == "__main__":
    main()
