"""A write, as the storage takes it."""

from __future__ import annotations

from typing import Any, Protocol

from vecall.store.rows import Change


class WriteJob(Protocol):
    """A write, as data; what it did is in its change and in its own attributes.

    A failed commit may be followed by another try, so `run` may be called again.
    """

    @property
    def estimated_bytes(self) -> int:
        """About how many bytes the file grows by; 0 for a job that frees some."""
        ...

    def run(self, transaction: Any, /) -> Change:
        """Carry it out. Only the storage calls this, in a transaction of its own."""
        ...
