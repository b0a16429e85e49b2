"""Random calls on a file, in memory and over PostgreSQL: every answer must be equal.

    python -m bench.durability.random_calls --calls 1000000 [--seed N]

Two services on each storage share a clock that only the program moves. A program has
500 calls. The exit status is 1 if two storages gave different answers; the programs are
named by their seeds and can be repeated.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from helpers.random_calls import DifferenceError, Program

from bench.common import arguments

CALLS_A_PROGRAM = 500


def main() -> int:
    parser = arguments.parser(__doc__)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1, help="of the first program")
    options = parser.parse_args()
    done = 0
    differences: list[str] = []
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        seed = options.seed
        while done < options.calls and len(differences) < 10:
            program = Program(seed, Path(folder))
            try:
                program.run(min(CALLS_A_PROGRAM, options.calls - done))
            except DifferenceError as difference:
                differences.append(str(difference))
                print(difference, flush=True)
            finally:
                program.close()
            done += program.calls
            if (seed - options.seed) % 100 == 99:
                print(f"{done} calls, {time.monotonic() - began:.0f} s", flush=True)
            seed += 1
    print(f"{done} calls on 3 storages, {len(differences)} differences")
    return bool(differences)


if __name__ == "__main__":
    sys.exit(main())
