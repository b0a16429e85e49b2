"""The SQLite file that is the truth: schema, connections, the write gate, rows."""

from __future__ import annotations

from vecall.store.add import AddMemories
from vecall.store.clock_reset import reset_clock
from vecall.store.connections import Connection
from vecall.store.consolidation import (
    ClaimConsolidation,
    changed_users,
    facts_of,
    last_consolidation,
    old_facts,
)
from vecall.store.database import Database, Durability
from vecall.store.delete import DeleteMemories, ForgetUser
from vecall.store.doctor import Finding, examine, repair
from vecall.store.evict import Bounds
from vecall.store.facts import apps_of, file_facts, forget_hidden, hidden_names
from vecall.store.failures import freeing_frames
from vecall.store.filesystem import require_unrelated
from vecall.store.hidden import NOBODY, Why, hidden_in_app
from vecall.store.history import Past, as_it_stands, history, listed, old_sessions
from vecall.store.idempotency import ForgottenKeyError, is_used
from vecall.store.jobs import WriteJob, run_alone
from vecall.store.known import Known, known_of, vectors_of
from vecall.store.models import (
    EmbeddingModel,
    active_model,
    adopt,
    has_memories,
    require_same,
)
from vecall.store.pending import (
    ClaimSession,
    DueSession,
    KeepTurns,
    PostponeSession,
    Turn,
    due_sessions,
    next_due,
    told_before,
    waiting_turns,
)
from vecall.store.proposals import LASTS_S, ProposeForget
from vecall.store.read import (
    PartitionState,
    changed_since,
    find,
    find_surely,
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
from vecall.store.rewrite import Reason, State
from vecall.store.rows import Change, Draft, Row, StoredRow, memory_id, text_hash
from vecall.store.salvage import Salvage, recover
from vecall.store.snapshots import (
    NONCE_BYTES,
    RecordSnapshot,
    SnapshotFolder,
    SnapshotTag,
    purges,
    recorded,
)
from vecall.store.standing import ArchiveMemories, MergeMemories, RestoreMemory
from vecall.store.sweep import Sweep, due_users
from vecall.store.transfer import (
    ImportLines,
    export_header,
    export_lines,
    export_partitions,
    free_lines,
    header_model,
)
from vecall.store.unwritable import open_database
from vecall.store.upkeep import backup, purge
from vecall.store.use import MarkUsed
from vecall.store.vectors import SetVectors

__all__ = [
    "LASTS_S",
    "NOBODY",
    "NONCE_BYTES",
    "AddMemories",
    "ArchiveMemories",
    "Bounds",
    "Change",
    "ClaimConsolidation",
    "ClaimSession",
    "Connection",
    "Database",
    "DeleteMemories",
    "Draft",
    "DueSession",
    "Durability",
    "EmbeddingModel",
    "Finding",
    "ForgetUser",
    "ForgottenKeyError",
    "ImportLines",
    "KeepTurns",
    "Known",
    "MarkUsed",
    "MergeMemories",
    "MoveVectors",
    "PartitionState",
    "Past",
    "PostponeSession",
    "ProposeForget",
    "PutNextVectors",
    "Reason",
    "RecordSnapshot",
    "RestoreMemory",
    "Row",
    "Salvage",
    "SetVectors",
    "SnapshotFolder",
    "SnapshotTag",
    "State",
    "StoredRow",
    "Sweep",
    "SwitchModels",
    "Turn",
    "Why",
    "WriteJob",
    "active_model",
    "adopt",
    "apps_of",
    "as_it_stands",
    "backup",
    "begin_migration",
    "changed_since",
    "changed_users",
    "due_sessions",
    "due_users",
    "examine",
    "export_header",
    "export_lines",
    "export_partitions",
    "facts_of",
    "file_facts",
    "find",
    "find_surely",
    "forget_hidden",
    "free_lines",
    "freeing_frames",
    "has_memories",
    "header_model",
    "hidden_in_app",
    "hidden_names",
    "history",
    "is_used",
    "known_of",
    "last_consolidation",
    "listed",
    "load_partition",
    "load_rows",
    "memory_id",
    "migrating_model",
    "next_due",
    "old_facts",
    "old_sessions",
    "open_database",
    "partition_names",
    "partition_state",
    "purge",
    "purges",
    "recorded",
    "recover",
    "repair",
    "require_gone",
    "require_migrating",
    "require_same",
    "require_unrelated",
    "reset_clock",
    "run_alone",
    "text_hash",
    "to_be_embedded",
    "told_before",
    "totals",
    "turns_around",
    "unmoved_vectors",
    "users_of",
    "vectors_of",
    "waiting_turns",
    "without_vector",
]
