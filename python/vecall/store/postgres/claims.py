"""Shares periodic work between servers: each piece has one claimant, under a lease.

No server leads. A claim is one short transaction that skips rows which another one
holds locked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import TypeVar

from vecall.concurrency.freed_frames import free_frames
from vecall.errors import BusyError
from vecall.store.postgres.connections import LOCK_WAIT_S
from vecall.store.postgres.errors import AGAIN, database_errors
from vecall.store.postgres.transaction import PostgresTransaction
from vecall.store.protocol.claims import ClaimedRows, ClaimedUser
from vecall.store.reads.partition_reads import load_rows
from vecall.store.results import DueSession
from vecall.store.rows import Change
from vecall.store.write_job import WriteJob
from vecall.store.writes.model_migration import require_migrating
from vecall.store.writes.session_buffer import ClaimSession

T = TypeVar("T")
_Claimed = tuple[str, str, str, bool]

_TRIES = 5
_PAUSE_S = 0.05

_SESSION = """
WITH due AS MATERIALIZED (
  SELECT part, session, kind FROM trig WHERE due_at <= :now
  ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED
)
UPDATE trig SET due_at = :until FROM part, due
WHERE trig.part = due.part AND trig.session = due.session AND trig.kind = due.kind
AND part.id = trig.part
RETURNING part.app, part.user, trig.session, EXISTS (SELECT 1 FROM told
  WHERE told.part = trig.part AND told.session = trig.session
  AND told.event IS NOT NULL)
"""
_USERS = """
WITH due AS MATERIALIZED (
  SELECT id FROM part WHERE (sweep_until IS NULL OR sweep_until <= :now) AND id IN (
    SELECT part FROM mem WHERE expires_at <= :now UNION
    SELECT part FROM mem WHERE valid_until <= :now AND state = 'live' UNION
    SELECT part FROM hist WHERE expires_at <= :now UNION
    SELECT part FROM item WHERE expires_at <= :now)
  LIMIT :most FOR UPDATE SKIP LOCKED
)
UPDATE part SET sweep_until = :until FROM due WHERE part.id = due.id
RETURNING part.id, part.app, part.user
"""
_RELEASE = "UPDATE part SET sweep_until = NULL WHERE id = ?"
_RELEASE_FREE = """
WITH free AS MATERIALIZED (
  SELECT id FROM part WHERE id = ANY(:parts) FOR UPDATE SKIP LOCKED
), done AS (
  UPDATE part SET sweep_until = NULL FROM free WHERE part.id = free.id
)
SELECT id FROM part WHERE id = ANY(:parts) AND id NOT IN (SELECT id FROM free)
"""
# The next rows of the pass leave entries without a vector, so the cursor may move on:
# a claimant that dies loses none of them.
_PASS = """
INSERT INTO vec_next (rid, model, vec, until)
SELECT rid, CAST(:model AS INTEGER), x'', CAST(:until AS FLOAT8) FROM (
  SELECT rid FROM mem WHERE rid > :cursor ORDER BY rid LIMIT :most FOR KEY SHARE
) AS next
ON CONFLICT (rid) DO UPDATE SET until = excluded.until
RETURNING rid
"""
_LEFT = """
WITH due AS MATERIALIZED (
  SELECT rid FROM vec_next WHERE vec = x'' AND (until IS NULL OR until <= :now)
  ORDER BY rid LIMIT :most FOR UPDATE SKIP LOCKED
)
UPDATE vec_next SET until = :until FROM due WHERE vec_next.rid = due.rid
RETURNING vec_next.rid
"""
_OTHERS = (
    "SELECT 1 FROM vec_next WHERE vec = x'' AND (until IS NULL OR until < 'infinity') "
    "LIMIT 1"
)


class PostgresClaims:
    """Implements `Claims`."""

    def __init__(
        self,
        claiming: Callable[[], AbstractContextManager[PostgresTransaction]],
        submit: Callable[[WriteJob], Future[Change]],
    ) -> None:
        """Share the work of one storage.

        Args:
            claiming: Begins a transaction across users, and commits it.
            submit: Queues a write job.
        """
        self._claiming = claiming
        self._submit = submit

    def session(self, lease_s: float) -> DueSession | None:
        """Claim a due session; see `Claims.session`."""

        def claim(
            transaction: PostgresTransaction,
        ) -> tuple[str, str, str, bool] | None:
            now = transaction.expiry_clock.now()
            given = {"now": now, "until": now + lease_s}
            found: _Claimed | None = transaction.execute(_SESSION, given).fetchone()
            return found

        while (claimed := self._claimed(claim)) is not None:
            session, has_turns = DueSession(*claimed[:3]), claimed[3]
            if has_turns:
                return session
            # Under the lock of the user: disarm it, unless it has turns by now.
            with suppress(BusyError):  # a locked user's session stays claimed
                if self._submit(ClaimSession(*session, lease_s)).result().ids:
                    return session
        return None

    def users(self, most: int, lease_s: float) -> list[ClaimedUser]:
        """Claim users with expired data; see `Claims.users`."""

        def claim(transaction: PostgresTransaction) -> list[ClaimedUser]:
            now = transaction.expiry_clock.now()
            given = {"now": now, "until": now + lease_s, "most": most}
            return [ClaimedUser(*row) for row in transaction.execute(_USERS, given)]

        return self._claimed(claim)

    def release_users(self, users: Sequence[ClaimedUser]) -> None:
        """End claims of users.

        A locked user is waited for alone, so that no other one is locked meanwhile. If
        that takes long, its claim ends with its lease.
        """

        def release(transaction: PostgresTransaction) -> list[int]:
            given = {"parts": [user.part for user in users]}
            return _rids(transaction.execute(_RELEASE_FREE, given).fetchall())

        def release_one(transaction: PostgresTransaction, part: int) -> None:
            limit = f"{int(1000 * LOCK_WAIT_S)}ms"
            transaction.execute("SELECT set_config('lock_timeout', ?, true)", (limit,))
            transaction.execute(_RELEASE, (part,))

        for part in self._claimed(release):
            with suppress(BusyError):
                self._claimed(partial(release_one, part=part))

    def rows_to_embed(self, model: int, most: int, lease_s: float) -> ClaimedRows:
        """Claim rows that need a vector; see `Claims.rows_to_embed`."""

        def claim(transaction: PostgresTransaction) -> ClaimedRows:
            require_migrating(transaction, model)
            now = transaction.expiry_clock.now()
            given = {"now": now, "until": now + lease_s, "most": most, "model": model}
            rids = _next_of_pass(transaction, given)
            if not rids:
                rids = _rids(transaction.execute(_LEFT, given).fetchall())
            rows = load_rows(transaction, rids, any_state=True)
            valid = {stored.row.rid for stored in rows}
            lost = [rid for rid in rids if rid not in valid]
            if lost:  # of deleted or damaged rows
                transaction.execute(
                    "UPDATE vec_next SET until = 'infinity' WHERE rid = ANY(?)", (lost,)
                )
            others = not rids and transaction.execute(_OTHERS).fetchone() is not None
            return ClaimedRows(rids, rows, is_last=not rids and not others)

        return self._claimed(claim)

    def release_rows(self, rids: Sequence[int]) -> None:
        """End claims of rows."""

        def release(transaction: PostgresTransaction) -> None:
            transaction.execute(
                "UPDATE vec_next SET until = NULL WHERE rid IN (SELECT rid FROM "
                "vec_next WHERE rid = ANY(?) AND vec = x'' AND until < 'infinity' "
                "FOR UPDATE SKIP LOCKED)",
                (list(rids),),
            )

        self._claimed(release)

    def _claimed(self, claim: Callable[[PostgresTransaction], T]) -> T:
        with database_errors():
            pause = _PAUSE_S
            for attempt in range(_TRIES):
                try:
                    with self._claiming() as transaction:
                        return claim(transaction)
                except AGAIN as error:
                    if attempt == _TRIES - 1:
                        raise
                    free_frames(error)
                time.sleep(pause)
                pause *= 2
            raise AssertionError  # the last attempt returns or raises


def _next_of_pass(
    transaction: PostgresTransaction, given: dict[str, float]
) -> list[int]:
    found = transaction.execute(
        "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'reembed_cursor' "
        "FOR UPDATE"
    ).fetchone()
    assert found is not None  # the migration is running
    claimed = transaction.execute(_PASS, {**given, "cursor": found[0]}).fetchall()
    rids = _rids(claimed)
    if rids:
        transaction.execute(
            "UPDATE meta SET value = ? WHERE key = 'reembed_cursor'", (str(rids[-1]),)
        )
    return rids


def _rids(rows: Sequence[tuple[int]]) -> list[int]:
    return sorted(rid for (rid,) in rows)
