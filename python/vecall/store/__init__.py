"""The SQLite file that is the truth: schema, connections, the write gate, rows."""

from __future__ import annotations

from vecall.store.add import AddMemories
from vecall.store.database import Database, Durability
from vecall.store.delete import DeleteMemories
from vecall.store.jobs import WriteJob, run_alone
from vecall.store.models import EmbeddingModel, active_model, adopt, require_same
from vecall.store.read import (
    StoredRow,
    changed_since,
    find,
    known_hashes,
    load_partition,
    load_rows,
    newest_change,
    partition_names,
    totals,
    without_vector,
)
from vecall.store.rows import Change, Draft, Row, memory_id, text_hash
from vecall.store.vectors import SetVectors

__all__ = [
    "AddMemories",
    "Change",
    "Database",
    "DeleteMemories",
    "Draft",
    "Durability",
    "EmbeddingModel",
    "Row",
    "SetVectors",
    "StoredRow",
    "WriteJob",
    "active_model",
    "adopt",
    "changed_since",
    "find",
    "known_hashes",
    "load_partition",
    "load_rows",
    "memory_id",
    "newest_change",
    "partition_names",
    "require_same",
    "run_alone",
    "text_hash",
    "totals",
    "without_vector",
]
