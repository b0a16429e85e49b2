"""Forks while a graph is being linked, exits meanwhile, and memory that runs out."""

from __future__ import annotations

import sys
import textwrap

import pytest
from helpers.processes import run

FORKING = """
    import os, signal, threading, time, warnings
    import numpy as np
    from vecall import Engine, Index

    warnings.simplefilter("ignore")  # Python's own about forks and threads
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((6000, 40)).astype(np.float32)
    ids = np.arange(6000, dtype=np.int64)
    index = Index(40, "hnsw", 6, 40)
    engine = Engine(40, kind="hnsw", m=6, ef_construction=40)
    index.add(ids[:3000], vectors[:3000])
    engine.add(("app", "user"), ids[:3000], vectors[:3000])

    def live_on(turn):
        signal.alarm(25)  # a child that hangs dies
        for at in (7, 2999):
            assert index.search(vectors[at], 1, 300)[0].tolist() == [at]
            assert engine.search(("app", "user"), vectors[at], 1, 300)[0] == [at]
        if turn % 2:
            index.build(threads=2)
            assert index.linked == len(index)
        begun = 3000 + 50 * turn
        index.add(ids[begun:], vectors[begun:])
        assert index.search(vectors[5999], 1)[0].tolist() == [5999]
        while index.linked < len(index):
            time.sleep(0.005)  # the background works here too
        assert index.search(vectors[5999], 1, 300)[0].tolist() == [5999]
        other = Index(40, "auto", flat_bytes=0)
        other.add(ids[:100], vectors[:100])
        other.build()
        assert other.linked == 100

    for turn in range(6):
        builder = threading.Thread(target=lambda: index.build(threads=2))
        if turn > 3:
            builder.start()
        child = os.fork()
        if child == 0:
            try:
                live_on(turn)
            except BaseException as problem:
                print(repr(problem), flush=True)
                os._exit(1)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        assert status == 0, f"child {turn}: {status}"
        if turn > 3:
            builder.join()
        index.add(ids[3000 + 50 * turn :][:50], vectors[3000 + 50 * turn :][:50])
    index.build()
    assert index.linked == 3300
    print("all came back")
"""

EXITING = """
    import numpy as np
    from vecall import Index

    index = Index(64, "hnsw", 16, 200)
    vectors = np.random.default_rng(1).standard_normal((20_000, 64))
    index.add(np.arange(20_000, dtype=np.int64), vectors.astype(np.float32))
    print("bye")
"""

MEMORY_RUNS_OUT = """
    import resource, sys
    import numpy as np
    from vecall import Index

    kind, dim = sys.argv[1], 2048
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((1000, dim)).astype(np.float32)
    ids = np.arange(1000, dtype=np.int64)
    index = Index(dim, kind, 4, 10, keep_float32=True)
    index.add(ids, vectors)
    index.build()
    index.search(vectors[0], 3)
    np.argsort(np.zeros(5))  # whatever numpy loads late

    pages = int(open("/proc/self/statm").read().split()[0])
    held = pages * resource.getpagesize()
    limit = held + 80 * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))

    refused = 0
    for turn in range(1, 200):
        before_len = len(index)
        before = index.search(vectors[9], 20, exact=True)
        new = ids + 1000 * turn
        new[:500] = ids[:500]  # half of the batch replaces rows
        try:
            index.add(new, vectors[::-1].copy() if turn % 2 else vectors)
        except MemoryError:
            refused += 1
            assert len(index) == before_len
            assert int(new[-1]) not in index
            again = index.search(vectors[9], 20, exact=True)
            assert [c.tobytes() for c in again] == [c.tobytes() for c in before]
            if refused == 3:
                break
        else:
            assert len(index) == before_len + 500
    assert refused == 3, refused
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
    more = np.arange(10**9, 10**9 + 500, dtype=np.int64)
    fresh = rng.standard_normal((500, dim)).astype(np.float32)
    index.add(more, fresh)
    for at in range(0, 500, 25):
        assert index.search(fresh[at], 1)[0].tolist() == [10**9 + at]
    index.build()
    for at in range(0, 500, 25):
        assert index.search(fresh[at], 1, exact=True)[0].tolist() == [10**9 + at]
    assert index.remove(more) == 500
    print("works again")
"""


def printed(script: str, *arguments: str) -> str:
    return run(textwrap.dedent(script), *arguments, timeout_s=120).stdout.strip()


def test_a_child_of_fork_searches_adds_and_links_whatever_the_parent_was_linking():
    assert printed(FORKING) == "all came back"


def test_a_process_may_end_while_rows_are_linked():
    assert printed(EXITING) == "bye"


@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_AS")
@pytest.mark.parametrize("kind", ["flat", "hnsw"])
def test_an_add_without_memory_changes_nothing_and_later_ones_work(kind):
    assert printed(MEMORY_RUNS_OUT, kind) == "works again"
