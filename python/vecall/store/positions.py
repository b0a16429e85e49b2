"""Where turns stand in their session, told in one piece, in deltas, or trimmed."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from itertools import pairwise

from vecall.store.partitions import PartitionWriter


class Positions:
    """The positions of a call's turns in one session.

    New turns go to the end unless the call shows that they belong before a turn that is
    known already; then the session is numbered anew in the merged order. Turns without
    a session go into one bucket with a gap between calls, so that only turns of one
    call are neighbours.
    """

    def __init__(
        self,
        partition: PartitionWriter,
        session: str | None,
        told: Sequence[str],
        known: Mapping[str, int],
    ) -> None:
        """Work out the positions.

        Args:
            partition: The partition being written.
            session: The session, None for the bucket.
            told: Memory ids of the call's turns, in order, each once.
            known: Positions of those of them that are in the session already.
        """
        self.of: dict[str, int] = {}
        self.moved: dict[str, int] = {}
        new = [id_ for id_ in told if id_ not in known]
        if session is None or _in_order(told, known):
            if not new:
                return
            start = _end_of(partition, session) + (2 if session is None else 1)
            self.of = {id_: start + i for i, id_ in enumerate(new)}
            return
        stored = _stored_order(partition, session)
        merged = _merge(list(stored), told)
        for position, id_ in enumerate(merged):
            if id_ not in stored:
                self.of[id_] = position
            elif stored[id_] != position:
                self.moved[id_] = position


def _in_order(told: Sequence[str], known: Mapping[str, int]) -> bool:
    """Whether the known turns stand as they were told, and the new ones follow them."""
    places = [known.get(id_) for id_ in told]
    first_new = next((i for i, place in enumerate(places) if place is None), len(told))
    if any(place is not None for place in places[first_new:]):
        return False
    before = [place for place in places[:first_new] if place is not None]
    return all(a < b for a, b in pairwise(before))


def _end_of(partition: PartitionWriter, session: str | None) -> int:
    last: int | None = partition.connection.execute(
        "SELECT max(pos) FROM mem WHERE part = ? AND session IS ?",
        (partition.id, session),
    ).fetchone()[0]
    return -1 if last is None else last


def _stored_order(partition: PartitionWriter, session: str) -> dict[str, int]:
    rows: sqlite3.Cursor = partition.connection.execute(
        "SELECT id, pos FROM mem WHERE part = ? AND session = ? AND pos IS NOT NULL "
        "ORDER BY pos",
        (partition.id, session),
    )
    return dict(rows.fetchall())


def _merge(stored: Sequence[str], told: Sequence[str]) -> list[str]:
    """Put the stored turns that were not told where they stood: after the same turn."""
    told_ids = set(told)
    after: dict[str | None, list[str]] = {}
    anchor: str | None = None
    for id_ in stored:
        if id_ in told_ids:
            anchor = id_
        else:
            after.setdefault(anchor, []).append(id_)
    merged = after.get(None, [])
    for id_ in told:
        merged.append(id_)
        merged.extend(after.get(id_, ()))
    return merged
