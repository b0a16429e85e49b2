"""A SQLite file as a storage: its connections, its writer thread, its snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

from vecall.clock import Clock
from vecall.errors import EmbeddingMismatchError
from vecall.store.file.database import MIN_FREE_BYTES, Database, Durability
from vecall.store.file.snapshot_folder import SnapshotFolder
from vecall.store.file.unwritable_database import open_database
from vecall.store.item_records import ItemRow
from vecall.store.models import active_model, adopt, require_same
from vecall.store.partition_lookup import find_surely
from vecall.store.protocol.reads import StorageReads
from vecall.store.protocol.storage import Storage
from vecall.store.reads import item_reads
from vecall.store.results import (
    DraftLookup,
    EmbeddingModel,
    ExistingMemories,
    Version,
)
from vecall.store.rows import Change
from vecall.store.sqlite.maintenance import SqliteMaintenance
from vecall.store.sqlite.reads import SqliteReads
from vecall.store.sqlite.snapshots import SqliteSnapshots
from vecall.store.sqlite.writer import Writer
from vecall.store.write_job import WriteJob
from vecall.store.writes import existing
from vecall.store.writes.model_migration import begin_migration


def open_file(
    path: Path | None,
    durability: Durability,
    *,
    read_only: bool = False,
    min_free_bytes: int = MIN_FREE_BYTES,
    allow_network_filesystem: bool = False,
    clock: Clock | None = None,
) -> Storage:
    """Open or create the storage of a file.

    Args:
        path: A file; None for a storage in memory.
        durability: What an acknowledged write survives.
        read_only: Open read-only. This also opens files that cannot be written.
        min_free_bytes: Free disk space, in bytes, below which writes are refused.
        allow_network_filesystem: Also open files on a network file system.
        clock: The source of the time; default: the machine's clock.

    Raises:
        ConfigError: The folder does not exist, or the path is a folder or a symbolic
            link.
        NetworkFilesystemError: The file is on a network file system.
        StorageError: The file cannot be opened or written.
        IncompatibleFileError: The file is another program's, or has a newer schema.
        CorruptFileError: The file is damaged.
    """
    database = open_database(
        path,
        durability,
        read_only=read_only,
        min_free_bytes=min_free_bytes,
        allow_network_filesystem=allow_network_filesystem,
        clock=clock,
    )
    try:
        return SqliteStorage(database)
    except BaseException:
        database.close()
        raise


class SqliteStorage:
    """Implements `Storage`. Thread-safe."""

    def __init__(self, database: Database) -> None:
        """Start the writer thread of an open database, and take over the database."""
        self._database = database
        self._writer = Writer(database)
        self.maintenance = SqliteMaintenance(database)
        self.claims = None
        self.snapshots: SqliteSnapshots | None = None
        if database.path is not None:
            folder = SnapshotFolder(database.path)
            self.snapshots = SqliteSnapshots(database, folder, self._writer.submit)
        self.identity = database.uuid
        self.expiry_clock = database.expiry_clock
        self.in_memory = database.path is None
        self.is_local = database.path is not None  # memory waits for the writer

    @property
    def publish(self) -> Callable[[Change], None]:
        """Applies a committed change to the engine."""
        return self._writer.publish

    @publish.setter
    def publish(self, publish: Callable[[Change], None]) -> None:
        self._writer.publish = publish

    @property
    def closed_before_fork(self) -> bool:
        """In a forked child: whether no connection was open at the fork."""
        return self._database.closed_before_fork

    def version(self, app: str, user: str) -> Version | None:
        """Return the number and the newest change of a partition, as of now."""
        return self._database.partition(app, user)

    def version_future(self, app: str, user: str) -> Future[Version | None] | None:
        """Return None: `version` takes microseconds."""
        del app, user
        return None

    @contextmanager
    def read(
        self, app: str | None = None, user: str | None = None
    ) -> Iterator[StorageReads]:
        """Read one committed state; a file has all users."""
        del app, user
        with self._database.read_transaction() as connection:
            reads = SqliteReads(connection)
            try:
                yield reads
            finally:
                reads.end()

    def lookup_existing(self, asked: DraftLookup) -> ExistingMemories | None:
        """Return what is on record about drafts; None if the key was used."""
        with self._database.read_transaction() as connection:
            return existing.lookup_existing(connection, asked, self.expiry_clock.now())

    def item_at(self, app: str, user: str, ns: str, key: str) -> ItemRow | None:
        """Return an item, without vectors."""
        known, item = self._database.peek(item_reads.item_at, app, user, ns, key)
        if not known:
            self._database.peek(find_surely, app, user)
        return item

    def submit(
        self, job: WriteJob, then: Callable[[Change], None] | None = None
    ) -> Future[Change]:
        """Queue a job for the writer thread."""
        return self._writer.submit(job, then)

    def adopt_model(self, model: EmbeddingModel) -> EmbeddingModel:
        """Make `model` the file's model, if it has none."""
        with self._database.write_transaction() as connection:
            return adopt(connection, model)

    def begin_migration(self, model: EmbeddingModel) -> EmbeddingModel | None:
        """Begin or resume a migration; None if `model` is the active model."""
        with self._database.write_transaction() as connection:
            stored = active_model(connection)
            if stored is None:
                adopt(connection, model)
                return None
            try:
                require_same(stored, model)
            except EmbeddingMismatchError:
                return begin_migration(connection, model)
            return None

    def end_writes(self) -> None:
        """Finish all submitted jobs and end the writer thread."""
        self._writer.close()

    def close(self) -> None:
        """End the writes and close all connections."""
        self._writer.close()
        self._database.close()

    def abandon(self) -> Callable[[], None]:
        """Return a finalizer that ends the thread and closes the file, not waiting."""
        return self._writer.abandon()
