"""The turns of sessions: buffered, placed, split into passages."""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from vecall.errors import ConflictError, CorruptFileError, InvalidArgumentError
from vecall.filters.rights import FULL, Rights
from vecall.scalars import stored_float
from vecall.store import transaction
from vecall.store.names import digest_keys, hide_name, part_of, read_tombstones
from vecall.store.queries.partition_reads import OF_USER
from vecall.store.rows import BufferedTurn, Change, Draft, DueSession
from vecall.store.values import NO_VALUE, check_buffered_turn, parse_stored_object
from vecall.store.writes import partition_writer
from vecall.store.writes.history import ExistingRow, ids_taken_by_hidden
from vecall.store.writes.quota import UserQuota, evict_over_quota

# Buffers the turns of observed sessions until they become memories.

_ROW_BYTES = 200
_MOST_DOUBLINGS = 64
_WAITS = "part = ? AND session = ? AND event IS NOT NULL"


@dataclass(slots=True, repr=False, eq=False)
class BufferTurns(partition_writer.UserJob):
    """Buffers the new turns of an observed session."""

    session: str
    # Turns by id, in order; None for a turn that makes no memory.
    turns: Mapping[str, dict[str, Any] | None]
    # The session is due after so many seconds; None keeps its due time.
    delay: float | None = None
    # The session is due at once if it has at least so many buffered turns.
    count: int | None = None
    bounds: UserQuota | None = None
    # The session is processed at once, so the quota is enforced on what was buffered
    # before, not on these turns.
    ends: bool = False
    # A turn with the id of a memory below the caller's floor makes no memory.
    rights: Rights = FULL

    def run(self, connection: transaction.Transaction) -> Change:
        """Do it inside a transaction; the change has the ids of the new turns."""
        partition = partition_writer.PartitionWriter(
            connection, self.app, self.user, create=True
        )
        own = (partition.id, self.session)
        known = seen_turn_ids_of_partition(connection, *own, list(self.turns))
        new = {id_: event for id_, event in self.turns.items() if id_ not in known}
        if not new:
            return partition.changed()
        partition.reveal_user_names()
        removed: list[int] = []
        if self.bounds is not None:  # count the buffered turns before adding some
            waits = partition_writer.counts_of_buffered(partition)
            if self.ends:
                removed = evict_over_quota(partition, self.bounds, [], waits)
        for id_, *_ in read_tombstones(connection, partition.id, list(new)):
            new[id_] = None
        for id_ in ids_taken_by_hidden(partition, list(new), self.rights):
            new[id_] = None
        query = "SELECT coalesce(max(pos), 0) FROM told WHERE part = ? AND session = ?"
        (last,) = partition.execute(query, own).fetchone()
        rows = [
            (*own, id_, partition.now, last + place, event and json.dumps(event))
            for place, (id_, event) in enumerate(new.items(), 1)
        ]
        transaction.insert_many(
            connection, "told (part, session, id, at, pos, event)", rows
        )
        sizes = [len(event) for *_, event in rows if event]  # it is ASCII
        more = partition_writer.Waits(len(sizes), sum(sizes))
        partition_writer.add_buffered_counts(partition, more)
        delay = self.delay
        waiting = f"SELECT count(*) FROM told WHERE {_WAITS}"
        if self.count is not None and (
            partition.execute(waiting, own).fetchone()[0] >= self.count
        ):
            delay = 0.0
        if delay is not None and any(new.values()):
            # After a failure, new turns do not move the retry forward.
            partition.execute(
                "INSERT INTO trig (part, session, kind, due_at) "
                "VALUES (?, ?, 'make', ?) ON CONFLICT (part, session, kind) DO UPDATE "
                "SET due_at = CASE WHEN trig.state IS NULL THEN excluded.due_at "
                "ELSE max(trig.due_at, excluded.due_at) END",
                (*own, partition.expiry_now + delay),
            )
        if not self.ends:
            removed = evict_over_quota(partition, self.bounds, [], more)
        return partition.changed(removed=removed, ids=list(new))

    @property
    def estimated_bytes(self) -> int:
        """About how many bytes the file grows by."""
        return sum(_ROW_BYTES + len(str(event)) for event in self.turns.values())


@dataclass(slots=True, repr=False, eq=False)
class ClaimSession(partition_writer.UserJob):
    """Claims a due session for this process, under a lease."""

    session: str
    lease: float  # seconds after which another process may claim it, if it is still due

    def _write_partition(self, partition: partition_writer.PartitionWriter) -> Change:
        """Do it in the user's partition; the change has the session if claimed."""
        now, own = partition.expiry_now, (partition.id, self.session)
        _remove_unneeded_due_time(partition, self.session)
        claimed = partition.execute(
            "UPDATE trig SET due_at = ? WHERE part = ? AND session = ? AND due_at <= ?",
            (now + self.lease, *own, now),
        ).rowcount
        return partition.changed(ids=[self.session] if claimed else [])


@dataclass(slots=True, repr=False, eq=False)
class PostponeSession(partition_writer.UserJob):
    """Postpones a session whose processing failed, with exponential backoff."""

    session: str
    first: float  # seconds until the first retry; doubled for each further one
    most: float  # the longest pause, in seconds

    def _write_partition(self, partition: partition_writer.PartitionWriter) -> Change:
        own = (partition.id, self.session)
        query = "SELECT state FROM trig WHERE part = ? AND session = ?"
        row = partition.execute(query, own).fetchone()
        tries = parse_stored_object(row[0]).get("tries", 0) if row and row[0] else 0
        tries = max(0, tries) if isinstance(tries, int) else 0
        pause = min(self.first * 2.0 ** min(tries, _MOST_DOUBLINGS), self.most)
        partition.execute(
            "UPDATE trig SET due_at = ?, state = ? WHERE part = ? AND session = ?",
            (partition.expiry_now + pause, json.dumps({"tries": tries + 1}), *own),
        )
        return partition.changed()


def mark_turns_done(
    partition: partition_writer.PartitionWriter, session: str, ids: Sequence[str]
) -> partition_writer.Waits:
    """Remove turns from a session's buffer; return the change of the counts."""
    # ConflictError: another call has consumed or deleted some of them.
    own = [partition.id, session]
    connection, among = partition.connection, f"{_WAITS} AND id IN"
    size = "SELECT length(CAST(event AS BLOB)) FROM told WHERE"
    found = transaction.select_in(connection, f"{size} {among}", own, ids)
    sizes = [nbytes for (nbytes,) in found]
    if len(sizes) < len(ids):
        raise ConflictError("another call has already consumed or deleted these turns")
    transaction.execute_among(
        connection, f"UPDATE told SET event = NULL WHERE {among}", own, ids
    )
    _remove_unneeded_due_time(partition, session)
    query = "UPDATE trig SET state = NULL WHERE part = ? AND session = ?"
    partition.execute(query, own)
    change = partition_writer.Waits(-len(sizes), -sum(sizes))
    partition_writer.add_buffered_counts(partition, change)
    return change


def _remove_unneeded_due_time(
    partition: partition_writer.PartitionWriter, session: str
) -> None:
    """Remove the due time of a session without buffered turns."""
    partition.execute(
        "DELETE FROM trig WHERE part = ? AND session = ? AND NOT EXISTS (SELECT 1 "
        "FROM told WHERE part = trig.part AND session = trig.session "
        "AND event IS NOT NULL)",
        (partition.id, session),
    )


def buffered_turns(
    connection: transaction.Transaction, app: str, user: str, session: str
) -> list[BufferedTurn]:
    """Return the buffered turns of a session, in order."""
    found = connection.execute(
        "SELECT id, event FROM told WHERE session = ? AND event IS NOT NULL "
        f"AND part = {OF_USER} ORDER BY pos",
        (session, app, user),
    )
    turns = [BufferedTurn(id_, parse_stored_object(event)) for id_, event in found]
    try:
        for turn in turns:
            check_buffered_turn(turn.event, "")
    except InvalidArgumentError:
        raise CorruptFileError(NO_VALUE) from None
    return turns


def seen_turn_ids(
    connection: transaction.Transaction,
    app: str,
    user: str,
    session: str,
    ids: Sequence[str],
) -> set[str]:
    """Return those of `ids` that a session has buffered before."""
    part = part_of(connection, app, user) or 0
    return seen_turn_ids_of_partition(connection, part, session, ids)


def seen_turn_ids_of_partition(
    connection: transaction.Transaction, part: int, session: str, ids: Sequence[str]
) -> set[str]:
    """Return those of `ids` that a partition has on record, plain or hidden."""
    query = "SELECT id FROM told WHERE part = ? AND session = ? AND id IN"
    known = {
        id_ for (id_,) in transaction.select_in(connection, query, [part, session], ids)
    }
    for key in digest_keys(connection, part):
        hidden = {hide_name(key, id_): id_ for id_ in ids}
        own = [part, hide_name(key, session)]
        found = transaction.select_in(connection, query, own, list(hidden))
        known.update(hidden[id_] for (id_,) in found)
    return known


def due_sessions(connection: transaction.Transaction, now: float) -> list[DueSession]:
    """Return the sessions whose buffered turns are due, earliest first."""
    found = connection.execute(
        "SELECT app, user, session FROM trig JOIN part ON part.id = trig.part "
        "WHERE due_at <= ? ORDER BY due_at",
        (now,),
    )
    return [DueSession(*row) for row in found]


def next_due_session_time(connection: transaction.Transaction) -> float | None:
    """Return the earliest due time of a session, in seconds; None if none."""
    due: float | None = connection.execute("SELECT min(due_at) FROM trig").fetchone()[0]
    return due


# The scheduled consolidation runs once for all processes.

_LAST_RUN = "consolidated_at"  # in meta


def last_consolidation(connection: transaction.Transaction) -> float | None:
    """Return when a scheduled consolidation ran last, in seconds since 1970."""
    found = transaction.read_fact(connection, _LAST_RUN)
    return None if found is None else stored_float(found)


def move_last_consolidation(
    connection: transaction.Transaction, seconds: float
) -> None:
    """Move the time of the last run, inside a transaction."""
    last = last_consolidation(connection)
    if last is not None:
        transaction.set_fact(connection, _LAST_RUN, repr(last + seconds))


@dataclass(slots=True, repr=False, eq=False)
class ClaimConsolidation:
    """Claims a scheduled run, unless another process already has."""

    last: float | None  # the last run that the caller saw
    now: float  # seconds since 1970
    estimated_bytes: int = 0

    def run(self, connection: transaction.Transaction) -> Change:
        """Do it inside a transaction; the change has an id if the run is claimed."""
        if last_consolidation(connection) != self.last:
            return partition_writer.NO_USER
        transaction.set_fact(connection, _LAST_RUN, repr(self.now))
        return replace(partition_writer.NO_USER, ids=[_LAST_RUN])


# Computes positions between existing ones.


def positions_between(low: float | None, high: float | None, count: int) -> list[float]:
    """Return `count` ascending numbers between `low` and `high`, both exclusive."""
    # They are integers if these fit: right before `high`, right after `low`, or from 0.
    if high is None:
        start = 0 if low is None else math.floor(low) + 1
        return [start + i for i in range(count)]
    start = math.ceil(high) - count
    if low is None or start > low:
        return [start + i for i in range(count)]
    step = (high - low) / (count + 1)
    return [stored_integer(low + step * (i + 1)) for i in range(count)]


def spread_positions(
    old: Sequence[float],
    at: int,
    count: int,
    first: float | None,
    last: float | None,
    minimum: float,
) -> list[float] | None:
    """Return new, evenly spaced positions with a gap for `count` more; steps <= 1."""
    # The gap is before the index `at`. `first` and `last` are fixed, unless None. None
    # is returned if the step would be below `minimum`.
    steps = len(old) - 1 + count
    step = 1.0
    if first is not None and last is not None:
        step = min(1.0, (last - first) / steps)
    if step < minimum:
        return None
    begin = first if first is not None else 0.0 if last is None else last - steps
    new = [begin + step * (i if i < at else i + count) for i in range(len(old))]
    if last is not None:
        new[-1] = last
    return [stored_integer(number) for number in new]


def stored_integer(number: float) -> float:
    """Return a number as SQLite returns it from a column of integers."""
    return int(number) if number == math.floor(number) else number


# Positions of turns in a session, which is ingested whole, in deltas or trimmed.
#
# Positions of neighbours are at most 1 apart. A turn between two others gets a position
# between theirs, so no other turn has to be rewritten. If positions become too close,
# the turns around are spread out.

_LEAST = 2.0**-20  # minimum distance; a float64 near 2^32 is more precise
_SPREAD = 2.0**-8  # minimum distance after spreading
_AROUND = 32  # turns on each side in the first attempt to spread

_Run = tuple[str | None, list[str], str | None]
"""New turns in a row, with the positioned turn before and the one after them."""


class Positions:
    """The positions of a call's turns in one session: of `new` and `moved` ones, by id.

    New turns go to the end, unless the call has a known turn after them: then they are
    placed right before it. If the call has known turns in another order, as few of them
    as possible move. Turns without a session share one bucket, with a gap between
    calls, so that only turns of the same call are neighbours.
    """

    def __init__(
        self,
        partition: partition_writer.PartitionWriter,
        turns: Sequence[Draft],
        stored: Mapping[str, ExistingRow],
    ) -> None:
        """Compute the positions of a call's turns, in its order; `stored` are its rows.

        The session None of the turns is the bucket.
        """
        self.new: dict[str, float] = {}
        self.moved: dict[str, float] = {}
        ids, session = [draft.id for draft in turns], turns[0].session
        known = {
            id_: old.row.pos
            for id_, old in stored.items()
            if old.row.pos is not None and old.row.session == session
        }
        self._execute = partition.execute
        self._own = (partition.id, session)
        new = [id_ for id_ in ids if id_ not in known]
        if session is None or _only_appends(ids, known):
            if new:
                gap = 2 if session is None else 1
                self._append_turns(new, gap)
        elif _are_places_ascending([known[id_] for id_ in ids if id_ in known]):
            self._insert_before(_runs_without_position(ids, known), known)
        else:
            self._reorder_turns(ids)

    def _append_turns(self, new: Sequence[str], gap: int = 1) -> None:
        last: float | None = self._execute(LAST_POSITION, self._own).fetchone()[0]
        start = (-1 if last is None else math.floor(last)) + gap
        self.new |= {id_: start + i for i, id_ in enumerate(new)}

    def _insert_before(self, runs: Sequence[_Run], known: Mapping[str, float]) -> None:
        """Place each run of new turns right before the known turn that follows it."""
        for _, run, follower in runs:
            if follower is not None:
                self._spread_turns_around(known[follower], len(run))
        for _, run, follower in runs:
            if follower is None:
                self._append_turns(run)
                continue
            below, above = self._turns_around(known[follower], 1)
            low = self._current_position(below[-1]) if below else None
            places = positions_between(low, self._current_position(above[0]), len(run))
            self.new |= dict(zip(run, places, strict=True))

    def _spread_turns_around(self, at: float, count: int) -> None:
        """Spread turns out if `count` more right before `at` would be too close."""
        width = 1
        while True:
            below, above = self._turns_around(at, width)
            first = None if len(below) < width else self._current_position(below[0])
            last = None if len(above) < width else self._current_position(above[-1])
            old = [self._current_position(row) for row in (*below, *above)]
            if width == 1:
                if not below or old[1] - old[0] >= _LEAST * (count + 1):
                    return
            else:
                places = spread_positions(old, len(below), count, first, last, _SPREAD)
                if places is not None:
                    rows = zip((*below, *above), old, places, strict=True)
                    for (id_, _), was, place in rows:
                        if place != was:
                            self.moved[id_] = place
                    return
            width = max(_AROUND, 4 * width)

    def _turns_around(
        self, at: float, width: int
    ) -> tuple[list[tuple[str, float]], list[tuple[str, float]]]:
        """The nearest turns before a stored position and from it on, in order."""
        query = "SELECT id, pos FROM mem WHERE part = ? AND session = ? AND pos"
        values = (*self._own, at, width)
        below = self._execute(f"{query} < ? ORDER BY pos DESC LIMIT ?", values)
        above = self._execute(f"{query} >= ? ORDER BY pos LIMIT ?", values)
        return below.fetchall()[::-1], above.fetchall()

    def _current_position(self, row: tuple[str, float]) -> float:
        """The current position of a stored turn; this call may have moved it."""
        return self.moved.get(*row)

    def _reorder_turns(self, ids: Sequence[str]) -> None:
        """Bring known turns into the order of the call, and insert the new ones."""
        rows = self._execute(
            "SELECT id, pos FROM mem WHERE part = ? AND session = ? "
            "AND pos IS NOT NULL ORDER BY pos",
            self._own,
        )
        stored: dict[str, float] = dict(rows.fetchall())
        merged = _merge_turn_ids(list(stored), ids)
        stay = _longest_ascent([id_ for id_ in merged if id_ in stored], stored)
        places: dict[str, float] = {}
        for leader, run, follower in _runs_without_position(merged, stay):
            low = None if leader is None else stored[leader]
            high = None if follower is None else stored[follower]
            found = positions_between(low, high, len(run))
            room = [value for value in (low, *found, high) if value is not None]
            if any(b - a < _LEAST for a, b in pairwise(room)):
                places = {id_: i for i, id_ in enumerate(merged)}
                break
            places |= dict(zip(run, found, strict=True))
        for id_, place in places.items():
            if id_ not in stored:
                self.new[id_] = place
            elif stored[id_] != place:
                self.moved[id_] = place


def _only_appends(ids: Sequence[str], known: Mapping[str, float]) -> bool:
    """Whether the known turns are in stored order and all new ones follow them."""
    first_new = next((i for i, id_ in enumerate(ids) if id_ not in known), len(ids))
    if any(id_ in known for id_ in ids[first_new:]):
        return False
    return _are_places_ascending([known[id_] for id_ in ids[:first_new]])


def _are_places_ascending(places: Sequence[float]) -> bool:
    return all(a < b for a, b in pairwise(places))


LAST_POSITION = "SELECT max(pos) FROM mem WHERE part = ? AND session IS ?"
"""The query of the last position in a session."""


def _runs_without_position(order: Sequence[str], placed: Container[str]) -> list[_Run]:
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


def _merge_turn_ids(stored: Sequence[str], ids: Sequence[str]) -> list[str]:
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
