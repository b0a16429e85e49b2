"""Long Python work in slices, so that an event loop is let in between them.

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


class Slices:
    """Pauses when a slice of work is over. For one thread, never an event loop's."""

    def __init__(self) -> None:
        """Begin a slice."""
        self._end = time.perf_counter() + _SLICE_S

    def pause_if_due(self) -> None:
        """Let others in if a millisecond has passed since the last time."""
        if time.perf_counter() >= self._end:
            time.sleep(_PAUSE_S)
            self._end = time.perf_counter() + _SLICE_S


def in_slices(items: Iterable[T]) -> Iterator[T]:
    """Yield items, pausing between them when a slice is over."""
    slices = Slices()
    for item in items:
        yield item
        slices.pause_if_due()
