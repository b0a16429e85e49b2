"""Buffers the turns of observed sessions until they become memories."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vecall.errors import ConflictError, CorruptFileError, InvalidArgumentError
from vecall.filters.rights import FULL, Rights
from vecall.store.erased_names import hide, keys_of, part_of, tombstones
from vecall.store.results import BufferedTurn, DueSession
from vecall.store.rows import Change
from vecall.store.sql import execute_in, insert_many, select_in
from vecall.store.transaction import Transaction
from vecall.store.values import NO_VALUE, check_turn, stored_object
from vecall.store.writes.hidden_rows import taken_ids
from vecall.store.writes.partition_writer import PartitionWriter
from vecall.store.writes.quota import UserQuota, evict
from vecall.store.writes.waiting_counts import Waits, add_waits, waits_of

_ROW_BYTES = 200
_MOST_DOUBLINGS = 64


@dataclass(slots=True)
class BufferTurns:
    """Buffers the new turns of an observed session.

    Attributes:
        app: The app.
        user: The user.
        session: The session.
        turns: Turns by id, in order; None for a turn that makes no memory.
        delay: The session is due after so many seconds; None keeps its due time.
        count: The session is due at once if it has at least so many buffered turns.
        bounds: The user's quota.
        ends: The session is processed at once, so the quota is enforced on what was
            buffered before, not on these turns.
        rights: A turn with the id of a memory below the caller's floor makes no memory.
    """

    app: str
    user: str
    session: str
    turns: Mapping[str, dict[str, Any] | None]
    delay: float | None = None
    count: int | None = None
    bounds: UserQuota | None = None
    ends: bool = False
    rights: Rights = FULL

    def run(self, connection: Transaction) -> Change:
        """Do it inside a transaction; the change has the ids of the new turns."""
        partition = PartitionWriter(connection, self.app, self.user, create=True)
        own = [partition.id, self.session]
        known = seen_turn_ids_of_partition(
            connection, partition.id, self.session, list(self.turns)
        )
        new = {id_: event for id_, event in self.turns.items() if id_ not in known}
        if not new:
            return partition.unchanged([])
        partition.reveal()
        removed: list[int] = []
        if self.bounds is not None and self.ends:
            removed = evict(partition, self.bounds, [], waits_of(partition))
        elif self.bounds is not None:
            waits_of(partition)  # count the buffered turns before adding some
        for id_, *_ in tombstones(connection, partition.id, list(new)):
            new[id_] = None
        for id_ in taken_ids(partition, list(new), self.rights):
            new[id_] = None
        (last,) = connection.execute(
            "SELECT coalesce(max(pos), 0) FROM told WHERE part = ? AND session = ?", own
        ).fetchone()
        rows = [
            (*own, id_, partition.now, last + place, event and json.dumps(event))
            for place, (id_, event) in enumerate(new.items(), 1)
        ]
        insert_many(connection, "told (part, session, id, at, pos, event)", rows)
        sizes = [len(event) for *_, event in rows if event]  # it is ASCII
        more = Waits(len(sizes), sum(sizes))
        add_waits(partition, more)
        delay = self.delay
        if self.count is not None and self._waiting(connection, own) >= self.count:
            delay = 0.0
        if delay is not None and any(new.values()):
            # After a failure, new turns do not move the retry forward.
            connection.execute(
                "INSERT INTO trig (part, session, kind, due_at) "
                "VALUES (?, ?, 'make', ?) ON CONFLICT (part, session, kind) DO UPDATE "
                "SET due_at = CASE WHEN trig.state IS NULL THEN excluded.due_at "
                "ELSE max(trig.due_at, excluded.due_at) END",
                (*own, partition.expiry_now + delay),
            )
        if self.bounds is not None and not self.ends:
            removed = evict(partition, self.bounds, [], more)
        partition.finish()
        return partition.changed(removed=removed, ids=list(new))

    @property
    def estimated_bytes(self) -> int:
        """About how many bytes the file grows by."""
        return sum(_ROW_BYTES + len(str(event)) for event in self.turns.values())

    def _waiting(self, connection: Transaction, own: list[Any]) -> int:
        query = (
            "SELECT count(*) FROM told "
            "WHERE part = ? AND session = ? AND event IS NOT NULL"
        )
        return int(connection.execute(query, own).fetchone()[0])


@dataclass(slots=True)
class ClaimSession:
    """Claims a due session for this process, under a lease.

    Attributes:
        app: The app.
        user: The user.
        session: The session.
        lease: Seconds after which another process may claim it, if it is still due.
    """

    app: str
    user: str
    session: str
    lease: float
    estimated_bytes: int = 0

    def run(self, connection: Transaction) -> Change:
        """Do it inside a transaction; the change has the session's id if claimed."""
        partition = PartitionWriter(connection, self.app, self.user, create=False)
        _disarm(partition, self.session)
        now = partition.expiry_now
        claimed = connection.execute(
            "UPDATE trig SET due_at = ? WHERE part = ? AND session = ? AND due_at <= ?",
            (now + self.lease, partition.id, self.session, now),
        ).rowcount
        return partition.unchanged([self.session] if claimed else [])


@dataclass(slots=True)
class PostponeSession:
    """Postpones a session whose processing failed, with exponential backoff.

    Attributes:
        app: The app.
        user: The user.
        session: The session.
        first: Seconds until the first retry; doubled for each further one.
        most: The longest pause, in seconds.
    """

    app: str
    user: str
    session: str
    first: float
    most: float
    estimated_bytes: int = 0

    def run(self, connection: Transaction) -> Change:
        """Do it inside a transaction."""
        partition = PartitionWriter(connection, self.app, self.user, create=False)
        own = (partition.id, self.session)
        row = connection.execute(
            "SELECT state FROM trig WHERE part = ? AND session = ?", own
        ).fetchone()
        tries = _tries(row[0]) if row and row[0] else 0
        pause = min(self.first * 2.0 ** min(tries, _MOST_DOUBLINGS), self.most)
        connection.execute(
            "UPDATE trig SET due_at = ?, state = ? WHERE part = ? AND session = ?",
            (partition.expiry_now + pause, json.dumps({"tries": tries + 1}), *own),
        )
        return partition.unchanged([])


def mark_turns_done(
    partition: PartitionWriter, session: str, ids: Sequence[str]
) -> Waits:
    """Remove turns from a session's buffer, and the due time of an empty buffer.

    Returns:
        The number of removed turns and their bytes.

    Raises:
        ConflictError: Some turns are no longer buffered: another call consumed or
            deleted them.
    """
    own = [partition.id, session]
    among = "part = ? AND session = ? AND event IS NOT NULL AND id IN"
    size = "SELECT length(CAST(event AS BLOB)) FROM told WHERE"
    found = select_in(partition.connection, f"{size} {among}", own, ids)
    sizes = [nbytes for (nbytes,) in found]
    if len(sizes) < len(ids):
        msg = "another call has already consumed or deleted these turns"
        raise ConflictError(msg)
    execute_in(
        partition.connection, f"UPDATE told SET event = NULL WHERE {among}", own, ids
    )
    _disarm(partition, session)
    partition.connection.execute(
        "UPDATE trig SET state = NULL WHERE part = ? AND session = ?", own
    )
    add_waits(partition, Waits(-len(sizes), -sum(sizes)))
    return Waits(len(sizes), sum(sizes))


def _disarm(partition: PartitionWriter, session: str) -> None:
    """Remove the due time of a session without buffered turns."""
    partition.connection.execute(
        "DELETE FROM trig WHERE part = ? AND session = ? AND NOT EXISTS (SELECT 1 "
        "FROM told WHERE part = trig.part AND session = trig.session "
        "AND event IS NOT NULL)",
        (partition.id, session),
    )


def buffered_turns(
    connection: Transaction, app: str, user: str, session: str
) -> list[BufferedTurn]:
    """Return the buffered turns of a session, in order."""
    found = connection.execute(
        "SELECT id, event FROM told WHERE session = ? AND event IS NOT NULL AND part = "
        "(SELECT id FROM part WHERE app = ? AND user = ?) ORDER BY pos",
        (session, app, user),
    )
    return [_turn(id_, event) for id_, event in found]


def _turn(id_: str, event: str) -> BufferedTurn:
    """A buffered turn from its stored JSON.

    Raises:
        CorruptFileError: The JSON is not a valid turn.
    """
    fields = stored_object(event)
    try:
        check_turn(fields, "")
    except InvalidArgumentError:
        raise CorruptFileError(NO_VALUE) from None
    return BufferedTurn(id_, fields)


def _tries(state: str) -> int:
    tries = stored_object(state).get("tries", 0)
    return max(0, tries) if isinstance(tries, int) else 0


def seen_turn_ids(
    connection: Transaction,
    app: str,
    user: str,
    session: str,
    ids: Sequence[str],
) -> set[str]:
    """Return those of `ids` that a session has buffered before."""
    part = part_of(connection, app, user)
    return (
        set()
        if part is None
        else seen_turn_ids_of_partition(connection, part, session, ids)
    )


def seen_turn_ids_of_partition(
    connection: Transaction, part: int, session: str, ids: Sequence[str]
) -> set[str]:
    """Return those of `ids` that a partition has on record, plain or hidden."""
    query = "SELECT id FROM told WHERE part = ? AND session = ? AND id IN"
    known = {id_ for (id_,) in select_in(connection, query, [part, session], ids)}
    for key in keys_of(connection, part):
        hidden = {hide(key, id_): id_ for id_ in ids}
        own = [part, hide(key, session)]
        found = select_in(connection, query, own, list(hidden))
        known.update(hidden[id_] for (id_,) in found)
    return known


def due_sessions(connection: Transaction, now: float) -> list[DueSession]:
    """Return the sessions whose buffered turns are due, earliest first."""
    found = connection.execute(
        "SELECT app, user, session FROM trig JOIN part ON part.id = trig.part "
        "WHERE due_at <= ? ORDER BY due_at",
        (now,),
    )
    return [DueSession(*row) for row in found]


def next_due(connection: Transaction) -> float | None:
    """Return the earliest due time of a session, in seconds; None if none."""
    due: float | None = connection.execute("SELECT min(due_at) FROM trig").fetchone()[0]
    return due
