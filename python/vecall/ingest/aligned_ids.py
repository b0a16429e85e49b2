"""The ids of what was written, in the places of what was given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from vecall.store import Draft
from vecall.types import AddedIds, LeftOut, LeftOutReason

Given = Draft | LeftOutReason


class Written(NamedTuple):
    """What became of drafts.

    Attributes:
        ids: The ids of what the file has now, each once.
        left_out: Why the others are not in it, by id.
    """

    ids: list[str]
    left_out: Mapping[str, LeftOutReason]


def aligned(
    given: Iterable[Given],
    written: Written,
    paced: Callable[[Iterable[Given]], Iterator[Given]] = iter,
) -> AddedIds:
    """Return an id, or None and a reason, for each item that was given.

    Args:
        given: The items: a draft, or why there is none.
        written: What became of the drafts.
        paced: Goes through them, pausing where others have to be let in.
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
    """Return how many of the items that were given are stored."""
    return len(ids) - len(ids.left_out)
