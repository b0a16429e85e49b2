"""The cost of a search, an add and a cold start in two builds of vecall.

    git worktree add ../old REVISION
    pip install --no-deps --target ../old-built ../old
    pip install --no-deps --target ../new-built .
    python -m bench.service.compare_builds ../old-built ../new-built \\
        path/to/locomo10.json

Each build has a process of its own; the two take turns, 50 calls at a time, with the
same memories and questions. So both run under the same load of the machine, and the
figure to read is the ratio of two consecutive turns. The table has the medians over all
turns.

"A new query": the vector of the query is in no cache. A function makes it, and the map
of the local embedder is applied if the build has maps.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.common import arguments

ME = {"app_name": "bench", "user_id": "one"}
DIM = 512
CALLS = 50
QUESTIONS = 400
COLD_CALLS = 3


def vectors(texts: list[str]) -> np.ndarray:
    """Made-up vectors, the same for the same text."""
    seeds = [sum(text.encode()) + 1_000 * len(text) for text in texts]
    rows = [np.random.default_rng(seed).standard_normal(DIM) for seed in seeds]
    return np.array(rows, np.float32)


class Worker:
    """What the process of one build does. vecall is imported here alone."""

    def __init__(self, folder: Path, memories: int) -> None:
        import vecall
        from vecall import FunctionEmbedder, MemoryService

        def opened(
            name: str, embedder: FunctionEmbedder | None, durability: str = "full"
        ) -> MemoryService:
            how: dict[str, Any] = {"durability": durability}
            if hasattr(vecall, "StorageOptions"):
                how = {
                    "storage": vecall.StorageOptions(**how, maintenance_interval=None)
                }
            else:  # a build from before the options were grouped
                how["sweep_interval"] = None
            return MemoryService(folder / name, embedder=embedder, **how)

        told = json.loads((folder.parent / "told.json").read_text("utf-8"))
        self.questions: list[str] = told["questions"]
        self.turns = told["turns"][:memories]
        self.embedder = FunctionEmbedder(vectors, dimensions=DIM)
        mapped = mapped_if_possible(self.embedder)
        self.words = opened("words.db", embedder=None, durability="process")
        self.both = opened("both.db", embedder=self.embedder)
        self.mapped = opened("mapped.db", embedder=mapped, durability="process")
        self.added = opened("added.db", embedder=None, durability="process")
        self.added_both = opened(
            "added both.db", embedder=self.embedder, durability="process"
        )
        self.cold = lambda: opened("cold.db", embedder=None)
        cold = self.cold()
        self.open = (
            self.words,
            self.both,
            self.mapped,
            self.added,
            self.added_both,
        )
        for service in (*self.open, cold):
            for at in range(0, memories, 20):
                service.sync.add_events_to_memory(
                    **ME, session_id=f"s{at}", events=self.turns[at : at + 20]
                )
        cold.close()
        for question in self.questions:
            self.words.sync.search_memory(**ME, query=question)
            self.both.sync.search_memory(**ME, query=question)
        self.mapped.sync.search_memory(**ME, query="warm")
        self.loop = asyncio.new_event_loop()
        self.adds = 0

    def blocking(self, service: Any, some: list[str]) -> list[float]:
        times = []
        for question in some:
            begun = time.perf_counter()
            service.sync.search_memory(**ME, query=question)
            times.append(time.perf_counter() - begun)
        return times

    async def awaited(self, service: Any, some: list[str]) -> list[float]:
        times = []
        for question in some:
            begun = time.perf_counter()
            await service.search_memory(**ME, query=question)
            times.append(time.perf_counter() - begun)
        return times

    def new(self, service: Any, some: list[str]) -> list[float]:
        """Search for questions whose vectors are in no cache."""
        self.adds += 1
        asked = [f"{question} {self.adds}" for question in some]
        return self.blocking(service, asked)

    def add(self, service: Any, some: list[str]) -> list[float]:
        times = []
        for question in some:
            self.adds += 1
            begun = time.perf_counter()
            service.sync.add_memory(**ME, memories=[f"{self.adds} {question}"])
            times.append(time.perf_counter() - begun)
        return times

    def first(self, some: list[str]) -> list[float]:
        times = []
        for question in some[:COLD_CALLS]:
            with self.cold() as service:
                begun = time.perf_counter()
                service.sync.search_memory(**ME, query=question)
                times.append(time.perf_counter() - begun)
        return times

    def run(self, what: str, some: list[str]) -> list[float]:
        on_loop = self.loop.run_until_complete
        calls: dict[str, Callable[[], list[float]]] = {
            "words, blocking": lambda: self.blocking(self.words, some),
            "words, awaited": lambda: on_loop(self.awaited(self.words, some)),
            "words and vectors, blocking": lambda: self.blocking(self.both, some),
            "words and vectors, awaited": lambda: on_loop(
                self.awaited(self.both, some)
            ),
            "a new query": lambda: self.new(self.both, some),
            "a new query, with a map": lambda: self.new(self.mapped, some),
            "an add, words": lambda: self.add(self.added, some),
            "an add, words and vectors": lambda: self.add(self.added_both, some),
            "a first search, words": lambda: self.first(some),
        }
        return calls[what]()

    def serve(self) -> None:
        """Answer each line of JSON with one."""
        print("ready", flush=True)
        for line in sys.stdin:
            what, begin = json.loads(line)
            print(json.dumps(self.run(what, self.questions[begin : begin + CALLS])))
            sys.stdout.flush()
        for service in self.open:
            service.close()


def mapped_if_possible(embedder: Any) -> Any:
    """Add the local embedder's map on queries, if the build has maps."""
    try:
        from vecall.embedders import MappedEmbedder, QueryMap
    except ImportError:
        return embedder
    query_map = QueryMap.shipped("use-multilingual-v3")
    assert query_map is not None
    return MappedEmbedder(embedder, query_map)


WHAT = {  # and its turns, as a share of those asked for
    "words, blocking": 1.0,
    "words, awaited": 1.0,
    "words and vectors, blocking": 1.0,
    "words and vectors, awaited": 1.0,
    "a new query": 0.5,
    "a new query, with a map": 0.5,
    "an add, words": 0.25,
    "an add, words and vectors": 0.25,
    "a first search, words": 0.25,
}


class Build:
    """The process of one build."""

    def __init__(self, packages: Path, folder: Path, memories: int) -> None:
        folder.mkdir()
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "bench.service.compare_builds",
                "--worker",
                str(folder),
                str(memories),
            ],
            env={**os.environ, "PYTHONPATH": str(packages.resolve())},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._line()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            msg = f"the process of a build ended with {self._process.wait()}"
            raise SystemExit(msg)
        return line

    def ask(self, what: str, begin: int) -> list[float]:
        """Return the seconds of each call."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([what, begin]) + "\n")
        self._process.stdin.flush()
        found: list[float] = json.loads(self._line())
        return found

    def close(self) -> None:
        self._process.communicate()


def told_in(path: Path) -> dict[str, Any]:
    """The turns of LoCoMo as those of one user, and its first questions."""
    turns, questions = [], []
    for number, one in enumerate(json.loads(path.read_text("utf-8"))):
        talk = one["conversation"]
        for name, session in talk.items():
            if isinstance(session, list):
                turns += [
                    {
                        "id": f"{number}-{turn['dia_id']}",
                        "author": turn["speaker"],
                        "content": turn["text"],
                        "timestamp": 1.6e9 + 86_400.0 * int(name.split("_")[1]),
                    }
                    for turn in session
                ]
        questions += [each["question"] for each in one["qa"]]
    return {"turns": turns, "questions": questions[:QUESTIONS]}


def main() -> None:
    """Print a table of medians and their ratios."""
    parser = arguments.parser(__doc__)
    parser.add_argument("old", type=Path, help="a folder that holds the package")
    parser.add_argument("new", type=Path)
    parser.add_argument("locomo", type=Path)
    parser.add_argument("--memories", type=int, default=1_000)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--only", default="", help="what begins so")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "told.json").write_text(json.dumps(told_in(asked.locomo)), "utf-8")
        builds = [
            Build(packages, folder / which, asked.memories)
            for which, packages in (("old", asked.old), ("new", asked.new))
        ]
        print(f"{'p50, us':32s} {'old':>8s} {'new':>8s} {'ratio':>6s}  turns")
        chance = random.Random(1)
        for what, share in WHAT.items():
            if not what.startswith(asked.only):
                continue
            found: tuple[list[float], list[float]] = ([], [])
            for turn in range(max(4, round(asked.turns * share))):
                begin = turn * CALLS % QUESTIONS
                for which in chance.sample((0, 1), 2):
                    times = builds[which].ask(what, begin)
                    found[which].append(1e6 * statistics.median(times))
            ratios = [new / old for old, new in zip(*found, strict=True)]
            old, new = map(statistics.median, found)
            ratio = statistics.median(ratios)
            print(f"{what:32s} {old:8.1f} {new:8.1f} {ratio:6.3f}  {len(ratios)}")
        for build in builds:
            build.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        Worker(Path(sys.argv[2]), int(sys.argv[3])).serve()
    else:
        main()
