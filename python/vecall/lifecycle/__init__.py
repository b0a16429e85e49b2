"""When memories are made of sessions, and how old ones are consolidated."""

from __future__ import annotations

from vecall.lifecycle.triggers import (
    Compaction,
    Inactivity,
    MessageCount,
    SessionEnd,
    Trigger,
)

__all__ = ["Compaction", "Inactivity", "MessageCount", "SessionEnd", "Trigger"]
