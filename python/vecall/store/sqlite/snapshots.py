"""Snapshots in a folder next to the file, which has a record of each."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from vecall.errors import CorruptFileError
from vecall.store.file.database import Database
from vecall.store.file.snapshot_folder import SnapshotFolder
from vecall.store.rows import Change
from vecall.store.snapshot_tag import (
    HEADER_BYTES,
    NONCE_BYTES,
    SnapshotTag,
    recorded,
)
from vecall.store.write_job import WriteJob
from vecall.store.writes.record_snapshot import (
    RecordSnapshot,
    newer_is_recorded,
    purges,
)


class SqliteSnapshots:
    """Implements `Snapshots`."""

    def __init__(
        self,
        database: Database,
        folder: SnapshotFolder,
        submit: Callable[[WriteJob], Future[Change]],
    ) -> None:
        """Put snapshots into a folder and on record in a file.

        Args:
            database: The file.
            folder: The folder.
            submit: Queues a write job for the file.
        """
        self._database = database
        self._folder = folder
        self._submit = submit

    def generation(self) -> int:
        """Return how often the file was purged."""
        with self._database.read_transaction() as connection:
            return purges(connection)

    def read(self, part: int, record: bytes) -> bytes | None:
        """Return the snapshot on record; see `Snapshots.read`."""
        data = self._folder.read(part)
        if data is None:
            return None
        nonce = record[:NONCE_BYTES]
        if record == recorded(nonce, data):
            return data
        # Another process may just have replaced the snapshot. With the recorded nonce,
        # it is the recorded snapshot, altered.
        if nonce in data[:HEADER_BYTES]:
            msg = f"snapshot {part} is damaged"
            raise CorruptFileError(msg)
        return None

    def write(
        self, app: str, user: str, tag: SnapshotTag, data: bytes, generation: int
    ) -> bool:
        """Store a snapshot and put it on record; see `Snapshots.write`."""
        header = self._folder.header(tag.part)
        with self._database.read_transaction() as connection:
            if newer_is_recorded(connection, tag, header):
                return False
        self._folder.write(tag.part, data)
        record = recorded(tag.nonce, data)
        job = RecordSnapshot(app, user, record, tag, generation)
        self._submit(job).result()
        if not job.is_recorded:
            self._folder.remove(tag.part)
        return job.is_recorded

    def remove(self, part: int) -> None:
        """Remove the snapshot of a partition, if it has one."""
        self._folder.remove(part)
