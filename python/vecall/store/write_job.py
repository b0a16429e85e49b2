"""The interface of a write job."""

from __future__ import annotations

from typing import Any, Protocol

from vecall.store.rows import Change


class WriteJob(Protocol):
    """A write, as data. Its results are the `Change` and its own attributes.

    `run` may be called again, because a failed commit may be retried.
    """

    @property
    def estimated_bytes(self) -> int:
        """Estimate of the file's growth in bytes; 0 for a job that frees space."""
        ...

    def run(self, transaction: Any, /) -> Change:
        """Execute the job. Only the storage calls this, inside a transaction."""
        ...
