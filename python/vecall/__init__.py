"""vecall: long-term memory for AI agents, embedded, durable, hybrid."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
    from vecall.other_storage.in_memory import (
        InMemoryMemoryService,
        VectorMemoryService,
    )
    from vecall.other_storage.vector_store import MemoryConfig, VectorStoreMemoryService
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
        Conflict,
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
        SimilarMemory,
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
    "Conflict",
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
    "SimilarMemory",
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

# `import vecall` loads none of it: that takes 0.3 s of CPU, NumPy a third of it. A name
# is loaded when it is first used. Names that are not here are errors, or in types.
_PLACES = """
_core: Engine Index __version__ build_info
clock: Clock Period
embedders: Embedder FunctionEmbedder
filters.rights: TRUST_TIERS Rights
hooks: PendingWrite Verdict redact
limits: Compaction Inactivity Limits MessageCount Quota Scopes SessionEnd
operations.consolidation: ConsolidationPlan
operations.options: StorageOptions WritePolicy
prompts.render: fit_budget render
prompts.scored: ScoredMemory
protocols: BaseMemoryService MemoryProtocol
ranking.calibration: Calibration
ranking.options: Ranking
search.searcher: SearchOptions
service._admin_sync: SyncMemoryAdmin
service._items_sync: SyncItems
service._sync: SyncMemoryService
service._user_sync: SyncUserMemory
service.admin: MemoryAdmin
service.items: Items
service.memory_service: MemoryService
service.user: UserMemory
other_storage.in_memory: InMemoryMemoryService VectorMemoryService
other_storage.vector_store: MemoryConfig VectorStoreMemoryService
summaries: CompactionAwareSummaryProvider LlmSummaryProvider SessionSummary
summaries: SummaryProvider
telemetry: RawTurnsWarning
"""
_MODULES = """
clock concurrency content embedders errors filters hooks index ingest lexical limits
operations other_storage prompts protocols ranking scalars search service store
summaries system telemetry text types validation vector_store
"""


def __dir__() -> list[str]:
    return list(__all__)


if not TYPE_CHECKING:  # a checker knows the names

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name in _MODULES.split():
            return import_module(f"vecall.{name}")
        if name not in __all__:
            raise AttributeError(f"module 'vecall' has no attribute {name!r}")
        place = "errors" if name.endswith("Error") else "types"
        for line in _PLACES.split("\n"):
            module, _, names = line.partition(": ")
            if name in names.split():
                place = module
        value = getattr(import_module(f"vecall.{place}"), name)
        globals()[name] = value
        return value
