"""The interface of mem0's open-source `Memory`, for those who come from there.

It needs no extra and no model. `docs/guide/mem0.md` says what differs.
"""

from __future__ import annotations

from vecall.mem0.asynchronous import AsyncMemory
from vecall.mem0.blocking import Memory
from vecall.mem0.ids import MemoryIdError, MemoryNotFoundError

__all__ = ["AsyncMemory", "Memory", "MemoryIdError", "MemoryNotFoundError"]
