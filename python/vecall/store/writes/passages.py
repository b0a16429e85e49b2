"""Finds the passages of turns whose texts were too long for one memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from vecall.store.rows import passages_from
from vecall.store.sql import given_rows
from vecall.store.transaction import Transaction

_AT_ONCE = 400  # turns per statement, two values each
_FIND = (
    "SELECT mem.id FROM given CROSS JOIN mem "
    "WHERE mem.part = ? AND mem.id > given.low AND mem.id < given.high"
)


def with_passages(connection: Transaction, part: int, ids: Sequence[str]) -> list[str]:
    """Return ids of turns, and those of their other passages that are stored."""
    found = list(ids)
    bounds = [passages_from(id_) for id_ in ids]
    for start in range(0, len(bounds), _AT_ONCE):
        some = bounds[start : start + _AT_ONCE]
        rows, values = given_rows(connection, "given (low, high)", some)
        others = connection.execute(f"{rows} {_FIND}", (*values, part)).fetchall()
        found += [id_ for (id_,) in others]
    return list(dict.fromkeys(found))


def passages_among(waiting: Iterable[str], ids: Collection[str]) -> list[str]:
    """Return those of the waiting ids that are of passages of the turns."""
    starts = {passages_from(id_)[0] for id_ in ids}
    return [id_ for id_ in waiting if id_[: id_.find(".") + 1] in starts]
