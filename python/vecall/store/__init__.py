"""The SQLite file that is the truth: schema, connections, the write gate, rows."""

from __future__ import annotations

from vecall.store.erased_names import HIDDEN_APP, Why, hidden_in_app
from vecall.store.file.connections import Connection
from vecall.store.file.database import Database, Durability
from vecall.store.file.filesystem import require_unrelated
from vecall.store.file.sqlite_errors import freeing_frames
from vecall.store.file.unwritable_database import open_database
from vecall.store.maintenance.backup_and_purge import backup, purge
from vecall.store.maintenance.clock_reset import reset_clock
from vecall.store.maintenance.doctor import Finding, examine, repair
from vecall.store.maintenance.file_facts import (
    apps_of,
    file_facts,
    forget_hidden,
    hidden_names,
)
from vecall.store.maintenance.recover import Salvage, recover
from vecall.store.models import (
    EmbeddingModel,
    active_model,
    adopt,
    has_memories,
    require_same,
)
from vecall.store.partition_lookup import (
    PartitionState,
    find_surely,
    partition_names,
    partition_state,
    require_gone,
)
from vecall.store.reads.history import (
    RevisionRow,
    as_it_stands,
    history,
    listed,
    old_sessions,
)
from vecall.store.reads.partition_reads import (
    changed_since,
    find,
    load_partition,
    load_rows,
    totals,
    turns_around,
    users_of,
    without_vector,
)
from vecall.store.rows import Change, Draft, Row, RowWithVector, memory_id, text_hash
from vecall.store.writes.add import AddMemories
from vecall.store.writes.archive import ArchiveMemories, MergeMemories, RestoreMemory
from vecall.store.writes.consolidation import (
    ClaimConsolidation,
    changed_users,
    facts_of,
    last_consolidation,
    old_facts,
)
from vecall.store.writes.delete import DeleteMemories, ForgetUser
from vecall.store.writes.existing import ExistingMemories, lookup_existing, vectors_of
from vecall.store.writes.expire import Sweep, due_users
from vecall.store.writes.forget_proposals import LASTS_S, ProposeForget
from vecall.store.writes.idempotency import ForgottenKeyError, is_used
from vecall.store.writes.jobs import WriteJob, run_in_savepoint
from vecall.store.writes.model_migration import (
    MoveVectors,
    PutNextVectors,
    SwitchModels,
    begin_migration,
    migrating_model,
    require_migrating,
    to_be_embedded,
    unmoved_vectors,
)
from vecall.store.writes.quota import UserQuota
from vecall.store.writes.row_state import Reason, State
from vecall.store.writes.session_buffer import (
    BufferedTurn,
    BufferTurns,
    ClaimSession,
    DueSession,
    PostponeSession,
    buffered_turns,
    due_sessions,
    next_due,
    seen_turn_ids,
)
from vecall.store.writes.set_vectors import SetVectors
from vecall.store.writes.snapshot_files import (
    NONCE_BYTES,
    RecordSnapshot,
    SnapshotFolder,
    SnapshotTag,
    purges,
    recorded,
)
from vecall.store.writes.transfer import (
    ImportLines,
    export_header,
    export_lines,
    export_partitions,
    free_lines,
    header_model,
)
from vecall.store.writes.usage import MarkUsed

__all__ = [
    "HIDDEN_APP",
    "LASTS_S",
    "NONCE_BYTES",
    "AddMemories",
    "ArchiveMemories",
    "BufferTurns",
    "BufferedTurn",
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
    "ExistingMemories",
    "Finding",
    "ForgetUser",
    "ForgottenKeyError",
    "ImportLines",
    "MarkUsed",
    "MergeMemories",
    "MoveVectors",
    "PartitionState",
    "PostponeSession",
    "ProposeForget",
    "PutNextVectors",
    "Reason",
    "RecordSnapshot",
    "RestoreMemory",
    "RevisionRow",
    "Row",
    "RowWithVector",
    "Salvage",
    "SetVectors",
    "SnapshotFolder",
    "SnapshotTag",
    "State",
    "Sweep",
    "SwitchModels",
    "UserQuota",
    "Why",
    "WriteJob",
    "active_model",
    "adopt",
    "apps_of",
    "as_it_stands",
    "backup",
    "begin_migration",
    "buffered_turns",
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
    "last_consolidation",
    "listed",
    "load_partition",
    "load_rows",
    "lookup_existing",
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
    "run_in_savepoint",
    "seen_turn_ids",
    "text_hash",
    "to_be_embedded",
    "totals",
    "turns_around",
    "unmoved_vectors",
    "users_of",
    "vectors_of",
    "without_vector",
]
