"""The instructions that a search executes, in one build of vecall or in several.

    python -m bench.service.search_instructions
    python -m bench.service.search_instructions ../old-built ../new-built

Counted as `bench.service.write_instructions` counts those of a write, which explains
the builds. One user has 1,000 memories; a search returns five. "Words": no embedder.
"Known query": vectors of 512 dimensions, and the query's vector is in the cache. "New
query": each query is embedded, by a function that costs next to nothing, and then goes
through the map on queries of the local embedder if the build has one.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from bench.common import arguments, tables
from bench.service.write_instructions import WORDS, instructions, run

NAME = "bench.service.search_instructions"
MODES = ("words", "known query", "new query")
MEMORIES, DIM = 1_000, 512
FEW, MANY = 20, 220
USER = {"app_name": "bench", "user_id": "user"}


def worker(mode: str, searches: int) -> None:
    """Store the memories and search. Runs in a process of its own."""
    import numpy as np
    from vecall import FunctionEmbedder, MemoryService

    choose = random.Random(3)
    texts = [" ".join(choose.choices(WORDS, k=18)) for _ in range(MEMORIES)]
    queries = [" ".join(choose.choices(WORDS, k=6)) for _ in range(MANY)]
    known = np.random.default_rng(3).standard_normal((len(queries), DIM))
    known = known.astype(np.float32)
    place = {query: n for n, query in enumerate(queries)}

    def embed(some: list[str]) -> Any:
        if len(some) == 1 and some[0] in place:
            return known[place[some[0]] :][:1]
        return np.random.default_rng(len(some)).standard_normal((len(some), DIM))

    embedder: Any = None
    if mode != "words":
        embedder = FunctionEmbedder(embed, dimensions=DIM)
    if mode == "new query":
        embedder = _mapped(embedder)
    with MemoryService(embedder=embedder) as memory:
        memory.sync.add_memory(**USER, memories=texts)
        if mode == "known query":
            queries = queries[:FEW] * (MANY // FEW)
        for query in queries[:searches]:
            memory.sync.search_memory(**USER, query=query, top_k=5)


def _mapped(embedder: Any) -> Any:
    try:
        from vecall.embedders import MappedEmbedder, QueryMap
    except ImportError:  # a build before there were maps
        return embedder
    query_map = QueryMap.shipped("use-multilingual-v3")
    assert query_map is not None
    return MappedEmbedder(embedder, query_map)


def main() -> None:
    """Print the instructions of a search in each build."""
    parser = arguments.parser(__doc__)
    parser.add_argument("builds", nargs="*", type=Path, metavar="BUILD")
    builds: list[Path | None] = list(parser.parse_args().builds) or [None]
    rows = []
    for build in builds:
        run(build, NAME, "worker('new query', 1)")  # compiles modules
        cells = []
        for mode in MODES:
            few, many = (
                instructions(build, NAME, f"worker({mode!r}, {count})")
                for count in (FEW, MANY)
            )
            cells.append(f"{(many - few) / (MANY - FEW):,.0f}")
        rows.append(["installed" if build is None else build.name, *cells])
    print(tables.table(["build", *MODES], rows))


if __name__ == "__main__":
    main()
