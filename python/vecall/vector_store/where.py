"""Conditions on the labels and metadata of memories in a vector store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from vecall.filters.labels import is_left_out, passes
from vecall.types import Filter


class _Labels(NamedTuple):
    author: Any
    kind: Any
    source: Any
    trust: Any


def applies_where(store: object) -> bool:
    """Return whether a store applies `VectorStoreFilter.where`."""
    return getattr(store, "applies_where", False) is True


def meets(metadata: Mapping[str, Any], where: Filter) -> bool:
    """Whether the row of a memory meets the conditions of `VectorStoreFilter.where`.

    A store that can evaluate them only in Python may call this for each row.

    Args:
        metadata: The row's metadata.
        where: The conditions.
    """
    labels = _Labels(*map(metadata.get, _Labels._fields))
    custom: object = None
    if where.metadata is not None:
        try:
            custom = json.loads(metadata.get("meta", "{}"))
        except (TypeError, ValueError, RecursionError):  # not a row of a memory
            custom = None
    session = metadata.get("session_id")
    return not is_left_out("", session, where) and passes(
        labels, custom if isinstance(custom, dict) else {}, where
    )
