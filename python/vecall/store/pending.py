"""Turns of observed sessions that wait until memories are made of them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from vecall.store.batches import insert_many, select_in
from vecall.store.partitions import PartitionWriter
from vecall.store.rows import Change

_ROW_BYTES = 200


class Turn(NamedTuple):
    """A turn that waits.

    Attributes:
        id: What names it in its session.
        event: The turn as a mapping.
    """

    id: str
    event: dict[str, Any]


class DueSession(NamedTuple):
    """A session of which memories are to be made."""

    app: str
    user: str
    session: str


@dataclass(slots=True)
class KeepTurns:
    """Keeps those turns of an observed session that were not told before.

    Attributes:
        app: The app.
        user: The user.
        session: The session.
        turns: Its turns, in order.
        delay: Memories are made in so many seconds; None leaves that as it is.
        count: Memories are made now if so many turns wait.
    """

    app: str
    user: str
    session: str
    turns: Sequence[Turn]
    delay: float | None = None
    count: int | None = None

    def run(self, connection: sqlite3.Connection) -> Change:
        """Do it inside a transaction; the ids are those of the turns that are new."""
        partition = PartitionWriter(connection, self.app, self.user, create=True)
        own = [partition.id, self.session]
        ids = [turn.id for turn in self.turns]
        query = "SELECT id FROM told WHERE part = ? AND session = ? AND id IN"
        known = {id_ for (id_,) in select_in(connection, query, own, ids)}
        new = {turn.id: turn for turn in self.turns if turn.id not in known}
        if not new:
            return partition.unchanged([])
        (last,) = connection.execute(
            "SELECT ifnull(max(pos), 0) FROM told WHERE part = ? AND session = ?", own
        ).fetchone()
        insert_many(
            connection,
            "told (part, session, id, at, pos, event)",
            [
                (*own, turn.id, partition.now, last + place, json.dumps(turn.event))
                for place, turn in enumerate(new.values(), 1)
            ],
        )
        delay = self.delay
        if self.count is not None and self._waiting(connection, own) >= self.count:
            delay = 0.0
        if delay is not None:
            connection.execute(
                "INSERT OR REPLACE INTO trig (part, session, kind, due_at) "
                "VALUES (?, ?, 'make', ?)",
                (*own, partition.expiry_now + delay),
            )
        return partition.unchanged(list(new))

    @property
    def growth(self) -> int:
        """About how many bytes the file grows by."""
        return sum(_ROW_BYTES + len(str(turn.event)) for turn in self.turns)

    def _waiting(self, connection: sqlite3.Connection, own: list[Any]) -> int:
        query = (
            "SELECT count(*) FROM told "
            "WHERE part = ? AND session = ? AND event IS NOT NULL"
        )
        return int(connection.execute(query, own).fetchone()[0])


@dataclass(slots=True)
class ClaimSession:
    """Takes a session that is due, so that no other process does the same.

    Attributes:
        app: The app.
        user: The user.
        session: The session.
        lease: Somebody else may take it in so many seconds if it is still due then.
    """

    app: str
    user: str
    session: str
    lease: float
    growth: int = 0

    def run(self, connection: sqlite3.Connection) -> Change:
        """Do it inside a transaction; the ids hold the session if it was had."""
        partition = PartitionWriter(connection, self.app, self.user, create=False)
        now = partition.expiry_now
        had = connection.execute(
            "UPDATE trig SET due_at = ? WHERE part = ? AND session = ? AND due_at <= ?",
            (now + self.lease, partition.id, self.session, now),
        ).rowcount
        return partition.unchanged([self.session] if had else [])


@dataclass(slots=True)
class PostponeSession:
    """Tries again later to make memories of a session; later and later.

    Attributes:
        app: The app.
        user: The user.
        session: The session.
        first: Seconds until the first other try; doubled with each.
        most: The longest pause, in seconds.
    """

    app: str
    user: str
    session: str
    first: float
    most: float
    growth: int = 0

    def run(self, connection: sqlite3.Connection) -> Change:
        """Do it inside a transaction."""
        partition = PartitionWriter(connection, self.app, self.user, create=False)
        own = (partition.id, self.session)
        row = connection.execute(
            "SELECT state FROM trig WHERE part = ? AND session = ?", own
        ).fetchone()
        tries = json.loads(row[0])["tries"] if row and row[0] else 0
        pause = min(self.first * 2.0**tries, self.most)
        connection.execute(
            "UPDATE trig SET due_at = ?, state = ? WHERE part = ? AND session = ?",
            (partition.expiry_now + pause, json.dumps({"tries": tries + 1}), *own),
        )
        return partition.unchanged([])


def take_care(partition: PartitionWriter, session: str, ids: Sequence[str]) -> None:
    """Note that turns need wait no more, and the session neither if none is left."""
    own = [partition.id, session]
    query = "UPDATE told SET event = NULL WHERE part = ? AND session = ? AND id IN"
    for _ in select_in(partition.connection, query, own, ids):
        pass
    partition.connection.execute(
        "DELETE FROM trig WHERE part = ? AND session = ? AND NOT EXISTS (SELECT 1 "
        "FROM told WHERE part = trig.part AND session = trig.session "
        "AND event IS NOT NULL)",
        own,
    )


def waiting_turns(
    connection: sqlite3.Connection, app: str, user: str, session: str
) -> list[Turn]:
    """Return the turns of a session that wait, in order."""
    found = connection.execute(
        "SELECT id, event FROM told WHERE session = ? AND event IS NOT NULL AND part = "
        "(SELECT id FROM part WHERE app = ? AND user = ?) ORDER BY pos",
        (session, app, user),
    )
    return [Turn(id_, json.loads(event)) for id_, event in found]


def told_ids(
    connection: sqlite3.Connection, app: str, user: str, session: str
) -> set[str]:
    """Return what names the turns of a session that were told before."""
    found = connection.execute(
        "SELECT id FROM told WHERE session = ? AND part = "
        "(SELECT id FROM part WHERE app = ? AND user = ?)",
        (session, app, user),
    )
    return {id_ for (id_,) in found}


def due_sessions(connection: sqlite3.Connection, now: float) -> list[DueSession]:
    """Return the sessions of which memories are to be made by now."""
    found = connection.execute(
        "SELECT app, user, session FROM trig JOIN part ON part.id = trig.part "
        "WHERE due_at <= ? ORDER BY due_at",
        (now,),
    )
    return [DueSession(*row) for row in found]


def next_due(connection: sqlite3.Connection) -> float | None:
    """Return when the next session is due, in seconds; None if none is."""
    due: float | None = connection.execute("SELECT min(due_at) FROM trig").fetchone()[0]
    return due
