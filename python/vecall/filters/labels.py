"""Filter conditions on author, kind, source, trust and custom_metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from vecall.filters.metadata import has_values
from vecall.types import Filter, Names, several

EVERY = Filter()
"""The filter that every memory passes."""


class Labelled(Protocol):
    """The labels of a row or a memory."""

    @property
    def author(self) -> str | None:
        """The author."""

    @property
    def kind(self) -> str | None:
        """The kind."""

    @property
    def source(self) -> str | None:
        """The source."""

    @property
    def trust(self) -> str | None:
        """The trust tier."""


def has_labels(row: Labelled, conditions: Filter) -> bool:
    """Whether author, kind, source and trust pass a filter."""
    return (
        (conditions.author is None or row.author in several(conditions.author))
        and (conditions.kind is None or row.kind in several(conditions.kind))
        and (conditions.source is None or row.source in several(conditions.source))
        and (conditions.trust is None or row.trust in several(conditions.trust))
        and row.kind not in several(conditions.not_kind)
        and begins_with(row.kind, conditions.kind_prefix)
    )


def begins_with(name: object, prefixes: Names | None) -> bool:
    """Whether a name begins with one of the prefixes, if there are any."""
    if prefixes is None:
        return True
    # The row of a vector store may have anything here.
    return isinstance(name, str) and name.startswith(several(prefixes))


def is_left_out(id_: str, session: str | None, conditions: Filter) -> bool:
    """Whether a filter leaves out a memory by its id or its session."""
    return (
        id_ in several(conditions.not_id)
        or (session is not None and session in several(conditions.not_session_id))
        or not begins_with(session, conditions.session_prefix)
    )


def passes(row: Labelled, metadata: Mapping[str, object], conditions: Filter) -> bool:
    """Whether labels and metadata pass a filter."""
    return has_labels(row, conditions) and (
        conditions.metadata is None or has_values(metadata, conditions.metadata)
    )
