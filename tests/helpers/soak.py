"""Writers and readers on one file for a long while, some of them killed now and then.

The parent is told of every acknowledgement and at once has some reader, in another
process, look for what was acknowledged.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import random
import select
import signal
import socket
import sqlite3
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vecall import MemoryService

from helpers.fork_pool import WAIT_S, ForkPool, Lines
from helpers.options import grouped
from helpers.workloads import APP, make, mark, rolling

LIVE = 400  # memories of a writer
STALE_AFTER = 2 * LIVE - 50  # calls later what was added may have been deleted


def run(job: dict[str, Any], file: int) -> None:
    """The child: writes until its socket ends, or answers what it is asked."""
    with MemoryService(
        job["path"], **grouped(**{"embedder": None, **job["options"]})
    ) as service:
        work = _write if job["role"] == "writer" else _read
        work(service, job, file)
    os.write(file, b'{"closed": true}\n')
    os._exit(0)


def _write(service: MemoryService, job: dict[str, Any], file: int) -> None:
    stream = job["stream"]
    for number in itertools.count(job["first"]):
        if select.select([file], [], [], 0)[0]:
            return
        begin = time.perf_counter()
        make(service, stream, stream, rolling(stream, number, LIVE))
        took = time.perf_counter() - begin
        os.write(file, f'{{"number": {number}, "took": {took:.6f}}}\n'.encode())


def _read(service: MemoryService, job: dict[str, Any], file: int) -> None:
    lines = Lines(file)
    while not lines.ended:
        for line in lines.read():
            asked = json.loads(line)
            begin = time.perf_counter()
            answer = service.sync.search_memory(
                app_name=APP, user_id=asked["stream"], query=asked["word"]
            )
            took = time.perf_counter() - begin
            words = [memory.text.split()[2] for memory in answer.memories]
            there = asked["word"] in words
            os.write(file, f'{{"there": {int(there)}, "took": {took:.6f}}}\n'.encode())


@dataclass
class Figures:
    """What was seen."""

    seconds: float = 0.0
    written: list[float] = field(default_factory=list)  # seconds of each call
    searched: list[float] = field(default_factory=list)
    judged: int = 0
    stale: int = 0
    kills: int = 0
    wal_most: int = 0
    errors: list[str] = field(default_factory=list)
    rates: dict[str, float] = field(default_factory=dict)  # calls a living second

    @property
    def unfairness(self) -> float:
        """The highest rate of a stream by the lowest; infinite if one made no call."""
        least = min(self.rates.values())
        return max(self.rates.values()) / least if least else math.inf


class _Child:
    """One process, in one of its lives."""

    def __init__(self, pid: int, role: str, stream: str, ours: socket.socket) -> None:
        self.pid = pid
        self.role = role
        self.stream = stream
        self.socket = ours
        self.lines = Lines(ours.fileno())
        self.asked: tuple[str, int, bool] | None = None
        self.heard_first: float | None = None
        self.heard_last = 0.0
        self.closed = False


class Soak:
    """The parent: starts, asks, kills, and in the end compares."""

    def __init__(
        self, pool: ForkPool, path: Path | str, seed: int, **options: Any
    ) -> None:
        self.figures = Figures()
        self._pool = pool
        self._path = path
        self._wal = Path(f"{path}-wal")
        self._options = options
        self._random = random.Random(seed)
        self._counts: dict[str, int] = {}
        self._alive: dict[str, float] = {}
        self._calls: Counter[str] = Counter()
        self._children: list[_Child] = []
        self._fresh: list[tuple[str, int]] = []

    def go(self, seconds: float, writers: int = 4, readers: int = 4) -> Figures:
        rng = self._random
        MemoryService(
            self._path, **grouped(**{"embedder": None, **self._options})
        ).close()
        for number in range(writers):
            self._counts[f"w{number}"] = 0
            self._start("writer", f"w{number}")
        for number in range(readers):
            self._start("reader", f"r{number}")
        begin = time.monotonic()
        end = begin + seconds
        next_kill = begin + 1.5
        while time.monotonic() < end:
            self._listen(0.05)
            self._ask()
            if self._wal.exists():
                self.figures.wal_most = max(
                    self.figures.wal_most, self._wal.stat().st_size
                )
            if time.monotonic() > next_kill:
                next_kill = time.monotonic() + rng.uniform(0.3, 1.5)
                self._kill(rng.choice(self._children))
        self.figures.seconds = time.monotonic() - begin
        self._end()
        self.figures.rates = {
            stream: self._calls[stream] / seconds
            for stream, seconds in self._alive.items()
            if seconds  # else each of its processes was killed before it began
        }
        self._compare()
        return self.figures

    def _start(self, role: str, stream: str) -> None:
        ours, theirs = socket.socketpair()
        job = {
            "path": str(self._path),
            "role": role,
            "stream": stream,
            "first": self._counts.get(stream, 0),
            "options": self._options,
        }
        pid = self._pool.start(job, theirs.fileno())
        theirs.close()
        self._children.append(_Child(pid, role, stream, ours))

    def _listen(self, timeout_s: float) -> None:
        files = {child.socket.fileno(): child for child in self._children}
        for file in select.select(list(files), [], [], timeout_s)[0]:
            self._take(files[file])

    def _take(self, child: _Child) -> None:
        now = time.monotonic()
        for line in child.lines.read():
            if line.startswith("error"):
                self.figures.errors.append(f"{child.stream}: {line}")
                continue
            told = json.loads(line)
            if "number" in told:
                assert told["number"] == self._counts[child.stream]
                self._counts[child.stream] += 1
                self.figures.written.append(told["took"])
                self._fresh.append((child.stream, told["number"]))
                if child.heard_first is None:
                    child.heard_first = now
                else:
                    self._calls[child.stream] += 1
                child.heard_last = now
            elif "there" in told:
                self.figures.searched.append(told["took"])
                self._judge(child, bool(told["there"]))
            else:
                child.closed = True

    def _judge(self, child: _Child, there: bool) -> None:
        assert child.asked is not None
        stream, number, wanted = child.asked
        child.asked = None
        if wanted and self._counts[stream] - number > STALE_AFTER:
            return  # it may be deleted by now
        self.figures.judged += 1
        if there != wanted:
            self.figures.stale += 1
            self.figures.errors.append(f"stale: {child.stream} asked {stream} {number}")

    def _ask(self) -> None:
        """Lets idle readers look for what was acknowledged last."""
        idle = [
            child
            for child in self._children
            if child.role == "reader" and child.asked is None
        ]
        self._random.shuffle(idle)
        for child in idle:
            if not self._fresh:
                break
            stream, number = self._fresh.pop()
            call = rolling(stream, number, LIVE)
            wanted = call.verb == "add"
            sought = number if wanted else int(call.gone[0].partition(".")[2])
            child.asked = (stream, number, wanted)
            asked = {"stream": stream, "word": mark(stream, sought)}
            child.socket.sendall(json.dumps(asked).encode() + b"\n")
        self._fresh = self._fresh[-8:]

    def _kill(self, child: _Child) -> None:
        os.kill(child.pid, signal.SIGKILL)
        self.figures.kills += 1
        self._bury(child)
        self._start(child.role, child.stream)

    def _bury(self, child: _Child) -> None:
        while not child.lines.ended:
            self._take(child)
        child.socket.close()
        self._children.remove(child)
        if child.heard_first is not None:
            lived = child.heard_last - child.heard_first
            self._alive[child.stream] = self._alive.get(child.stream, 0.0) + lived

    def _end(self) -> None:
        """Lets all of them close the file at the same time."""
        for child in self._children:
            child.socket.shutdown(socket.SHUT_WR)
        deadline = time.monotonic() + WAIT_S
        for child in list(self._children):
            self._bury(child)
            if not child.closed:
                self.figures.errors.append(f"{child.stream} ended without closing")
        assert time.monotonic() < deadline, "closing took too long"

    def _texts(self) -> list[str]:
        connection = sqlite3.connect(self._path)
        sound = connection.execute("PRAGMA integrity_check").fetchall()
        texts = [text for (text,) in connection.execute("SELECT text FROM mem")]
        connection.close()
        if sound != [("ok",)]:
            self.figures.errors.append(f"integrity_check: {sound[:3]}")
        return texts

    def _compare(self) -> None:
        texts = self._texts()
        for stream, count in self._counts.items():
            state: dict[str, str] = {}
            for number in range(count):
                rolling(stream, number, LIVE).apply(state)
            wanted = Counter(state.values())
            found = Counter(text for text in texts if text.split()[0] == stream)
            # A writer that was killed just before the end may have made one call more.
            rolling(stream, count, LIVE).apply(state)
            if found not in (wanted, Counter(state.values())):
                lost, more = wanted - found, found - wanted
                self.figures.errors.append(f"{stream}: {lost} lost, {more} too many")
