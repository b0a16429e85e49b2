"""The times of counts and listings over many users: stats, apps, users, sessions.

    python -m bench.service.listings [--users 100000] [--memories 10] [--apps 4] \\
        [--sessions 2] [--url postgresql://server@/db?schema=vecall] [--calls 20]

It fills a file, or the database of --url, with users of some apps: each has so many
memories in so many sessions, and a fact of no session. The rows are made by vecall's
own functions and inserted as a copy of a storage inserts them. Then it prints the times
of some calls, each of another page: the median, the shortest, and the CPU time of the
process, which other programs change least.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vecall import MemoryService, StorageOptions
from vecall.store.rows import (
    TABLES,
    PartitionCopy,
    PartitionNames,
    Row,
    checksum,
    hash_of_text,
)
from vecall.store.writes.transfers import CopyPartition

from bench.common import arguments, tables
from bench.service.file_and_database import text

TEXTS = [text(random.Random(n), 12) for n in range(500)]
BEGAN = 1.7e9


def app_of(user: int, apps: int) -> str:
    """Return the app of a user."""
    return f"app-{user % apps:03}"


def user_rows(user: int, apps: int, memories: int, sessions: int) -> CopyPartition:
    """Return the job that writes all rows of a user."""
    rows, changes, nbytes = [], [], 0
    for n in range(1, memories + 1):
        said = BEGAN + 60.0 * user + n
        content = TEXTS[(user * 31 + n * 7) % len(TEXTS)]
        nbytes += len(content)
        row = Row(*[None] * len(Row._fields))._replace(  # type: ignore[arg-type]
            rid=n,
            id=f"m{n}",
            text=content,
            created_at=said,
            updated_at=said,
            ts=said,
            session=f"session-{n % sessions:05}" if n < memories else None,
        )
        more = (n, "live", hash_of_text(content), None, None, checksum(row, None))
        rows.append((*row, *more))
        changes.append((n, n, "u"))
    names = PartitionNames(
        0,
        app_of(user, apps),
        f"user-{user:08}",
        memories,
        memories,
        nbytes,
        BEGAN,
        None,
    )
    empty: dict[str, list[tuple[Any, ...]]] = {table: [] for table in TABLES}
    copied = PartitionCopy(names, {**empty, "mem": rows, "chg": changes}, 0.0)
    return CopyPartition(names.app, names.user, copied, None, replace=False)


def fill(
    service: MemoryService, users: int, apps: int, per: int, sessions: int
) -> None:
    """Write all users."""
    storage = service._memory.storage
    waiting: list[Any] = []
    for user in range(users):
        waiting.append(storage.submit(user_rows(user, apps, per, sessions)))
        if len(waiting) == 64:
            for each in waiting:
                each.result()
            waiting.clear()
    for each in waiting:
        each.result()


def measured(call: Callable[[int], Any], calls: int) -> tuple[float, ...]:
    """Return the median, the shortest and the CPU time of calls, in milliseconds."""
    call(0)
    times, spent = [], []
    for number in range(calls):
        begun, used = time.perf_counter(), time.process_time()
        call(number)
        spent.append(1e3 * (time.process_time() - used))
        times.append(1e3 * (time.perf_counter() - begun))
    return statistics.median(times), min(times), statistics.median(spent)


def main() -> None:
    """Fill a storage, and print the times of the calls."""
    parser = arguments.parser(__doc__)
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--memories", type=int, default=10)
    parser.add_argument("--apps", type=int, default=4)
    parser.add_argument("--sessions", type=int, default=2)
    parser.add_argument("--url")
    parser.add_argument("--calls", type=int, default=20)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = asked.url or Path(folder) / "m.db"
        options = StorageOptions(durability="process", maintenance_interval=None)
        with MemoryService(place, embedder=None, storage=options) as service:
            begun = time.perf_counter()
            fill(service, asked.users, asked.apps, asked.memories, asked.sessions)
            print(f"filled in {time.perf_counter() - begun:.0f} s")
            sync = service.sync
            step = asked.users // (2 * asked.calls)

            def who(number: int) -> dict[str, str]:
                user = number * step
                return {
                    "app_name": app_of(user, asked.apps),
                    "user_id": f"user-{user:08}",
                }

            def after(number: int) -> dict[str, str]:
                return {
                    "app_name": app_of(number, asked.apps),
                    "after": f"user-{number * step:08}",
                }

            calls: dict[str, Callable[[int], Any]] = {
                "admin.stats": lambda _: sync.admin.stats(),
                "admin.list_apps, 100": lambda _: sync.admin.list_apps(),
                "admin.list_users, 100": lambda n: sync.admin.list_users(**after(n)),
                "admin.list_users by prefix": lambda n: sync.admin.list_users(
                    app_name=app_of(n, asked.apps), prefix="user-0000"
                ),
                "list_sessions, 100": lambda n: sync.list_sessions(**who(n)),
                "count_memories": lambda n: sync.count_memories(**who(n)),
            }
            rows = [
                [name, *(f"{ms:.2f}" for ms in measured(call, asked.calls))]
                for name, call in calls.items()
            ]
            stats = sync.admin.stats()
            print(f"{stats['memories']:,} memories of {stats['users']:,} users")
            print(tables.table(["call", "median, ms", "shortest, ms", "CPU, ms"], rows))


if __name__ == "__main__":
    main()
