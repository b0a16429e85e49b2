"""Giving memory back to the system that was freed but kept by the allocator."""

from __future__ import annotations

import ctypes
import sys

_trim = (
    getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
)


def trim_heap() -> None:
    """Return freed memory where the allocator can be asked to (glibc).

    Takes milliseconds; the interpreter is free meanwhile.
    """
    if _trim is not None:
        _trim(0)
