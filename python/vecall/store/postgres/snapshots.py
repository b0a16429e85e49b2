"""Snapshots in an unlogged table that all servers share."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

import psycopg

from vecall.errors import CorruptFileError
from vecall.store.postgres.connections import Connections
from vecall.store.postgres.errors import as_typed, database_errors
from vecall.store.postgres.transaction import PostgresTransaction
from vecall.store.rows import Change
from vecall.store.snapshot_tag import (
    HEADER_BYTES,
    NONCE_BYTES,
    SnapshotTag,
    recorded,
)
from vecall.store.transaction import Transaction
from vecall.store.write_job import WriteJob
from vecall.store.writes.record_snapshot import RecordSnapshot, purges

_PIECE_BYTES = 4 << 20


@dataclass(slots=True)
class StoreSnapshot:
    """Stores a snapshot and puts it on record, as far as `RecordSnapshot` does.

    Attributes:
        recording: Puts it on record.
        data: The engine's bytes.
    """

    recording: RecordSnapshot
    data: bytes
    estimated_bytes: int = 0

    @property
    def app(self) -> str:
        """The app."""
        return self.recording.app

    @property
    def user(self) -> str:
        """The user."""
        return self.recording.user

    def run(self, transaction: Transaction) -> Change:
        """Do it inside a transaction."""
        change = self.recording.run(transaction)
        if self.recording.is_recorded:
            part, data = self.recording.tag.part, self.data
            transaction.execute("DELETE FROM snap WHERE part = ?", (part,))
            for n, start in enumerate(range(0, len(data), _PIECE_BYTES)):
                transaction.execute(
                    "INSERT INTO snap (part, n, data) VALUES (?, ?, ?)",
                    (part, n, data[start : start + _PIECE_BYTES]),
                )
        return change


def _header(part: int, transaction: Transaction) -> bytes:
    found = transaction.execute(
        f"SELECT substr(data, 1, {HEADER_BYTES}) FROM snap WHERE part = ? AND n = 0",
        (part,),
    ).fetchone()
    return b"" if found is None else bytes(found[0])


class PostgresSnapshots:
    """Implements `Snapshots`."""

    def __init__(
        self,
        connections: Connections,
        reading: Callable[..., AbstractContextManager[PostgresTransaction]],
        submit: Callable[[WriteJob], Future[Change]],
    ) -> None:
        """Store snapshots in the database.

        Args:
            connections: The connections.
            reading: Begins to read one partition, `part`, or across users.
            submit: Queues a write job.
        """
        self._connections = connections
        self._reading = reading
        self._submit = submit

    def generation(self) -> int:
        """Return how often the database was purged."""
        with database_errors(), self._reading() as transaction:
            return purges(transaction)

    def read(self, part: int, record: bytes) -> bytes | None:
        """Return the snapshot on record; see `Snapshots.read`."""
        try:
            with self._reading(part=part) as transaction:
                found = transaction.execute(
                    "SELECT data FROM snap WHERE part = ? ORDER BY n", (part,)
                ).fetchall()
        except psycopg.errors.FeatureNotSupported:
            return None  # a replica has no unlogged tables
        except psycopg.Error as error:
            raise as_typed(error) from None
        if not found:
            return None
        data = b"".join(piece for (piece,) in found)
        nonce = record[:NONCE_BYTES]
        if record == recorded(nonce, data):
            return data
        if nonce in data[:HEADER_BYTES]:
            msg = f"snapshot {part} is damaged"
            raise CorruptFileError(msg)
        return None

    def write(
        self, app: str, user: str, tag: SnapshotTag, data: bytes, generation: int
    ) -> bool:
        """Store a snapshot and put it on record; see `Snapshots.write`."""
        record = recorded(tag.nonce, data)
        recording = RecordSnapshot(
            app, user, record, tag, generation, partial(_header, tag.part)
        )
        self._submit(StoreSnapshot(recording, data)).result()
        return recording.is_recorded

    def remove(self, part: int) -> None:
        """Remove the snapshot of a partition, if it has one."""
        with (
            database_errors(),
            self._connections.transaction(
                keeper=True, role="vecall_keeper"
            ) as connection,
        ):
            connection.execute("DELETE FROM snap WHERE part = %s", (part,))
            connection.execute(b"COMMIT")
