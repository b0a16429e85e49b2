"""Reads memories: a whole partition, its changes, or single rows."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from vecall._core import whole_rows
from vecall.clock import to_seconds
from vecall.concurrency.time_slices import in_slices
from vecall.errors import CorruptFileError
from vecall.filters.metadata import asks_times, metadata_test, needed_tests, with_times
from vecall.filters.rights import FULL, Rights
from vecall.store.names import HIDDEN_APP, IS_KEY
from vecall.store.rows import (
    COLUMNS,
    ChangedRows,
    Row,
    RowWithVector,
    checksum,
    is_undamaged_row,
)
from vecall.store.transaction import Transaction, select_in, visible
from vecall.store.values import PIECES, parse_stored_object
from vecall.types import Condition, Filter, as_names

_MODEL = "(SELECT id FROM model WHERE state = 'active')"
_READ = (
    f"{', '.join('mem.' + name for name in COLUMNS.split(', '))}, "
    "coalesce(next.vec, mem.vec), "
    "CASE WHEN next.vec IS NULL THEN mem.model ELSE next.model END, "
    "CASE WHEN next.vec IS NOT NULL THEN next.crc "
    f"WHEN mem.vec IS NULL OR mem.model = {_MODEL} THEN mem.crc END"
)
_JOINED = (
    "FROM mem LEFT JOIN vec_next AS next ON next.rid = mem.rid "
    f"AND next.model = {_MODEL}"
)
_FROM = f"SELECT {_READ} {_JOINED}"
_CHECKED = 64  # rows at a time: a quarter of a millisecond
_PAGE = 2_000  # rows with their vectors: a few MB
"""Rows for `_check_row_checksum`. Right after a model migration the new vectors are
still in `vec_next`; they take precedence. A vector of another model has no checksum."""


ALWAYS = -9e99  # a time before every end: by it, rows that have expired are read too

TIME = "coalesce(ts, created_at)"  # `Row.time` in SQL, as in the index mem_old
OF_USER = "(SELECT id FROM part WHERE app = ? AND user = ?)"

END = "min(coalesce(mem.expires_at, 9e99), coalesce(mem.valid_until, 9e99))"
"""`Row.end` in SQL; 9e99 means that the row never expires."""


def _check_row_checksum(values: tuple[object, ...]) -> RowWithVector:
    """Return a row after checking its checksum."""
    row = Row(*values[:-3])  # type: ignore[arg-type]
    vec, model, crc = values[-3:]
    if is_undamaged_row(row, vec, crc):
        return RowWithVector(row, vec, model)  # type: ignore[arg-type]
    raise CorruptFileError(
        f"the file is damaged: memory row {row.rid} fails its checksum; "
        "`vecall doctor --repair` sets it aside"
    )


def _rows_with_good_checksum(read: list[tuple[Any, ...]]) -> list[RowWithVector]:
    """Return rows after checking their checksums; a doubtful one is checked again."""
    found = whole_rows(read, Row, RowWithVector)
    if not all(found):
        return list(map(_check_row_checksum, read))
    return found


def load_partition(
    connection: Transaction, part: int
) -> Generator[RowWithVector, None, None]:
    """Yield every live memory of a partition in order of creation.

    The generator holds a cursor: close it if you do not exhaust it.
    """
    cursor = connection.execute(
        f"{_FROM} WHERE mem.rid BETWEEN ? AND ? AND mem.state = 'live' "
        "ORDER BY mem.rid",
        (part << 32, (part << 32) | 0xFFFFFFFF),
    )
    try:
        while read := cursor.fetchmany(_CHECKED):
            yield from _rows_with_good_checksum(read)
    finally:
        cursor.close()


def load_rows(
    connection: Transaction, rids: Iterable[int], *, any_state: bool = False
) -> list[RowWithVector]:
    """Return the live rows among `rids`, in no particular order.

    With `any_state`, also archived and quarantined rows, except damaged ones.
    """
    state = "" if any_state else "mem.state = 'live' AND "
    query = f"SELECT mem.state = 'quarantined', {_READ} {_JOINED} WHERE {state}"
    rows = []
    found = select_in(connection, f"{query}mem.rid IN", [], list(rids))
    for aside, *values in in_slices(found):
        try:
            rows.append(_check_row_checksum(tuple(values)))
        except CorruptFileError:
            if not aside:
                raise
    return rows


def rows_changed_since(
    connection: Transaction, part: int, seq: int, head: int
) -> ChangedRows | None:
    """Return the rows that changed after a change, including deleted ones.

    None if the change log no longer reaches back to the change, or has another one of
    this number. `head` are the random bits of the change.
    """
    if seq > 0:
        query = "SELECT head FROM chg WHERE part = ? AND seq = ?"
        known = connection.execute(query, (part, seq)).fetchone()
        if known is None or known[0] != head:
            return None  # pruned, or a change of a lost history
    query = "SELECT min(seq) FROM chg WHERE part = ?"
    oldest: int | None = connection.execute(query, (part,)).fetchone()[0]
    if oldest is None or oldest > seq + 1:
        return None
    changed = ChangedRows([], [])
    for rid, marked in connection.execute(
        "SELECT rid, min(CASE WHEN op = 'm' THEN 1 ELSE 0 END) FROM chg "
        "WHERE part = ? AND seq > ? GROUP BY rid",
        (part, seq),
    ):
        (changed.marked if marked else changed.written).append(rid)
    return changed


def find_memory(
    connection: Transaction, app: str, user: str, id_: str, now: float, rights: Rights
) -> Row | None:
    """Return a user's live memory by its id, unless it has expired."""
    return next(iter(find_memories(connection, app, user, [id_], now, rights)), None)


def find_memories(
    connection: Transaction,
    app: str,
    user: str,
    ids: Sequence[str],
    now: float,
    rights: Rights = FULL,
) -> list[Row]:
    """Return a user's live memories with these ids that have not expired."""
    live = f"mem.state = 'live' AND {END} > ?{visible(rights)}"
    query = f"{_FROM} WHERE {live} AND mem.part = {OF_USER} AND mem.id IN"
    found = select_in(connection, query, (now, app, user), ids)
    return [_check_row_checksum(values).row for values in in_slices(found)]


def read_turns_around(
    connection: Transaction,
    row: Row,
    before: int,
    after: int,
    now: float,
    rights: Rights = FULL,
) -> list[Row]:
    """Return a row with the turns before and after it in its session, in order.

    Deleted and expired turns do not count towards `before` and `after`.
    """
    if row.session is None or row.pos is None:
        return [row]
    found = [row]
    for step, order, limit in (("<", "DESC", before), (">", "ASC", after)):
        if not limit:
            continue
        cursor = connection.execute(
            f"{_FROM} WHERE mem.part = ? AND mem.session = ? AND mem.pos {step} ? "
            f"AND mem.state = 'live' AND {END} > ?{visible(rights)} "
            f"ORDER BY mem.pos {order} LIMIT ?",
            (row.rid >> 32, row.session, row.pos, now, limit),
        )
        found += [_check_row_checksum(values).row for values in cursor]
    return sorted(found, key=lambda turn: turn.pos or 0)


def rows_without_vector(
    connection: Transaction, after: int, limit: int
) -> list[RowWithVector]:
    """Return live rows without a vector after row number `after`, in order."""
    cursor = connection.execute(
        f"{_FROM} WHERE mem.rid > ? AND mem.vec IS NULL AND mem.state = 'live' "
        "ORDER BY mem.rid LIMIT ?",
        (after, limit),
    )
    return [_check_row_checksum(values) for values in cursor]


def count_lacking_vectors(connection: Transaction) -> tuple[int, int]:
    """Return the number of live rows, and how many of them have no vector."""
    found = connection.execute(
        "SELECT count(*), count(*) - count(vec) FROM mem WHERE state = 'live'"
    ).fetchone()
    return int(found[0]), int(found[1])


class CheckedRows(NamedTuple):
    """What a check of all rows found."""

    checked: int  # the number of rows
    damaged: list[int]  # the numbers of those with a wrong checksum
    # Those whose checksum is of a spelling that vecall no longer writes: the new
    # checksum, and the number.
    old: list[tuple[int, int]]


def checked_rows(connection: Transaction) -> CheckedRows:
    """Check the checksum of every row that is not quarantined."""
    checked = after = 0
    damaged: list[int] = []
    old: list[tuple[int, int]] = []
    query = (
        f"SELECT {_READ}, next.vec IS NULL {_JOINED} WHERE mem.rid > ? "
        "AND mem.state <> 'quarantined' ORDER BY mem.rid LIMIT ?"
    )
    while page := connection.execute(query, (after, _PAGE)).fetchall():
        for values in page:
            checked += 1
            after = values[0]
            try:
                stored = _check_row_checksum(values[:-1])
            except CorruptFileError:
                damaged.append(values[0])
                continue
            crc = checksum(stored.row, stored.vec)
            if values[-1] and crc != values[-2]:
                old.append((crc, stored.row.rid))
    return CheckedRows(checked, damaged, old)


def partition_number(connection: Transaction, app: str, user: str) -> int:
    """Return the number of a partition; 0, which no partition has, without one."""
    query = "SELECT id FROM part WHERE app = ? AND user = ?"
    row = connection.execute(query, (app, user)).fetchone()
    return row[0] if row else 0


def users_of_app(connection: Transaction, app: str) -> list[str]:
    """Return the users of an app."""
    found = connection.execute("SELECT user FROM part WHERE app = ?", (app,))
    return [user for (user,) in found]


def changed_users(
    connection: Transaction, since: float | None
) -> list[tuple[str, str]]:
    """Return the owners of memories that were written or changed since a time."""
    query = (
        "SELECT app, user FROM part WHERE id IN (SELECT part FROM mem WHERE "
        "state = 'live' AND (CAST(? AS REAL) IS NULL "
        "OR coalesce(updated_at, created_at) >= ?)) ORDER BY id"
    )
    return [(app, user) for app, user in connection.execute(query, (since, since))]


TOTALS = (
    "users sessions memories embedded deleted_ids archived quarantined "
    "waiting_turns items text_bytes"
).split()
"""The names of the totals."""


def count_totals(
    connection: Transaction, *, waiting: bool = True, items: bool = True
) -> dict[str, int]:
    """Count what the whole file holds, without counters.

    An older schema has no buffered turns (`waiting`), or no items.
    """
    partitions, memories, text_bytes = connection.execute(
        "SELECT count(*), coalesce(sum(live), 0), coalesce(sum(bytes), 0) FROM part "
        "WHERE app <> ?",
        (HIDDEN_APP,),
    ).fetchone()
    counted = connection.execute(
        "SELECT (SELECT count(*) FROM mem), "
        "(SELECT count(*) FROM mem WHERE vec IS NULL), "
        "(SELECT count(*) FROM (SELECT DISTINCT part, session FROM mem "
        "WHERE session IS NOT NULL) AS named), "
        "(SELECT count(*) FROM tomb WHERE part IN "
        f"(SELECT id FROM part WHERE app <> ?) AND NOT {IS_KEY}), "
        "(SELECT count(*) FROM mem WHERE state = 'archived'), "
        "(SELECT count(*) FROM mem WHERE state = 'quarantined'), "
        + ("(SELECT count(*) FROM told WHERE event IS NOT NULL)" if waiting else "0")
        + (
            ", (SELECT count(*) FROM item WHERE part > 0 AND ns <> ?)"
            if items
            else ", 0"
        ),
        (HIDDEN_APP, *([PIECES] if items else [])),
    )
    rows, bare, sessions, *others = counted.fetchone()
    found = (partitions, sessions, memories, rows - bare, *others, text_bytes)
    return dict(zip(TOTALS, found, strict=True))


# Finds rows by labels and custom_metadata, which the engine does not store.
#
# SQL excludes most rows that cannot match. The caller then evaluates the parsed
# metadata.


_LITERALS = {True: "true", False: "false", None: "null"}
TESTED = f"{TIME}, coalesce(updated_at, created_at), meta"
"""The columns that conditions on metadata read."""


def sql_of_filter(conditions: Filter) -> tuple[str, list[Any]]:
    """Return SQL that all rows of a checked filter meet, and its values.

    It is empty or begins with AND. A row that meets it passes the filter if its
    metadata do, see `passing_metadata`.
    """
    sql, values = "", list[Any]()
    if conditions.session_id is not None:
        sql, values = " AND session = ?", [conditions.session_id]
    for bound, value in ((">= ?", conditions.after), ("< ?", conditions.before)):
        if value is not None:
            sql += f" AND {TIME} {bound}"
            values.append(to_seconds(value, "filter"))
    labels, names = sql_of_labels(conditions)
    needles, texts = _sql_of_metadata(conditions)
    return sql + labels + needles, [*values, *names, *texts]


def tested_columns(conditions: Filter) -> str:
    """Return `TESTED`, with constants for the columns that a filter does not ask."""
    if asks_times(conditions.metadata):
        return TESTED
    return "0.0, 0.0, NULL" if conditions.metadata is None else "0.0, 0.0, meta"


def passing_metadata(
    rows: Iterable[tuple[Any, ...]], wanted: Mapping[str, Any]
) -> Iterator[tuple[Any, ...]]:
    """Yield those rows of one scan whose stored metadata meet checked conditions.

    The rows begin with their number and end with `TESTED`. LimitExceededError: more
    rows times conditions than `MOST_COMPARISONS`.
    """
    test, by_time = metadata_test(wanted), asks_times(wanted)
    for row in in_slices(rows):
        metadata = _stored_metadata(row[0], row[-1])
        if by_time:
            metadata = with_times(metadata, row[-3], row[-2])
        if test(metadata):
            yield row


def _stored_metadata(rid: int, meta: str | None) -> dict[str, Any]:
    try:
        return {} if meta is None else parse_stored_object(meta)
    except (TypeError, ValueError):
        raise CorruptFileError(
            f"the file is damaged: the metadata of memory row {rid} is not JSON; "
            "`vecall doctor --repair` sets it aside"
        ) from None


def sql_of_labels(wanted_labels: Filter) -> tuple[str, list[str]]:
    """Return conditions on the labels and ids of `mem`, as SQL that begins with AND."""
    condition, values = "", list[str]()
    for among, given in (
        ("author IN ({})", wanted_labels.author),
        ("kind IN ({})", wanted_labels.kind),
        ("source IN ({})", wanted_labels.source),
        ("trust IN ({})", wanted_labels.trust),
        ("(kind IS NULL OR kind NOT IN ({}))", wanted_labels.not_kind),
        ("(session IS NULL OR session NOT IN ({}))", wanted_labels.not_session_id),
        ("id NOT IN ({})", wanted_labels.not_id),
    ):
        if names := as_names(given):
            condition += f" AND {among.format(', '.join('?' * len(names)))}"
            values += names
    for name, given in (
        ("session", wanted_labels.session_prefix),
        ("kind", wanted_labels.kind_prefix),
    ):
        if prefixes := as_names(given):
            # The database measures: PostgreSQL stores some characters as two.
            begins = f"substr({name}, 1, length(CAST(? AS TEXT))) = ?"
            condition += f" AND ({' OR '.join([begins] * len(prefixes))})"
            values += [prefix for each in prefixes for prefix in (each, each)]
    return condition, values


def passing_memories(
    connection: Transaction, app: str, user: str, conditions: Filter
) -> dict[str, float | None]:
    """Return the `updated_at` of the memories in any state that pass, by id."""
    condition, values = sql_of_filter(conditions)
    query = f"SELECT rid, id, {TESTED} FROM mem WHERE part = {OF_USER}{condition}"
    rows = connection.execute(query, (app, user, *values))
    found = passing_metadata(rows, conditions.metadata or {})
    return {id_: updated_at for _, id_, _, updated_at, _ in found}


def rids_of_ids(connection: Transaction, part: int, ids: Sequence[str]) -> list[int]:
    """Return the numbers of a partition's rows with these ids, in any state."""
    query = "SELECT rid FROM mem WHERE part = ? AND id IN"
    return [rid for (rid,) in select_in(connection, query, [part], ids)]


def rows_that_may_match(
    connection: Transaction, part: int, conditions: Filter
) -> Iterator[tuple[int, float, float, str | None]]:
    """Return number and `TESTED` of the live rows of a partition that may match.

    Every row that passes is returned, and all labels match; the caller checks the
    metadata. They are None if the filter has no condition on metadata; then the times
    mean nothing. Only labels and metadata of the filter are used.
    """
    condition, values = sql_of_labels(conditions)
    needles, texts = _sql_of_metadata(conditions)
    condition, values = condition + needles, [*values, *texts]
    found = connection.execute(
        f"SELECT rid, {tested_columns(conditions)} FROM mem "
        f"WHERE rid BETWEEN ? AND ? AND state = 'live'{condition}",
        (part << 32, (part << 32) | 0xFFFFFFFF, *values),
    )
    return iter(found)


def _sql_of_metadata(conditions: Filter) -> tuple[str, list[str]]:
    """Return a condition that the rows with passing metadata meet, and its values."""
    needles = list(_needed_json_texts(conditions.metadata or {}))
    if not needles:
        return "", []
    literally = " AND ".join(["instr(meta, ?) > 0"] * len(needles))
    escaped = "instr(meta, '\\') > 0"
    return f" AND meta IS NOT NULL AND ({escaped} OR ({literally}))", needles


def _needed_json_texts(wanted: Mapping[str, Condition]) -> Iterator[str]:
    """Yield the texts that the JSON of a matching row contains, unless it has escapes.

    JSON always escapes a lone surrogate, so its replacement here never matches.
    """
    for name, operator, value in needed_tests(wanted):
        keys = name.split(".")  # of one key with dots, or of nested mappings
        if len(keys) == 1:
            yield _quoted_json_text(name)
        else:
            yield _quoted_json_text(keys[0])[:-1]
            yield _quoted_json_text(keys[-1])[1:]
        for each in value if isinstance(value, list) else [value]:
            if operator == "$eq" and isinstance(each, str):
                yield _quoted_json_text(each)
            elif operator == "$eq" and (each is None or isinstance(each, bool)):
                yield _LITERALS[each]
            elif operator in ("$contains", "$all") and isinstance(each, str) and each:
                yield _quoted_json_text(each)[1:-1]  # an element, or a part of a text


def _quoted_json_text(text: str) -> str:
    return '"' + text.encode(errors="replace").decode() + '"'
