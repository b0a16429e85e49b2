"""Deletes memories permanently and leaves tombstones."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from vecall.errors import ConflictError, InvalidArgumentError, NotFoundError
from vecall.filters.rights import FULL, QUARANTINED, Rights
from vecall.store import names as stored_names
from vecall.store import rows as records
from vecall.store import transaction as sql
from vecall.store.names import HIDDEN_APP
from vecall.store.queries.listing import has_counters
from vecall.store.queries.partition_reads import TESTED, passing_metadata, sql_of_filter
from vecall.store.rows import Change
from vecall.store.transaction import Transaction
from vecall.store.writes import partition_writer
from vecall.store.writes.items import delete_expired_items, delete_items
from vecall.types import Filter

# Proposals to delete memories, which take effect when confirmed.

LASTS_S = 600.0  # TTL of a proposal, in seconds

_PREFIX = "\0forget:"  # no idempotency key of a caller has a NUL


@dataclass(slots=True, repr=False, eq=False)
class ProposeForget(partition_writer.UserJob):
    """Stores a proposal to delete memories of one user."""

    shown: Mapping[str, str]  # the texts that the user is shown, by id
    # The secret that confirms the proposal.
    token: str = field(default_factory=lambda: secrets.token_urlsafe(9))
    estimated_bytes: int = 1_000

    def _write_partition(self, partition: partition_writer.PartitionWriter) -> Change:
        part, now = partition.id, partition.expiry_now
        seen = {
            id_: records.hash_of_text(text).hex() for id_, text in self.shown.items()
        }
        query = "DELETE FROM idem WHERE part = ? AND hash IS NULL AND at < ?"
        partition.execute(query, (part, now - LASTS_S))
        partition.execute(
            "INSERT INTO idem (part, key, at, hash, ids) VALUES (?, ?, ?, NULL, ?)",
            (part, _PREFIX + self.token, now, json.dumps(seen)),
        )
        return partition.changed(ids=list(seen))


def take_forget_token(
    partition: partition_writer.PartitionWriter,
    token: str,
    chosen: Sequence[str] | None,
    rights: Rights,
) -> list[str]:
    """Remove a proposal of this user; return the ids that it deletes, or the chosen."""
    # NotFoundError: the token is unknown or expired, or a text has changed.
    # InvalidArgumentError: a chosen id is not of this proposal.
    own = (partition.id, _PREFIX + token)
    query = "SELECT ids FROM idem WHERE part = ? AND key = ? AND at >= ?"
    row = partition.execute(query, (*own, partition.expiry_now - LASTS_S)).fetchone()
    seen: dict[str, str] = {} if row is None else json.loads(row[0])
    if seen and chosen is not None:
        if not seen.keys() >= set(chosen):
            msg = "ids: expected ids of the memories that were proposed"
            raise InvalidArgumentError(msg)
        seen = {id_: seen[id_] for id_ in chosen}
    now = partition.select_memories("id, hash", seen, sql.visible(rights))
    if not seen or any(hash_.hex() != seen[id_] for id_, hash_ in now):
        raise NotFoundError("token: confirms nothing, or no longer; propose it again")
    partition.execute("DELETE FROM idem WHERE part = ? AND key = ?", own)
    return list(seen)


class RowToDelete(NamedTuple):
    """A row to be deleted."""

    rid: int
    id: str
    state: str
    session: str | None
    size: int
    is_bare: bool
    created_at: float
    updated_at: float
    ts: float | None


_WAITING = "SELECT id, length(CAST(event AS BLOB)) FROM told"
TO_DELETE = (
    "rid, id, state, session, length(CAST(text AS BLOB)), vec IS NULL, created_at, "
    "updated_at, ts"
)
"""The columns of a `RowToDelete`."""
_WIDTH = len(RowToDelete._fields)


@dataclass(slots=True, repr=False, eq=False)
class DeleteMemories(partition_writer.UserJob):
    """Deletes memories of one user. Ignores unknown ids.

    The tombstones prevent a later ingest from storing the same ids, unless it uses
    `restore`. Without any condition, all memories and items of the user are deleted.
    """

    # Only memories with these ids, and the other passages of these turns.
    ids: Sequence[str] | None = None
    session: str | None = None  # only memories of this session
    # Only memories that pass this filter, which `check_filter` returned.
    filter: Filter | None = None
    # The token of a proposal, which must contain the ids. Without ids, all ids of the
    # proposal are deleted.
    token: str | None = None
    # Delete nothing if the `updated_at` of a memory in `ids` differs.
    version: float | None = None
    # Only memories that the caller sees. Those of the whole user are deleted with the
    # quarantined ones, which the change does not name.
    rights: Rights = FULL
    # The `updated_at` of memories that passed `filter`, by id. Only these are deleted;
    # the metadata of one that was updated since are checked again.
    passed: Mapping[str, float | None] | None = None

    def _write_partition(self, partition: partition_writer.PartitionWriter) -> Change:
        """Do it in the user's partition; ConflictError if `version` does not hold."""
        if self.version is not None:
            ids, condition = self.ids or (), self._visible_condition
            found = partition.select_memories("updated_at", ids, condition)
            if any(updated_at != self.version for (updated_at,) in found):
                msg = "if_version: the memory was changed since then; read it again"
                raise ConflictError(msg)
        if self.token is not None:
            self.ids = take_forget_token(partition, self.token, self.ids, self.rights)
        elif self.ids is not None:
            self.ids = partition_writer.ids_with_passages(partition, self.ids)
        rows = list(self._find_rows(partition))
        rows += self._find_predecessors(partition, rows)
        removed = delete_rows(partition, rows)
        ids = [row.id for row in rows]
        write_tombstones(partition, ids)
        forget_buffered_turns(partition, [*(self.ids or ()), *ids])
        self._empty_buffers(partition)
        if self._is_whole and self.session is None:
            delete_items(partition)
        return partition.changed(removed=removed, ids=_named_ids(rows, self.rights))

    @property
    def _visible_condition(self) -> str:
        """The condition of the memories that may be deleted."""
        of_user = self.session is None and self._is_whole
        return sql.trust_condition(self.rights) if of_user else sql.visible(self.rights)

    @property
    def _is_whole(self) -> bool:
        """Whether no condition excludes a memory of the session, or of the user."""
        return self.ids is None and self.filter in (None, Filter())

    def _find_predecessors(
        self, partition: partition_writer.PartitionWriter, found: Sequence[RowToDelete]
    ) -> list[RowToDelete]:
        """The memories that `found` replaced, directly or transitively."""
        older: list[RowToDelete] = []
        known = {row.id for row in found}
        by: list[str] = list(known)
        while by:
            query = "SELECT id FROM replaced WHERE part = ? AND by IN"
            replaced = sql.select_in(partition.connection, query, [partition.id], by)
            by = [id_ for (id_,) in replaced if id_ not in known]
            known.update(by)
            older += rows_to_delete(partition, by, self._visible_condition)
        return older

    def _empty_buffers(self, partition: partition_writer.PartitionWriter) -> None:
        """Drop the buffered turns if a whole session or user is deleted."""
        if not self._is_whole:
            return
        where = "part = ?"
        values: list[Any] = [partition.id]
        if self.session is not None:
            where, values = "part = ? AND session = ?", [partition.id, self.session]
        execute = partition.execute
        waiting = execute(f"{_WAITING} WHERE {where} AND event IS NOT NULL", values)
        _mark_turns_seen(partition, waiting.fetchall())
        execute(f"UPDATE told SET event = NULL WHERE {where}", values)
        execute(f"DELETE FROM trig WHERE {where}", values)

    def _find_rows(
        self, partition: partition_writer.PartitionWriter
    ) -> Iterator[RowToDelete]:
        """Yield the memories that meet all conditions."""
        condition, values = sql_of_filter(self.filter or Filter())
        condition = self._visible_condition + condition
        if self.session is not None:
            condition, values = f" AND session = ?{condition}", [self.session, *values]
        if self.ids is not None:
            yield from rows_to_delete(partition, self.ids, condition, *values)
            return
        wanted = self.filter.metadata if self.filter else None
        columns = TO_DELETE if wanted is None else f"{TO_DELETE}, {TESTED}"
        rows: Iterable[tuple[Any, ...]]
        if wanted is None or self.passed is None:
            query = f"SELECT {columns} FROM mem WHERE part = ?{condition}"
            rows = partition.execute(query, (partition.id, *values))
        else:
            passed = self.passed
            found = partition.select_memories(columns, passed, condition, *values)
            rows = [row for row in found if row[-2] != passed[row[1]]]
            same = [row for row in found if row[-2] == passed[row[1]]]
            yield from (RowToDelete(*row[:_WIDTH]) for row in same)
        for row in rows if wanted is None else passing_metadata(rows, wanted):
            yield RowToDelete(*row[:_WIDTH])


def _named_ids(rows: Iterable[Sequence[Any]], rights: Rights) -> list[str]:
    """Return the ids of rows, but of quarantined ones only to a reviewer."""
    return [row[1] for row in rows if rights.review or row[2] != QUARANTINED]


def rows_to_delete(
    partition: partition_writer.PartitionWriter,
    ids: Collection[str],
    condition: str = "",
    *values: Any,
) -> list[RowToDelete]:
    """Return the rows of memories with some ids that meet an "AND ..."."""
    found = partition.select_memories(TO_DELETE, ids, condition, *values)
    return [RowToDelete(*row) for row in found]


def delete_memories(
    partition: partition_writer.PartitionWriter,
    ids: Collection[str],
    rights: Rights = FULL,
) -> list[int]:
    """Delete memories that a caller sees, without tombstones; return their rows."""
    return delete_rows(partition, rows_to_delete(partition, ids, sql.visible(rights)))


def delete_other_turns(
    partition: partition_writer.PartitionWriter,
    session: str,
    ids: Collection[str],
    rights: Rights,
) -> list[int]:
    """Delete the turns of a session that a caller sees, but some; return their rows."""
    rows = partition.execute(
        f"SELECT {TO_DELETE} FROM mem WHERE part = ? AND session = ? "
        f"AND pos IS NOT NULL{sql.visible(rights)}",
        (partition.id, session),
    )
    turns = [RowToDelete(*row) for row in rows]
    return delete_rows(partition, [turn for turn in turns if turn.id not in ids])


def delete_stale_passages(
    partition: partition_writer.PartitionWriter,
    turns: Collection[str],
    kept: Collection[str],
    rights: Rights = FULL,
) -> list[int]:
    """Delete the passages that turns no longer have, but `kept`; return their rows."""
    # They leave no tombstones: the turns may have them again.
    if not turns:
        return []
    ids = partition_writer.ids_with_passages(partition, list(turns))
    stale = [id_ for id_ in ids if id_ not in kept and id_ not in turns]
    return delete_memories(partition, stale, rights)


def delete_rows(
    partition: partition_writer.PartitionWriter, found: Sequence[RowToDelete]
) -> list[int]:
    """Delete memories and their history; return their rows."""
    if not found:
        return []
    partition.gone = gone = partition.gone or records.MemoryCounts()
    for row in found:
        live = 1 if row.state == "live" else 0
        partition.change(row.rid, "d", live=-live, size=-row.size * live)
        if row.rid & partition_writer.MAX_SEQ <= partition.seq_before:  # it is counted
            gone.add_memory(*row[2:])
    connection, rids = partition.connection, [row.rid for row in found]
    sql.execute_among(connection, "DELETE FROM mem WHERE rid IN", [], rids)
    for table in ("hist", "replaced"):
        remaining = f"SELECT 1 FROM {table} WHERE part = ? LIMIT 1"
        if partition.execute(remaining, (partition.id,)).fetchone():
            past = f"DELETE FROM {table} WHERE part = ? AND id IN"
            sql.execute_among(
                connection, past, [partition.id], [row.id for row in found]
            )
    return rids


def write_tombstones(
    partition: partition_writer.PartitionWriter,
    ids: Sequence[str],
    why: stored_names.Why | None = None,
) -> None:
    """Record deletions, so that a later ingest does not store the memories again."""
    _put_tombstones(partition.connection, partition.id, ids, partition.now, why)


def _put_tombstones(
    connection: Transaction, part: int, ids: Sequence[str], at: float, why: str | None
) -> None:
    """Write the tombstones of some ids, whether they have one or not."""
    rows = [(part, id_, at, why) for id_ in ids]
    new = sql.insert_many(
        connection, "tomb (part, id, at, why)", rows, "ON CONFLICT DO NOTHING"
    )
    sql.count_inserted(connection, part, "gone", new)
    if new < len(rows):
        again = "UPDATE tomb SET at = ?, why = ? WHERE part = ? AND id IN"
        sql.execute_among(connection, again, [at, why, part], ids)


def forget_buffered_turns(
    partition: partition_writer.PartitionWriter, ids: Sequence[str]
) -> None:
    """Remove deleted turns from the buffers of sessions."""
    execute = partition.execute
    any_row = "SELECT 1 FROM told WHERE part = ? AND event IS NOT NULL LIMIT 1"
    if not ids or execute(any_row, (partition.id,)).fetchone() is None:
        return
    every = "SELECT id FROM told WHERE part = ? AND event IS NOT NULL"
    waits = (id_ for (id_,) in execute(every, (partition.id,)).fetchall())
    ids = list(dict.fromkeys([*ids, *partition_writer.passages_of_turns(waits, ids)]))
    query = f"{_WAITING} WHERE part = ? AND event IS NOT NULL AND id IN"
    waiting = sql.select_in(partition.connection, query, [partition.id], ids)
    _mark_turns_seen(partition, list(waiting))
    query = "UPDATE told SET event = NULL WHERE part = ? AND id IN"
    sql.execute_among(partition.connection, query, [partition.id], ids)


def _mark_turns_seen(
    partition: partition_writer.PartitionWriter, waiting: list[tuple[str, int]]
) -> None:
    """Mark buffered turns as seen, and subtract them from the buffered counts."""
    write_tombstones(partition, [id_ for id_, _ in waiting])
    partition_writer.add_buffered_counts(
        partition,
        partition_writer.Waits(-len(waiting), -sum(size for _, size in waiting)),
    )


@dataclass(slots=True, repr=False, eq=False)
class ForgetUser(partition_writer.UserJob):
    """Deletes a user's memories, tombstones and names, without any trace."""

    # The change does not name quarantined memories that the caller does not see.
    rights: Rights = FULL

    def _write_partition(self, partition: partition_writer.PartitionWriter) -> Change:
        part = partition.id
        if not part:
            return partition.changed()
        query = "SELECT rid, id, state FROM mem WHERE part = ?"
        found = partition.execute(query, (part,)).fetchall()
        delete_partition(partition.connection, part)
        named = _named_ids(found, self.rights)
        change = partition.changed(removed=[rid for rid, *_ in found], ids=named)
        change.forgotten = True
        return change


def delete_partition(connection: Transaction, part: int) -> None:
    """Delete all rows of a partition; its number is never used again."""
    # The row of the user is first, so that the others are not counted one by one.
    connection.execute("DELETE FROM part WHERE id = ?", (part,))
    rows = (part << 32, (part << 32) | 0xFFFFFFFF)
    for table in ("mem", "vec_next", "item"):
        connection.execute(f"DELETE FROM {table} WHERE rid BETWEEN ? AND ?", rows)
    for table in ("chg", "tomb", "hist", "idem", "trig", "replaced", "told"):
        connection.execute(f"DELETE FROM {table} WHERE part = ?", (part,))
    sql.retire_partition(connection, part)


# Removes expired data.


def users_with_expired(connection: Transaction, now: float) -> list[tuple[str, str]]:
    """Return (app, user) of the users who have expired data."""
    return connection.execute(
        "SELECT app, user FROM part WHERE id IN ("
        "SELECT part FROM mem INDEXED BY mem_expires WHERE expires_at <= :now UNION "
        "SELECT part FROM mem INDEXED BY mem_valid WHERE valid_until <= :now "
        "AND state = 'live' UNION "
        "SELECT part FROM hist INDEXED BY hist_expires WHERE expires_at <= :now UNION "
        "SELECT part FROM item INDEXED BY item_ends WHERE expires_at <= :now)",
        {"now": now},
    ).fetchall()


@dataclass(slots=True, repr=False, eq=False)
class Sweep(partition_writer.UserJob):
    """Removes expired data of one user, in batches.

    Memories past their TTL are deleted; re-ingesting a session does not bring its turns
    back. Memories past `valid_until` are archived. Expired revisions are deleted,
    except for a digest that prevents ingest from undoing a correction.
    """

    # Maximum number of memories per job, so that other writers get their turn.
    most: int

    def _write_partition(self, partition: partition_writer.PartitionWriter) -> Change:
        expired, removed = delete_expired_memories(partition, self.most)
        _delete_expired_revisions(partition)
        delete_expired_items(partition)
        return partition.changed(removed=removed, ids=expired)


def delete_expired_memories(
    partition: partition_writer.PartitionWriter, most: int = -1
) -> tuple[list[str], list[int]]:
    """Delete memories past their TTL, and archive those past `valid_until`."""
    # At most `most` of each. Returned are the ids of the deleted ones, and all rows.
    execute = partition.execute
    own = (partition.expiry_now, partition.id, most)
    found = execute(
        f"SELECT {TO_DELETE} FROM mem INDEXED BY mem_ends "
        "WHERE expires_at <= ? AND part = ? LIMIT ?",
        own,
    ).fetchall()
    expired = [RowToDelete(*row) for row in found]
    removed = delete_rows(partition, expired)
    ids = [row.id for row in expired]
    write_tombstones(partition, ids, "expired")
    lapsed = execute(
        "SELECT rid FROM mem INDEXED BY mem_lapse WHERE valid_until <= ? "
        "AND part = ? AND state = 'live' LIMIT ?",
        own,
    ).fetchall()
    return ids, removed + partition_writer.archive(
        partition, [rid for (rid,) in lapsed], "lapsed"
    )


def _delete_expired_revisions(partition: partition_writer.PartitionWriter) -> None:
    execute = partition.execute
    over = "part = ? AND expires_at <= ?"
    own = (partition.id, partition.expiry_now)
    query = f"SELECT id, seq, old FROM hist WHERE {over} AND op = 'edit'"
    edits = execute(query, own).fetchall()
    for id_, seq, old in edits:
        digest = json.dumps({"digest": records.digest_of_revision(old)})
        execute(
            "UPDATE hist SET old = ?, expires_at = NULL "
            "WHERE part = ? AND id = ? AND seq = ?",
            (digest, partition.id, id_, seq),
        )
    execute(f"DELETE FROM hist WHERE {over}", own)


# Hides the ids of deleted memories, and the names of users without memories.
#
# Tombstones stay effective. The next write for a user restores hidden names, see
# `PartitionWriter`.

_RECOGNISED = ("tomb", "told", "idem")  # tables whose ids a later call may repeat
_AT_ONCE = 500  # rows
_PLAIN = "id >= char(1)"  # an id that is not hidden, and not a key
_GONE = "NOT EXISTS (SELECT 1 FROM mem WHERE mem.part = {0}.part AND mem.id = {0}.{1})"

_Hide = Callable[[int, str], str]  # of a partition and a name, under the user's key
_EMPTY_USERS = (
    "SELECT id, app, user FROM part WHERE app <> ? "
    "AND NOT EXISTS (SELECT 1 FROM mem WHERE part = part.id) "
    "AND NOT EXISTS (SELECT 1 FROM item WHERE part = part.id) "
    "AND NOT EXISTS (SELECT 1 FROM trig WHERE part = part.id) "
    "AND NOT EXISTS (SELECT 1 FROM told WHERE part = part.id AND event IS NOT NULL)"
)


def hide_deleted_names(connection: Transaction, now: float) -> None:
    """Replace ids and names of deleted data by keyed digests, inside a transaction."""
    _hide_superseded_ids(connection)
    keys: dict[int, bytes] = {}

    def hidden(part: int, name: str) -> str:
        if stored_names.is_hidden_id(name):
            return name
        if part not in keys:
            keys[part] = stored_names.make_hide_key(connection, part, now)
        return stored_names.hide_name(keys[part], name)

    _hide_deleted_ids(connection, hidden)
    partition_writer.forget_buffered_counts(connection)
    for part, app, user in connection.execute(_EMPTY_USERS, (HIDDEN_APP,)).fetchall():
        _hide_user_names(connection, part, app, user, hidden)
    if has_counters(connection):  # and the names of apps without users
        connection.execute(
            "DELETE FROM fig WHERE part = 0 AND name IN (SELECT name FROM fig "
            "WHERE part = 0 GROUP BY name HAVING sum(parts) = 0)"
        )


def _hide_superseded_ids(connection: Transaction) -> None:
    """Remove the ids of deleted memories from `supersedes`."""
    found = connection.execute(
        "SELECT rid, state FROM mem WHERE supersedes IS NOT NULL AND NOT EXISTS ("
        "SELECT 1 FROM mem AS older WHERE older.part = mem.part "
        "AND older.id = mem.supersedes)"
    ).fetchall()
    by_part: dict[int, dict[int, partition_writer.State]] = {}
    for rid, state in found:
        by_part.setdefault(rid >> 32, {})[rid] = state
    for part, states in by_part.items():
        names = stored_names.partition_names(connection, part)
        if names is None:
            continue
        partition = partition_writer.PartitionWriter(connection, *names, create=False)
        partition_writer.rewrite_rows(
            partition, states, lambda row: row._replace(supersedes=None)
        )
        partition.write_change_log()


def _hide_deleted_ids(connection: Transaction, hidden: _Hide) -> None:
    """Hide the ids of deleted memories in tombstones, seen turns and recorded calls."""
    execute = connection.execute
    tombstones = f"SELECT part, id, at, why FROM tomb WHERE {_PLAIN} LIMIT {_AT_ONCE}"
    while found := execute(tombstones).fetchall():
        for part, id_, *rest in found:
            execute("DELETE FROM tomb WHERE part = ? AND id = ?", (part, id_))
            _put_tombstones(connection, part, [hidden(part, id_)], *rest)
    turns = (
        "SELECT part, session, id, at, pos FROM told WHERE event IS NULL AND "
        f"{_PLAIN} AND {_GONE.format('told', 'id')} LIMIT {_AT_ONCE}"
    )
    while found := execute(turns).fetchall():
        for part, session, id_, *rest in found:
            own = (part, session, id_)
            execute("DELETE FROM told WHERE part = ? AND session = ? AND id = ?", own)
            execute(
                "INSERT INTO told (part, session, id, at, pos) VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT (part, session, id) DO UPDATE SET at = excluded.at, "
                "pos = excluded.pos, event = NULL",
                (part, hidden(part, session), hidden(part, id_), *rest),
            )
    replaced = (
        "SELECT part, id, by FROM replaced WHERE by >= char(1) AND "
        f"{_GONE.format('replaced', 'by')} LIMIT {_AT_ONCE}"
    )
    while found := execute(replaced).fetchall():
        for part, id_, by in found:
            execute(
                "UPDATE replaced SET by = ? WHERE part = ? AND id = ?",
                (hidden(part, by), part, id_),
            )
    for part, key, ids in execute("SELECT part, key, ids FROM idem").fetchall():
        known: list[str] = json.loads(ids) if ids else []
        query = "SELECT 1 FROM mem WHERE part = ? AND id = ?"
        gone = {id_ for id_ in known if not execute(query, (part, id_)).fetchone()}
        if not gone:
            continue
        new_ids = [hidden(part, id_) if id_ in gone else id_ for id_ in known]
        statement = "UPDATE idem SET ids = ? WHERE part = ? AND key = ?"
        execute(statement, (json.dumps(new_ids), part, key))


def _hide_user_names(
    connection: Transaction, part: int, app: str, user: str, hidden: _Hide
) -> None:
    """Hide a user's names, or delete the partition if it has no ids to recognise."""
    execute = connection.execute
    for table in ("chg", "hist", "replaced"):
        execute(f"DELETE FROM {table} WHERE part = ?", (part,))
    of_user = [f"SELECT 1 FROM {name} WHERE part = ?" for name in _RECOGNISED]
    any_row = " UNION ALL ".join(of_user)
    if execute(f"{any_row} LIMIT 1", (part,) * len(of_user)).fetchone() is None:
        delete_partition(connection, part)
        return
    for (key,) in execute("SELECT key FROM idem WHERE part = ?", (part,)).fetchall():
        if (form := hidden(part, key)) != key:
            execute("DELETE FROM idem WHERE part = ? AND key = ?", (part, form))
            statement = "UPDATE idem SET key = ? WHERE part = ? AND key = ?"
            execute(statement, (form, part, key))
    stored_names.make_digest_secret(connection)
    name = stored_names.hidden_user(connection, app, user)
    assert name is not None
    query = "UPDATE part SET app = ?, user = ?, crc = ?, snap = NULL WHERE id = ?"
    execute(
        query, (HIDDEN_APP, name, records.names_checksum(part, HIDDEN_APP, name), part)
    )
