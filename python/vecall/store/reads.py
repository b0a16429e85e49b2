"""The read operations of a storage, over one transaction of any database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from vecall.errors import ClosedError
from vecall.store import names, transaction
from vecall.store.queries import item_reads, listing, partition_reads
from vecall.store.results import PartitionState, Version
from vecall.store.transaction import Transaction
from vecall.store.values import ItemState
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


class StorageReads(ABC):
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

    def _end(self) -> None:
        """Refuse every read from now on: the connection is another reader's."""
        self._reading = None

    @property
    def _connection(self) -> Transaction:
        if self._reading is None:
            raise ClosedError("the read of the storage has ended")
        return self._reading

    @abstractmethod
    def version(self, app: str, user: str) -> Version | None:
        """Return what `Storage.version` returns, for the state of this block."""

    @abstractmethod
    def partition_state(self, part: int, app: str, user: str) -> PartitionState | None:
        """Return the state of a partition, and check that it belongs to (app, user).

        None if the partition was deleted, or a purge hid its names.
        """

    @abstractmethod
    def require_gone(self, app: str, user: str) -> None:
        """Check that no index has an entry of a user whose partition is missing."""

    @abstractmethod
    def item_state(self, app: str, user: str) -> ItemState | None:
        """Return what is known about a user's items; None if the user has none."""

    partition_names = _read(names.partition_names)
    changed_since = _read(partition_reads.changed_since)
    load_partition = _read(partition_reads.load_partition)
    load_rows = _read(partition_reads.load_rows)
    likely_rows = _read(partition_reads.likely_rows)
    passing = _read(partition_reads.passing)
    rows_of_ids = _read(partition_reads.rows_of_ids)
    find = _read(partition_reads.find)
    find_many = _read(partition_reads.find_many)
    turns_around = _read(partition_reads.turns_around)
    history = _read(listing.history)
    listed = _read(listing.listed)
    count_listed = _read(listing.count_listed)
    memory_figures = _read(listing.memory_figures)
    old_sessions = _read(listing.old_sessions)
    vectors_of = _read(add.vectors_of)
    buffered_turns = _read(sessions.buffered_turns)
    seen_turn_ids = _read(sessions.seen_turn_ids)
    list_apps = _read(listing.list_apps)
    list_users = _read(listing.list_users)
    list_sessions = _read(listing.list_sessions)
    users_of = _read(partition_reads.users_of)
    hidden_in_app = _read(names.hidden_in_app)
    due_users = _read(delete.due_users)
    due_sessions = _read(sessions.due_sessions)
    next_due = _read(sessions.next_due)
    totals = _read(listing.totals)
    active_model = _read(transaction.active_model)
    has_memories = _read(transaction.has_memories)
    without_vector = _read(partition_reads.without_vector)
    unmoved_vectors = _read(model_migration.unmoved_vectors)
    require_migrating = _read(model_migration.require_migrating)
    to_be_embedded = _read(model_migration.to_be_embedded)
    facts_of = _read(listing.facts_of)
    old_facts = _read(listing.old_facts)
    changed_users = _read(partition_reads.changed_users)
    last_consolidation = _read(sessions.last_consolidation)
    export_header = _read(transfers.export_header)
    export_partitions = _read(transfers.export_partitions)
    export_lines = _read(transfers.export_lines)
    items_at = _read(item_reads.items_at)
    items_by_number = _read(item_reads.items_by_number)
    newest_items = _read(item_reads.newest_items)
    item_vectors = _read(item_reads.item_vectors)
    item_namespaces = _read(item_reads.item_namespaces)
    count_items = _read(item_reads.count_items)
    export_items = _read(item_reads.export_items)
    partitions_after = _read(transfers.partitions_after)
    partition_copy = _read(transfers.read_partition)

    def is_changing_model(self) -> bool:
        """Whether the storage is being moved to another embedding model."""
        connection = self._connection
        return model_migration.unmoved_vectors(connection) or (
            model_migration.migrating_model(connection) is not None
        )

    identity_facts = _read(transfers.identity_facts)
