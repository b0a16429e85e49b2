"""Lists and counts the memories that pass a filter."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from vecall.errors import CorruptFileError, InvalidArgumentError, NotFoundError
from vecall.filters.metadata import EVERY
from vecall.filters.rights import FULL, Rights
from vecall.store.names import HIDDEN_APP, is_hidden
from vecall.store.queries.figures import known_count
from vecall.store.queries.item_reads import state_of
from vecall.store.queries.partition_reads import (
    END,
    filter_conditions,
    load_rows,
    number_of_part,
    passing_metadata,
    tested,
)
from vecall.store.rows import (
    TABLES,
    PartitionCopy,
    PartitionNames,
    RevisionRow,
    Row,
    RowWithVector,
    is_whole,
)
from vecall.store.transaction import (
    EmbeddingModel,
    Transaction,
    active_model,
    is_print,
    visible,
)
from vecall.store.values import checked_item, checked_vectors, stored_object
from vecall.types import Filter, MemoryFigures

_AT_ONCE = 1_000  # rows whose metadata are read together


def listed(
    connection: Transaction,
    app: str,
    user: str,
    state: str,
    cursor: str | None,
    limit: int,
    now: float,
    conditions: Filter = EVERY,
    rights: Rights = FULL,
) -> list[Row]:
    """Return a user's memories in one state, in order of creation.

    Expired memories, and memories quarantined as damaged, are left out. `cursor` is the
    id of the last memory of the page before; NotFoundError if the user has none. The
    `limit` -1 returns all.
    """
    part = number_of_part(connection, app, user)
    lowest = part << 32
    if cursor is not None:
        row = connection.execute(
            f"SELECT rid FROM mem WHERE part = ? AND id = ?{visible(rights)}",
            (part, cursor),
        ).fetchone()
        if row is None:
            msg = (
                "cursor: this user has no such memory any more; begin without a cursor"
            )
            raise NotFoundError(msg)
        lowest = row[0] + 1
    where, values = _from_and_where(part, state, now, conditions, rights)
    if conditions.metadata is None:
        page = connection.execute(
            f"SELECT rid {where} ORDER BY rid LIMIT ?",
            (lowest, *values, limit if limit >= 0 else _ALL),
        )
        rids = [rid for (rid,) in page]
    else:
        passing = _passing_row_numbers(connection, where, values, lowest, conditions)
        rids = list(passing if limit < 0 else islice(passing, limit))
    found = load_rows(connection, rids, any_state=True)
    return sorted((stored.row for stored in found), key=lambda row: row.rid)


def count_listed(
    connection: Transaction,
    app: str,
    user: str,
    state: str,
    now: float,
    conditions: Filter,
    rights: Rights = FULL,
) -> int:
    """Return the number of memories that `listed` returns without a limit."""
    known = known_count(connection, app, user, state, now, conditions, rights)
    if known is not None:
        return known
    part = number_of_part(connection, app, user)
    where, values = _from_and_where(part, state, now, conditions, rights)
    if conditions.metadata is not None:
        lowest = part << 32
        passing = _passing_row_numbers(connection, where, values, lowest, conditions)
        return sum(1 for _ in passing)
    counted = f"SELECT count(*) {where}"
    row = connection.execute(counted, (part << 32, *values)).fetchone()
    return 0 if row is None else int(row[0])


# SQLite's CAST cuts and PostgreSQL's rounds: a day begins up to 9 microseconds early.
_DAY = "CAST(round(coalesce(ts, created_at) / 86400.0 - 0.4999999999) AS BIGINT)"


def memory_figures(
    connection: Transaction,
    app: str,
    user: str,
    state: str,
    now: float,
    rights: Rights = FULL,
) -> MemoryFigures:
    """Count the memories that `listed` returns, by day and by kind."""
    part = number_of_part(connection, app, user)
    where, values = _from_and_where(part, state, now, EVERY, rights)
    days: Counter[int] = Counter()
    kinds: Counter[str] = Counter()
    for day, kind, count in connection.execute(
        f"SELECT {_DAY}, kind, count(*) {where} GROUP BY 1, 2", (part << 32, *values)
    ):
        days[day] += count
        if kind is not None:
            kinds[kind] += count
    return MemoryFigures(dict(sorted(days.items())), dict(kinds.most_common()))


_ALL = 1 << 32  # more rows than a partition has


def _from_and_where(
    part: int, state: str, now: float, conditions: Filter, rights: Rights
) -> tuple[str, list[Any]]:
    """Return FROM and WHERE of the memories in one state that may pass a filter.

    The first value, the lowest row number, is not among the returned values.
    """
    condition, values = filter_conditions(conditions)
    sql = (
        "FROM mem WHERE rid BETWEEN ? AND ? AND state = ? "
        "AND coalesce(expires_at, 9e99) > ? "
        f"AND (state <> 'live' OR coalesce(valid_until, 9e99) > ?)"
        f"{visible(rights)}{condition}"
    )
    return sql, [(part << 32) | 0xFFFFFFFF, state, now, now, *values]


def _passing_row_numbers(
    connection: Transaction,
    where: str,
    values: list[Any],
    lowest: int,
    conditions: Filter,
) -> Iterator[int]:
    """Yield the numbers of rows with passing metadata, in order, from `lowest` on."""
    rows = _in_pages(connection, where, values, lowest, tested(conditions))
    return (row[0] for row in passing_metadata(rows, conditions.metadata or {}))


def _in_pages(
    connection: Transaction, where: str, values: list[Any], lowest: int, columns: str
) -> Iterator[tuple[Any, ...]]:
    """Yield number and the columns of rows, in order."""
    while True:
        rows = connection.execute(
            f"SELECT rid, {columns} {where} ORDER BY rid LIMIT ?",
            (lowest, *values, _AT_ONCE),
        ).fetchall()
        yield from rows
        if len(rows) < _AT_ONCE:
            return
        lowest = rows[-1][0] + 1


# The history of memories: overwritten revisions, and replacements.


_ALIVE = "coalesce(expires_at, 9e99) > ?"


def history(
    connection: Transaction,
    app: str,
    user: str,
    id_: str,
    now: float,
    rights: Rights = FULL,
) -> list[RevisionRow]:
    """Return the revisions of a memory and of those it replaced, oldest first.

    Empty if this user has no memory with that id, or the caller does not see it.
    Revisions that expired by `now`, or that the caller does not see, are left out.
    """
    part = number_of_part(connection, app, user)
    if not part:
        return []
    revisions: list[RevisionRow] = []
    seen: set[str] = set()
    waiting = [id_]
    while waiting:
        current = waiting.pop()
        if current not in seen:
            seen.add(current)
            own = _of_one(connection, part, current, now)
            if rights is not FULL:
                own = _visible_revisions(connection, own, rights)
            if not own and current == id_:
                return []
            revisions = own + revisions
            replaced = connection.execute(
                "SELECT id FROM replaced WHERE part = ? AND by = ? ORDER BY at, id",
                (part, current),
            )
            waiting += [older for (older,) in replaced]
    return revisions


def _visible_revisions(
    connection: Transaction, own: list[RevisionRow], rights: Rights
) -> list[RevisionRow]:
    """Return the revisions of one memory that a caller sees: none of a hidden one.

    A hidden memory that replaced it is not named.
    """
    if not own or not rights.sees(own[-1].row.trust, own[-1].state):
        return []
    if own[-1].by is not None:
        newer = connection.execute(
            f"SELECT 1 FROM mem WHERE part = ? AND id = ?{visible(rights)}",
            (own[-1].row.rid >> 32, own[-1].by),
        ).fetchone()
        own[-1] = own[-1]._replace(by=None) if newer is None else own[-1]
    return [each for each in own if rights.sees(each.row.trust, each.state)]


def _current_revision(
    connection: Transaction, part: int, id_: str, time: float
) -> tuple[Row, str] | None:
    """The current revision of a memory, and its state."""
    found = connection.execute(
        f"SELECT rid, state FROM mem WHERE part = ? AND id = ? AND {_ALIVE}",
        (part, id_, time),
    ).fetchone()
    if found is None:
        return None
    rid, state = found
    rows = load_rows(connection, [rid], any_state=True)
    return (rows[0].row, state) if rows else None


def _of_one(
    connection: Transaction, part: int, id_: str, time: float
) -> list[RevisionRow]:
    own = (part, id_)
    found = _current_revision(connection, part, id_, time)
    if found is None:
        return []
    now, state = found
    past = []
    for at, operation, text in connection.execute(
        "SELECT at, op, old FROM hist WHERE part = ? AND id = ? "
        f"AND {_ALIVE} ORDER BY seq",
        (*own, time),
    ):
        old = stored_object(text)
        if "digest" not in old:
            was = "overwritten" if old.get("state") != "quarantined" else old["state"]
            known = {name: value for name, value in old.items() if name in Row._fields}
            past.append(RevisionRow(now._replace(**known), was, at, operation, None))
    by = connection.execute(
        "SELECT at, why, by FROM replaced WHERE part = ? AND id = ?", own
    ).fetchone()
    at, why, other = by or (None, None, None)
    if other is not None and is_hidden(other):
        other = None  # deleted, and a purge replaced its id by a digest
    return [*past, RevisionRow(now, state, at, why, other)]


def old_sessions(
    connection: Transaction, app: str, user: str, before: float, now: float
) -> list[tuple[str, list[Row]]]:
    """Return the sessions without turns since `before`, with their live turns.

    Turns that expired by `now` are left out. Turns with a TTL are included only if all
    turns of the session have one: otherwise a summary would either outlive them or
    expire before the other turns.
    """
    found = connection.execute(
        "SELECT session, rid, coalesce(ts, created_at) FROM mem WHERE part = "
        "(SELECT id FROM part WHERE app = ? AND user = ?) AND state = 'live' "
        "AND session IS NOT NULL AND pos IS NOT NULL "
        f"AND {END} > ? ORDER BY session, pos",
        (app, user, now),
    )
    turns: dict[str, list[int]] = {}
    recent: set[str] = set()
    for session, rid, time in found:
        turns.setdefault(session, []).append(rid)
        if time >= before:
            recent.add(session)
    old = []
    for session, rids in turns.items():
        if session not in recent:
            rows = [stored.row for stored in load_rows(connection, rids)]
            lasting = [row for row in rows if row.expires_at is None]
            old.append((session, sorted(lasting or rows, key=lambda row: row.pos or 0)))
    return old


def facts_of(
    connection: Transaction, app: str, user: str, now: float
) -> list[RowWithVector]:
    """Return a user's live memories that are not turns, with their vectors."""
    found = connection.execute(
        "SELECT rid FROM mem WHERE part = (SELECT id FROM part WHERE app = ? AND "
        f"user = ?) AND state = 'live' AND pos IS NULL AND {END} > ?",
        (app, user, now),
    )
    return load_rows(connection, [rid for (rid,) in found])


def old_facts(
    connection: Transaction, app: str, user: str, before: float, now: float
) -> list[Row]:
    """Return live facts and summaries from before a time, oldest first.

    Memories with a TTL or a `valid_until` are left out: a summary would outlive them,
    or would expire with them too early for the others.
    """
    rows = [entry.row for entry in facts_of(connection, app, user, now)]
    lasting = [
        row
        for row in rows
        if row.time < before and row.expires_at is None and row.valid_until is None
    ]
    return sorted(lasting, key=lambda row: (row.time, row.rid))


# A file's contents as plain values, for export and import.
#
# An export is a header, then the table rows of each (app, user). It omits numbers that
# are valid only within one file (rows, partitions, sequences), so exporting an imported
# file gives the same export.


FORMAT = 1  # the version of the format, in the header

ROW_FIELDS = (
    "id session event pos ts created_at expires_at author kind source trust text "
    "content meta importance uses last_used valid_until supersedes updated_at"
).split()
EXPORTED_TABLES = {
    "hist": ("id", "at", "op", "old", "expires_at"),
    "tomb": ("id", "at", "why"),
    "replaced": ("id", "by", "why", "at"),
    "told": ("session", "id", "at", "pos", "event"),
    "trig": ("session", "kind", "due_at", "state"),
}
_ORDER = {
    "hist": "id, seq",
    "tomb": "id",
    "replaced": "id",
    "trig": "session, kind",
    "told": "session, id",
}
_BUT = {"trig": "AND kind = 'make'"}
"""Conditions that exclude derived rows from an export, by table."""
_EXPORTED_AT_ONCE = 200
_MAX_DIM = 65_536


def export_header(connection: Transaction, vectors: bool) -> dict[str, Any]:
    """Return the header, which is the first line."""
    model = active_model(connection) if vectors else None
    model_fields = None
    if model is not None:
        print_ = model.fingerprint
        model_fields = {
            "name": model.name,
            "dim": model.dim,
            "fingerprint": None if print_ is None else _text(print_),
        }
    return {"vecall": "export", "format": FORMAT, "model": model_fields}


def header_model(header: Mapping[str, Any]) -> EmbeddingModel | None:
    """Return the model of an export's vectors; None without vectors.

    InvalidArgumentError: not the header of an export that this version reads.
    """
    if header.get("vecall") != "export" or header.get("format") != FORMAT:
        msg = f"expected the header of a vecall export of format {FORMAT}"
        raise InvalidArgumentError(msg)
    model_fields = header.get("model")
    if model_fields is None:
        return None
    try:
        print_ = model_fields.get("fingerprint")
        fingerprint = None if print_ is None else base64.b64decode(print_)
        name, dim = model_fields["name"], model_fields["dim"]
        name.encode()  # a lone surrogate cannot be stored
    except (AttributeError, KeyError, TypeError, ValueError):
        name = dim = fingerprint = None
    fits = isinstance(name, str) and type(dim) is int and 1 <= dim <= _MAX_DIM
    if not fits or not (fingerprint is None or is_print(fingerprint, dim)):
        raise InvalidArgumentError("model: expected name, dim and fingerprint")
    return EmbeddingModel(name, dim, fingerprint=fingerprint)


def export_partitions(
    connection: Transaction, app: str | None, user: str | None
) -> list[tuple[int, str, str, float]]:
    """Return number, app, user and creation time of all or some partitions.

    Partitions whose names were replaced by digests are left out.
    """
    return connection.execute(
        "SELECT id, app, user, created_at FROM part "
        "WHERE (CAST(? AS TEXT) IS NULL OR app = ?) "
        "AND (CAST(? AS TEXT) IS NULL OR user = ?) AND app <> ? ORDER BY app, user",
        (app, app, user, user, HIDDEN_APP),
    ).fetchall()


def export_lines(
    connection: Transaction, part: int, model: int | None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the lines of one partition, without damaged memories in quarantine.

    Memories come first. Vectors of the model of the number `model` are included; None
    includes none.
    """
    found = connection.execute(
        "SELECT rid, state FROM mem WHERE rid BETWEEN ? AND ? ORDER BY rid",
        (part << 32, (part << 32) | 0xFFFFFFFF),
    )
    while batch := found.fetchmany(_EXPORTED_AT_ONCE):
        rids = [row[0] for row in batch]
        stored = {
            entry.row.rid: entry
            for entry in load_rows(connection, rids, any_state=True)
        }
        for rid, state in batch:
            entry = stored.get(rid)
            if entry is None:
                continue  # damaged and quarantined
            values = {name: getattr(entry.row, name) for name in ROW_FIELDS}
            values["state"] = state
            if model is not None and entry.vec is not None and entry.model == model:
                values["vec"] = _text(entry.vec)
            yield "mem", {k: v for k, v in values.items() if v is not None}
    for table, columns in EXPORTED_TABLES.items():
        rows = connection.execute(
            f"SELECT {', '.join(columns)} FROM {table} WHERE part = ? "
            f"{_BUT.get(table, '')} ORDER BY {_ORDER[table]}",
            (part,),
        )
        for row in rows:
            values = dict(zip(columns, row, strict=True))
            yield table, {k: v for k, v in values.items() if v is not None}


def free_lines(
    lines: Iterable[tuple[str, dict[str, Any]]],
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield those of the lines of `export_lines` that are not quarantined content.

    Omitted are quarantined memories with their history, revisions that were quarantined
    when they were overwritten, and quarantined buffered turns.
    """
    held: set[str] = set()
    for kind, values in lines:
        if kind == "mem" and values["state"] == "quarantined":
            held.add(values["id"])
        elif kind == "told" and "quarantined" in stored_object(
            values.get("event", "{}")
        ):
            continue
        elif kind != "hist" or not (
            values["id"] in held
            or stored_object(values["old"]).get("state") == "quarantined"
        ):
            yield kind, values


def exported_memory(connection: Transaction, stored: RowWithVector) -> dict[str, Any]:
    """Return one memory in the format of an export line, without its vector."""
    query = "SELECT state FROM mem WHERE rid = ?"
    values = {name: getattr(stored.row, name) for name in ROW_FIELDS}
    values["state"] = connection.execute(query, (stored.row.rid,)).fetchone()[0]
    return {name: value for name, value in values.items() if value is not None}


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


# Reads all rows of a user, for a copy in another storage.


_LOW_BITS = 0xFFFFFFFF
_WIDTH = len(Row._fields)
_NAMES = "SELECT id, app, user, seq, live, bytes, created_at, item FROM part"


def partitions_after(
    connection: Transaction, after: int, limit: int
) -> list[PartitionNames]:
    """Return the users with a greater number, in order."""
    rows = connection.execute(
        f"{_NAMES} WHERE id > ? ORDER BY id LIMIT ?", (after, limit)
    ).fetchall()
    return [PartitionNames(*row) for row in rows]


def read_partition(
    connection: Transaction, names: PartitionNames, expiry_now: float
) -> PartitionCopy | None:
    """Return all rows of a user; None if the user was deleted."""
    row = connection.execute(f"{_NAMES} WHERE id = ?", (names.part,)).fetchone()
    if row is None:
        return None
    current = PartitionNames(*row)
    tables = {
        table: _partition_table_rows(connection, table, names.part) for table in TABLES
    }
    _require_whole(connection, current, tables)
    tables["item"] = [
        (*row[:8], None if row[8] is None else row[8][:-4], row[9])  # vectors alone
        for row in tables["item"]
    ]
    return PartitionCopy(current, tables, expiry_now)


def _partition_table_rows(
    connection: Transaction, table: str, part: int
) -> list[tuple[Any, ...]]:
    known = TABLES[table]
    rows = connection.execute(
        f"SELECT {', '.join(known.columns)} FROM {table} WHERE part = ? "
        f"ORDER BY {known.key}",
        (part,),
    ).fetchall()
    if known.columns[0] != "rid":
        return [tuple(row) for row in rows]
    return [(row[0] & _LOW_BITS, *row[1:]) for row in rows]


def _require_whole(
    connection: Transaction,
    names: PartitionNames,
    tables: dict[str, list[tuple[Any, ...]]],
) -> None:
    high = names.part << 32
    for rid, *values in tables["mem"]:
        row = Row(high | rid, *values[: _WIDTH - 1])
        vec, crc = values[-3], values[-1]
        if not is_whole(row, vec, crc):
            raise CorruptFileError(_DAMAGED)
    dim = state_of(connection, names.part).dim
    for rid, *values in tables["item"]:
        checked_item((high | rid, *values[:7]), values[-1])
        checked_vectors(high | rid, values[7], dim)


_DAMAGED = "a memory fails its checks; `vecall doctor` says more"
