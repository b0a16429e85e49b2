"""Latencies of a LangGraph store: vecall's, and LangGraph's own two, in one run.

    python -m bench.service.langgraph_store [--items 10000] [--namespaces 100]

Needs vecall[langgraph]; SqliteStore needs langgraph-checkpoint-sqlite, and a Python
whose sqlite3 loads extensions, for searches by vector. A store that is missing, or that
cannot do something, has a dash. Embedding costs nothing: each text has a stored vector.
"sync" is one write and fsync of 4 KiB in the same folder, to compare a put with.
"""

from __future__ import annotations

import argparse
import sqlite3
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bench.common import arguments
from bench.service.items import DIM, sync_times, timed

TARGETS_US = {
    "get": 20.0,
    "search a namespace": 400.0,
    "search all": 5_000.0,
    "list namespaces": 150.0,
}


class Vectors:
    """A stored unit vector for each text."""

    def __init__(self) -> None:
        self._known: dict[str, list[float]] = {}

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors of texts."""
        return [self._known.get(text) or self._made(text) for text in texts]

    def _made(self, text: str) -> list[float]:
        seed = np.frombuffer(text.encode().ljust(8, b"."), np.uint8)
        vector = np.random.default_rng(seed).standard_normal(DIM)
        self._known[text] = (vector / np.linalg.norm(vector)).tolist()
        return self._known[text]


@contextmanager
def vecall_store(folder: Path, index: dict[str, Any]) -> Iterator[Any]:
    """Vecall's store over a new file."""
    from vecall.langgraph import VecallStore

    with VecallStore(folder / "vecall.db", index=index) as store:
        yield store


@contextmanager
def in_memory_store(folder: Path, index: dict[str, Any]) -> Iterator[Any]:
    """LangGraph's store in memory."""
    from langgraph.store.memory import InMemoryStore

    del folder
    yield InMemoryStore(index=index)


@contextmanager
def sqlite_store(folder: Path, index: dict[str, Any]) -> Iterator[Any]:
    """LangGraph's store over a new SQLite file."""
    from langgraph.store.sqlite import SqliteStore

    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        index = {}  # without vectors
    given = {"index": {**index, "text_fields": index["fields"]}} if index else {}
    with SqliteStore.from_conn_string(str(folder / "sqlite.db"), **given) as store:
        store.setup()
        store.has_vectors = bool(index)
        yield store


STORES = {
    "VecallStore": vecall_store,
    "InMemoryStore": in_memory_store,
    "SqliteStore": sqlite_store,
}


def measure(store: Any, options: argparse.Namespace, embed: Vectors) -> dict[str, Any]:
    """Return the times in microseconds, by call."""
    from langgraph.store.base import PutOp

    texts = [f"text {n}" for n in range(options.items)]
    embed(texts)

    def place(number: int) -> tuple[str, str]:
        return ("memories", f"user{number % options.namespaces}")

    for at in range(0, options.items, 500):
        store.batch(
            [
                PutOp(place(n), f"key{n}", {"text": texts[n], "n": n})
                for n in range(at, min(at + 500, options.items))
            ]
        )
    queries = [f"query {n}" for n in range(50)]
    embed(queries)

    def query(number: int) -> str:
        return queries[number % len(queries)]

    calls: dict[str, tuple[Callable[[int], Any], int]] = {
        "get": (lambda n: store.get(place(7 * n), f"key{7 * n % options.items}"), 2000),
        "put": (lambda n: store.put(place(n), f"key{n}", {"text": texts[n]}), 100),
        "list a namespace": (lambda n: store.search(place(n), limit=10), 200),
        "list namespaces": (lambda _: store.list_namespaces(limit=100), 100),
    }
    if getattr(store, "has_vectors", True):
        calls |= {
            "search a namespace": (
                lambda n: store.search(place(n), query=query(n), limit=10),
                10 * options.namespaces,  # the first search of each loads it
            ),
            "search all": (
                lambda n: store.search(("memories",), query=query(n), limit=10),
                20,
            ),
        }
    return {name: timed(call, count) for name, (call, count) in calls.items()}


def main() -> None:
    """Print a table with a column for each store."""
    parser = arguments.parser(__doc__)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--namespaces", type=int, default=100)
    parser.add_argument("--folder", type=Path, help="of the files (default: a new one)")
    options = parser.parse_args()
    embed = Vectors()
    index = {"dims": DIM, "embed": embed, "fields": ["text"]}
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(dir=options.folder) as name, ExitStack() as stack:
        folder = Path(name)
        sync = statistics.median(sync_times(folder, 50))
        for title, opened in STORES.items():
            try:
                store = stack.enter_context(opened(folder, index))
            except ImportError:
                continue
            found[title] = measure(store, options, embed)
    print(f"{options.items:,} items, {DIM} dimensions, {options.namespaces} namespaces")
    print(f"sync {sync:,.0f} us; medians in us")
    print(f"{'':20}" + "".join(f"{title:>16}" for title in STORES) + "          target")
    for call in ["put", "get", "list a namespace", *list(TARGETS_US)[1:]]:
        cells = [
            f"{statistics.median(found[title][call]):16,.1f}"
            if call in found.get(title, {})
            else f"{'-':>16}"
            for title in STORES
        ]
        target = TARGETS_US.get(call)
        wanted = "" if target is None else f"{target:16,.0f}"
        print(f"{call:20}" + "".join(cells) + wanted)


if __name__ == "__main__":
    main()
