"""Operations on the whole of a vector store; `sync` is the blocking twin."""

from __future__ import annotations

from vecall.concurrency.join import run_async
from vecall.other_storage._vector_store_admin_sync import SyncVectorStoreAdmin
from vecall.other_storage.vector_store_sessions import VectorStoreSessions


class VectorStoreAdmin:
    """Operations on the whole store of a service: `VectorStoreMemoryService.admin`.

    Every method has a blocking twin of the same name on `sync`.
    """

    _sessions: VectorStoreSessions

    def __init__(self, sessions: VectorStoreSessions) -> None:
        """Share the parts of a service."""
        self._sessions = sessions
        self._sync = SyncVectorStoreAdmin(sessions)

    @property
    def sync(self) -> SyncVectorStoreAdmin:
        """The same methods for callers without an event loop."""
        return self._sync

    async def run_due(self) -> int:
        """Make memories of the sessions that are due; return the number of sessions."""
        return await run_async(self._sessions.run_due())
