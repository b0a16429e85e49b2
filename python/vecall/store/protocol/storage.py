"""What a storage is: one consistent read, one queue of writes, one version a user.

Everything above `vecall.store` is written against these protocols. It names operations
and typed values; it never sees SQL, a cursor or a connection. `open_storage` returns
the implementation. `tests/store/conformance` checks what is promised here.

Numbers of an implementation that callers may rely on:

- A partition is the data of one (app, user). It has a number `part` of 1 or more.
- A row number is `part << 32 | n`. It is never used for another memory, as long as
  the partition is not forgotten.
- Each transaction that changes memories of a partition gives it a larger `seq`, and
  nothing else does. The same (part, seq) never stands for two states of the memories,
  also after a restore of an older backup: a storage whose history can go back while
  it is open gives the partition another number then.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from vecall.clock import ExpiryClock
from vecall.store.protocol.reads import StorageReads
from vecall.store.results import EmbeddingModel, Version
from vecall.store.rows import Change
from vecall.store.snapshot_tag import SnapshotTag
from vecall.store.write_job import WriteJob


class Snapshots(Protocol):
    """Snapshots of large partitions: the engine's bytes, a cache of the rows.

    A snapshot is used only if it is on record for its partition in the history that is
    read. Every one of them may be gone at any time.
    """

    def generation(self) -> int:
        """Return a number that changes when all snapshots lose their record.

        To be read before a snapshot is taken.
        """
        ...

    def read(self, part: int, record: bytes) -> bytes | None:
        """Return the snapshot that is on record.

        Args:
            part: The partition's number.
            record: `PartitionState.snap`, read in one state with what is to be loaded.

        Returns:
            Its bytes; None if there is none, or another one by now.

        Raises:
            CorruptFileError: It is the one on record, and its bytes were changed.
        """
        ...

    def write(
        self, app: str, user: str, tag: SnapshotTag, data: bytes, generation: int
    ) -> bool:
        """Store a snapshot and put it on record.

        Args:
            app: The app.
            user: The user.
            tag: What it is of; `SnapshotTag.new` made it before the bytes were taken.
            data: The engine's bytes, the packed tag among them.
            generation: What `generation` returned before.

        Returns:
            Whether it is on record. If not, nothing of it is left: the partition is
            another one by now, or what was purged meanwhile may be in it.

        Raises:
            OSError: It could not be stored; an earlier one is still in place.
            VecallError: As `Storage.submit`.
        """
        ...

    def remove(self, part: int) -> None:
        """Remove the snapshot of a partition, if there is one."""
        ...


class Maintenance(Protocol):
    """Care of a whole storage."""

    def sizes(self) -> dict[str, int]:
        """Return the bytes of the parts of the storage by name.

        Returns:
            "file_bytes", "wal_bytes" and "snapshot_bytes"; 0 for a part that the
            storage does not have.
        """
        ...

    def has_room(self, size: int) -> bool:
        """Whether `size` more bytes may be added."""
        ...

    def purge(self) -> int:
        """Remove every trace of what was deleted.

        Returns:
            The bytes that were freed.

        Raises:
            BusyError: A reader held an old state; purge again.
            StorageFullError: There is no room for it; nothing changed.
            ReadOnlyError: The storage is only read.
        """
        ...

    def backup(self, target: Path) -> None:
        """Copy one state to a new file, while others read and write.

        Raises:
            ConfigError: There is a file of that name, or no such folder.
            StorageFullError: The disk has no room for it.
        """
        ...

    def require_unrelated(self, path: Path) -> None:
        """Check that a file to read from is no part of the storage.

        Raises:
            ConfigError: It is.
        """
        ...


class Storage(Protocol):
    """One place where memories are the truth. Thread-safe.

    Order of a write: it is committed, then published, then acknowledged. Who waits for
    an acknowledgement finds the write in every version and every read that begins
    afterwards, in this process and in others.
    """

    publish: Callable[[Change], None]
    """Receives every change of this storage object after its commit and before its
    acknowledgement, one at a time, in the order of the commits. An error in it is
    logged and does not undo the change."""

    @property
    def identity(self) -> bytes:
        """16 bytes that no other storage has; a copy has others."""
        ...

    @property
    def expiry_clock(self) -> ExpiryClock:
        """The time by which memories expire. It does not go back between openings."""
        ...

    @property
    def in_memory(self) -> bool:
        """Whether this object is the only user of the storage, which ends with it."""
        ...

    @property
    def closed_before_fork(self) -> bool:
        """In a forked child: whether the storage held nothing open at the fork.

        Then the child may open the storage again. It uses nothing of this object.
        """
        ...

    @property
    def snapshots(self) -> Snapshots | None:
        """Its snapshots; None for a storage that has none."""
        ...

    @property
    def maintenance(self) -> Maintenance:
        """Care of all of it."""
        ...

    def version(self, app: str, user: str) -> Version | None:
        """Return the number and the newest change of a partition, as of now.

        Every search calls it: it costs microseconds and waits for no writer.

        Returns:
            (part, seq) of a committed state that is no older than the call; None if
            the storage does not know the user.

        Raises:
            ClosedError: The storage is closed.
            BusyError: The state could not be read in time.
            CorruptFileError: The storage is damaged.
        """
        ...

    def read(self) -> AbstractContextManager[StorageReads]:
        """Read one committed state, no older than the call.

        All operations of one block see the same state, whatever is committed meanwhile.
        After the block its reads raise ClosedError. Iterators that they returned must
        not be used any more.

        Raises:
            ClosedError: The storage is closed.
            CorruptFileError: The storage is damaged.
            StorageError: It cannot be read.
        """
        ...

    def submit(
        self, job: WriteJob, then: Callable[[Change], None] | None = None
    ) -> Future[Change]:
        """Write in the background.

        A job is one of the dataclasses that `vecall.store` exports. It is carried out
        whole or not at all. A job that fails takes no other job with it. Jobs of this
        object are carried out in the order of their submission; those that wait
        may share a commit. A job of an (app, user) excludes other jobs of the same
        (app, user) for as long as it runs, also those of other processes.

        Args:
            job: What to write. It belongs to the storage until the future is done.
            then: Is called after the commit and `publish`, before the
                acknowledgement, on the thread that publishes.

        Returns:
            The change, once it is committed and published; or the error of the job,
            and then nothing of it was written. It cannot be cancelled.

        Raises:
            ClosedError: The storage takes no more writes.
        """
        ...

    def adopt_model(self, given: EmbeddingModel) -> EmbeddingModel:
        """Make `given` the model of the vectors, if there is none yet.

        Returns:
            The model on record, with its number.

        Raises:
            EmbeddingMismatchError: There is one, of another name, dimension or
                fingerprint.
            ReadOnlyError: The storage is only read.
        """
        ...

    def begin_migration(self, given: EmbeddingModel) -> EmbeddingModel | None:
        """Begin, or resume, the migration of all vectors to another model.

        A migration to a third model is given up.

        Returns:
            The model on record as migrating; None where `given` is the active model,
            or became it because there was none.

        Raises:
            ConflictError: Vectors of the migration before still wait to be moved.
            ReadOnlyError: The storage is only read.
        """
        ...

    def end_writes(self) -> None:
        """Finish what was submitted, and take no more writes. Reads go on.

        A second call waits for the first.
        """
        ...

    def close(self) -> None:
        """End the writes, then close. A second call does nothing, or goes on.

        Raises:
            BusyError: Another process held the storage for too long; close it again.
        """
        ...

    def abandon(self) -> Callable[[], None]:
        """Return what ends a storage that was dropped without `close`.

        The function does not wait, and holds neither this object nor `publish`. What
        was submitted before it is called is written.
        """
        ...
