"""Returns freed heap memory from the allocator to the operating system."""

from __future__ import annotations

import ctypes
import sys

_trim = (
    getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
)


def trim_heap() -> None:
    """Return freed heap memory to the operating system, with `malloc_trim` of glibc.

    Does nothing with other allocators. Takes milliseconds; the GIL is released.
    """
    if _trim is not None:
        _trim(0)
