"""LlamaIndex's metadata filters on stored nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)

from vecall.errors import InvalidArgumentError

_EMPTY: tuple[Any, ...] = (None, "", [])


def matches(filters: MetadataFilters, metadata: Mapping[str, Any]) -> bool:
    """Whether metadata meet filters; filters may contain filters.

    A missing or null field meets `!=`, `nin` and `is_empty` only. Values that have no
    order do not meet an order comparison.

    Raises:
        InvalidArgumentError: An unknown condition or operator, or an operand of a wrong
            type.
    """
    if not filters.filters:
        return True
    held = (
        matches(each, metadata)
        if isinstance(each, MetadataFilters)
        else _one(each, metadata)
        for each in filters.filters
    )
    condition = filters.condition or FilterCondition.AND
    if condition == FilterCondition.AND:
        return all(held)
    if condition == FilterCondition.OR:
        return any(held)
    return not any(held)


def where_of(filters: MetadataFilters | None) -> dict[str, Any] | None:
    """Return conditions for `Items.find` that every match meets.

    They have the exact comparisons with texts of an "and"; `matches` decides the rest.
    """
    if filters is None or filters.condition not in {None, FilterCondition.AND}:
        return None
    parts = [
        {"document": {"metadata": {each.key: each.value}}}
        for each in filters.filters
        if isinstance(each, MetadataFilter)
        and each.operator == FilterOperator.EQ
        and isinstance(each.value, str)
        and not each.key.startswith("$")
    ]
    return {"$and": parts} if parts else None


def _one(given: MetadataFilter, metadata: Mapping[str, Any]) -> bool:
    stored = metadata.get(given.key)
    if given.operator == FilterOperator.IS_EMPTY:
        return any(stored == each for each in _EMPTY)
    if stored is None:
        return given.operator in {FilterOperator.NE, FilterOperator.NIN}
    try:
        return _TESTS[given.operator](stored, given.value)
    except TypeError:
        return False


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        msg = "filters: this operator expects a list of values"
        raise InvalidArgumentError(msg)
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        msg = "filters: a text match expects a text"
        raise InvalidArgumentError(msg)
    return value


def _has_text(stored: Any, wanted: str, fold: Callable[[str], str] = str) -> bool:
    return isinstance(stored, str) and fold(wanted) in fold(stored)


_TESTS: dict[FilterOperator, Callable[[Any, Any], bool]] = {
    FilterOperator.EQ: lambda stored, value: bool(stored == value),
    FilterOperator.NE: lambda stored, value: bool(stored != value),
    FilterOperator.GT: lambda stored, value: bool(stored > value),
    FilterOperator.GTE: lambda stored, value: bool(stored >= value),
    FilterOperator.LT: lambda stored, value: bool(stored < value),
    FilterOperator.LTE: lambda stored, value: bool(stored <= value),
    FilterOperator.IN: lambda stored, value: stored in _listed(value),
    FilterOperator.NIN: lambda stored, value: stored not in _listed(value),
    FilterOperator.CONTAINS: lambda stored, value: value in stored,
    FilterOperator.ANY: lambda stored, value: any(v in stored for v in _listed(value)),
    FilterOperator.ALL: lambda stored, value: all(v in stored for v in _listed(value)),
    FilterOperator.TEXT_MATCH: lambda stored, value: _has_text(stored, _text(value)),
    FilterOperator.TEXT_MATCH_INSENSITIVE: lambda stored, value: _has_text(
        stored, _text(value), str.lower
    ),
}
