"""vecall: long-term memory for AI agents, embedded, durable, hybrid."""

from __future__ import annotations

from vecall._core import Engine, Index, __version__, build_info
from vecall.budget import fit_budget
from vecall.calibration import Calibration
from vecall.config import Limits
from vecall.contract import BaseMemoryService, MemoryProtocol
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
    NetworkFilesystemError,
    NotFoundError,
    RerankerError,
    StorageError,
    StorageFullError,
    SummaryError,
    VecallError,
)
from vecall.presets import VectorMemoryService
from vecall.ranking import Ranking
from vecall.rendering import render
from vecall.scored import ScoredMemory
from vecall.service import MemoryService
from vecall.types import Event, Filter, MemoryEntry, SearchMemoryResponse, Session

__all__ = [
    "BaseMemoryService",
    "BusyError",
    "Calibration",
    "ClosedError",
    "ConfigError",
    "ConflictError",
    "ContextBudgetError",
    "CorruptFileError",
    "DimensionError",
    "Embedder",
    "EmbedderError",
    "EmbeddingMismatchError",
    "Engine",
    "Event",
    "Filter",
    "FunctionEmbedder",
    "IncompatibleFileError",
    "Index",
    "InvalidArgumentError",
    "InvalidMemoryError",
    "InvalidTypeError",
    "LimitExceededError",
    "Limits",
    "MemoryEntry",
    "MemoryNotConfiguredError",
    "MemoryProtocol",
    "MemoryService",
    "NetworkFilesystemError",
    "NotFoundError",
    "Ranking",
    "RerankerError",
    "ScoredMemory",
    "SearchMemoryResponse",
    "Session",
    "StorageError",
    "StorageFullError",
    "SummaryError",
    "VecallError",
    "VectorMemoryService",
    "__version__",
    "build_info",
    "fit_budget",
    "render",
]
