"""Splits long Python work into slices, so that event loops run between them.

One thread at a time holds the GIL. CPython takes the GIL from a busy thread only after
the switch interval, 5 ms. Work on vecall's own threads therefore pauses every
millisecond. `time.sleep(0)` is not enough: the same thread would take the GIL again
first.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import Protocol, TypeVar

T = TypeVar("T")
Paced = Callable[[Iterable[T]], Iterator[T]]
"""Iterates over items: `in_slices`, or `iter` on an event loop."""

_SLICE_S = 0.001
_SHORT_SLICE_S = 0.00025  # of work that gives way to busy threads
_PAUSE_S = 0.00002
_ALONE_S = 0.0002  # a longer pause means that another thread held the GIL
_REST_S = 0.005  # the longest pause


class Watched(Protocol):
    """Work that others may stop, or let wait."""

    def is_abandoned(self) -> bool:
        """Whether nobody waits for the work any more."""

    def pause(self) -> None:
        """Called between two slices; may wait, or raise to end the work."""


class _OfThread(threading.local):
    work: Watched | None = None


_of_thread = _OfThread()


@contextmanager
def watch_work(work: Watched) -> Iterator[None]:
    """Let work of this thread end or wait between two slices, during the block."""
    _of_thread.work = work
    try:
        yield
    finally:
        _of_thread.work = None


def watched_work() -> Watched | None:
    """Return the work of this thread that others may stop, if it is such work."""
    return _of_thread.work


class Slices:
    """Pauses the calling thread after each slice of work of 1 ms.

    A slice of work that gives way has 0.25 ms while other threads are busy.

    Not thread-safe. Do not use it in the thread of an event loop.

    An event loop releases the GIL at each socket read or write, and then waits for the
    rest of a slice. Work with `gives_way` uses at most half of the time, so a burst of
    requests takes at most twice as long. Without it, each socket operation takes up to
    one slice longer. Work of a `FairPool` always gives way.

    Args:
        gives_way: If other threads are busy, pause as long as the slice took, up to
            5 ms.
    """

    def __init__(self, *, gives_way: bool = False) -> None:
        """Start the first slice."""
        self._gives_way = gives_way
        self._length = _SLICE_S
        self._begin = time.perf_counter()

    def pause_if_due(self) -> None:
        """Pause if the current slice is over."""
        now = time.perf_counter()
        worked = now - self._begin
        if worked < self._length:
            return
        time.sleep(_PAUSE_S)
        work = _of_thread.work
        self._length = _SLICE_S
        gives_way = self._gives_way or work is not None
        if gives_way and time.perf_counter() - now > _ALONE_S:
            self._length = _SHORT_SLICE_S
            time.sleep(min(worked, _REST_S))
        if work is not None:
            work.pause()
        self._begin = time.perf_counter()


def in_slices(items: Iterable[T], *, gives_way: bool = False) -> Iterator[T]:
    """Yield items; pause between two items when a slice of 1 ms is over."""
    if isinstance(items, Sized) and len(items) < 2:
        return iter(items)  # most writes have one item, and there is no "between"
    return _pause_between_slices(items, gives_way)


def _pause_between_slices(items: Iterable[T], gives_way: bool) -> Iterator[T]:
    slices = Slices(gives_way=gives_way)
    for item in items:
        yield item
        slices.pause_if_due()
