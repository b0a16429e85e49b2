"""Rows a second into a file, beside google-adk's SqliteMemoryService in the same run.

    python -m bench.service.write_rates [--rows 20000]

All services ingest the same google-adk sessions and events. google-adk's commits with
synchronous=NORMAL, as `durability="process"` does; "full" syncs each commit. The table
is the cost of an add among a hundred concurrent ones on a disk on which a sync takes
3 ms (tests/helpers/storage_shim.c, preloaded), and of one add after another.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
from vecall import StorageOptions

from bench.common import arguments

WORDS = [f"word{n}" for n in range(5_000)]
USER = {"app_name": "app", "user_id": "alice"}
SYNC_US = 3_000


def sessions(rows: int, size: int, tag: str) -> list[Any]:
    """Sessions of `size` turns of some 15 words."""
    from google.adk.events import Event
    from google.adk.sessions import Session
    from google.genai import types

    rng = np.random.default_rng(7)
    made = []
    for start in range(0, rows, size):
        count = min(size, rows - start)
        words = rng.zipf(1.3, (count, 15)) % len(WORDS)
        events = [
            Event(
                id=f"{tag}{start + i}",
                author="user" if i % 2 == 0 else "agent",
                timestamp=1.7e9 + start + i,
                content=types.Content(
                    role="user",
                    parts=[types.Part(text=" ".join(WORDS[w] for w in line))],
                ),
            )
            for i, line in enumerate(words.tolist())
        ]
        made.append(Session(id=f"{tag}-{start}", events=events, **USER))
    return made


def services(folder: Path) -> dict[str, Callable[[], Any]]:
    from google.adk.memory._sqlite_memory_service import SqliteMemoryService
    from vecall.adk import VecallMemoryService

    return {
        "google-adk SqliteMemoryService": lambda: SqliteMemoryService(
            folder / "adk.db"
        ),
        'vecall, durability="full"': lambda: VecallMemoryService(
            folder / "full.db", embedder=None
        ),
        'vecall, durability="process"': lambda: VecallMemoryService(
            folder / "process.db",
            storage=StorageOptions(durability="process"),
            embedder=None,
        ),
    }


async def timed(told: list[Any], tell: Callable[[Any], Awaitable[Any]]) -> float:
    begin = time.perf_counter()
    for item in told:
        await tell(item)
    return time.perf_counter() - begin


async def close(service: Any) -> None:
    done = service.close()
    if done is not None:
        await done


async def rates(rows: int) -> None:
    shapes = {"one by one": 1, "sessions of 20": 20, "bulk (sessions of 2,000)": 2_000}
    print("| rows a second | " + " | ".join(shapes) + " |")
    print("|---" * (len(shapes) + 1) + "|")
    first: list[float] = []
    for name in ("google-adk SqliteMemoryService", "full", "process"):
        figures = []
        for size in shapes.values():
            count = max(200, rows // 20) if size == 1 else rows
            told = sessions(count, size, "e")
            with tempfile.TemporaryDirectory() as folder:
                made = services(Path(folder))
                label = next(key for key in made if name in key)
                service = made[label]()
                await service.add_session_to_memory(sessions(5, 5, "warm")[0])
                seconds = await timed(told, service.add_session_to_memory)
                await close(service)
            figures.append(count / seconds)
        first = first or figures
        cells = [
            f"{rate:,.0f} ({rate / base:.1f} x)"
            for rate, base in zip(figures, first, strict=True)
        ]
        print(f"| {label} | " + " | ".join(cells) + " |", flush=True)


async def concurrent_adds(path: Path) -> dict[str, float]:
    import vecall

    with vecall.MemoryService(path, embedder=None) as memory:
        await memory.add_memory(**USER, memories=["a first one"])

        async def add(tag: str, number: int) -> None:
            text = f"{tag} {number} " + " ".join(WORDS[number : number + 12])
            await memory.add_memory(**USER, memories=[text])

        together, alone = [], []
        for turn in range(5):
            begin = time.perf_counter()
            await asyncio.gather(*(add(f"together{turn}", n) for n in range(100)))
            together.append((time.perf_counter() - begin) / 100)
        for turn in range(3):
            begin = time.perf_counter()
            for number in range(20):
                await add(f"alone{turn}", number)
            alone.append((time.perf_counter() - begin) / 20)
    return {
        "together": 1e3 * float(np.median(together)),
        "alone": 1e3 * float(np.median(alone)),
    }


def slow_disk() -> None:
    """Run the concurrent adds in a process whose syncs take 3 ms."""
    from helpers.power_loss import build_shim

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        shim = build_shim(folder)
        data = folder / "data"
        data.mkdir()
        environment = {
            **os.environ,
            "LD_PRELOAD": str(shim),
            "STORAGE_SHIM_PREFIX": str(data),
            "STORAGE_SHIM_SYNC_US": str(SYNC_US),
        }
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "bench.service.write_rates",
                "--child",
                str(data / "m.db"),
            ],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
    told = json.loads(done.stdout)
    print(
        f"\na sync takes {SYNC_US / 1000:g} ms: {told['together']:.2f} ms an add among "
        f"100 concurrent ones, {told['alone']:.2f} ms one after the other"
    )


def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        print(json.dumps(asyncio.run(concurrent_adds(options.child))))
        return
    asyncio.run(rates(options.rows))
    slow_disk()


if __name__ == "__main__":
    main()
