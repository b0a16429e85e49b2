"""Where memories are the truth: the storage protocol, and its implementation in SQLite.

`open_storage` opens a `Storage`. All that is read of it goes through `StorageReads`.
All that is written is one of the jobs below, such as `AddMemories`. The functions of a
path (`examine`, `repair_file`, `recover_file`) are tools for SQLite files; no service
needs them. What is imported here is what the layers above may use.
"""

from __future__ import annotations

from vecall.store.file.connections import ForeignFile
from vecall.store.file.database import Durability
from vecall.store.file.filesystem import require_unrelated_file
from vecall.store.maintenance.backups import keep_backups, restore_backup
from vecall.store.maintenance.doctor import Finding, examine, file_counts, repair_file
from vecall.store.maintenance.recover import Salvage, recover_file, reset_expiry_clock
from vecall.store.names import HIDDEN_APP, Why, is_hidden_id, is_well_formed_digest
from vecall.store.opening import (
    CopyReport,
    copy_storage,
    examine_database,
    forget_hidden_users,
    initialize_database,
    migrate_database,
    name_traces,
    open_storage,
    partitions_of_user,
    url_without_secrets,
)
from vecall.store.queries.partition_reads import ALWAYS, passing_metadata
from vecall.store.rows import (
    BufferedTurn,
    Change,
    ChangedRows,
    Draft,
    DraftLookup,
    DueSession,
    ExistingMemories,
    PartitionNames,
    PartitionState,
    Row,
    RowWithVector,
    SnapshotTag,
    Version,
    hash_of_text,
    make_memory_id,
    passage_id,
)
from vecall.store.storage import Snapshots, Storage, StorageReads
from vecall.store.transaction import EmbeddingModel, WriteJob, require_same_model
from vecall.store.values import (
    DAMAGED_ITEM,
    LARGE,
    MOST_VECTORS,
    ItemDrop,
    ItemPut,
    ItemRow,
    ItemState,
    ItemVectors,
    StoredValue,
    check_buffered_turn,
    check_revision_values,
    checked_vectors,
    count_value_pieces,
    decode_namespace,
    encode_json_value,
    encode_namespace,
    namespace_range,
    parse_given_object,
    parse_item_value,
    parse_stored_object,
    value_in_pieces,
)
from vecall.store.writes.add import AddMemories, ForgottenKeyError
from vecall.store.writes.delete import (
    LASTS_S,
    DeleteMemories,
    ForgetUser,
    ProposeForget,
    Sweep,
)
from vecall.store.writes.history import ArchiveMemories, MergeMemories, RestoreMemory
from vecall.store.writes.items import SweepItems, TouchItems, WriteItems
from vecall.store.writes.model_migration import (
    MoveVectors,
    PutNextVectors,
    SetVectors,
    SwitchModels,
)
from vecall.store.writes.partition_writer import Reason, State, passages_of_turns
from vecall.store.writes.quota import MarkUsed, TouchMemories, UserQuota
from vecall.store.writes.sessions import (
    BufferTurns,
    ClaimConsolidation,
    ClaimSession,
    PostponeSession,
    stored_integer,
)
from vecall.store.writes.transfers import ImportLines, model_of_header, unheld_lines
