"""The storage protocol: consistent reads, one write queue, one version per partition.

All code above `vecall.store` uses these protocols only. They consist of operations and
typed values; SQL, cursors and connections never appear. `open_storage` returns the
implementation. `tests/store/conformance` tests every promise made here.

Callers may rely on these numbers:

- A partition holds the data of one (app, user). Its number `part` is 1 or more.
- A row number is `part << 32 | n`. It is not reused for another memory while the
  partition exists.
- `seq` is the partition's change number. A transaction that changes memories of the
  partition increases it; nothing else does.
- A pair (part, seq) never identifies two different states of the memories. This holds
  after a restore of an older backup, too: a storage whose history can go back while it
  is open then gives the partition a new number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar

from vecall.clock import ExpiryClock
from vecall.errors import ClosedError
from vecall.store import names, transaction
from vecall.store import rows as records
from vecall.store.queries import item_reads, listing, partition_reads
from vecall.store.rows import Change, ExistingMemories, SnapshotTag, Version
from vecall.store.transaction import EmbeddingModel, Transaction, WriteJob
from vecall.store.values import ItemRow, ItemState
from vecall.store.writes import add, delete, model_migration, sessions, transfers

P = ParamSpec("P")
R = TypeVar("R")


def _read(
    function: Callable[Concatenate[Any, P], R],
) -> Callable[Concatenate[StorageReads, P], R]:
    """Make a method of a function of a transaction."""

    @wraps(function)
    def method(own: StorageReads, /, *args: P.args, **given: P.kwargs) -> R:
        return function(own._connection, *args, **given)

    return method


class StorageReads:
    """The read operations on one state; valid inside the block of `Storage.read`.

    `now` is a time of `Storage.expiry_clock`, in seconds since 1970. Memories that
    expired by `now` are left out. A memory that `rights` hide is not returned, not
    counted and no cursor. Every operation raises CorruptFileError if the data that it
    reads is damaged, and ClosedError after the block. The functions document the rest.
    """

    __slots__ = ("_reading",)

    def __init__(self, connection: Transaction) -> None:
        """Read over a connection that is in a transaction."""
        self._reading: Transaction | None = connection

    def _refuse_more_reads(self) -> None:
        """Refuse every read from now on: the connection is another reader's."""
        self._reading = None

    @property
    def _connection(self) -> Transaction:
        if self._reading is None:
            raise ClosedError("the read of the storage has ended")
        return self._reading

    version = _read(names.find_part_surely)  # as `Storage.version`, for this state
    partition_state = _read(names.partition_state)
    require_gone = _read(names.require_user_gone)

    def item_state(self, app: str, user: str) -> ItemState | None:
        """Return what is known about a user's items; None if the user has none."""
        found = item_reads.find_item_state(self._connection, app, user)
        if found is None:
            self.version(app, user)  # checks by both indexes
        return found

    partition_names = _read(names.partition_names)
    changed_since = _read(partition_reads.rows_changed_since)
    load_partition = _read(partition_reads.load_partition)
    load_rows = _read(partition_reads.load_rows)
    likely_rows = _read(partition_reads.rows_that_may_match)
    passing = _read(partition_reads.passing_memories)
    rows_of_ids = _read(partition_reads.rids_of_ids)
    find = _read(partition_reads.find_memory)
    find_many = _read(partition_reads.find_memories)
    turns_around = _read(partition_reads.read_turns_around)
    history = _read(listing.read_history)
    listed = _read(listing.list_memories)
    count_listed = _read(listing.count_listed_memories)
    memory_figures = _read(listing.memory_figures)
    old_sessions = _read(listing.read_old_sessions)
    vectors_of = _read(add.vectors_of_same_texts)
    buffered_turns = _read(sessions.buffered_turns)
    seen_turn_ids = _read(sessions.seen_turn_ids)
    list_apps = _read(listing.list_apps)
    list_users = _read(listing.list_users)
    list_sessions = _read(listing.list_sessions)
    users_of = _read(partition_reads.users_of_app)
    hidden_names = _read(names.hidden_names)
    due_users = _read(delete.users_with_expired)
    due_sessions = _read(sessions.due_sessions)
    next_due = _read(sessions.next_due_session_time)
    totals = _read(listing.read_totals)
    active_model = _read(transaction.active_model)
    has_memories = _read(transaction.has_memories)
    without_vector = _read(partition_reads.rows_without_vector)
    unmoved_vectors = _read(model_migration.unmoved_vectors)
    require_migrating = _read(model_migration.require_running_migration)
    to_be_embedded = _read(model_migration.rows_to_be_embedded)
    facts_of = _read(listing.read_facts)
    old_facts = _read(listing.read_old_facts)
    changed_users = _read(partition_reads.changed_users)
    last_consolidation = _read(sessions.last_consolidation)
    export_header = _read(transfers.export_header)
    export_partitions = _read(transfers.export_partitions)
    export_lines = _read(transfers.export_lines)
    items_at = _read(item_reads.read_items_at)
    items_by_number = _read(item_reads.read_items_by_number)
    newest_items = _read(item_reads.read_newest_items)
    item_vectors = _read(item_reads.read_item_vectors)
    item_namespaces = _read(item_reads.list_item_namespaces)
    count_items = _read(item_reads.count_items)
    export_items = _read(item_reads.export_items)
    partitions_after = _read(transfers.users_after)
    partition_copy = _read(transfers.read_rows_to_copy)

    def is_changing_model(self) -> bool:
        """Whether the storage is being moved to another embedding model."""
        connection = self._connection
        return model_migration.unmoved_vectors(connection) or (
            model_migration.migrating_model(connection) is not None
        )

    identity_facts = _read(transfers.identity_facts)


# Claims: how the processes of several servers share periodic work.


class ClaimedUser(NamedTuple):
    """A user whose expired data this process removes."""

    part: int  # the number of the user's partition
    app: str
    user: str


class ClaimedRows(NamedTuple):
    """Rows that this process embeds."""

    # The numbers of all claimed rows; some may have no valid row any more.
    rids: list[int]
    rows: list[records.RowWithVector]
    is_last: bool  # whether no other process has claimed rows that are not done


class Claims(Protocol):
    """Gives each piece of due work to one process, under a lease. Thread-safe.

    Work whose lease has ended, because its process died, is claimed again. A claim
    waits for no other claim.
    """

    def claim_session(self, lease_s: float) -> records.DueSession | None:
        """Claim the session that has been due for the longest time; None if none is.

        After `lease_s` it is due again, unless memories were made of it.
        """

    def users(self, most: int, lease_s: float) -> list[ClaimedUser]:
        """Claim at most `most` users who have expired data, for `lease_s`."""

    def release_users(self, users: Sequence[ClaimedUser]) -> None:
        """End claims, so that data that expires later can be claimed at once."""

    def rows_to_embed(self, model: int, most: int, lease_s: float) -> ClaimedRows:
        """Claim rows that need a vector of the migrating model, for `lease_s`.

        ConflictError: the migration to this model is not running.
        """

    def release_rows(self, rids: Sequence[int]) -> None:
        """End claims of rows. Those that are not done can be claimed at once."""


class Snapshots(Protocol):
    """Snapshots of large partitions: serialized engine state, a cache of the rows.

    A snapshot is used only if the state that is read has it on record for the
    partition. Any snapshot may disappear at any time.
    """

    def snapshot_generation(self) -> int:
        """Return a number that changes when all snapshots are invalidated.

        Read it before you take a snapshot, and pass it to `write_snapshot`.
        """

    def read_snapshot(self, part: int, record: bytes) -> bytes | None:
        """Return the bytes of the snapshot on record; None if there is none such.

        `record` is `PartitionState.snap`, from the read that also loads the changes
        since the snapshot. CorruptFileError: it is the recorded snapshot, but its bytes
        were altered.
        """

    def write_snapshot(
        self, app: str, user: str, tag: SnapshotTag, data: bytes, generation: int
    ) -> bool:
        """Store a snapshot and put it on record; return whether it is.

        If not, the snapshot was deleted: the partition was replaced meanwhile, its
        history went back, the bytes may contain purged data, or a snapshot that is at
        least as new is on record.

        `tag` was made by `SnapshotTag.new`, and `snapshot_generation` read, before the
        bytes were taken, which contain the packed tag. After an OSError the snapshot
        before it is still in place.
        """

    def remove_snapshot(self, part: int) -> None:
        """Remove the snapshot of a partition, if it has one."""


class Maintenance(Protocol):
    """Maintenance of a whole storage."""

    def sizes(self) -> dict[str, int]:
        """Return "file_bytes", "wal_bytes" and "snapshot_bytes"; 0 without a part."""

    def has_room(self, size: int) -> bool:
        """Whether the storage has room for `size` more bytes."""

    def purge(self) -> int:
        """Erase deleted data from the storage completely; return the bytes freed.

        BusyError: a reader still uses an older state; purge again. StorageFullError: a
        purge needs more disk space; nothing changed.
        """

    def backup(self, target: Path) -> None:
        """Copy one state to a new file. Reads and writes go on meanwhile.

        ConfigError: the target exists, or its folder does not.
        """

    def require_unrelated(self, path: Path) -> None:
        """Check that a file, such as one to import, is not part of the storage."""


class Storage(Protocol):
    """The source of truth for memories. Thread-safe.

    A write is committed, then published, then acknowledged. After the acknowledgement,
    every call of `version` and `read` sees the write, in this and other processes.
    """

    publish: Callable[[Change], None]
    """Called with every change of this storage object, after its commit and before its
    acknowledgement. Calls do not overlap and come in the order of the commits. An error
    is logged and does not undo the change."""

    @property
    def identity(self) -> bytes:
        """16 bytes that are unique to this storage; a copy has different ones."""

    @property
    def expiry_clock(self) -> ExpiryClock:
        """The clock by which memories expire. It never goes back, also after reopen."""

    @property
    def in_memory(self) -> bool:
        """Whether the storage belongs to this object alone and ends with it."""

    @property
    def is_local(self) -> bool:
        """Whether every read of a few rows takes microseconds, and waits for nothing.

        Callers read from another storage on a thread of their own.
        """

    @property
    def closed_before_fork(self) -> bool:
        """In a forked child: whether the storage had nothing open at the fork.

        If so, the child may open the storage again. It must not use this object.
        """

    @property
    def snapshots(self) -> Snapshots | None:
        """The snapshots; None if the storage does not support them."""

    @property
    def claims(self) -> Claims | None:
        """How processes share periodic work; None if every process tries all of it."""

    @property
    def maintenance(self) -> Maintenance:
        """Maintenance of the whole storage."""

    def version(self, app: str, user: str) -> Version | None:
        """Return the number and the newest change of a partition, as of now.

        It never waits for a writer. The state is a committed one that is no older than
        the call. None: the user has no partition. BusyError: it could not be read in
        time.
        """

    def newest(self, app: str, user: str) -> Version | None | Future[Version | None]:
        """Return what `version` returns, or on an event loop a future of it.

        A storage whose `version` takes microseconds returns no future.
        """

    def read(
        self, app: str | None = None, user: str | None = None
    ) -> AbstractContextManager[StorageReads]:
        """Read one committed state, no older than the call.

        Without app and user, reads are across users; else other users' data may be
        missing.

        All operations in one block see the same state, even if writes are committed
        meanwhile. After the block, operations raise ClosedError, and iterators that
        they returned must not be used.
        """

    def lookup_existing(self, asked: records.DraftLookup) -> ExistingMemories | None:
        """Return what is on record about drafts, which saves embedding a text again.

        None if the idempotency key was used before.
        """

    def item_at(self, app: str, user: str, ns: str, key: str) -> ItemRow | None:
        """Return an item of a user as of now; None if there is none.

        `ns` is the stored text of its namespace. Vectors and pieces are not read.
        """

    def submit(
        self, job: WriteJob, then: Callable[[Change], None] | None = None
    ) -> Future[Change]:
        """Queue a write job, to be executed in the background.

        A job is one of the dataclasses that `vecall.store` exports.

        - A job is atomic. Its failure does not affect other jobs.
        - Jobs of this object run in the order of submission. Queued jobs may share a
          commit.
        - Jobs of the same (app, user) never run at the same time, also not in
          different processes.

        Args:
            job: The job. The caller must not use it until the future is done.
            then: Called after the commit and `publish`, before the acknowledgement,
                on the thread that publishes.

        Returns:
            A future of the change, done after commit and `publish`. If the job fails,
            the future has its error, and nothing was written. It cannot be cancelled.

        Raises:
            ClosedError: The storage accepts no more writes.
        """

    def adopt_model(self, model: EmbeddingModel) -> EmbeddingModel:
        """Make `model` the active model, unless one is on record; return that one.

        EmbeddingMismatchError: the model on record has another name, dimension or
        fingerprint.
        """

    def begin_migration(self, model: EmbeddingModel) -> EmbeddingModel | None:
        """Begin, or resume, the migration of all vectors to another model; return it.

        A running migration to a third model is abandoned. None if `model` is already
        active, or became active because no model was on record. ConflictError: vectors
        of the previous migration are still to be moved.
        """

    def end_writes(self) -> None:
        """Finish all submitted jobs and accept no more. Reads still work.

        A second call waits for the first.
        """

    def close(self) -> None:
        """End the writes, then close. Idempotent.

        BusyError: another process held the storage for too long; call it again to
        finish.
        """

    def abandon(self) -> Callable[[], None]:
        """Return a finalizer for a storage that is dropped without `close`.

        The finalizer does not wait. It holds no reference to this object or to
        `publish`. Jobs that were submitted before it is called are still written.
        """
