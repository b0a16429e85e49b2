"""The SQLite file that is the truth: schema, connections, the write gate, rows."""

from __future__ import annotations

from vecall.store.add import AddMemories
from vecall.store.connections import Connection
from vecall.store.database import Database, Durability
from vecall.store.delete import DeleteMemories, ForgetUser
from vecall.store.doctor import Finding, examine, repair
from vecall.store.filesystem import require_unrelated
from vecall.store.jobs import WriteJob, run_alone
from vecall.store.models import EmbeddingModel, active_model, adopt, require_same
from vecall.store.read import (
    PartitionState,
    changed_since,
    find,
    known_hashes,
    load_partition,
    load_rows,
    partition_names,
    partition_state,
    require_gone,
    totals,
    turns_around,
    users_of,
    without_vector,
)
from vecall.store.reembedding import (
    MoveVectors,
    PutNextVectors,
    SwitchModels,
    begin_migration,
    migrating_model,
    require_migrating,
    to_be_embedded,
    unmoved_vectors,
)
from vecall.store.rows import Change, Draft, Row, StoredRow, memory_id, text_hash
from vecall.store.salvage import Salvage, recover
from vecall.store.snapshots import RecordSnapshot, SnapshotFolder, SnapshotTag, purges
from vecall.store.transfer import (
    ImportLines,
    export_header,
    export_lines,
    export_partitions,
    header_model,
)
from vecall.store.upkeep import backup, purge
from vecall.store.use import MarkUsed
from vecall.store.vectors import SetVectors

__all__ = [
    "AddMemories",
    "Change",
    "Connection",
    "Database",
    "DeleteMemories",
    "Draft",
    "Durability",
    "EmbeddingModel",
    "Finding",
    "ForgetUser",
    "ImportLines",
    "MarkUsed",
    "MoveVectors",
    "PartitionState",
    "PutNextVectors",
    "RecordSnapshot",
    "Row",
    "Salvage",
    "SetVectors",
    "SnapshotFolder",
    "SnapshotTag",
    "StoredRow",
    "SwitchModels",
    "WriteJob",
    "active_model",
    "adopt",
    "backup",
    "begin_migration",
    "changed_since",
    "examine",
    "export_header",
    "export_lines",
    "export_partitions",
    "find",
    "header_model",
    "known_hashes",
    "load_partition",
    "load_rows",
    "memory_id",
    "migrating_model",
    "partition_names",
    "partition_state",
    "purge",
    "purges",
    "recover",
    "repair",
    "require_gone",
    "require_migrating",
    "require_same",
    "require_unrelated",
    "run_alone",
    "text_hash",
    "to_be_embedded",
    "totals",
    "turns_around",
    "unmoved_vectors",
    "users_of",
    "without_vector",
]
