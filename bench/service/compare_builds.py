"""The cost of calls, of opening a file and of an import in two builds of vecall.

    git worktree add ../old REVISION
    pip install --no-deps --target ../old-built ../old
    pip install --no-deps --target ../new-built .
    python -m bench.service.compare_builds ../old-built ../new-built

Each build has a process of its own; the two take turns with the same memories and
questions, on the same processor. So both run under the same load of the machine, and
the figures to read are the ratios of two consecutive turns: of the CPU time of all
threads, and of the time by the clock. One pair of processes differs from the next, by
chance, in where its memory lies: the table has the medians over several pairs.

"A new query": the vector of the query is in no cache. A function makes it, and the map
of the local embedder is applied if the build has maps. "A first search" is after the
file was opened. An import is a process of its own.

With --at-most, the status is 1 if a figure's ratio of CPU times is above it, or that by
the clock is above it by a quarter, and still is after more pairs of processes. --slower
FILE allows figures more: a line of a table each, `| figure | at most | why |`.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.common import arguments

ROOT = Path(__file__).resolve().parents[2]
ME = {"app_name": "bench", "user_id": "one"}
DIM = 512
CALLS = 50
QUESTIONS = 400
SESSION = 20  # turns
MOST_PAIRS = 7
CLOCK = 1.25  # other programs are in it


def vectors(texts: list[str]) -> np.ndarray:
    """Made-up vectors, the same for the same text."""
    seeds = [sum(text.encode()) + 1_000 * len(text) for text in texts]
    rows = [np.random.default_rng(seed).standard_normal(DIM) for seed in seeds]
    return np.array(rows, np.float32)


def check_origin(file: str, packages: Path) -> None:
    """Refuse to compare a build with itself."""
    if not Path(file).is_relative_to(packages):
        msg = f"vecall came from {file}: an editable install is in the way"
        raise SystemExit(msg)


class Worker:
    """What the process of one build does. vecall is imported here alone."""

    def __init__(self, folder: Path, memories: int) -> None:
        import vecall

        check_origin(vecall.__file__, Path(os.environ["PYTHONPATH"]))
        told = json.loads((folder.parent / "told.json").read_text("utf-8"))
        self.folder = folder
        self.questions: list[str] = told["questions"]
        self.turns = told["turns"][:memories]
        self.opened: list[Any] = []
        self.loop = asyncio.new_event_loop()
        self.adds = 0
        self.aside_cpu = 0.0

    @cached_property
    def embedder(self) -> Any:
        from vecall import FunctionEmbedder

        return FunctionEmbedder(vectors, dimensions=DIM)

    def open(self, name: str, embedder: Any = None, durability: str = "full") -> Any:
        import vecall

        how: dict[str, Any] = {"durability": durability}
        if hasattr(vecall, "StorageOptions"):
            how = {"storage": vecall.StorageOptions(**how, maintenance_interval=None)}
        else:  # a build from before the options were grouped
            how["sweep_interval"] = None
        return vecall.MemoryService(self.folder / name, embedder=embedder, **how)

    def filled(self, *args: Any) -> Any:
        """A new file with all memories, searched once for each question."""
        service = self.open(*args)
        for at in range(0, len(self.turns), SESSION):
            service.sync.add_events_to_memory(
                **ME, session_id=f"s{at}", events=self.turns[at : at + SESSION]
            )
        for question in self.questions:
            service.sync.search_memory(**ME, query=question)
        self.opened.append(service)
        return service

    @cached_property
    def words(self) -> Any:
        return self.filled("words.db", None, "process")

    @cached_property
    def both(self) -> Any:
        return self.filled("both.db", self.embedder, "process")

    @cached_property
    def mapped(self) -> Any:
        return self.filled("mapped.db", mapped_if_possible(self.embedder), "process")

    @cached_property
    def added(self) -> Any:
        return self.filled("added.db", None, "process")

    @cached_property
    def added_both(self) -> Any:
        return self.filled("added both.db", self.embedder, "process")

    @cached_property
    def cold(self) -> str:
        """A file that is closed, and has a snapshot."""
        self.filled("cold.db", None, "process")
        self.opened.pop().close()
        deadline = time.monotonic() + 10
        while not self.snapshots() and time.monotonic() < deadline:
            with self.open("cold.db") as service:
                service.sync.search_memory(**ME, query="any")
                time.sleep(0.1)
        return "cold.db"

    def snapshots(self) -> list[Path]:
        return list((self.folder / "cold.db.snap").glob("*.vs"))

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Count no CPU time."""
        begun = time.process_time()
        yield
        self.aside_cpu += time.process_time() - begun

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
        for question in some[:10]:
            self.adds += 1
            begun = time.perf_counter()
            service.sync.add_memory(**ME, memories=[f"{self.adds} {question}"])
            times.append(time.perf_counter() - begun)
        return times

    def sessions(self, service: Any) -> list[float]:
        """Ingest sessions, each with its own id, of ten users in turn."""
        times = []
        for _ in range(2):
            self.adds += 1
            at = self.adds * SESSION % (len(self.turns) - SESSION)
            session = {
                "app_name": "bench",
                "user_id": f"user {self.adds % 10}",
                "id": f"session {self.adds}",
                "events": self.turns[at : at + SESSION],
            }
            begun = time.perf_counter()
            service.sync.add_session_to_memory(session)
            times.append(time.perf_counter() - begun)
        return times

    def first(self, some: list[str], *, snapshot: bool) -> list[float]:
        times = []
        for question in some[:2]:
            with self.aside():
                for file in () if snapshot else self.snapshots():
                    file.unlink()
                service = self.open(self.cold)
            begun = time.perf_counter()
            service.sync.search_memory(**ME, query=question)
            times.append(time.perf_counter() - begun)
            with self.aside():
                service.close()
        return times

    def opening(self) -> list[float]:
        times = []
        for _ in range(2):
            begun = time.perf_counter()
            service = self.open(self.cold)
            times.append(time.perf_counter() - begun)
            with self.aside():
                service.close()
        return times

    def run(self, what: str, some: list[str]) -> tuple[list[float], float]:
        """The seconds of each call, and of CPU time of one."""
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
            "a session of 20, words": lambda: self.sessions(self.added),
            "a session of 20, words and vectors": lambda: self.sessions(
                self.added_both
            ),
            "an opening": self.opening,
            "a first search, snapshot": lambda: self.first(some, snapshot=True),
            "a first search, rows": lambda: self.first(some, snapshot=False),
        }
        self.aside_cpu = 0.0
        begun = time.process_time()
        times = calls[what]()
        spent = time.process_time() - begun - self.aside_cpu
        return times, spent / len(times)

    def serve(self) -> None:
        """Answer each line of JSON with one."""
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        print("ready", flush=True)
        for line in sys.stdin:
            what, begin = json.loads(line)
            print(json.dumps(self.run(what, self.questions[begin : begin + CALLS])))
            sys.stdout.flush()
        for service in self.opened:
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


TURNS = {  # of a pair of processes, as a share of those asked for
    "words, blocking": 1.0,
    "words, awaited": 1.0,
    "words and vectors, blocking": 1.0,
    "words and vectors, awaited": 1.0,
    "a new query": 0.5,
    "a new query, with a map": 0.5,
    "an add, words": 0.5,
    "an add, words and vectors": 0.5,
    "a session of 20, words": 0.5,
    "a session of 20, words and vectors": 0.5,
    "an opening": 0.25,
    "a first search, snapshot": 0.25,
    "a first search, rows": 0.25,
    "import vecall": 0.1,
    "from vecall import MemoryService": 0.1,
}


class Cost(NamedTuple):
    """Of one call, in seconds: the median by the clock, the mean of CPU time."""

    time: float
    cpu: float


Pair = list[tuple[Cost, Cost]]
"""Turns of one pair of processes, of the old and of the new build."""


class Build:
    """The process of one build."""

    def __init__(self, packages: Path, folder: Path, memories: int) -> None:
        folder.mkdir()
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(packages.resolve()),
            "PYTHONHASHSEED": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "bench.service.compare_builds",
                "--worker",
                str(folder),
                str(memories),
            ],
            cwd=ROOT,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._packages = packages.resolve()
        self._line()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            msg = f"the process of a build ended with {self._process.wait()}"
            raise SystemExit(msg)
        return line

    def ask(self, what: str, begin: int) -> Cost:
        """Return what one call costs."""
        if "import" in what:
            return self._imported(what)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([what, begin]) + "\n")
        self._process.stdin.flush()
        times, cpu = json.loads(self._line())
        return Cost(statistics.median(times), cpu)

    def _imported(self, statement: str) -> Cost:
        program = (
            "import sys, time\n"
            "begun, cpu = time.perf_counter(), time.process_time()\n"
            f"{statement}\n"
            "print(time.perf_counter() - begun, time.process_time() - cpu)\n"
            "print(sys.modules['vecall'].__file__)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=self._packages,
            env=self._environment,
            check=True,
            capture_output=True,
            text=True,
        )
        costs, file = done.stdout.splitlines()
        check_origin(file, self._packages)
        return Cost(*map(float, costs.split()))

    def close(self) -> None:
        self._process.communicate()


def told_here() -> dict[str, Any]:
    """The turns of the project's own conversations, and their questions."""
    turns, questions = [], []
    for name in ("people", "assistants", "sentences"):
        file = ROOT / "bench" / "recall" / "conversations" / f"{name}.jsonl"
        for line in file.read_text("utf-8").splitlines():
            one = json.loads(line)
            if "question" in one:
                questions.append(one["question"])
            else:
                when = datetime.fromisoformat(one["timestamp"])
                turns.append(
                    {
                        "id": f"{one['user_id']}-{one['id']}",
                        "author": one["author"],
                        "content": one["text"],
                        "timestamp": when.timestamp(),
                    }
                )
    return {"turns": turns, "questions": questions[:QUESTIONS]}


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


class Comparison:
    """Turns of two builds, in pairs of processes."""

    def __init__(self, old: Path, new: Path, told: Any, memories: int) -> None:
        self.found: dict[str, list[Pair]] = {}
        self._builds = {"old": old, "new": new}
        self._told = json.dumps(told)
        self._memories = memories
        self._chance = random.Random(1)

    def measure(self, turns: dict[str, int]) -> None:
        """Add a pair of processes with so many turns of each figure."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "told.json").write_text(self._told, "utf-8")
            builds = [
                Build(packages, folder / which, self._memories)
                for which, packages in self._builds.items()
            ]
            for what, count in turns.items():
                for build in builds:
                    build.ask(what, 0)  # makes its files
                pair = [self._turn(builds, what, turn) for turn in range(count)]
                self.found.setdefault(what, []).append(pair)
            for build in builds:
                build.close()

    def _turn(self, builds: list[Build], what: str, turn: int) -> tuple[Cost, Cost]:
        order = self._chance.sample((0, 1), 2)
        begin = turn * CALLS % QUESTIONS
        costs = {which: builds[which].ask(what, begin) for which in order}
        return costs[0], costs[1]

    def median(self, what: str, of: Callable[[Cost, Cost], float]) -> float:
        """The median over pairs of the median over turns."""
        return statistics.median(
            statistics.median(of(*turn) for turn in pair) for pair in self.found[what]
        )

    def ratios(self, what: str) -> Cost:
        """New over old, by the clock and in CPU time."""
        return Cost(
            self.median(what, lambda old, new: new.time / old.time),
            self.median(what, lambda old, new: new.cpu / old.cpu),
        )

    def is_above(self, what: str, limit: float) -> bool:
        """Whether the new build costs more than the limit times the old one."""
        ratios = self.ratios(what)
        return ratios.cpu > limit or ratios.time > limit * CLOCK

    def line(self, what: str) -> str:
        """The row of a figure."""
        cells = [f"{what:34s}"]
        for of, ratio in enumerate(self.ratios(what)):
            old = self.median(what, lambda old, _, of=of: old[of])  # type: ignore[misc]
            new = self.median(what, lambda _, new, of=of: new[of])  # type: ignore[misc]
            cells.append(f" {1e6 * old:9.1f} {1e6 * new:9.1f} {ratio:6.3f}")
        return "".join(cells) + f"  {len(self.found[what])}"


def allowed(lines: Iterable[str]) -> dict[str, float]:
    """Read what figures may take, from a table of figure, ratio and reason."""
    found = (re.match(r"\| (.+?) \| ([\d.]+) \| \S.* \|$", line) for line in lines)
    return {each[1]: float(each[2]) for each in found if each}


def main() -> int:
    """Print a table of medians and their ratios; return 1 if one is too high."""
    parser = arguments.parser(__doc__)
    parser.add_argument("old", type=Path, help="a folder that holds the package")
    parser.add_argument("new", type=Path)
    parser.add_argument("--locomo", type=Path, help="its texts, not the project's own")
    parser.add_argument("--memories", type=int, default=1_000)
    parser.add_argument("--turns", type=int, default=80, help="of a pair of processes")
    parser.add_argument("--pairs", type=int, default=3, help="of processes")
    parser.add_argument("--only", default="", help="what begins so")
    parser.add_argument("--at-most", type=float, help="the highest ratio allowed")
    parser.add_argument("--slower", type=Path, help="a table of exceptions")
    asked = parser.parse_args()
    told = told_here() if asked.locomo is None else told_in(asked.locomo)
    turns = {
        what: max(4, round(asked.turns * share))
        for what, share in TURNS.items()
        if what.startswith(asked.only)
    }
    comparison = Comparison(asked.old, asked.new, told, asked.memories)
    for _ in range(asked.pairs):
        comparison.measure(turns)
    limits = dict.fromkeys(turns, asked.at_most or float("inf"))
    if asked.slower is not None:
        limits |= allowed(asked.slower.read_text("utf-8").splitlines())

    def above() -> dict[str, int]:
        return {
            what: count
            for what, count in turns.items()
            if comparison.is_above(what, limits[what])
        }

    for _ in range(asked.pairs, MOST_PAIRS):
        if high := above():
            comparison.measure(high)
    columns = f" {'old, us':>9s} {'new, us':>9s} {'ratio':>6s}"
    print(f"{'p50, then CPU':34s}{columns}{columns}  pairs")
    for what in turns:
        print(comparison.line(what))
    high = above()
    for what in high:
        print(f"{what}: more than {limits[what]:g} times the old build")
    return bool(high)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        Worker(Path(sys.argv[2]), int(sys.argv[3])).serve()
    else:
        sys.exit(main())
