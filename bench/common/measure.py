"""Interleaved timing, memory in a child process, bandwidth, facts of the machine."""

from __future__ import annotations

import concurrent.futures
import ctypes
import gc
import multiprocessing
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import vecall
from numpy.typing import NDArray

from bench.common.datasets import Data

if TYPE_CHECKING:
    from bench.vector.candidate import Candidate

K = 10
PACKAGES = ("hnswlib", "usearch", "faiss-cpu", "scalable-vs", "numpy")
Search = Callable[[NDArray], Any]


def take_turns(
    searches: dict[str, Search],
    queries: NDArray,
    rounds: int,
    seconds: float = 0.15,
    fewest: int = 20,
) -> dict[str, list[float]]:
    """Return, for each candidate, the median seconds a query of each round.

    In a round every candidate takes one turn of about `seconds`, each query timed by
    itself after a few that are not. The one that begins changes with the round, so that
    none always follows the same.
    """
    turns = {}
    for name, search in searches.items():
        once = min(_times(search, queries[:5]))
        turns[name] = max(min(int(seconds / once), len(queries)), fewest)
    names = list(searches)
    medians: dict[str, list[float]] = {name: [] for name in names}
    gc.collect()
    gc.disable()
    try:
        for turn in range(rounds):
            first = turn % len(names)
            for name in names[first:] + names[:first]:
                asked = [queries[i % len(queries)] for i in range(turns[name])]
                _times(searches[name], asked[:3])
                times = _times(searches[name], asked)
                medians[name].append(statistics.median(times))
    finally:
        gc.enable()
    return medians


def _times(search: Search, queries: Iterable[NDArray]) -> list[float]:
    clock = time.perf_counter_ns
    times = []
    for query in queries:
        begin = clock()
        search(query)
        times.append((clock() - begin) * 1e-9)
    return times


def ratio(of: Sequence[float], to: Sequence[float]) -> float:
    """Return how many times longer `of` took than `to`, the median over rounds."""
    return statistics.median(a / b for a, b in zip(of, to, strict=True))


def searching(candidate: Candidate, k: int = K) -> Search:
    """Return the function that answers one query."""
    return lambda query: candidate.search(query, k)


def recall_of(candidate: Candidate, data: Data, k: int = K) -> float:
    """Return the recall over all queries."""
    return data.recall([candidate.search(query, k) for query in data.queries], k)


def tune(
    candidate: Candidate, data: Data, target: float, k: int = K
) -> tuple[int, float]:
    """Set the smallest breadth that reaches a recall; return it and the recall.

    Where none does, the largest stays set. Breadth 0 means that it has none.
    """
    recall = 0.0
    for ef in candidate.efs:
        candidate.set_ef(ef)
        recall = recall_of(candidate, data, k)
        if recall >= target:
            return ef, recall
    return (
        (candidate.efs[-1], recall)
        if candidate.efs
        else (0, recall_of(candidate, data, k))
    )


_built: dict[tuple[Any, ...], tuple[Candidate, float, float]] = {}


def built(candidate: Candidate, data: Data) -> tuple[Candidate, float, float]:
    """Return the candidate built, and the wall and processor seconds it took once."""
    key = (type(candidate), candidate.name, bool(candidate.efs), data.name, len(data))
    if key not in _built:
        wall, cpu = time.perf_counter(), time.process_time()
        candidate.build(data.vectors)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        _built[key] = candidate, wall, cpu
    return _built[key]


def forget() -> None:
    """Let go of the indexes that `built` keeps."""
    _built.clear()
    gc.collect()


def rss() -> int | None:
    """Return the resident bytes of this process, or None where /proc is not."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, AttributeError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def in_child(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a module's function returns in a fresh process."""
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(function, *arguments).result()


def reading(nbytes: float) -> Search:
    """Return what reads so many bytes: the dot product of two halves, in float32.

    Numpy has nothing that streams much better. Where the bytes fit a cache this is the
    cache's bandwidth.
    """
    # Ones: untouched zeros would all be one page.
    a, b = (np.ones(max(1, round(nbytes / 8)), np.float32) for _ in range(2))
    return lambda _: np.dot(a, b)


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    facts: dict[str, Any] = {"cpu": platform.processor() or platform.machine()}
    described = Path("/proc/cpuinfo")
    if described.exists():
        for line in described.read_text().splitlines():
            if line.startswith("model name"):
                facts["cpu"] = line.split(":", 1)[1].strip()
                break
    for cache in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = (
            (cache / name).read_text().strip() for name in ("level", "type", "size")
        )
        facts[f"L{level} {kind.lower()}"] = size
    facts["cores"] = os.cpu_count()
    facts["system"] = platform.platform()
    facts["python"] = sys.version.split()[0]
    info = vecall.build_info()
    facts["vecall"] = ", ".join(info[k] for k in ("version", "active_isa", "compiler"))
    for package in PACKAGES:
        try:
            facts[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            facts[package] = "not installed"
    size = 512 << 20
    best = min(_times(reading(size), [np.empty(0)] * 9))
    facts["read bandwidth of 512 MB, GB/s"] = round(size / best / 1e9, 1)
    return facts
