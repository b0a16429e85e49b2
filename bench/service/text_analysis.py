"""The text analysis in C++ beside that in Python, and a first search from rows.

    python -m bench.service.text_analysis path/to/locomo10.json

All turns of LoCoMo. The two analyses take turns; each figure is CPU time, the least of
some rounds. "new words" is the first round of a process, in which words get stems.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from vecall import MemoryService, StorageOptions
from vecall.evaluation.datasets import read_locomo
from vecall.lexical import memory_terms, terms_of_memories

from bench.common import arguments

ME = {"app_name": "bench", "user_id": "one"}
ROUNDS = 5
BATCH = 128


def micros(work: Callable[[], Any], count: int) -> float:
    """Return the CPU time of a call in microseconds for each of `count`."""
    begin = time.process_time()
    work()
    return 1e6 * (time.process_time() - begin) / count


def analyses(turns: list[tuple[str, str | None, float | None]]) -> None:
    """Print the figures of the analysis, and whether the terms are equal."""

    def compiled() -> list[Any]:
        found: list[Any] = []
        for at in range(0, len(turns), BATCH):
            terms, offsets = terms_of_memories(turns[at : at + BATCH])
            found += np.split(terms, offsets[1:-1])
        return found

    def reference() -> list[Any]:
        return [memory_terms(*turn) for turn in turns]

    count = len(turns)
    new = micros(compiled, count)
    pairs = [(micros(reference, count), micros(compiled, count)) for _ in range(ROUNDS)]
    python, cpp = map(min, zip(*pairs, strict=True))
    equal = all(
        one.tolist() == other
        for one, other in zip(compiled(), reference(), strict=True)
    )
    print(
        f"{count:,} turns: Python {python:.1f} us a turn, C++ {cpp:.1f} "
        f"({new:.1f} with new words); equal terms: {equal}"
    )


def first_search(sessions: list[Any], file: Path) -> None:
    """Print the CPU time of first searches without a snapshot."""
    storage = StorageOptions(durability="process")
    with MemoryService(file, embedder=None, storage=storage) as memory:
        for number, session in enumerate(sessions):
            told = replace(session, **ME, id=f"s{number}")
            told = replace(
                told, events=[replace(e, id=f"{number}-{e.id}") for e in told.events]
            )
            memory.sync.add_session_to_memory(told)
    found = []
    for _ in range(ROUNDS):
        shutil.rmtree(file.with_name(file.name + ".snap"), ignore_errors=True)
        with MemoryService(file, embedder=None) as memory:
            rows = memory.sync.count_memories(**ME)
            search = partial(memory.sync.search_memory, **ME, query="tea")
            found.append(micros(search, rows))
    print(f"first search of {rows:,} memories from rows: {min(found):.1f} us a memory")


def main() -> None:
    """Print the figures."""
    parser = arguments.parser(__doc__)
    parser.add_argument("locomo", type=Path, help="locomo10.json")
    told = read_locomo(parser.parse_args().locomo, "bench")
    sessions = [session for each in told for session in each.sessions]
    analyses(
        [
            (event.content, event.author, event.timestamp)
            for session in sessions
            for event in session.events
        ]
    )
    with tempfile.TemporaryDirectory() as folder:
        first_search(sessions, Path(folder) / "memory.db")


if __name__ == "__main__":
    main()
