"""Ingest rate, file size and time to reopen: all of LoCoMo in one file.

    python -m bench.service.ingest path/to/locomo10.json [--embedder local]

Each figure comes from a fresh service on a fresh file; the file is still in the
operating system's cache when it is opened again.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from vecall import MemoryService, StorageOptions
from vecall.embedders import resolve
from vecall.evaluation.datasets import read_locomo

from bench.common import arguments

APP = "bench"


def main() -> None:
    """Print the figures."""
    parser = arguments.parser(__doc__)
    parser.add_argument("locomo", type=Path, help="locomo10.json")
    parser.add_argument("--embedder", default="none", help="default: words alone")
    options = parser.parse_args()
    conversations = read_locomo(options.locomo, APP)
    embedder = resolve(options.embedder)
    for durability in ("full", "process"):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "memory.db"
            turns = 0
            begin, cpu = time.perf_counter(), time.process_time()
            with MemoryService(
                file, storage=StorageOptions(durability=durability), embedder=embedder
            ) as memory:
                for told in conversations:
                    for session in told.sessions:
                        turns += len(memory.sync.add_session_to_memory(session))
                seconds = time.perf_counter() - begin
                cpu = time.process_time() - cpu
            print(
                f"durability={durability}: {turns:,} turns in sessions of about 20: "
                f"{seconds:.2f} s, {turns / seconds:,.0f} turns/s, "
                f"{turns / cpu:,.0f} a CPU second; file "
                f"{file.stat().st_size / 1e6:.2f} MB, "
                f"{file.stat().st_size / turns:.0f} bytes a turn"
            )
            asked = conversations[2]
            begin = time.perf_counter()
            with MemoryService(file, embedder=embedder) as memory:
                opened = time.perf_counter()
                for name in ("first", "second"):
                    before = time.perf_counter()
                    memory.sync.search_memory(
                        app_name=APP,
                        user_id=asked.user_id,
                        query=asked.questions[0].text,
                    )
                    after = time.perf_counter()
                    milliseconds = 1e3 * (after - before)
                    print(f"  {name} search after reopening: {milliseconds:.2f} ms")
                print(f"  reopening itself: {1e3 * (opened - begin):.2f} ms")


if __name__ == "__main__":
    main()
