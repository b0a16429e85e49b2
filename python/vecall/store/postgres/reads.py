"""The read operations over one transaction of PostgreSQL."""

# ruff: noqa: D102 -- `StorageReads` documents the methods

from __future__ import annotations

from vecall.errors import ConfigError, CorruptFileError
from vecall.store.erased_names import HIDDEN_APP
from vecall.store.item_records import ItemState
from vecall.store.models import active_model
from vecall.store.partition_lookup import WRONG_USER
from vecall.store.postgres.transaction import PostgresTransaction
from vecall.store.reads import item_reads, partition_reads
from vecall.store.results import (
    ChangedRows,
    EmbeddingModel,
    PartitionState,
    Version,
)
from vecall.store.sql_reads import SqlReads
from vecall.store.values import require_counts


class PostgresReads(SqlReads[PostgresTransaction]):
    """Implements `StorageReads`; every method is documented there."""

    __slots__ = ()

    def version(self, app: str, user: str) -> Version | None:
        found: Version | None = self._connection.execute(
            "SELECT id, seq, head FROM part WHERE app = ? AND user = ?", (app, user)
        ).fetchone()
        return found

    def partition_state(self, part: int, app: str, user: str) -> PartitionState | None:
        found = self._connection.execute(
            "SELECT seq, snap, live, head, app, user FROM part WHERE id = ?", (part,)
        ).fetchone()
        if found is None or found[4] == HIDDEN_APP != app:
            return None
        if found[4:] != (app, user):
            raise CorruptFileError(WRONG_USER)
        require_counts(found[0], found[2], found[3])
        return PartitionState(*found[:4])

    def require_gone(self, app: str, user: str) -> None:
        found = self._connection.execute(
            "SELECT 1 FROM part WHERE app = ? AND user = ?", (app, user)
        ).fetchone()
        if found is not None:
            raise CorruptFileError(WRONG_USER)

    def changed_since(self, part: int, seq: int, head: int) -> ChangedRows | None:
        return partition_reads.changed_since(self._connection, part, seq, head)

    def item_state(self, app: str, user: str) -> ItemState | None:
        return item_reads.find_state(self._connection, app, user)


class SharedReads(PostgresReads):
    """Reads for all users with a role that sees one user: what no user owns."""

    __slots__ = ()

    @property
    def _connection(self) -> PostgresTransaction:
        msg = (
            "path: this call concerns several users, and the role of the URL may not "
            "become vecall_keeper"
        )
        raise ConfigError(msg)

    def active_model(self) -> EmbeddingModel | None:
        return active_model(super()._connection)

    def unmoved_vectors(self) -> bool:
        return False  # a service for reads would not move them
