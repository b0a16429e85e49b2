"""CPU time of calls beside searches and adds, in two builds of vecall.

    python -m bench.service.other_calls ../old-built ../new-built [--rounds 3]

Builds are made as for `bench.service.compare_builds`. Each round runs a process of each
build, which makes the same calls on a new file. A figure is the median of its calls; of
the rounds the median is shown, with the ratio of the two.
"""

from __future__ import annotations

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

from vecall import MemoryService, Put

from bench.common import arguments

Times = dict[str, float]


def main() -> None:
    """Run the builds in turn, and print a table."""
    parser = arguments.parser(__doc__)
    parser.add_argument("builds", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if not options.builds:  # a process of a round
        json.dump(measured(), sys.stdout)
        return
    rounds: list[list[Times]] = [[] for _ in options.builds]
    for _ in range(options.rounds):
        for build, found in zip(options.builds, rounds, strict=True):
            here = str(Path.cwd())
            path = os.pathsep.join([str(build.resolve()), here])
            done = subprocess.run(
                [sys.executable, "-m", "bench.service.other_calls"],
                env={**os.environ, "PYTHONPATH": path},
                capture_output=True,
                text=True,
                check=True,
            )
            found.append(json.loads(done.stdout))
    print("| CPU us | old | new | ratio |\n|---|---|---|---|")
    for name in rounds[0][0]:
        old, new = (statistics.median(each[name] for each in of) for of in rounds)
        print(f"| {name} | {old:,.0f} | {new:,.0f} | {new / old:.2f} |")


def measured() -> Times:
    """Return the median of the CPU microseconds of each call, of one item."""
    rng = random.Random(5)
    times: Times = {}

    def text() -> str:
        return " ".join(f"word{rng.randrange(3_000)}" for _ in range(14))

    def take(name: str, count: int, items: int, call: Callable[[int], Any]) -> None:
        taken = []
        for turn in range(count):
            begin = time.process_time()
            call(turn)
            taken.append(time.process_time() - begin)
        times[name] = statistics.median(taken) * 1e6 / items

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "memory.db"
        with MemoryService(file, embedder=None) as memory:
            measure(memory, take, text, Path(folder))
    return times


def measure(
    memory: MemoryService,
    take: Callable[[str, int, int, Callable[[int], Any]], None],
    text: Callable[[], str],
    folder: Path,
) -> None:
    """Make the calls."""
    user, admin = memory.sync.user("app", "user"), memory.sync.admin
    many = [[text() for _ in range(100)] for _ in range(20)]
    ids: list[str] = []
    take(
        "an add of a hundred, each",
        20,
        100,
        lambda n: ids.extend(map(str, user.add(many[n]))),
    )
    turns = [[{"id": f"{n} {k}", "text": text()} for k in range(20)] for n in range(60)]
    told = [turns[n][:19] for n in range(60)]

    def add_events(given: list[list[dict[str, str]]]) -> Callable[[int], Any]:
        return lambda n: user.add_events(given[n], session_id=f"session {n}")

    take("19 turns, each", 60, 19, add_events(told))
    take("the same with one more", 60, 1, add_events(turns))
    take("get", 200, 1, lambda n: user.get(ids[n]))
    take("get_many of a hundred", 50, 1, lambda _: user.get_many(ids[:100]))
    take("list of fifty", 50, 1, lambda _: user.list(limit=50))
    take("count", 50, 1, lambda _: user.count())
    take("stats", 50, 1, lambda _: admin.stats())
    changed = [text() for _ in range(100)]
    take("update", 100, 1, lambda n: user.update(ids[n], content=changed[n]))
    take("archive", 100, 1, lambda n: user.archive(ids[n + 100]))
    take("restore", 100, 1, lambda n: user.restore(ids[n + 100]))
    take("delete", 200, 1, lambda n: user.delete(ids[n + 200]))
    parts = [ids[at : at + 100] for at in range(400, 1_400, 100)]
    take(
        "delete_many of a hundred, each", 10, 100, lambda n: user.delete_many(parts[n])
    )
    take("delete_session", 50, 1, lambda n: user.delete_session(f"session {n}"))
    puts = [[Put(("n",), f"{n} {k}", {"n": n}) for k in range(100)] for n in range(12)]
    take(
        "a write of a hundred items, each", 12, 100, lambda n: user.items.write(puts[n])
    )
    take("find of items", 50, 1, lambda _: user.items.find(("n",), where={"n": 7}))
    for name in range(8):
        other = memory.sync.user("app", str(name))
        for _ in range(2):
            other.add([text() for _ in range(1_000)])

    def delete(turn: int) -> None:
        memory.sync.delete_user(app_name="app", user_id=str(turn))

    exported = folder / "exported.jsonl"
    take("export of all", 1, 1, lambda _: admin.export_jsonl(exported))

    def read(_: int) -> None:
        with MemoryService(folder / "imported.db", embedder=None) as empty:
            empty.sync.admin.import_jsonl(exported)

    take("import of all", 1, 1, read)
    take("delete_user of 2,000, each", 8, 2_000, delete)


if __name__ == "__main__":
    main()
