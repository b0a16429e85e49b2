"""Background work of a service: due sessions, expired memories, consolidation."""

from __future__ import annotations

from contextlib import suppress

from vecall.concurrency.join import Join
from vecall.errors import BusyError
from vecall.operations.consolidation import Consolidator
from vecall.operations.session_triggers import SessionObserver
from vecall.operations.writes_and_searches import WritesAndSearches
from vecall.store import Change, Sweep
from vecall.telemetry import observed

Key = tuple[str, str]

_SWEEP_BATCH = 1_000
_CLAIMED_USERS = 50
_LEASE_S = 120.0  # of the process that removes the expired data of users


class Housekeeping:
    """The periodic background work on one open file."""

    def __init__(
        self,
        memory: WritesAndSearches,
        sessions: SessionObserver,
        consolidator: Consolidator,
    ) -> None:
        """Combine the periodic work on an open file."""
        self._memory = memory
        self.telemetry = memory.telemetry
        self._sessions = sessions
        self._consolidator = consolidator

    @observed("run_due", int)
    async def run_due(self) -> int:
        """Run all work that is due; return the number of deleted memories."""
        self._memory.check_whole()
        self._memory.check_writable()
        await self._sessions.run_due()
        cleared = await self.sweep()
        await self._consolidator.run_plan()
        return cleared

    def _due_users(self) -> list[Key]:
        storage = self._memory.storage
        with storage.read() as reads:
            return reads.due_users(storage.expiry_clock.now())

    async def next_run(self) -> float | None:
        """Run due work; return the seconds until the next session is due, or None."""
        await self.run_due()
        pause: float | None = await Join(
            self._memory.search_index.partitions.submit(self._pause)
        )
        return pause

    def _pause(self) -> float | None:
        storage = self._memory.storage
        with storage.read() as reads:
            due = reads.next_due()
        return None if due is None else due - storage.expiry_clock.now()

    async def sweep(self) -> int:
        """Delete expired memories; return the number deleted."""
        cleared = 0
        scan = self._memory.search_index.partitions.submit_scan
        claims = self._memory.storage.claims
        if claims is None:
            for app, user in await Join(scan(None, self._due_users)):
                cleared += await self._swept(app, user)
            return cleared
        while claimed := await Join(scan(None, claims.users, _CLAIMED_USERS, _LEASE_S)):
            done = []
            for each in claimed:
                with suppress(BusyError):  # a locked user stays claimed
                    cleared += await self._swept(each.app, each.user)
                    done.append(each)
            await Join(scan(None, claims.release_users, done))
        return cleared

    async def _swept(self, app: str, user: str) -> int:
        """Delete a user's expired memories; return the number deleted."""
        cleared = 0
        while True:
            job = Sweep(app, user, _SWEEP_BATCH)
            change: Change = await Join(self._memory.storage.submit(job))
            cleared += len(change.removed)
            if len(change.removed) < _SWEEP_BATCH:
                return cleared
