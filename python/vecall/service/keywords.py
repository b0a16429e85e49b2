"""Types of the options that services pass to `MemoryService`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, TypedDict

from vecall.limits import Limits
from vecall.operations.consolidation_plan import ConsolidationPlan
from vecall.operations.options import StorageOptions, WritePolicy
from vecall.search.options import SearchOptions
from vecall.summaries import SummaryProvider
from vecall.trigger_options import Trigger


class ServiceKeywords(TypedDict, total=False):
    """Options of `MemoryService` except path, embedder, top_k and search."""

    min_confidence: float | None
    summarizer: SummaryProvider | None
    trigger: Trigger | str | Mapping[str, Any] | None
    ttl: float | timedelta | str | None
    read_only: bool
    storage: StorageOptions | None
    writes: WritePolicy | None
    limits: Limits | None
    consolidation: ConsolidationPlan | None


class BuildKeywords(TypedDict, total=False):
    """Options of `MemoryConfig.build` that the configuration lacks."""

    min_confidence: float | None
    ttl: float | timedelta | str | None
    read_only: bool
    search: SearchOptions | None
    storage: StorageOptions | None
    writes: WritePolicy | None
    limits: Limits | None
    consolidation: ConsolidationPlan | None
