"""The instructions that a write executes, in one build of vecall or in several.

    python -m bench.service.write_instructions
    pip install --no-deps --target ../old-built ../old
    python -m bench.service.write_instructions ../old-built ../new-built

valgrind's callgrind counts the instructions of the process, kernel not included. The
count does not depend on the load of the machine. The cost of a call is the difference
between a process that makes more calls and one that makes fewer. A build is a folder
that pip installed vecall into; without one, the vecall of this environment is counted.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.common import arguments, tables

WORDS = (
    "parrot bicycle garden window train evening doctor summer yellow coffee music "
    "project deadline travel hotel river mountain family sister brother birthday"
).split()
TURNS = 20  # of a session
FEW, SESSIONS, SINGLE = 5, 45, 41
DIM = 256
NAME = "bench.service.write_instructions"


def worker(vectors: bool, sessions: int, single: int) -> None:
    """Write sessions and single turns. Runs in a process of its own."""
    import numpy as np
    from vecall import FunctionEmbedder, MemoryService

    def embed(texts: list[str]) -> np.ndarray:
        return np.random.default_rng(len(texts)).standard_normal((len(texts), DIM))

    choose = random.Random(3)

    def turn(name: str, seconds: float) -> dict[str, object]:
        text = " ".join(choose.choice(WORDS) for _ in range(18))
        return {"content": text, "author": "user", "id": name, "timestamp": seconds}

    embedder = FunctionEmbedder(embed, dimensions=DIM) if vectors else None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "memory.db"
        with MemoryService(file, embedder=embedder) as memory:
            for number in range(sessions):
                begin = 1.7e9 + 1_000 * number
                events = [turn(f"{number} {n}", begin + n) for n in range(TURNS)]
                memory.sync.add_session_to_memory(
                    {
                        "app_name": "bench",
                        "user_id": f"user {number % 10}",
                        "id": f"session {number}",
                        "events": events,
                    }
                )
            for number in range(single):
                memory.sync.add_events_to_memory(
                    app_name="bench",
                    user_id="user 1",
                    session_id="single",
                    events=[turn(f"single {number}", 1.8e9 + number)],
                )


def run(build: Path | None, module: str, call: str, *before: str) -> None:
    """Call a function in a process of its own, which a program may run: `before`."""
    path = [str(Path(__file__).parents[2])]
    if build is not None:
        path.insert(0, str(build.resolve()))
    subprocess.run(
        [*before, sys.executable, "-c", f"from {module} import worker; {call}"],
        check=True,
        capture_output=True,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path),
            "PYTHONHASHSEED": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "VECALL_ISA": "avx2",  # valgrind knows no AVX-512
        },
    )


def instructions(build: Path | None, module: str, call: str) -> int:
    """Return the instructions of a process that calls `worker` of a module."""
    with tempfile.TemporaryDirectory() as folder:
        counts = Path(folder) / "counts"
        valgrind = ("valgrind", "--tool=callgrind", f"--callgrind-out-file={counts}")
        run(build, module, call, *valgrind)
        lines = counts.read_text("utf-8", "replace").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("summary:"))


def main() -> None:
    """Print the instructions of a turn in each build."""
    parser = arguments.parser(__doc__)
    parser.add_argument("builds", nargs="*", type=Path, metavar="BUILD")
    builds: list[Path | None] = list(parser.parse_args().builds) or [None]
    rows = []
    for build in builds:
        run(
            build, NAME, "worker(True, 1, 1)"
        )  # compiles modules, to be counted in none
        for vectors in (False, True):
            base = instructions(build, NAME, f"worker({vectors}, {FEW}, 1)")
            more = instructions(build, NAME, f"worker({vectors}, {SESSIONS}, 1)")
            session = more - base
            more = instructions(build, NAME, f"worker({vectors}, {FEW}, {SINGLE})")
            single = more - base
            rows.append(
                [
                    "installed" if build is None else build.name,
                    "words and vectors" if vectors else "words",
                    f"{session / (SESSIONS - FEW) / TURNS:,.0f}",
                    f"{single / (SINGLE - 1):,.0f}",
                ]
            )
    head = ["build", "search by", f"a turn of a session of {TURNS}", "a single turn"]
    print(tables.table(head, rows))


if __name__ == "__main__":
    main()
