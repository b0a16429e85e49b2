"""The interface of mem0's open-source `Memory`, for those who come from there.

It needs no extra and no model. `docs/guide/mem0.md` says what differs.
"""

from __future__ import annotations

from vecall.mem0.entries import MemoryIdError, MemoryNotFoundError
from vecall.mem0.memory import AsyncMemory, Memory

__all__ = ["AsyncMemory", "Memory", "MemoryIdError", "MemoryNotFoundError"]
