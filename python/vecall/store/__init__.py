"""Where memories are the truth: the storage protocol, and its implementation in SQLite.

`open_storage` opens a `Storage`. All that is read of it goes through `StorageReads`.
All that is written is one of the jobs below, such as `AddMemories`. The functions of a
path (`examine`, `repair`, `recover`, ...) are tools for SQLite files; no service needs
them.
"""

from __future__ import annotations

from vecall.store.copying import CopyReport, copy_storage
from vecall.store.database_tools import (
    examine_database,
    initialize_database,
    migrate_database,
    public_url,
)
from vecall.store.erased_names import HIDDEN_APP, Why, is_hidden, is_well_formed
from vecall.store.erasing import forget_hidden, name_traces, names_of
from vecall.store.file.database import Durability
from vecall.store.file.filesystem import require_unrelated
from vecall.store.findings import Finding
from vecall.store.item_records import (
    MOST_VECTORS,
    ItemDrop,
    ItemPut,
    ItemRow,
    ItemState,
    ItemVectors,
    checked_vectors,
    decode_namespace,
    encode_namespace,
    namespace_range,
)
from vecall.store.item_values import (
    DAMAGED_ITEM,
    LARGE,
    StoredValue,
    in_pieces,
    json_text,
    number_of_pieces,
    parsed_value,
)
from vecall.store.maintenance.clock_reset import reset_clock
from vecall.store.maintenance.doctor import examine, repair
from vecall.store.maintenance.file_facts import file_facts
from vecall.store.maintenance.recover import Salvage, recover
from vecall.store.models import require_same
from vecall.store.opening import open_storage
from vecall.store.partition_copy import PartitionNames
from vecall.store.protocol.reads import StorageReads
from vecall.store.protocol.storage import Maintenance, Snapshots, Storage
from vecall.store.reads.export import free_lines, header_model
from vecall.store.reads.metadata_filter import passing_metadata
from vecall.store.reads.partition_reads import ALWAYS
from vecall.store.results import (
    BufferedTurn,
    ChangedRows,
    DraftLookup,
    DueSession,
    EmbeddingModel,
    ExistingMemories,
    PartitionState,
    RevisionRow,
    Version,
)
from vecall.store.rows import (
    Change,
    Draft,
    Row,
    RowWithVector,
    memory_id,
    passage_id,
    text_hash,
)
from vecall.store.snapshot_tag import SnapshotTag
from vecall.store.values import check_past, check_turn, json_object, stored_object
from vecall.store.write_job import WriteJob
from vecall.store.writes.add import AddMemories
from vecall.store.writes.archive import ArchiveMemories, MergeMemories, RestoreMemory
from vecall.store.writes.consolidation import ClaimConsolidation
from vecall.store.writes.delete import DeleteMemories, ForgetUser
from vecall.store.writes.expire import Sweep
from vecall.store.writes.forget_proposals import LASTS_S, ProposeForget
from vecall.store.writes.idempotency import ForgottenKeyError
from vecall.store.writes.import_lines import ImportLines
from vecall.store.writes.items import SweepItems, TouchItems, WriteItems
from vecall.store.writes.model_migration import (
    MoveVectors,
    PutNextVectors,
    SwitchModels,
)
from vecall.store.writes.passages import passages_among
from vecall.store.writes.position_spacing import as_stored
from vecall.store.writes.quota import UserQuota
from vecall.store.writes.row_state import Reason, State
from vecall.store.writes.session_buffer import (
    BufferTurns,
    ClaimSession,
    PostponeSession,
)
from vecall.store.writes.set_vectors import SetVectors
from vecall.store.writes.touch import TouchMemories
from vecall.store.writes.usage import MarkUsed

__all__ = [
    "ALWAYS",
    "DAMAGED_ITEM",
    "HIDDEN_APP",
    "LARGE",
    "LASTS_S",
    "MOST_VECTORS",
    "AddMemories",
    "ArchiveMemories",
    "BufferTurns",
    "BufferedTurn",
    "Change",
    "ChangedRows",
    "ClaimConsolidation",
    "ClaimSession",
    "CopyReport",
    "DeleteMemories",
    "Draft",
    "DraftLookup",
    "DueSession",
    "Durability",
    "EmbeddingModel",
    "ExistingMemories",
    "Finding",
    "ForgetUser",
    "ForgottenKeyError",
    "ImportLines",
    "ItemDrop",
    "ItemPut",
    "ItemRow",
    "ItemState",
    "ItemVectors",
    "Maintenance",
    "MarkUsed",
    "MergeMemories",
    "MoveVectors",
    "PartitionNames",
    "PartitionState",
    "PostponeSession",
    "ProposeForget",
    "PutNextVectors",
    "Reason",
    "RestoreMemory",
    "RevisionRow",
    "Row",
    "RowWithVector",
    "Salvage",
    "SetVectors",
    "SnapshotTag",
    "Snapshots",
    "State",
    "Storage",
    "StorageReads",
    "StoredValue",
    "Sweep",
    "SweepItems",
    "SwitchModels",
    "TouchItems",
    "TouchMemories",
    "UserQuota",
    "Version",
    "Why",
    "WriteItems",
    "WriteJob",
    "as_stored",
    "check_past",
    "check_turn",
    "checked_vectors",
    "copy_storage",
    "decode_namespace",
    "encode_namespace",
    "examine",
    "examine_database",
    "file_facts",
    "forget_hidden",
    "free_lines",
    "header_model",
    "in_pieces",
    "initialize_database",
    "is_hidden",
    "is_well_formed",
    "json_object",
    "json_text",
    "memory_id",
    "migrate_database",
    "name_traces",
    "names_of",
    "namespace_range",
    "number_of_pieces",
    "open_storage",
    "parsed_value",
    "passage_id",
    "passages_among",
    "passing_metadata",
    "public_url",
    "recover",
    "repair",
    "require_same",
    "require_unrelated",
    "reset_clock",
    "stored_object",
    "text_hash",
]
