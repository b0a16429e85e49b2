"""The cost of one change at few rows and at many, as ratios of one run.

    python -m bench.service.growth [--few 1000] [--many 300000]

Each figure is the CPU time of the writer thread, or of the engine's call, in
milliseconds: the median of several, or the mean of many at a limit. A cost that grows
at most as a logarithm has a ratio of at most 2.
"""

from __future__ import annotations

import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
from vecall import MemoryService, Quota, StorageOptions, WritePolicy
from vecall._core import Engine
from vecall.limits import Eviction
from vecall.store import sqlite

from bench.common import arguments

ROUNDS = 21
KEY = ("app", "user")
ME = {"app_name": "app", "user_id": "me"}
spent = [0.0]


def watch_writer() -> None:
    """Add the CPU time of every transaction to `spent`."""
    plain = sqlite.Writer._write_group

    def timed(self: sqlite.Writer, group: object) -> None:
        begun = time.thread_time()
        plain(self, group)  # type: ignore[arg-type]
        spent[0] += time.thread_time() - begun

    sqlite.Writer._write_group = timed  # type: ignore[method-assign, assignment]


def of_writer(call: Callable[[int], object]) -> float:
    costs = []
    for number in range(ROUNDS):
        spent[0] = 0.0
        call(number)
        costs.append(1e3 * spent[0])
    return statistics.median(costs[1:])


def opened(folder: Path, **options: object) -> MemoryService:
    return MemoryService(
        folder / "m.db",
        storage=StorageOptions(durability="process", maintenance_interval=None),
        embedder=None,
        **options,  # type: ignore[arg-type]
    )


def beside_keys(folder: Path, rows: int) -> float:
    """An add with an idempotency key, beside so many older keys."""
    with opened(folder) as service:
        service.sync.add_memory(**ME, memories=["a first fact"])
        with closing(sqlite3.connect(folder / "m.db")) as file, file:
            file.execute(
                "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
                f"WHERE i < {rows}) INSERT INTO idem (part, key, at, hash, ids) "
                "SELECT part.id, 'key' || i, 4e9, x'00', '[]' FROM n, part"
            )
        return of_writer(
            lambda number: service.sync.add_memory(
                **ME, memories=[f"fact {number}"], idempotency_key=f"new {number}"
            )
        )


def beside_superseded(folder: Path, rows: int) -> float:
    """An add of a user at the limit, beside another's superseded memories."""
    other = {"app_name": "app", "user_id": "other"}
    quota = Quota(memories=100, eviction="oldest")
    with opened(folder, writes=WritePolicy(quota=quota)) as service:
        service.sync.add_memory(**ME, memories=[f"fact {n}" for n in range(100)])
        service.sync.add_memory(**other, memories=[{"id": "a", "content": "Rex"}])
        service.sync.add_memory(
            **other, memories=[{"id": "b", "content": "Tom", "supersedes": "a"}]
        )
        with closing(sqlite3.connect(folder / "m.db")) as file, file:
            names = [row[1] for row in file.execute("PRAGMA table_info(mem)")]
            own = {"rid": "rid + 1000000 + i", "id": "'a' || i"}
            values = ", ".join(own.get(name, name) for name in names)
            file.execute(
                "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
                f"WHERE i < {rows}) INSERT INTO mem SELECT {values} FROM n, mem "
                "WHERE id = 'a'"
            )
        return of_writer(
            lambda number: service.sync.add_memory(**ME, memories=[f"new {number}"])
        )


def at_limit(folder: Path, rows: int, eviction: Eviction) -> float:
    """An add of a user who has all that is allowed: the mean over many adds."""
    quota = Quota(memories=rows, eviction=eviction)
    with opened(folder, writes=WritePolicy(quota=quota)) as service:
        for begin in range(0, rows, 5_000):
            facts = [f"fact {n}" for n in range(begin, min(begin + 5_000, rows))]
            service.sync.add_memory(**ME, memories=facts)
        adds = max(200, rows // 100)
        spent[0] = 0.0
        for number in range(adds):
            service.sync.add_memory(**ME, memories=[f"new {number}"])
        return 1e3 * spent[0] / adds


def between_turns(folder: Path, rows: int) -> float:
    """A turn that comes between two of a session of so many."""
    session = {**ME, "session_id": "s"}

    def turn(number: int) -> dict[str, object]:
        text = f"turn {number} about topic {number % 97}"
        return {"id": f"e{number}", "content": text, "author": "user"}

    with opened(folder) as service:
        for begin in range(0, rows, 5_000):
            some = [turn(n) for n in range(begin, min(begin + 5_000, rows))]
            service.sync.add_events_to_memory(**session, events=some)
        service.sync.search_memory(**ME, query="topic")

        def insert(number: int) -> None:
            at = 7 * number
            new = {**turn(at), "id": f"new {number}"}
            service.sync.add_events_to_memory(
                **session, events=[turn(at), new, turn(at + 1)]
            )

        return of_writer(insert)


def of_engine(rows: int) -> dict[str, float]:
    """Changes of one row of words among so many."""
    random = np.random.default_rng(1)
    engine = Engine(0)

    def put(ids: np.ndarray) -> None:
        count = len(ids)
        words = random.zipf(1.3, (count, 10)) % 5_000 + 1
        engine.add_rows(
            KEY,
            ids,
            np.zeros(count, np.int64),
            np.full(count, np.iinfo(np.int64).max),
            np.zeros(count, np.uint64),
            np.zeros(count),
            words.astype(np.uint64).ravel(),
            np.arange(0, 10 * count + 1, 10),
        )

    for begin in range(0, rows, 10_000):
        put(np.arange(begin, min(begin + 10_000, rows)))
    some = random.permutation(rows)
    calls: dict[str, Callable[[int], object]] = {
        "engine: update of a row": lambda n: put(some[n : n + 1]),
        "engine: removal of a row": lambda n: engine.remove(KEY, some[-n - 1 :][:1]),
        "engine: nbytes_of": lambda _: engine.nbytes_of(KEY),
    }
    found = {}
    for name, call in calls.items():
        costs = []
        for number in range(min(400, rows // 3)):
            begun = time.perf_counter()
            call(number)
            costs.append(1e3 * (time.perf_counter() - begun))
        found[name] = statistics.median(costs)
    return found


def main() -> None:
    """Print a table of costs and their ratios."""
    parser = arguments.parser(__doc__)
    parser.add_argument("--few", type=int, default=1_000)
    parser.add_argument("--many", type=int, default=300_000)
    asked = parser.parse_args()
    watch_writer()
    found: list[dict[str, float]] = []
    for rows in (asked.few, asked.many):
        costs = {}
        for name, measure in (
            ("add beside idempotency keys", beside_keys),
            ("add beside another's superseded memories", beside_superseded),
            ("turn between two others", between_turns),
            ("add at the limit, oldest", partial(at_limit, eviction="oldest")),
            ("add at the limit, lru", partial(at_limit, eviction="lru")),
            (
                "add at the limit, lowest_value",
                partial(at_limit, eviction="lowest_value"),
            ),
        ):
            with tempfile.TemporaryDirectory() as folder:
                costs[name] = measure(Path(folder), rows)
        found.append({**costs, **of_engine(rows)})
    print(f"{'ms':42s} {asked.few:>10,d} {asked.many:>10,d} {'ratio':>6s}")
    for name, few in found[0].items():
        many = found[1][name]
        print(f"{name:42s} {few:10.4f} {many:10.4f} {many / few:6.2f}")


if __name__ == "__main__":
    main()
