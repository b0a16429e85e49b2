"""Summaries of conversations: by your own LLM, or from compaction events."""

from __future__ import annotations

from vecall.summaries.providers import (
    DEFAULT_PROMPT,
    CompactionAwareSummaryProvider,
    LlmSummaryProvider,
    SessionSummary,
    SummaryProvider,
    checked_summaries,
    compaction_of,
)

__all__ = [
    "DEFAULT_PROMPT",
    "CompactionAwareSummaryProvider",
    "LlmSummaryProvider",
    "SessionSummary",
    "SummaryProvider",
    "checked_summaries",
    "compaction_of",
]
