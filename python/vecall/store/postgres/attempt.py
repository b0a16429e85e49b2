"""One attempt to commit a job, and the outcome if the connection was lost meanwhile."""

from __future__ import annotations

import time
from time import monotonic
from typing import Literal

import psycopg

from vecall.clock import ExpiryClock
from vecall.concurrency.freed_frames import free_frames
from vecall.errors import StorageError
from vecall.store.postgres.connections import (
    LOCK_WAIT_S,
    OTHERS_WAIT,
    Connections,
)
from vecall.store.postgres.transaction import SERVER_STARTED, PostgresTransaction
from vecall.store.rows import Change
from vecall.store.write_job import WriteJob

_OF_THE_TIME = 0.5  # of the URL's `timeout`, to learn the outcome
_PAUSE_S = 0.2

_Outcome = Literal["committed", "aborted", "in progress", "unknown"]


class Attempt:
    """One transaction of a job.

    Attributes:
        is_committing: Whether COMMIT was sent.
    """

    def __init__(
        self, connections: Connections, expiry_clock: ExpiryClock, secret: bytes
    ) -> None:
        """Prepare an attempt."""
        self._connections = connections
        self._expiry_clock = expiry_clock
        self._secret = secret
        self._transaction: PostgresTransaction | None = None
        self._change: Change | None = None
        self.is_committing = False

    def run(self, job: WriteJob, seconds: float, lock_wait: float) -> Change:
        """Run the job and commit it.

        Args:
            job: The job.
            seconds: How long the job of a user waits for the database in total.
            lock_wait: How long it waits for a lock that others hold, in seconds.

        Raises:
            psycopg.errors.LockNotAvailable: A lock was not free; nothing was written.
            psycopg.Error: The database refused it, or was lost.
        """
        keeper = not hasattr(job, "app")
        with self._connections.transaction(
            keeper=keeper,
            role="vecall_keeper" if keeper else "vecall_app",
            seconds=None if keeper else seconds,
            lock_wait=max(lock_wait, LOCK_WAIT_S) if keeper else lock_wait,
        ) as connection:
            transaction = PostgresTransaction(
                connection, self._expiry_clock, self._secret
            )
            self._transaction = transaction
            if keeper:
                connection.execute(OTHERS_WAIT)
            self._change = job.run(transaction)
            self.is_committing = True
            connection.execute(b"COMMIT")
            connection.warned = False
        if connection.warned:
            # An administrator can end the wait for the synchronous standby. The server
            # then reports success, and warns.
            msg = "the server committed with a warning"
            raise psycopg.OperationalError(msg)
        return self._change

    def outcome(self) -> Change | None:
        """Return the change if it was committed, None if it was rolled back.

        Raises:
            StorageError: The database does not say.
        """
        transaction, change = self._transaction, self._change
        assert transaction is not None
        assert change is not None
        deadline = monotonic() + self._connections.url.timeout * _OF_THE_TIME
        while (seconds := deadline - monotonic()) > 0:
            try:
                outcome = self._outcome(transaction, change, seconds)
            except psycopg.Error as error:
                free_frames(error)
                outcome = "in progress"
            if outcome == "committed":
                return change
            if outcome == "aborted":
                return None
            if outcome == "unknown":
                break
            time.sleep(min(_PAUSE_S, seconds))
        msg = (
            "the connection to the database ended while the write was committed; "
            "whether it was is unknown: read before you repeat it, or repeat it with "
            "the same ids or idempotency key"
        )
        raise StorageError(msg)

    def _outcome(
        self, transaction: PostgresTransaction, change: Change, seconds: float
    ) -> _Outcome:
        with self._connections.transaction(
            keeper=True,
            role="vecall_keeper",
            how="ISOLATION LEVEL READ COMMITTED",
            seconds=seconds,
        ) as connection:
            asking = PostgresTransaction(connection, self._expiry_clock, self._secret)
            outcome = _seen(asking, transaction, change)
            if outcome == "committed":
                # The server may have committed it without its synchronous standby. The
                # commit of another change waits until the standby has both.
                asking.execute("UPDATE meta SET value = value WHERE key = 'schema'")
                connection.execute(b"COMMIT")
        return outcome


def _seen(
    asking: PostgresTransaction, transaction: PostgresTransaction, change: Change
) -> _Outcome:
    """Return what the database says of a transaction whose connection was lost."""
    if transaction.number is None:
        return "unknown"
    row = asking.execute(f"SELECT pg_is_in_recovery(), {SERVER_STARTED}").fetchone()
    assert row is not None
    if row[0]:
        return "in progress"  # of a promotion, or the URL is that of a replica
    status: _Outcome = "unknown"
    # The process of the lost connection may still run. Around a restart, a recovery or
    # a promotion a number may be given twice, so there it says nothing.
    is_same_server = row[1] == transaction.server_started
    if is_same_server:
        row = asking.execute(
            "SELECT txid_status(CAST(? AS BIGINT))", (transaction.number,)
        ).fetchone()
        status = "unknown" if row is None else row[0] or "unknown"
    is_recorded = change.forgotten or change.seq > change.seq_before
    if status in ("aborted", "in progress") or not is_recorded:
        return status
    return _recorded(asking, transaction.head, change, is_same_server=is_same_server)


def _recorded(
    asking: PostgresTransaction, head: int, change: Change, *, is_same_server: bool
) -> _Outcome:
    """Return what the records of the user say of a change."""
    row = asking.execute(
        "SELECT head FROM chg WHERE part = ? AND seq = ?", (change.part, change.seq)
    ).fetchone()
    if row is not None and not change.forgotten:
        return "committed" if row[0] == head else "aborted"
    row = asking.execute(
        "SELECT seq FROM part WHERE id = ? AND app = ? AND user = ?",
        (change.part, change.app, change.user),
    ).fetchone()
    if change.forgotten:
        return "committed" if row is None else "aborted"
    if is_same_server or (row is not None and row[0] >= change.seq):
        return "unknown"  # the record of the change may be pruned
    return "aborted"
