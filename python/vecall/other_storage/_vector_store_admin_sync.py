"""Generated from VectorStoreAdmin by .ci/generate_sync; do not edit."""

from __future__ import annotations

from vecall.concurrency.join import run_sync
from vecall.other_storage.vector_store_sessions import VectorStoreSessions


class SyncVectorStoreAdmin:
    """The methods of `VectorStoreAdmin` for callers without an event loop.

    Each does exactly what its namesake does, and blocks until it is done.
    """

    def __init__(self, sessions: VectorStoreSessions) -> None:
        """Share the parts of a service."""
        self._sessions = sessions

    def run_due(self) -> int:
        """Make memories of the sessions that are due; return the number of sessions."""
        return run_sync(self._sessions.run_due())
