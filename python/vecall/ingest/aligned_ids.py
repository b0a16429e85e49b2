"""The result of a call: an id, or None and a reason, for each of its items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from vecall.store import Draft, Row
from vecall.types import AddedIds, LeftOut, LeftOutReason

Given = Draft | LeftOutReason


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

    Args:
        given: The items: a draft, or the reason why there is none.
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
        reason = written.left_out[item.id] if isinstance(item, Draft) else item
        ids.append(None)
        left_out.append(LeftOut(index, reason))
    return AddedIds(ids, left_out)


def stored_count(ids: AddedIds) -> int:
    """Return the number of a call's items that are stored."""
    return len(ids) - len(ids.left_out)
