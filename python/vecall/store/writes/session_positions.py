"""Positions of turns in a session, which is ingested whole, in deltas or trimmed.

Positions of neighbours are at most 1 apart. A turn between two others gets a position
between theirs, so no other turn has to be rewritten. If positions become too close, the
turns around are spread out.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import pairwise

from vecall.store.rows import Draft
from vecall.store.transaction import Transaction
from vecall.store.writes.partition_writer import PartitionWriter
from vecall.store.writes.position_spacing import between, spread
from vecall.store.writes.row_diff import ExistingRow

_LEAST = 2.0**-20  # minimum distance; a float64 near 2^32 is more precise
_SPREAD = 2.0**-8  # minimum distance after spreading
_AROUND = 32  # turns on each side in the first attempt to spread


_Run = tuple[str | None, list[str], str | None]
"""New turns in a row, with the positioned turn before and the one after them."""


class Positions:
    """The positions of a call's turns in one session.

    New turns go to the end, unless the call has a known turn after them: then they are
    placed right before it. If the call has known turns in another order, as few of them
    as possible move. Turns without a session share one bucket, with a gap between
    calls, so that only turns of the same call are neighbours.
    """

    def __init__(
        self,
        partition: PartitionWriter,
        session: str | None,
        ids: Sequence[str],
        known: Mapping[str, float],
    ) -> None:
        """Compute the positions.

        Args:
            partition: The partition being written.
            session: The session; None for the bucket.
            ids: Memory ids of the call's turns, in order, without duplicates.
            known: Positions of the turns that are already in the session, by id.
        """
        self.of: dict[str, float] = {}
        self.moved: dict[str, float] = {}
        self._connection = partition.connection
        self._own = (partition.id, session)
        new = [id_ for id_ in ids if id_ not in known]
        if session is None or _in_order(ids, known):
            if new:
                gap = 2 if session is None else 1
                self._append(new, gap)
        elif _ascending([known[id_] for id_ in ids if id_ in known]):
            self._insert(_runs(ids, known), known)
        else:
            self._reorder(ids)

    def _append(self, new: Sequence[str], gap: int = 1) -> None:
        start = _end_of(self._connection, self._own) + gap
        self.of |= {id_: start + i for i, id_ in enumerate(new)}

    def _insert(self, runs: Sequence[_Run], known: Mapping[str, float]) -> None:
        """Place each run of new turns right before the known turn that follows it."""
        for _, run, follower in runs:
            if follower is not None:
                self._spread_around(known[follower], len(run))
        for _, run, follower in runs:
            if follower is None:
                self._append(run)
                continue
            below, above = self._around(known[follower], 1)
            low = self._now(below[-1]) if below else None
            places = between(low, self._now(above[0]), len(run))
            self.of |= dict(zip(run, places, strict=True))

    def _spread_around(self, at: float, count: int) -> None:
        """Spread turns out if `count` more right before `at` would be too close."""
        width = 1
        while True:
            below, above = self._around(at, width)
            first = None if len(below) < width else self._now(below[0])
            last = None if len(above) < width else self._now(above[-1])
            old = [self._now(row) for row in (*below, *above)]
            if width == 1:
                if not below or old[1] - old[0] >= _LEAST * (count + 1):
                    return
            else:
                places = spread(old, len(below), count, first, last, _SPREAD)
                if places is not None:
                    self.moved |= {
                        id_: place
                        for (id_, _), was, place in zip(
                            (*below, *above), old, places, strict=True
                        )
                        if place != was
                    }
                    return
            width = max(_AROUND, 4 * width)

    def _around(
        self, at: float, width: int
    ) -> tuple[list[tuple[str, float]], list[tuple[str, float]]]:
        """The nearest turns before a stored position and from it on, in order."""
        query = "SELECT id, pos FROM mem WHERE part = ? AND session = ? AND pos"
        values = (*self._own, at, width)
        execute = self._connection.execute
        below = execute(f"{query} < ? ORDER BY pos DESC LIMIT ?", values).fetchall()
        above = execute(f"{query} >= ? ORDER BY pos LIMIT ?", values).fetchall()
        return below[::-1], above

    def _now(self, row: tuple[str, float]) -> float:
        """The current position of a stored turn; this call may have moved it."""
        return self.moved.get(*row)

    def _reorder(self, ids: Sequence[str]) -> None:
        """Bring known turns into the order of the call, and insert the new ones."""
        rows = self._connection.execute(
            "SELECT id, pos FROM mem WHERE part = ? AND session = ? "
            "AND pos IS NOT NULL ORDER BY pos",
            self._own,
        )
        stored: dict[str, float] = dict(rows.fetchall())
        merged = _merge(list(stored), ids)
        stay = _longest_ascent([id_ for id_ in merged if id_ in stored], stored)
        places: dict[str, float] = {}
        for leader, run, follower in _runs(merged, stay):
            low = None if leader is None else stored[leader]
            high = None if follower is None else stored[follower]
            found = between(low, high, len(run))
            room = [value for value in (low, *found, high) if value is not None]
            if any(b - a < _LEAST for a, b in pairwise(room)):
                places = {id_: i for i, id_ in enumerate(merged)}
                break
            places |= dict(zip(run, found, strict=True))
        for id_, place in places.items():
            if id_ not in stored:
                self.of[id_] = place
            elif stored[id_] != place:
                self.moved[id_] = place


def _in_order(ids: Sequence[str], known: Mapping[str, float]) -> bool:
    """Whether the known turns are in stored order and all new ones follow them."""
    first_new = next((i for i, id_ in enumerate(ids) if id_ not in known), len(ids))
    if any(id_ in known for id_ in ids[first_new:]):
        return False
    return _ascending([known[id_] for id_ in ids[:first_new]])


def _ascending(places: Sequence[float]) -> bool:
    return all(a < b for a, b in pairwise(places))


LAST_POSITION = "SELECT max(pos) FROM mem WHERE part = ? AND session IS ?"
"""The query of the last position in a session."""


def _end_of(connection: Transaction, own: tuple[int, str | None]) -> int:
    last: float | None = connection.execute(LAST_POSITION, own).fetchone()[0]
    return -1 if last is None else math.floor(last)


def _runs(order: Sequence[str], placed: Container[str]) -> list[_Run]:
    """The runs of turns without a position, each with its placed neighbours."""
    runs: list[_Run] = []
    leader: str | None = None
    run: list[str] = []
    for id_ in order:
        if id_ not in placed:
            run.append(id_)
            continue
        if run:
            runs.append((leader, run, id_))
            run = []
        leader = id_
    if run:
        runs.append((leader, run, None))
    return runs


def _longest_ascent(order: Sequence[str], places: Mapping[str, float]) -> set[str]:
    """The longest subsequence already in stored order (Fredman, 1975)."""
    ends: list[float] = []  # per length, the smallest last position of a subsequence
    last: list[str] = []  # the turn at that position
    before: dict[str, str | None] = {}
    for id_ in order:
        length = bisect_left(ends, places[id_])
        before[id_] = last[length - 1] if length else None
        ends[length : length + 1] = [places[id_]]
        last[length : length + 1] = [id_]
    stay: set[str] = set()
    at = last[-1] if last else None
    while at is not None:
        stay.add(at)
        at = before[at]
    return stay


def _merge(stored: Sequence[str], ids: Sequence[str]) -> list[str]:
    """Insert the stored turns that the call lacks after their old predecessors."""
    ids_of_call = set(ids)
    after: dict[str | None, list[str]] = {}
    anchor: str | None = None
    for id_ in stored:
        if id_ in ids_of_call:
            anchor = id_
        else:
            after.setdefault(anchor, []).append(id_)
    merged = after.get(None, [])
    for id_ in ids:
        merged.append(id_)
        merged.extend(after.get(id_, ()))
    return merged


def positions_of(
    partition: PartitionWriter,
    drafts: Iterable[Draft],
    stored: Mapping[str, ExistingRow],
) -> Positions:
    """Return the positions of the turns among the drafts of a call."""
    turns = [draft for draft in drafts if draft.ordered]
    session = turns[0].session if turns else None
    known = {
        id_: old.pos
        for id_, old in stored.items()
        if old.pos is not None and old.session == session
    }
    return Positions(partition, session, [draft.id for draft in turns], known)
