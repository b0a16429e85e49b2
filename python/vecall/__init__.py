"""vecall: long-term memory for AI agents, embedded, durable, hybrid."""

from __future__ import annotations

from vecall._core import Engine, Index, __version__, build_info
from vecall.added import AddedIds, Imported, LeftOut
from vecall.budget import fit_budget
from vecall.calibration import Calibration
from vecall.clock import Clock
from vecall.config import Limits
from vecall.contract import BaseMemoryService, MemoryProtocol
from vecall.corrections import (
    Consolidation,
    DuplicateGroup,
    ForgetProposal,
    Revision,
)
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
    ScopeError,
    StorageError,
    StorageFullError,
    SummaryError,
    VecallError,
    WriteHookError,
    WriteRejectedError,
)
from vecall.in_memory import InMemoryMemoryService
from vecall.lifecycle import Compaction, Inactivity, MessageCount, SessionEnd
from vecall.lifecycle.consolidation_plan import ConsolidationPlan
from vecall.memory_config import MemoryConfig
from vecall.presets import VectorMemoryService
from vecall.ranking import Ranking
from vecall.rendering import render
from vecall.scopes import Scopes
from vecall.scored import ScoredMemory
from vecall.service import MemoryService
from vecall.stored import VectorStoreMemoryService
from vecall.summaries import (
    CompactionAwareSummaryProvider,
    LlmSummaryProvider,
    SessionSummary,
    SummaryProvider,
)
from vecall.types import Event, Filter, MemoryEntry, SearchMemoryResponse, Session
from vecall.write_gate import Verdict, Write, redact

__all__ = [
    "AddedIds",
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
    "DuplicateGroup",
    "Embedder",
    "EmbedderError",
    "EmbeddingMismatchError",
    "Engine",
    "Event",
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
    "LeftOut",
    "LimitExceededError",
    "Limits",
    "LlmSummaryProvider",
    "MemoryConfig",
    "MemoryEntry",
    "MemoryNotConfiguredError",
    "MemoryProtocol",
    "MemoryService",
    "MessageCount",
    "MissingFileError",
    "NetworkFilesystemError",
    "NotFoundError",
    "Ranking",
    "ReadOnlyError",
    "ReentrantCallError",
    "RerankerError",
    "Revision",
    "RewriterError",
    "ScopeError",
    "Scopes",
    "ScoredMemory",
    "SearchMemoryResponse",
    "Session",
    "SessionEnd",
    "SessionSummary",
    "StorageError",
    "StorageFullError",
    "SummaryError",
    "SummaryProvider",
    "VecallError",
    "VectorMemoryService",
    "VectorStoreMemoryService",
    "Verdict",
    "Write",
    "WriteHookError",
    "WriteRejectedError",
    "__version__",
    "build_info",
    "fit_budget",
    "redact",
    "render",
]
