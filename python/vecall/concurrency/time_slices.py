"""Splits long Python work into slices, so that an event loop can run between them.

The interpreter runs one thread at a time and takes it from a busy one only after its
switch interval, five milliseconds. Work on vecall's own threads pauses by itself after
each millisecond; a pause of nothing would not do, since the thread that makes it is
the first to be ready again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

_SLICE_S = 0.001
_PAUSE_S = 0.00002
_ALONE_S = 0.0002  # a pause is shorter where no other thread runs
_REST_S = 0.005


class Slices:
    """Pauses when a slice of work is over. For one thread, never an event loop's.

    An event loop gives the interpreter away whenever it reads or writes a socket, and
    then waits for the end of a slice. Work that gives way leaves it half of the time,
    so that a burst of requests takes twice as long at most, instead of a slice more for
    each socket.

    Args:
        gives_way: Pause for as long as the work took, up to 5 ms, while others work.
    """

    def __init__(self, *, gives_way: bool = False) -> None:
        """Begin a slice."""
        self._gives_way = gives_way
        self._begin = time.perf_counter()

    def pause_if_due(self) -> None:
        """Pause if a millisecond has passed since the last pause."""
        now = time.perf_counter()
        worked = now - self._begin
        if worked < _SLICE_S:
            return
        time.sleep(_PAUSE_S)
        if self._gives_way and time.perf_counter() - now > _ALONE_S:
            time.sleep(min(worked, _REST_S))
        self._begin = time.perf_counter()


def in_slices(items: Iterable[T], *, gives_way: bool = False) -> Iterator[T]:
    """Yield items, pausing between them when a slice is over.

    Args:
        items: What to yield.
        gives_way: As in `Slices`.
    """
    slices = Slices(gives_way=gives_way)
    for item in items:
        yield item
        slices.pause_if_due()
