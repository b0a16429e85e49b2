"""The result of a call: an id, or None and a reason, for each of its items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from vecall.errors import InvalidArgumentError
from vecall.ingest.drafts import Given
from vecall.ingest.passages import Passages
from vecall.store import Draft, Row
from vecall.types import AddedIds, LeftOut, LeftOutReason


class Written(NamedTuple):
    """The result of writing drafts.

    Attributes:
        ids: The ids of the drafts that are stored, without duplicates.
        left_out: Why the other drafts are not stored, by id.
        edited: The memory that a correction changed, as it left it.
        folded: How many memories were archived in favour of a summary.
    """

    ids: list[str]
    left_out: Mapping[str, LeftOutReason]
    edited: Row | None = None
    folded: int = 0


def aligned(
    given: Iterable[Given],
    written: Written,
    paced: Callable[[Iterable[Given]], Iterator[Given]] = iter,
) -> AddedIds:
    """Return an id, or None and a reason, for each item of a call.

    The id of an item with several passages is that of the first one that is stored.

    Args:
        given: The items: a draft or several, or why there is none.
        written: The result of writing the drafts.
        paced: Iterates over the items and yields to other threads.
    """
    stored = set(written.ids)
    ids: list[str | None] = []
    left_out = []
    for index, item in enumerate(paced(given)):
        if isinstance(item, Draft) and item.id in stored:
            ids.append(item.id)
            continue
        id_ = None
        if isinstance(item, Passages):
            id_ = next((each.id for each in item if each.id in stored), None)
        ids.append(id_)
        if id_ is None:
            left_out.append(_why(index, item, written.left_out))
    return AddedIds(ids, left_out)


def _why(index: int, item: Given, left_out: Mapping[str, LeftOutReason]) -> LeftOut:
    """Return why an item is not stored."""
    if isinstance(item, Passages):
        item = item[0]
    if isinstance(item, Draft):
        return LeftOut(index, left_out[item.id])
    if isinstance(item, InvalidArgumentError):
        return LeftOut(index, "invalid", str(item))
    return LeftOut(index, item)


def stored_count(ids: AddedIds) -> int:
    """Return the number of a call's items that are stored."""
    return len(ids) - len(ids.left_out)
