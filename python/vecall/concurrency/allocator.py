"""Returns memory that was freed, but is held by the allocator, to the system."""

from __future__ import annotations

import ctypes
import sys

_trim = (
    getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
)


def trim_heap() -> None:
    """Return freed memory where the allocator supports it (glibc).

    Takes milliseconds; the interpreter is free meanwhile.
    """
    if _trim is not None:
        _trim(0)
