"""The read operations over one transaction, in SQL for every database."""

# ruff: noqa: D102 -- `StorageReads` documents the methods

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from vecall.errors import ClosedError
from vecall.store import names, sql
from vecall.store.queries import figures, item_reads, listing, partition_reads
from vecall.store.transaction import Transaction
from vecall.store.writes import (
    add,
    consolidation,
    delete,
    imports,
    model_migration,
    sessions,
)

T = TypeVar("T", bound=Transaction)
P = ParamSpec("P")
R = TypeVar("R")


def _read(
    function: Callable[Concatenate[Any, P], R],
) -> Callable[Concatenate[SqlReads[Any], P], R]:
    """Make a method of a function of a connection."""

    def method(own: SqlReads[Any], /, *args: P.args, **given: P.kwargs) -> R:
        return function(own._connection, *args, **given)

    return method


class SqlReads(Generic[T]):
    """The operations of `StorageReads` that are alike in every database."""

    __slots__ = ("_reading",)

    def __init__(self, connection: T) -> None:
        """Read over a connection that is in a transaction."""
        self._reading: T | None = connection

    def end(self) -> None:
        """Refuse every read from now on: the connection is another reader's."""
        self._reading = None

    @property
    def _connection(self) -> T:
        if self._reading is None:
            msg = "the read of the storage has ended"
            raise ClosedError(msg)
        return self._reading

    partition_names = _read(names.partition_names)
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
    list_apps = _read(figures.list_apps)
    list_users = _read(figures.list_users)
    list_sessions = _read(figures.list_sessions)
    users_of = _read(partition_reads.users_of)
    hidden_in_app = _read(names.hidden_in_app)
    due_users = _read(delete.due_users)
    due_sessions = _read(sessions.due_sessions)
    next_due = _read(sessions.next_due)
    totals = _read(figures.totals)
    active_model = _read(sql.active_model)
    has_memories = _read(sql.has_memories)
    without_vector = _read(partition_reads.without_vector)
    unmoved_vectors = _read(model_migration.unmoved_vectors)
    require_migrating = _read(model_migration.require_migrating)
    to_be_embedded = _read(model_migration.to_be_embedded)
    facts_of = _read(consolidation.facts_of)
    old_facts = _read(consolidation.old_facts)
    changed_users = _read(consolidation.changed_users)
    last_consolidation = _read(consolidation.last_consolidation)
    export_header = _read(listing.export_header)
    export_partitions = _read(listing.export_partitions)
    export_lines = _read(listing.export_lines)
    items_at = _read(item_reads.items_at)
    items_by_number = _read(item_reads.items_by_number)
    newest_items = _read(item_reads.newest_items)
    item_vectors = _read(item_reads.item_vectors)
    item_namespaces = _read(item_reads.item_namespaces)
    count_items = _read(item_reads.count_items)
    export_items = _read(item_reads.export_items)
    partitions_after = _read(listing.partitions_after)
    partition_copy = _read(listing.read_partition)

    def is_changing_model(self) -> bool:
        connection = self._connection
        return model_migration.unmoved_vectors(connection) or (
            model_migration.migrating_model(connection) is not None
        )

    identity_facts = _read(imports.identity_facts)
