"""What a filter asks of author, kind, source and trust, and of custom_metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from vecall.filters.metadata import has_values
from vecall.types import Filter, several


class Labelled(Protocol):
    """A row or a memory, by what labels say of it."""

    @property
    def author(self) -> str | None:
        """Who said it."""

    @property
    def kind(self) -> str | None:
        """What it is."""

    @property
    def source(self) -> str | None:
        """Where it was learned."""

    @property
    def trust(self) -> str | None:
        """How far its source is trusted."""


def has_labels(row: Labelled, asked: Filter) -> bool:
    """Whether author, kind, source and trust are what a filter wants."""
    return (
        (asked.author is None or row.author in several(asked.author))
        and (asked.kind is None or row.kind in several(asked.kind))
        and (asked.source is None or row.source in several(asked.source))
        and (asked.trust is None or row.trust in several(asked.trust))
        and row.kind not in several(asked.not_kind)
    )


def passes(row: Labelled, metadata: Mapping[str, object], asked: Filter) -> bool:
    """Whether labels and metadata are what a filter wants."""
    return has_labels(row, asked) and (
        asked.metadata is None or has_values(metadata, asked.metadata)
    )
