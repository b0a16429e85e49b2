"""vecall: long-term memory for AI agents, embedded, durable, hybrid."""

from __future__ import annotations

from vecall._core import Engine, Index, __version__, build_info
from vecall.clock import Clock, Period
from vecall.embedders import Embedder, FunctionEmbedder
from vecall.errors import (
    BusyError,
    ClosedError,
    ConfigError,
    ConflictError,
    ContextBudgetError,
    CorruptFileError,
    DimensionError,
    EmbedderError,
    EmbeddingMismatchError,
    IncompatibleFileError,
    InvalidArgumentError,
    InvalidMemoryError,
    InvalidTypeError,
    LimitExceededError,
    MemoryNotConfiguredError,
    MissingFileError,
    NetworkFilesystemError,
    NotFoundError,
    ReadOnlyError,
    ReentrantCallError,
    RerankerError,
    RewriterError,
    RightsError,
    ScopeError,
    StorageError,
    StorageFullError,
    SummaryError,
    VecallError,
    WriteHookError,
    WriteRejectedError,
)
from vecall.filters.rights import TRUST_TIERS, Rights
from vecall.hooks import PendingWrite, Verdict, redact
from vecall.limits import (
    Compaction,
    Inactivity,
    Limits,
    MessageCount,
    Quota,
    Scopes,
    SessionEnd,
)
from vecall.operations.consolidation import ConsolidationPlan
from vecall.operations.options import StorageOptions, WritePolicy
from vecall.prompts.render import fit_budget, render
from vecall.prompts.scored import ScoredMemory
from vecall.protocols import BaseMemoryService, MemoryProtocol
from vecall.ranking.calibration import Calibration
from vecall.ranking.options import Ranking
from vecall.search.searcher import SearchOptions
from vecall.service._admin_sync import SyncMemoryAdmin
from vecall.service._items_sync import SyncItems
from vecall.service._sync import SyncMemoryService
from vecall.service._user_sync import SyncUserMemory
from vecall.service.admin import MemoryAdmin
from vecall.service.items import Items
from vecall.service.memory_service import MemoryService
from vecall.service.user import UserMemory
from vecall.services.config import MemoryConfig
from vecall.services.in_memory import InMemoryMemoryService, VectorMemoryService
from vecall.services.vector_store import VectorStoreMemoryService
from vecall.summaries import (
    CompactionAwareSummaryProvider,
    LlmSummaryProvider,
    SessionSummary,
    SummaryProvider,
)
from vecall.telemetry import RawTurnsWarning
from vecall.types import (
    AddedIds,
    AppSummary,
    Consolidation,
    Drop,
    DuplicateGroup,
    Event,
    Explanation,
    Filter,
    ForgetProposal,
    Imported,
    Item,
    LeftOut,
    ListedSession,
    MemoryEntry,
    MemoryFigures,
    Page,
    Put,
    Revision,
    SearchMemoryResponse,
    Session,
    UserSummary,
)

__all__ = [
    "TRUST_TIERS",
    "AddedIds",
    "AppSummary",
    "BaseMemoryService",
    "BusyError",
    "Calibration",
    "Clock",
    "ClosedError",
    "Compaction",
    "CompactionAwareSummaryProvider",
    "ConfigError",
    "ConflictError",
    "Consolidation",
    "ConsolidationPlan",
    "ContextBudgetError",
    "CorruptFileError",
    "DimensionError",
    "Drop",
    "DuplicateGroup",
    "Embedder",
    "EmbedderError",
    "EmbeddingMismatchError",
    "Engine",
    "Event",
    "Explanation",
    "Filter",
    "ForgetProposal",
    "FunctionEmbedder",
    "Imported",
    "InMemoryMemoryService",
    "Inactivity",
    "IncompatibleFileError",
    "Index",
    "InvalidArgumentError",
    "InvalidMemoryError",
    "InvalidTypeError",
    "Item",
    "Items",
    "LeftOut",
    "LimitExceededError",
    "Limits",
    "ListedSession",
    "LlmSummaryProvider",
    "MemoryAdmin",
    "MemoryConfig",
    "MemoryEntry",
    "MemoryFigures",
    "MemoryNotConfiguredError",
    "MemoryProtocol",
    "MemoryService",
    "MessageCount",
    "MissingFileError",
    "NetworkFilesystemError",
    "NotFoundError",
    "Page",
    "PendingWrite",
    "Period",
    "Put",
    "Quota",
    "Ranking",
    "RawTurnsWarning",
    "ReadOnlyError",
    "ReentrantCallError",
    "RerankerError",
    "Revision",
    "RewriterError",
    "Rights",
    "RightsError",
    "ScopeError",
    "Scopes",
    "ScoredMemory",
    "SearchMemoryResponse",
    "SearchOptions",
    "Session",
    "SessionEnd",
    "SessionSummary",
    "StorageError",
    "StorageFullError",
    "StorageOptions",
    "SummaryError",
    "SummaryProvider",
    "SyncItems",
    "SyncMemoryAdmin",
    "SyncMemoryService",
    "SyncUserMemory",
    "UserMemory",
    "UserSummary",
    "VecallError",
    "VectorMemoryService",
    "VectorStoreMemoryService",
    "Verdict",
    "WriteHookError",
    "WritePolicy",
    "WriteRejectedError",
    "__version__",
    "build_info",
    "fit_budget",
    "redact",
    "render",
]


def __dir__() -> list[str]:
    return list(__all__)
