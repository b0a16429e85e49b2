"""Deletes memories permanently and leaves tombstones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from vecall.errors import ConflictError
from vecall.filters.rights import FULL, QUARANTINED, Rights
from vecall.store.erased_names import Why
from vecall.store.reads.metadata_filter import (
    TESTED,
    filter_conditions,
    passing_metadata,
)
from vecall.store.rows import Change
from vecall.store.sql import execute_in, insert_many, select_in
from vecall.store.transaction import Transaction, retire
from vecall.store.visible import above_floor, visible
from vecall.store.writes.forget_proposals import take_proposal
from vecall.store.writes.item_rows import delete_items
from vecall.store.writes.partition_writer import PartitionWriter
from vecall.store.writes.passages import passages_among, with_passages
from vecall.store.writes.waiting_counts import Waits, add_waits
from vecall.types import Filter


class RowToDelete(NamedTuple):
    """A row to be deleted."""

    rid: int
    id: str
    size: int
    state: str


_WAITING = "SELECT id, length(CAST(event AS BLOB)) FROM told"
_DOOMED = "SELECT rid, id, length(CAST(text AS BLOB)), state FROM mem WHERE part = ?"


@dataclass(slots=True)
class DeleteMemories:
    """Deletes memories of one user. Ignores unknown ids.

    The tombstones prevent a later ingest from storing the same ids, unless it uses
    `restore`. Without any condition, all memories and items of the user are deleted.

    Attributes:
        app: The app.
        user: The user.
        ids: Only memories with these ids, and the other passages of these turns.
        session: Only memories of this session.
        filter: Only memories that pass this filter, which `check_filter` returned.
        passed: The `updated_at` of memories that passed `filter`, by id. Only these are
            deleted; the metadata of one that was updated since are checked again.
        version: Delete nothing if the `updated_at` of a memory in `ids` differs.
        rights: Only memories that the caller sees. Those of the whole user are deleted
            with the quarantined ones, which the change does not name.
        token: The token of a proposal, which must contain the ids. Without ids, all
            ids of the proposal are deleted.
    """

    app: str
    user: str
    ids: Sequence[str] | None = None
    session: str | None = None
    filter: Filter | None = None
    token: str | None = None
    version: float | None = None
    estimated_bytes: int = 0
    rights: Rights = FULL
    passed: Mapping[str, float | None] | None = None

    def run(self, connection: Transaction) -> Change:
        """Do it inside a transaction.

        Raises:
            ConflictError: `version` does not hold.
        """
        partition = PartitionWriter(connection, self.app, self.user, create=False)
        if self.version is not None:
            self._check_version(partition)
        if self.token is not None:
            self.ids = take_proposal(partition, self.token, self.ids, self.rights)
        elif self.ids is not None:
            self.ids = with_passages(connection, partition.id, self.ids)
        query, values = self._conditions(partition.id)
        if self.ids is None:
            found = list(self._passing(connection, query, values))
        else:
            rows = select_in(connection, f"{query} AND id IN", values, self.ids)
            found = [RowToDelete(*row) for row in rows]
        found += self._predecessors(partition, found)
        delete_rows(partition, found)
        write_tombstones(partition, [row.id for row in found])
        forget_waiting(partition, [*(self.ids or ()), *(row.id for row in found)])
        self._forget_pending(partition)
        if not self._is_narrowed and self.session is None:
            delete_items(partition)
        partition.finish()
        gone = [row.rid for row in found]
        named = [row.id for row in found if self._names(row)]
        return partition.changed(removed=gone, ids=named)

    def _names(self, row: RowToDelete) -> bool:
        return self.rights.review or row.state != QUARANTINED

    @property
    def _seen(self) -> str:
        """The condition of the memories that may be deleted."""
        whole = self.session is None and not self._is_narrowed
        return above_floor(self.rights) if whole else visible(self.rights)

    def _check_version(self, partition: PartitionWriter) -> None:
        query = f"SELECT updated_at FROM mem WHERE part = ?{self._seen} AND id IN"
        found = select_in(
            partition.connection, query, [partition.id], list(self.ids or ())
        )
        if any(updated_at != self.version for (updated_at,) in found):
            msg = "if_version: the memory was changed since then; read it again"
            raise ConflictError(msg)

    @property
    def _is_narrowed(self) -> bool:
        """Whether conditions may exclude memories of the session, or of the user."""
        return self.ids is not None or self.filter not in (None, Filter())

    def _predecessors(
        self, partition: PartitionWriter, found: Sequence[RowToDelete]
    ) -> list[RowToDelete]:
        """The memories that `found` replaced, directly or transitively."""
        older: list[RowToDelete] = []
        known = {row.id for row in found}
        by: list[str] = list(known)
        while by:
            replaced = select_in(
                partition.connection,
                "SELECT id FROM replaced WHERE part = ? AND by IN",
                [partition.id],
                by,
            )
            by = [id_ for (id_,) in replaced if id_ not in known]
            known.update(by)
            rows = select_in(
                partition.connection,
                f"{_DOOMED}{self._seen} AND id IN",
                [partition.id],
                by,
            )
            older += [RowToDelete(*row) for row in rows]
        return older

    def _forget_pending(self, partition: PartitionWriter) -> None:
        """Drop the buffered turns if a whole session or user is deleted."""
        if self._is_narrowed:
            return
        where = "part = ?"
        values: list[Any] = [partition.id]
        if self.session is not None:
            where, values = "part = ? AND session = ?", [partition.id, self.session]
        execute = partition.connection.execute
        waiting = execute(f"{_WAITING} WHERE {where} AND event IS NOT NULL", values)
        _wait_no_more(partition, waiting.fetchall())
        execute(f"UPDATE told SET event = NULL WHERE {where}", values)
        execute(f"DELETE FROM trig WHERE {where}", values)

    def _conditions(self, part: int) -> tuple[str, list[Any]]:
        query, values = _DOOMED, list[Any]([part])
        if self.session is not None:
            query += " AND session = ?"
            values.append(self.session)
        condition, more = filter_conditions(self.filter or Filter())
        return query + self._seen + condition, [*values, *more]

    def _passing(
        self, connection: Transaction, query: str, values: Sequence[Any]
    ) -> Iterator[RowToDelete]:
        wanted = self.filter.metadata if self.filter else None
        if wanted is None:
            yield from (RowToDelete(*row) for row in connection.execute(query, values))
            return
        query = query.replace(" FROM ", f", {TESTED} FROM ", 1)
        rows: Iterable[tuple[Any, ...]]
        if self.passed is None:
            rows = connection.execute(query, values)
        else:
            ids = list(self.passed)
            found = list(select_in(connection, f"{query} AND id IN", values, ids))
            rows = [row for row in found if row[-2] != self.passed[row[1]]]
            same = [row for row in found if row[-2] == self.passed[row[1]]]
            yield from (RowToDelete(*row[:-3]) for row in same)
        for row in passing_metadata(rows, wanted):
            yield RowToDelete(*row[:-3])


def rows_of_session(
    partition: PartitionWriter, session: str, rights: Rights = FULL
) -> list[RowToDelete]:
    """Return the turns of a session that a caller sees."""
    rows = partition.connection.execute(
        f"{_DOOMED} AND session = ? AND pos IS NOT NULL{visible(rights)}",
        (partition.id, session),
    )
    return [RowToDelete(*row) for row in rows]


def delete_stale_passages(
    partition: PartitionWriter,
    turns: Collection[str],
    kept: Collection[str],
    rights: Rights = FULL,
) -> list[int]:
    """Delete the passages that turns no longer have; return their rows.

    They leave no tombstones: the turns may have them again.

    Args:
        partition: The user's partition.
        turns: The ids of the turns.
        kept: The ids of the passages that they have now.
        rights: Other passages than those that the caller sees stay.
    """
    if not turns:
        return []
    connection, part = partition.connection, partition.id
    ids = with_passages(connection, part, list(turns))
    stale = [id_ for id_ in ids if id_ not in kept and id_ not in turns]
    query = f"{_DOOMED}{visible(rights)} AND id IN"
    found = select_in(connection, query, [part], stale)
    rows = [RowToDelete(*row) for row in found]
    delete_rows(partition, rows)
    return [row.rid for row in rows]


def delete_rows(partition: PartitionWriter, found: Sequence[RowToDelete]) -> None:
    """Delete memories and their history."""
    for row in found:
        live = 1 if row.state == "live" else 0
        partition.change(row.rid, "d", live=-live, size=-row.size * live)
    execute = partition.connection
    execute_in(execute, "DELETE FROM mem WHERE rid IN", [], [row.rid for row in found])
    for table in ("hist", "replaced") if found else ():
        remaining = f"SELECT 1 FROM {table} WHERE part = ? LIMIT 1"
        if execute.execute(remaining, (partition.id,)).fetchone():
            past = f"DELETE FROM {table} WHERE part = ? AND id IN"
            execute_in(execute, past, [partition.id], [row.id for row in found])


def write_tombstones(
    partition: PartitionWriter, ids: Sequence[str], why: Why | None = None
) -> None:
    """Record deletions, so that a later ingest does not store the memories again."""
    insert_many(
        partition.connection,
        "tomb (part, id, at, why)",
        [(partition.id, id_, partition.now, why) for id_ in ids],
        "ON CONFLICT (part, id) DO UPDATE SET at = excluded.at, why = excluded.why",
    )


def forget_waiting(partition: PartitionWriter, ids: Sequence[str]) -> None:
    """Remove deleted turns from the buffers of sessions."""
    execute = partition.connection.execute
    any_row = "SELECT 1 FROM told WHERE part = ? AND event IS NOT NULL LIMIT 1"
    if not ids or execute(any_row, (partition.id,)).fetchone() is None:
        return
    every = "SELECT id FROM told WHERE part = ? AND event IS NOT NULL"
    waits = (id_ for (id_,) in execute(every, (partition.id,)).fetchall())
    ids = list(dict.fromkeys([*ids, *passages_among(waits, ids)]))
    query = f"{_WAITING} WHERE part = ? AND event IS NOT NULL AND id IN"
    waiting = select_in(partition.connection, query, [partition.id], ids)
    _wait_no_more(partition, list(waiting))
    query = "UPDATE told SET event = NULL WHERE part = ? AND id IN"
    execute_in(partition.connection, query, [partition.id], ids)


def _wait_no_more(partition: PartitionWriter, waiting: list[tuple[str, int]]) -> None:
    """Mark buffered turns as seen, and subtract them from the buffered counts."""
    write_tombstones(partition, [id_ for id_, _ in waiting])
    add_waits(partition, Waits(-len(waiting), -sum(size for _, size in waiting)))


@dataclass(slots=True)
class ForgetUser:
    """Deletes a user's memories, tombstones and names, without any trace.

    Attributes:
        app: The app.
        user: The user.
        rights: The change does not name quarantined memories that the caller does not
            see.
    """

    app: str
    user: str
    estimated_bytes: int = 0
    rights: Rights = FULL

    def run(self, connection: Transaction) -> Change:
        """Do it inside a transaction."""
        partition = PartitionWriter(connection, self.app, self.user, create=False)
        part, review = partition.id, self.rights.review
        if not part:
            return partition.changed()
        query = "SELECT rid, id, state FROM mem WHERE part = ?"
        found = connection.execute(query, (part,)).fetchall()
        delete_partition(connection, part)
        named = [id_ for _, id_, state in found if review or state != QUARANTINED]
        change = partition.changed(removed=[rid for rid, *_ in found], ids=named)
        change.forgotten = True
        return change


def delete_partition(connection: Transaction, part: int) -> None:
    """Delete all rows of a partition; its number is never used again."""
    rows = (part << 32, (part << 32) | 0xFFFFFFFF)
    for table in ("mem", "vec_next", "item"):
        connection.execute(f"DELETE FROM {table} WHERE rid BETWEEN ? AND ?", rows)
    for table in ("chg", "tomb", "hist", "idem", "trig", "replaced", "told"):
        connection.execute(f"DELETE FROM {table} WHERE part = ?", (part,))
    connection.execute("DELETE FROM part WHERE id = ?", (part,))
    retire(connection, part)
