"""Checks what a vector store returns, before it becomes memories."""

from __future__ import annotations

import math
from dataclasses import replace
from numbers import Real
from typing import NoReturn, cast

from vecall.errors import InvalidMemoryError
from vecall.vector_store import VectorSearchResult, VectorStoreFilter

_ROUNDING = 1e-3  # of a cosine that a store computes from few bits
_TIMES = ("created_at", "timestamp", "expires_at", "valid_until")


def checked_results(
    given: object, scope: VectorStoreFilter
) -> list[VectorSearchResult]:
    """Return the rows that a store found for one user: each id once, best first.

    A cosine that rounding put beyond [-1, 1] is limited to it. Rows of equal score stay
    in the store's order.

    Args:
        given: The result of `VectorStore.search`.
        scope: The filter of the search, with the app and the user.

    Raises:
        InvalidMemoryError: A row is not a memory, is another user's, or has a score
            that is no cosine.
    """
    if not isinstance(given, list | tuple):
        _refuse("what is not a memory: expected a list of VectorSearchResult")
    found: dict[str, VectorSearchResult] = {}
    for hit in given:
        checked = _checked(hit, scope)
        known = found.get(checked.id)
        if known is None or known.score < checked.score:
            found[checked.id] = checked
    return sorted(found.values(), key=lambda hit: -hit.score)


def _checked(hit: object, scope: VectorStoreFilter) -> VectorSearchResult:
    if not isinstance(hit, VectorSearchResult):
        _refuse("what is not a memory: expected a list of VectorSearchResult")
    name, metadata, score = cast(
        "tuple[object, ...]", (hit.id, hit.metadata, hit.score)
    )
    if not isinstance(name, str) or not name or not isinstance(metadata, dict):
        _refuse("a row that is not a memory: expected an id and metadata")
    if (metadata.get("app_name"), metadata.get("user_id")) != (
        scope.app_name,
        scope.user_id,
    ):
        _refuse("a row whose metadata has another user's or app's name")
    if not isinstance(metadata.get("text"), str) or "created_at" not in metadata:
        _refuse("a row that is not a memory: expected a text and a time in metadata")
    for time in _TIMES:
        if metadata.get(time) is not None and not _is_finite(metadata[time]):
            _refuse(f"a row that is not a memory: {time} is not a finite number")
    if not _is_finite(score) or not abs(cast("float", score)) <= 1.0 + _ROUNDING:
        _refuse("a row whose score is not a cosine in [-1, 1]")
    cosine = min(max(float(cast("float", score)), -1.0), 1.0)
    return hit if cosine is score else replace(hit, score=cosine)


def _is_finite(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond all floats
        return False


def _refuse(what: str) -> NoReturn:
    msg = f"the vector store returned {what}"
    raise InvalidMemoryError(msg)
