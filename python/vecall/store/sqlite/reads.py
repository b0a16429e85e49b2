"""The read operations over one connection to a file."""

# ruff: noqa: D102 -- `StorageReads` documents the methods

from __future__ import annotations

import sqlite3

from vecall.store.item_records import ItemState
from vecall.store.partition_lookup import (
    find_surely,
    partition_state,
    require_gone,
)
from vecall.store.reads import item_reads, partition_reads
from vecall.store.results import ChangedRows, PartitionState, Version
from vecall.store.sql_reads import SqlReads


class SqliteReads(SqlReads[sqlite3.Connection]):
    """Implements `StorageReads`; every method is documented there."""

    __slots__ = ()

    def version(self, app: str, user: str) -> Version | None:
        return find_surely(self._connection, app, user)

    def partition_state(self, part: int, app: str, user: str) -> PartitionState | None:
        return partition_state(self._connection, part, app, user)

    def require_gone(self, app: str, user: str) -> None:
        require_gone(self._connection, app, user)

    def changed_since(self, part: int, seq: int, head: int) -> ChangedRows | None:
        return partition_reads.changed_since(self._connection, part, seq, head)

    def item_state(self, app: str, user: str) -> ItemState | None:
        found = item_reads.find_state(self._connection, app, user)
        if found is None:
            find_surely(self._connection, app, user)
        return found
