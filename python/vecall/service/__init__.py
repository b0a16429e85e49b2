"""MemoryService, asynchronous and blocking."""

from __future__ import annotations
