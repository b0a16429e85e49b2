"""Rates, latencies, stale reads and log size with writers, readers and kills.

    python -m bench.durability.soak --seconds 600 [--folder DIR] [--writers 4]
        [--readers 4] [--postgres]

All processes use one file; with --postgres one database, whose server syncs. The exit
status is 1 if anything was wrong.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from helpers.database_soak import DatabaseSoak
from helpers.fork_pool import ForkPool
from helpers.postgres_server import Schema, new_server
from helpers.soak import Soak

from bench.common import arguments


class _Place:
    """A file, or a database of a server of its own."""

    def __init__(self, folder: Path, *, is_database: bool) -> None:
        self._path = folder / "m.db"
        self._server = new_server() if is_database else None

    def soak(self, pool: ForkPool, seed: int, **options: Any) -> Soak:
        if self._server is None:
            return Soak(pool, self._path, seed, **options)
        return DatabaseSoak(pool, Schema(self._server), seed, **options)

    def size(self) -> int:
        if self._server is None:
            return self._path.stat().st_size
        size: int = self._server.execute("SELECT pg_database_size('postgres')")[0][0]
        return size

    def close(self) -> None:
        if self._server is not None:
            self._server.remove()


def times(name: str, seconds: list[float]) -> None:
    ordered = sorted(seconds) or [0.0]
    p50 = 1e3 * ordered[len(ordered) // 2]
    p99 = 1e3 * ordered[len(ordered) * 99 // 100]
    print(
        f"{name:10} {len(seconds):10,}   p50 {p50:7.2f} ms   p99 {p99:7.2f} ms   "
        f"max {1e3 * ordered[-1]:7.1f} ms"
    )


def main() -> int:
    parser = arguments.parser(__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--readers", type=int, default=4)
    parser.add_argument("--durability", default="full", choices=("full", "process"))
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="on the disk to be tried")
    parser.add_argument("--postgres", action="store_true", help="over a database")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(dir=options.folder) as folder,
        ForkPool("helpers.soak") as pool,
        closing(_Place(Path(folder), is_database=options.postgres)) as place,
    ):
        soak = place.soak(pool, options.seed, durability=options.durability)
        seen = soak.go(options.seconds, options.writers, options.readers)
        size = place.size()
    busy = sum("BusyError" in error for error in seen.errors)
    print(f"{seen.seconds:.0f} s, {seen.kills} kills, {size / 1e6:.1f} MB")
    times("writes", seen.written)
    times("searches", seen.searched)
    print(f"writes a second {len(seen.written) / seen.seconds:,.0f}, of each writer:")
    print("   ", ", ".join(f"{rate:.1f}" for rate in seen.rates.values()))
    print(f"max/min {seen.unfairness:.2f}")
    print(f"reads of other processes' last writes {seen.judged:,}, stale {seen.stale}")
    print(f"BusyError {busy}, all problems {len(seen.errors)}")
    print(f"write-ahead log at most {seen.wal_most / 1e6:.1f} MB")
    for error in seen.errors[:5]:
        print("   ", error)
    return bool(seen.errors)


if __name__ == "__main__":
    sys.exit(main())
