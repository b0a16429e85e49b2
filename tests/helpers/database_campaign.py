"""Kills of processes, backends and servers while calls go on over one database.

Processes make the calls of streams (`helpers.workloads`), and repeat a call until it is
acknowledged. After each kill the rows are read in one snapshot: every stream must be
where its acknowledgements say, or at most some calls further.
"""

from __future__ import annotations

import itertools
import os
import random
import select
import signal
import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from vecall import BusyError, MemoryService, ReadOnlyError, StorageError

from helpers.counted import wrong_counters
from helpers.fork_pool import ForkPool, Lines, together
from helpers.postgres_server import Schema, new_server
from helpers.workloads import APP, PLANS, is_item, make, opened

KINDS = ("process", "connections", "backend", "server", "failover")
PLAN = "items"  # calls of 1 to 20 rows, and batches of items
MOST_CALLS = 200  # of a stream, then another begins
MOST_FOUND = 1_000  # what a search returns
UNREACHED = (BusyError, StorageError, ReadOnlyError)

_ROWS = """
SELECT "text" FROM {0}.mem UNION ALL SELECT value FROM {0}.item
"""
_FAULTS = """
SELECT 'wrong count' FROM {0}.part AS p
  WHERE live <> (SELECT count(*) FROM {0}.mem WHERE mem.part = p.id AND state = 'live')
UNION ALL
SELECT 'gap in chg' FROM {0}.part AS p JOIN {0}.chg ON chg.part = p.id
  GROUP BY p.id, p.seq
  HAVING max(chg.seq) <> p.seq OR count(*) <> max(chg.seq) - min(chg.seq) + 1
UNION ALL
SELECT 'head' FROM {0}.part AS p JOIN {0}.chg ON chg.part = p.id AND chg.seq = p.seq
  WHERE chg.head <> p.head
"""


def run(job: dict[str, Any], file: int) -> None:
    """The child: calls of one stream, each repeated until it is acknowledged."""
    service = _until_done(lambda: opened(job))
    plan = PLANS[PLAN]

    def calls() -> None:
        for number in itertools.count(job["first"]):
            call = plan(job["stream"], number)
            _until_done(lambda c=call: make(service, job["stream"], job["stream"], c))
            os.write(file, f"{number}\n".encode())

    together(file, [calls])


def _until_done(work: Callable[[], Any]) -> Any:
    while True:
        with suppress(*UNREACHED):
            return work()
        time.sleep(0.02)


@dataclass
class Tally:
    """What a campaign saw."""

    kills: int = 0
    acknowledged: int = 0
    problems: list[str] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)  # seconds to the next answer

    def row(self) -> str:
        middle = statistics.median(self.pauses or [0.0])
        return (
            f"{self.kills:4} kills {self.acknowledged:8,} acknowledged "
            f"{len(self.problems):3} problems   next acknowledgement after "
            f"{middle:.2f} s, at most {max(self.pauses or [0.0]):.2f} s"
        )


class _Stream:
    """A stream of calls, and the process that makes them."""

    def __init__(self, number: int, generation: int = 0) -> None:
        self.number = number
        self.generation = generation
        self.name = f"p{number}g{generation}"
        self.count = 0
        self.pid = 0
        self.lines: Lines | None = None
        self.file = -1


class DatabaseCampaign:
    """One primary with a synchronous replica, and processes that write."""

    def __init__(self, pool: ForkPool, streams: int = 4, seed: int = 0) -> None:
        """Start the servers and the processes."""
        self.tallies = {kind: Tally() for kind in KINDS}
        self._pool = pool
        self._random = random.Random(seed)
        self.primary = new_server()
        self._schema = Schema(self.primary)
        self._streams = [_Stream(n) for n in range(streams)]
        self._ended: list[_Stream] = []
        self._tally = Tally()
        # A new replica takes the place of a killed primary, so the two hosts stay.
        self._replica = self.primary.replica(synchronous=True)
        hosts = quote(f"{self.primary.folder},{self._replica.folder}")
        schema = self._schema.name
        self.url = f"postgresql://server@/postgres?host={hosts}&schema={schema}"
        # It sees the whole campaign with one cache.
        self._service = MemoryService(self.url, embedder=None)
        for stream in self._streams:
            self._start(stream)
        self._listen(until=len(self._streams))

    def close(self) -> None:
        """Kill all processes and servers."""
        for stream in self._streams:
            self._bury(stream)
        self._service.close()
        for server in (self.primary, self._replica):
            server.remove()

    def kill(self, kind: str) -> None:
        """Let them work, kill something, wait until calls go on, and check."""
        self._tally = tally = self.tallies[kind]
        self._listen(until=self._random.randint(20, 60))
        getattr(self, f"_kill_{kind}")()
        back = time.monotonic()
        self._drain()
        heard = tally.acknowledged
        while tally.acknowledged == heard:
            self._listen(until=1)
        tally.pauses.append(time.monotonic() - back)
        tally.kills += 1
        self._check()
        if kind == "failover":
            self._restore()
        self._begin_anew()

    def _kill_process(self) -> None:
        stream = self._random.choice(self._streams)
        self._bury(stream)
        self._start(stream)

    def _begin_anew(self) -> None:
        """Replace streams that have written enough."""
        for n, stream in enumerate(self._streams):
            if stream.count > MOST_CALLS:
                self._bury(stream)
                self._ended.append(stream)
                self._streams[n] = _Stream(stream.number, stream.generation + 1)
                self._start(self._streams[n])

    def _kill_connections(self) -> None:
        self.primary.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE usename = 'server' AND random() < 0.7"
        )

    def _kill_backend(self) -> None:
        """The server then ends all other backends, and recovers as after a crash."""
        backends = self.primary.backends()
        if backends:
            os.kill(self._random.choice(backends), signal.SIGKILL)
        time.sleep(0.1)
        while not self.primary.is_ready():
            time.sleep(0.02)

    def _kill_server(self) -> None:
        self.primary.kill()
        self.primary.start()

    def _kill_failover(self) -> None:
        self.primary.kill()
        self._replica.promote()
        self.primary, self._replica = self._replica, self.primary

    def _restore(self) -> None:
        """Make the killed primary the synchronous replica of the new one."""
        self._replica = self.primary.replica(
            synchronous=True, folder=self._replica.folder
        )

    def _start(self, stream: _Stream) -> None:
        ours, theirs = os.pipe()
        job = {
            "path": self.url,
            "stream": stream.name,
            "first": stream.count,
            "options": {},
        }
        stream.pid = self._pool.start(job, theirs)
        os.close(theirs)
        stream.lines, stream.file = Lines(ours), ours

    def _bury(self, stream: _Stream) -> None:
        os.kill(stream.pid, signal.SIGKILL)
        assert stream.lines is not None
        while not stream.lines.ended:
            self._take(stream)
        os.close(stream.file)

    def _take(self, stream: _Stream) -> int:
        assert stream.lines is not None
        heard = 0
        for line in stream.lines.read():
            if line.startswith("error"):
                self._tally.problems.append(f"{stream.name}: {line}")
                continue
            assert int(line) == stream.count, "acknowledged out of order"
            stream.count += 1
            heard += 1
        self._tally.acknowledged += heard
        return heard

    def _listen(self, until: int, wait_s: float = 60.0) -> None:
        """Take acknowledgements until there are so many."""
        deadline = time.monotonic() + wait_s
        while until > 0:
            assert time.monotonic() < deadline, self._stall()
            until -= sum(map(self._take, self._ready(0.2)))

    def _stall(self) -> str:
        """What the primary waits for."""
        replicas = self.primary.execute(
            "SELECT application_name, state, sync_state, sent_lsn, flush_lsn "
            "FROM pg_stat_replication"
        )
        waits = self.primary.execute(
            "SELECT usename, state, wait_event_type, wait_event, left(query, 60), "
            "now() - query_start FROM pg_stat_activity WHERE usename = 'server'"
        )
        return f"no call was acknowledged; replicas {replicas}; sessions {waits}"

    def _drain(self) -> None:
        """Take what was acknowledged already."""
        while ready := self._ready(0.0):
            for stream in ready:
                self._take(stream)

    def _ready(self, wait_s: float) -> list[_Stream]:
        files = {stream.file: stream for stream in self._streams}
        return [files[file] for file in select.select(list(files), [], [], wait_s)[0]]

    def _check(self) -> None:
        """Hold the database and the long-lived service to what was acknowledged."""
        self._drain()
        streams = [*self._streams, *self._ended]
        least = {stream.name: stream.count for stream in streams}
        rows = self.primary.execute(_ROWS.format(self._schema.name))
        faults = self.primary.execute(_FAULTS.format(self._schema.name))
        self._tally.problems += [fault for (fault,) in faults]
        wrong = _until_done(lambda: wrong_counters(self._service))
        self._tally.problems += [f"counters: {wrong}"] if wrong else []
        stored: dict[str, list[str]] = {name: [] for name in least}
        for (row,) in rows:
            text = row.strip('"')  # an item's value is JSON
            stored[text.partition(" ")[0]].append(text)
        names = [stream.name for stream in streams]
        found = {name: self._found(name) for name in names}
        items = {name: self._items(name) for name in names}
        self._listen(until=1)
        self._drain()
        for stream in streams:
            first, last = least[stream.name], stream.count + 1
            states = _states(stream.name, last)
            # The service reads memories and items one after another, not at one moment.
            for where, texts, kept in (
                ("database", stored, lambda _: True),
                ("memories of the service", found, lambda id_: not is_item(id_)),
                ("items of the service", items, is_item),
            ):
                held = sorted(texts[stream.name])
                right = (
                    calls
                    for calls in (*range(first, last + 1), *range(first))
                    if held == _texts(states[calls], kept)
                )
                when = next(right, None)
                if len(held) == MOST_FOUND or (when is not None and when >= first):
                    continue
                self._tally.problems.append(
                    f"{where}: {stream.name}: expected what {first} to {last} calls "
                    f"leave, found {len(held)} rows, those of "
                    f"{'no' if when is None else when} calls"
                )

    def _found(self, stream: str) -> list[str]:
        answer = _until_done(
            lambda: self._service.sync.search_memory(
                app_name=APP, user_id=stream, query="zebra", top_k=MOST_FOUND
            )
        )
        return [str(memory.content) for memory in answer.memories]

    def _items(self, stream: str) -> list[str]:
        found = _until_done(
            lambda: self._service.items.sync.find(
                app_name=APP, user_id=stream, limit=MOST_FOUND
            )
        )
        return [item.value for item in found]


def _texts(state: dict[str, str], kept: Callable[[str], bool]) -> list[str]:
    return sorted(text for id_, text in state.items() if kept(id_))


def _states(stream: str, last: int) -> list[dict[str, str]]:
    """The texts of a stream, by id, after 0 to `last` calls."""
    plan, state = PLANS[PLAN], dict[str, str]()
    states: list[dict[str, str]] = [{}]
    for number in range(last):
        plan(stream, number).apply(state)
        states.append(dict(state))
    return states
