"""vecall: long-term memory for AI agents, embedded, durable, hybrid."""

from __future__ import annotations

from vecall._core import Engine, Index, __version__, build_info
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
    StorageError,
    StorageFullError,
    SummaryError,
    VecallError,
)
from vecall.service import MemoryService
from vecall.types import Event, Filter, MemoryEntry, SearchMemoryResponse, Session

__all__ = [
    "BaseMemoryService",
    "BusyError",
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
    "SearchMemoryResponse",
    "Session",
    "StorageError",
    "StorageFullError",
    "SummaryError",
    "VecallError",
    "__version__",
    "build_info",
]
