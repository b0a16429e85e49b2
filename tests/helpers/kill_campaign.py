"""kill -9 campaigns: processes die at any moment, and the file is held to its word."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import statistics
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import vecall
from vecall import MemoryService
from vecall.store.file.schema import NEWEST
from vecall.store.queries.listing import miscounted_counters

from helpers.fork_pool import ForkPool, Lines
from helpers.workloads import APP, EMBEDDERS, LARGE, PLANS, mark, opened

FIXTURE = Path(__file__).parents[1] / "fixtures" / "schema-1.db"
AS_OLD = "migration "  # the first word of what a fixture's rows are counted under


@dataclass(frozen=True)
class Workload:
    """What is killed.

    Attributes:
        plan: The streams' calls, of `PLANS`.
        processes: How many work on the file.
        streams: Threads of each that write.
        kills: On one file, until a new one is begun.
        most: Lines heard before the kill.
        opening: The share of kills that come while the file is being opened.
        also: Threads that search, reembed or purge meanwhile.
        shared: All streams write the memories of one user.
        needs: The method that it is about, if it is about one.
        options: For the service.
    """

    plan: str = "singles"
    processes: int = 1
    streams: int = 3
    kills: int = 8
    most: int = 60
    opening: float = 0.15
    also: tuple[str, ...] = ()
    shared: bool = False
    needs: str = "close"
    fixture: bool = False
    options: dict[str, Any] = field(default_factory=dict)


WORKLOADS = {
    "single adds": Workload(),
    "single adds, process": Workload(options={"durability": "process"}),
    "sessions of 20 and deletes": Workload("sessions", streams=2),
    "three processes": Workload("sessions", processes=3, streams=1, shared=True),
    "snapshot": Workload(
        "snapshots", also=("searches",), most=30, options={"cache_bytes": 100_000}
    ),
    "checkpoint": Workload("bulky", most=90),
    "migration": Workload(streams=1, kills=1, most=2, opening=0.8, fixture=True),
    "reembed": Workload(
        streams=1, kills=4, most=40, also=("reembeds",), needs="reembed"
    ),
    "purge": Workload(streams=2, also=("purges",), needs="purge"),
}


@dataclass
class Tally:
    """What a campaign saw."""

    kills: int = 0
    acknowledged: int = 0
    unheard: int = 0  # in the file, though its acknowledgement was not heard
    lost: int = 0
    torn: int = 0
    unsound: int = 0  # integrity_check said something else than ok
    problems: list[str] = field(default_factory=list)
    reopening: list[float] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def row(self) -> str:
        middle = 1e3 * statistics.median(self.reopening or [0.0])
        most = 1e3 * max(self.reopening or [0.0])
        return (
            f"{self.kills:6,} kills {self.acknowledged:9,} acknowledged "
            f"{self.unheard:6,} unheard {self.lost:3} lost {self.torn:3} torn "
            f"{self.unsound:3} unsound {len(self.problems):3} problems   "
            f"reopened in {middle:.1f} ms, at most {most:.0f} ms"
        )


class Campaign:
    """Kills of one workload, on one file after the other."""

    def __init__(
        self, pool: ForkPool, folder: Path, workload: Workload, seed: int = 0
    ) -> None:
        self.tally = Tally()
        self._pool = pool
        self._folder = folder
        self._workload = workload
        self._random = random.Random(seed)
        self._files = 0
        self._left = 0

    def kill(self) -> None:
        """Works, kills, opens the file again, checks."""
        if not self._left:
            self._begin()
        self._left -= 1
        before = len(self.tally.problems)
        self._aim = "old" if self._aim == "new" else "new"
        self._work()
        self.tally.kills += 1
        self._disturb()
        found = self._reopen()
        rows = self._stored()
        self._compare(rows)
        for user, texts in found.items():
            if Counter(texts) != Counter(text for who, text, *_ in rows if who == user):
                self._problem(f"a search of {user} found {len(texts)} memories")
        if len(self.tally.problems) > before:
            self._left = 0  # what is expected of this file is no longer known

    def _begin(self) -> None:
        """A new file."""
        work = self._workload
        self._left = work.kills
        self._path = self._folder / f"file{self._files}" / "m.db"
        self._files += 1
        self._path.parent.mkdir()
        names = [
            f"p{p}s{s}" for p in range(work.processes) for s in range(work.streams)
        ]
        self._users = {name: "shared" if work.shared else name for name in names}
        self._counts = dict.fromkeys(names, 0)
        self._states: dict[str, dict[str, str]] = {name: {} for name in names}
        self._aim = "old"  # the model that the file is moved to
        self._fixed: list[str] = []
        self._older: dict[str, bytes] = {}  # snapshots as they once were
        if work.fixture:
            shutil.copyfile(FIXTURE, self._path)
            self._fixed = [text for _, text, *_ in self._stored()]
        if work.needs == "reembed":
            job = self._job(0, embedder="old")
            with opened(job) as service:
                texts = [f"{AS_OLD}{number}" for number in range(LARGE)]
                service.sync.add_memory(app_name=APP, user_id="old", memories=texts)
            self._fixed = texts

    def _job(self, process: int, **more: Any) -> dict[str, Any]:
        names = [name for name in self._counts if name.startswith(f"p{process}")]
        return {
            "path": str(self._path),
            "plan": self._workload.plan,
            "options": self._workload.options,
            "users": self._users,
            "streams": {name: self._counts[name] for name in names},
            "embedder": self._embedder(),
            "aim": self._aim,
            **dict.fromkeys(self._workload.also, True),
            **more,
        }

    def _embedder(self) -> str | None:
        """The one that the file opens with; for others than reembed none."""
        if self._workload.needs != "reembed" or not self._path.exists():
            return None
        for name in EMBEDDERS:
            try:
                opened({**self._plain_job(), "embedder": name}).close()
            except vecall.EmbeddingMismatchError:
                continue
            return name
        self._problem("the file opens with neither embedder")
        return None

    def _plain_job(self) -> dict[str, Any]:
        return {"path": str(self._path), "options": self._workload.options}

    def _work(self) -> None:
        """Starts the processes, listens, and kills them one after the other."""
        rng = self._random
        ours, theirs = os.pipe()
        jobs = [self._job(process) for process in range(self._workload.processes)]
        begin = time.perf_counter()
        pids = [self._pool.start(job, theirs) for job in jobs]
        os.close(theirs)
        lines = Lines(ours)
        try:
            rng.shuffle(pids)
            together = rng.random() < 0.5
            while pids:
                if rng.random() < self._workload.opening:
                    _sleep_until(begin + rng.uniform(0.0, 0.015))
                else:
                    self._hear(lines, rng.randint(1, self._workload.most))
                    _sleep_until(time.perf_counter() + rng.uniform(0.0, 0.001))
                dying, pids = (pids, []) if together else (pids[:1], pids[1:])
                for pid in dying:
                    os.kill(pid, signal.SIGKILL)
            self._hear(lines, 2**62)
        except AssertionError:
            for pid in pids:
                os.kill(pid, signal.SIGUSR1)
            time.sleep(0.5)
            raise
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            os.close(ours)

    def _hear(self, lines: Lines, count: int) -> None:
        """Takes acknowledgements until there are so many, or nobody is left."""
        while count > 0:
            told = lines.read()
            if lines.ended:
                return
            for line in told:
                name, _, number = line.partition(" ")
                if name == "error":
                    self._problem(number)
                    count = 0
                elif number:
                    count -= 1
                    self._acknowledge(name, int(number))

    def _acknowledge(self, name: str, number: int) -> None:
        self.tally.acknowledged += 1
        assert number == self._counts[name], "acknowledged out of order"
        PLANS[self._workload.plan](name, number).apply(self._states[name])
        self._counts[name] += 1

    def _disturb(self) -> None:
        """Damages, removes or puts back snapshots; they are no truth of their own."""
        folder = self._path.with_name(self._path.name + ".snap")
        files = sorted(folder.glob("*.vs"))
        if self._workload.plan != "snapshots" or not files:
            return
        file = self._random.choice(files)
        whole = file.read_bytes()
        what = self._random.randrange(4)
        if what == 0:
            shutil.rmtree(folder)
        elif what == 1:
            at = self._random.randrange(len(whole))
            file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        elif what == 2 and file.name in self._older:
            file.write_bytes(self._older[file.name])
        self._older.setdefault(file.name, whole)

    def _reopen(self) -> dict[str, list[str]]:
        """Opens the file as anybody would after a crash, and asks a little."""
        rng = self._random
        name = rng.choice(list(self._users))
        found = {}
        embedder = self._embedder()
        begin = time.perf_counter()
        with opened({**self._plain_job(), "embedder": embedder}) as service:
            self._search(service, name, mark(name, self._counts[name] - 1), 5)
            self.tally.reopening.append(time.perf_counter() - begin)
            if not embedder:
                found[self._users[name]] = self._search(service, name, "zebra", 1_000)
            if self._workload.needs == "purge":
                service.sync.admin.purge()
            if self._workload.needs == "reembed":
                service.sync.admin.reembed(EMBEDDERS[self._aim])
        return {} if len(next(iter(found.values()), ())) == 1_000 else found

    def _search(
        self, service: MemoryService, name: str, query: str, count: int
    ) -> list[str]:
        answer = service.sync.search_memory(
            app_name=APP, user_id=self._users[name], query=query, top_k=count
        )
        return [memory.text for memory in answer.memories]

    def _stored(self) -> list[tuple[Any, ...]]:
        """All rows, read by SQLite alone while nobody has the file open."""
        connection = sqlite3.connect(self._path)
        try:
            sound = connection.execute("PRAGMA integrity_check").fetchall()
            if sound != [("ok",)]:
                self.tally.unsound += 1
                self._problem(f"integrity_check: {sound[:3]}")
            if connection.execute("PRAGMA user_version").fetchone()[0] == NEWEST:
                wrong = miscounted_counters(connection)
                if wrong:
                    self._problem(f"counters: {wrong}")
            return connection.execute(
                "SELECT user, text, coalesce(new.vec, mem.vec), model.name FROM mem "
                "JOIN part ON part.id = mem.part "
                "LEFT JOIN vec_next AS new ON new.rid = mem.rid "
                "LEFT JOIN model ON model.id = coalesce(new.model, mem.model)"
            ).fetchall()
        finally:
            connection.close()

    def _compare(self, rows: list[tuple[Any, ...]]) -> None:
        """Holds every stream to what was acknowledged, and at most one call more."""
        by_stream: dict[str, list[str]] = {name: [] for name in self._states}
        others: list[str] = []
        for _, text, *_ in rows:
            by_stream.get(text.partition(" ")[0], others).append(text)
        self._verdict("others", others, self._fixed, self._fixed)
        for name, texts in by_stream.items():
            before = self._states[name]
            after = dict(before)
            PLANS[self._workload.plan](name, self._counts[name]).apply(after)
            self._verdict(name, texts, before.values(), after.values())
        if self._workload.needs == "purge":
            self._no_trace({text for _, text, *_ in rows})
        if self._workload.needs == "reembed":
            aim = EMBEDDERS[self._aim]
            for _, text, vec, model in rows:
                if model != aim.model_id or vec != aim.vector(text).tobytes():
                    self._problem(
                        f"after reembed {text[:40]!r} has a vector of {model}"
                    )
                    break

    def _verdict(
        self, name: str, texts: list[str], before: Iterable[str], after: Iterable[str]
    ) -> None:
        there, old, new = Counter(texts), Counter(before), Counter(after)
        if there in (old, new):
            self.tally.unheard += there != old
            return
        missing = (old & new) - there
        undead = there - (old | new)
        if missing or undead:
            self.tally.lost += 1
            self._problem(f"{name}: {len(missing)} missing, {len(undead)} undead")
        else:
            self.tally.torn += 1
            self._problem(f"{name}: a torn call, {len(there)} rows")

    def _no_trace(self, live: set[str]) -> None:
        """No file of the folder holds a text that was deleted before the purge."""
        held = b"".join(
            file.read_bytes() for file in self._path.parent.rglob("*") if file.is_file()
        )
        for name, count in self._counts.items():
            ever: dict[str, str] = {}
            for number in range(count):
                call = PLANS[self._workload.plan](name, number)
                replace(call, gone=()).apply(ever)
            for text in ever.values():
                if text not in live and text.encode() in held:
                    self._problem(f"a trace of {text!r} after a purge")
                    return

    def _problem(self, text: str) -> None:
        self.tally.problems.append(f"kill {self.tally.kills}: {text}")


def _sleep_until(moment: float) -> None:
    """Exactly, to some microseconds; a sleep alone is not."""
    time.sleep(max(0.0, moment - time.perf_counter() - 0.002))
    while time.perf_counter() < moment:
        pass
