"""The read operations over one transaction, in SQL for every database."""

# ruff: noqa: D102 -- `StorageReads` documents the methods

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from vecall.errors import ClosedError
from vecall.filters.metadata import EVERY
from vecall.filters.rights import FULL, Rights
from vecall.store.names import hidden_in_app, partition_names
from vecall.store.reads import item_reads, listing, partition_reads
from vecall.store.results import (
    BufferedTurn,
    DueSession,
    EmbeddingModel,
    RevisionRow,
    Said,
)
from vecall.store.rows import PartitionCopy, PartitionNames, Row, RowWithVector
from vecall.store.sql import active_model, has_memories
from vecall.store.transaction import Transaction
from vecall.store.values import ItemRow, ItemVectors
from vecall.store.writes import add, consolidation, delete, model_migration, sessions
from vecall.store.writes.imports import identity_facts
from vecall.types import AppSummary, Filter, UserSummary

T = TypeVar("T", bound=Transaction)


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

    def partition_names(self, part: int) -> tuple[str, str] | None:
        return partition_names(self._connection, part)

    def load_partition(self, part: int) -> Generator[RowWithVector, None, None]:
        return partition_reads.load_partition(self._connection, part)

    def load_rows(
        self, rids: Iterable[int], *, any_state: bool = False
    ) -> list[RowWithVector]:
        return partition_reads.load_rows(self._connection, rids, any_state=any_state)

    def likely_rows(
        self, part: int, conditions: Filter
    ) -> Iterator[tuple[int, float, float, str | None]]:
        return partition_reads.likely_rows(self._connection, part, conditions)

    def passing(
        self, app: str, user: str, conditions: Filter
    ) -> dict[str, float | None]:
        return partition_reads.passing(self._connection, app, user, conditions)

    def rows_of_ids(self, part: int, ids: Sequence[str]) -> list[int]:
        return partition_reads.rows_of_ids(self._connection, part, ids)

    def find(
        self, app: str, user: str, id_: str, now: float, rights: Rights = FULL
    ) -> Row | None:
        return partition_reads.find(self._connection, app, user, id_, now, rights)

    def find_many(
        self,
        app: str,
        user: str,
        ids: Sequence[str],
        now: float,
        rights: Rights = FULL,
    ) -> list[Row]:
        return partition_reads.find_many(self._connection, app, user, ids, now, rights)

    def turns_around(
        self, row: Row, before: int, after: int, now: float, rights: Rights = FULL
    ) -> list[Row]:
        return partition_reads.turns_around(
            self._connection, row, before, after, now, rights
        )

    def history(
        self, app: str, user: str, id_: str, now: float, rights: Rights = FULL
    ) -> list[RevisionRow]:
        return listing.history(self._connection, app, user, id_, now, rights)

    def listed(
        self,
        app: str,
        user: str,
        state: str,
        cursor: str | None,
        limit: int,
        now: float,
        conditions: Filter = EVERY,
        rights: Rights = FULL,
    ) -> list[Row]:
        return listing.listed(
            self._connection, app, user, state, cursor, limit, now, conditions, rights
        )

    def count_listed(
        self,
        app: str,
        user: str,
        state: str,
        now: float,
        conditions: Filter,
        rights: Rights = FULL,
    ) -> int:
        return listing.count_listed(
            self._connection, app, user, state, now, conditions, rights
        )

    def old_sessions(
        self, app: str, user: str, before: float, now: float
    ) -> list[tuple[str, list[Row]]]:
        return listing.old_sessions(self._connection, app, user, before, now)

    def vectors_of(
        self, part: int, said: Iterable[Said], model: int
    ) -> dict[Said, bytes]:
        return add.vectors_of(self._connection, part, said, model)

    def buffered_turns(self, app: str, user: str, session: str) -> list[BufferedTurn]:
        return sessions.buffered_turns(self._connection, app, user, session)

    def seen_turn_ids(
        self, app: str, user: str, session: str, ids: Sequence[str]
    ) -> set[str]:
        return sessions.seen_turn_ids(self._connection, app, user, session, ids)

    def list_apps(self, after: str, limit: int) -> list[AppSummary]:
        return listing.list_apps(self._connection, after, limit)

    def list_users(
        self, app: str, prefix: str, after: str, limit: int
    ) -> list[UserSummary]:
        return listing.list_users(self._connection, app, prefix, after, limit)

    def users_of(self, app: str) -> list[str]:
        return partition_reads.users_of(self._connection, app)

    def hidden_in_app(self, app: str) -> list[str]:
        return hidden_in_app(self._connection, app)

    def due_users(self, now: float) -> list[tuple[str, str]]:
        return delete.due_users(self._connection, now)

    def due_sessions(self, now: float) -> list[DueSession]:
        return sessions.due_sessions(self._connection, now)

    def next_due(self) -> float | None:
        return sessions.next_due(self._connection)

    def totals(self) -> dict[str, int]:
        return partition_reads.totals(self._connection)

    def active_model(self) -> EmbeddingModel | None:
        return active_model(self._connection)

    def has_memories(self) -> bool:
        return has_memories(self._connection)

    def without_vector(self, after: int, limit: int) -> list[RowWithVector]:
        return partition_reads.without_vector(self._connection, after, limit)

    def unmoved_vectors(self) -> bool:
        return model_migration.unmoved_vectors(self._connection)

    def require_migrating(self, model: int) -> None:
        model_migration.require_migrating(self._connection, model)

    def to_be_embedded(self, limit: int) -> tuple[list[RowWithVector], int | None]:
        return model_migration.to_be_embedded(self._connection, limit)

    def facts_of(self, app: str, user: str, now: float) -> list[RowWithVector]:
        return consolidation.facts_of(self._connection, app, user, now)

    def old_facts(self, app: str, user: str, before: float, now: float) -> list[Row]:
        return consolidation.old_facts(self._connection, app, user, before, now)

    def changed_users(self, since: float | None) -> list[tuple[str, str]]:
        return consolidation.changed_users(self._connection, since)

    def last_consolidation(self) -> float | None:
        return consolidation.last_consolidation(self._connection)

    def export_header(self, vectors: bool) -> dict[str, Any]:
        return listing.export_header(self._connection, vectors)

    def export_partitions(
        self, app: str | None, user: str | None
    ) -> list[tuple[int, str, str, float]]:
        return listing.export_partitions(self._connection, app, user)

    def export_lines(
        self, part: int, model: int | None
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        return listing.export_lines(self._connection, part, model)

    def items_at(
        self, part: int, places: Sequence[tuple[str, str]], *, pieces: bool = True
    ) -> list[ItemRow | None]:
        return item_reads.items_at(self._connection, part, places, pieces=pieces)

    def items_by_number(self, part: int, rids: Sequence[int]) -> list[ItemRow]:
        return item_reads.items_by_number(self._connection, part, rids)

    def newest_items(
        self,
        part: int,
        low: str,
        high: str | None,
        first: int = 16,
        before: int | None = None,
    ) -> Iterator[ItemRow]:
        return item_reads.newest_items(self._connection, part, low, high, first, before)

    def item_vectors(
        self, part: int, namespace: str | None, after: int
    ) -> Iterator[ItemVectors]:
        return item_reads.item_vectors(self._connection, part, namespace, after)

    def item_namespaces(
        self, part: int, low: str, high: str | None, now: float
    ) -> list[str]:
        return item_reads.item_namespaces(self._connection, part, low, high, now)

    def count_items(self, part: int, low: str, high: str | None, now: float) -> int:
        return item_reads.count_items(self._connection, part, low, high, now)

    def export_items(self, part: int, vectors: bool) -> Iterator[dict[str, Any]]:
        return item_reads.export_items(self._connection, part, vectors)

    def partitions_after(self, after: int, limit: int) -> list[PartitionNames]:
        return listing.partitions_after(self._connection, after, limit)

    def partition_copy(
        self, names: PartitionNames, expiry_now: float
    ) -> PartitionCopy | None:
        return listing.read_partition(self._connection, names, expiry_now)

    def is_changing_model(self) -> bool:
        connection = self._connection
        return model_migration.unmoved_vectors(connection) or (
            model_migration.migrating_model(connection) is not None
        )

    def identity_facts(self) -> dict[str, str]:
        return identity_facts(self._connection)
