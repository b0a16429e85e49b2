"""vecall as the memory of google-adk agents. Needs the extra `vecall[adk]`."""

from __future__ import annotations

from vecall.adk.convert import entry
from vecall.adk.memory_service import VecallMemoryService, register

__all__ = ["VecallMemoryService", "entry", "register"]
