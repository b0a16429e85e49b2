"""How many acknowledged calls a power cut loses at most, by durability.

    python -m bench.durability.power_loss_window

Takes a minute; Linux with a C compiler. A process adds, deletes and replaces while a
preloaded library logs what it does to its files. The power then fails at many points of
the log, among them just before each sync, and everything not synced is lost.
tests/durability/test_power_loss.py checks the same log for damage and torn calls.
"""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

from helpers.folders import fast_folder
from helpers.power_loss import (
    SYNC,
    Disk,
    build_shim,
    crash_points,
    read_log,
    shimmed,
)
from helpers.storage_work import (
    FILE,
    Run,
    acknowledged,
    calls_there,
    roomy,
    stored,
)
from vecall import MemoryService

from bench.common import arguments

POINTS = 150  # of a run, besides one before each sync of the log or the file
SEEDS = 2
CALLS = 150
SYNCS = 100


def main() -> None:
    """Print a line for each durability and size of memories."""
    arguments.parse_none(__doc__)
    with fast_folder() as folder:
        library = build_shim(folder)
        for durability in ("full", "process"):
            for most_bytes in (400, 6_000):
                runs = [
                    Run(seed, 3, CALLS, durability, most_bytes) for seed in range(SEEDS)
                ]
                losses = [
                    loss for run in runs for loss in _losses(run, library, folder)
                ]
                print(
                    f"durability={durability}, texts up to {most_bytes:,} bytes: "
                    f"{sum(map(bool, losses))} of {len(losses)} power cuts took back "
                    f"acknowledged calls, at most {max(losses)} of {3 * CALLS}; "
                    "no file was damaged, no call torn",
                    flush=True,
                )


def _losses(run: Run, library: Path, folder: Path) -> list[int]:
    """By crash point, how many acknowledged calls were lost."""
    work, log, crashed = (folder / name for name in ("work", "log", "crashed"))
    work.mkdir()
    environment = shimmed(library, work, log)
    subprocess.run(run.command(work), env=environment, timeout=300, check=True)
    records = read_log(log)
    syncs = [at for at, record in enumerate(records) if record.kind == SYNC]
    step = -(-len(syncs) // SYNCS)
    points = sorted([*crash_points(records, POINTS, run.seed), *syncs[::step]])
    calls = run.plans()
    disk, replayed, losses = Disk(), 0, []
    for point in points:
        disk.replay(records[replayed:point])
        replayed = point
        crashed.mkdir()
        disk.write_to(crashed, "dropped", random.Random(point))
        promised = acknowledged(disk.marks, list(calls))
        losses.append(_lost(crashed / FILE, calls, promised))
        shutil.rmtree(crashed)
    shutil.rmtree(work)
    log.unlink()
    return losses


def _lost(path: Path, calls: dict[str, Any], promised: dict[str, int]) -> int:
    MemoryService(path, embedder=None, **roomy()).close()
    kept = stored(path)
    lost = 0
    for user, planned in calls.items():
        texts = kept.get(user, frozenset())
        there = calls_there(planned, texts, promised[user] + 1)
        assert there is not None, "a call is torn"
        lost += max(0, promised[user] - there)
    return lost


if __name__ == "__main__":
    main()
