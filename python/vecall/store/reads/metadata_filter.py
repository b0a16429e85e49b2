"""Finds rows by labels and custom_metadata, which the engine does not store.

SQL excludes most rows that cannot match. The caller then evaluates the parsed metadata.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from vecall.concurrency.time_slices import in_slices
from vecall.errors import CorruptFileError
from vecall.filters.metadata import asks_times, needed, scan_of, with_times
from vecall.store.sql import select_in
from vecall.store.transaction import Transaction
from vecall.store.values import stored_object
from vecall.timestamps import to_seconds
from vecall.types import Condition, Filter, several

_LITERALS = {True: "true", False: "false", None: "null"}
_LABELS = ("author", "kind", "source", "trust")
_TIME = "coalesce(ts, created_at)"
TESTED = f"{_TIME}, coalesce(updated_at, created_at), meta"
"""The columns that conditions on metadata read."""


def filter_conditions(conditions: Filter) -> tuple[str, list[Any]]:
    """Return conditions on `mem` that all rows of a filter meet.

    Args:
        conditions: A filter that `check_filter` returned.

    Returns:
        SQL that is empty or begins with AND, and its values. A row that meets it
        passes the filter if its metadata do, see `passing_metadata`.
    """
    after, before = (
        None if value is None else to_seconds(value, "filter")
        for value in (conditions.after, conditions.before)
    )
    sql, values = "", list[Any]()
    for condition, value in (
        (" AND session = ?", conditions.session_id),
        (f" AND {_TIME} >= ?", after),
        (f" AND {_TIME} < ?", before),
    ):
        if value is not None:
            sql += condition
            values.append(value)
    labels, names = label_conditions(conditions)
    needles, texts = _metadata_condition(conditions)
    return sql + labels + needles, [*values, *names, *texts]


def tested(conditions: Filter) -> str:
    """Return `TESTED`, with constants for the columns that a filter does not ask."""
    if asks_times(conditions.metadata):
        return TESTED
    return "0.0, 0.0, NULL" if conditions.metadata is None else "0.0, 0.0, meta"


def passing_metadata(
    rows: Iterable[tuple[Any, ...]], wanted: Mapping[str, Any]
) -> Iterator[tuple[Any, ...]]:
    """Yield those rows of one scan whose stored metadata meet conditions.

    Args:
        rows: Rows that begin with their number and end with `TESTED`.
        wanted: Conditions that `check_conditions` returned.

    Raises:
        CorruptFileError: The metadata of a row are not a JSON object.
        LimitExceededError: More rows times conditions than `MOST_COMPARISONS`.
    """
    test, by_time = scan_of(wanted), asks_times(wanted)
    for row in in_slices(rows):
        metadata = _stored(row[0], row[-1])
        if by_time:
            metadata = with_times(metadata, row[-3], row[-2])
        if test(metadata):
            yield row


def _stored(rid: int, meta: str | None) -> dict[str, Any]:
    try:
        return {} if meta is None else stored_object(meta)
    except (TypeError, ValueError):
        msg = (
            f"the file is damaged: the metadata of memory row {rid} is not JSON; "
            "`vecall doctor --repair` sets it aside"
        )
        raise CorruptFileError(msg) from None


def label_conditions(wanted_labels: Filter) -> tuple[str, list[str]]:
    """Return conditions on the labels and ids of `mem`, as SQL that begins with AND."""
    condition, values = "", list[str]()
    for name in _LABELS:
        if names := several(getattr(wanted_labels, name)):
            condition += f" AND {name} IN ({', '.join('?' * len(names))})"
            values += names
    if names := several(wanted_labels.not_kind):
        marks = ", ".join("?" * len(names))
        condition += f" AND (kind IS NULL OR kind NOT IN ({marks}))"
        values += names
    if names := several(wanted_labels.not_session_id):
        marks = ", ".join("?" * len(names))
        condition += f" AND (session IS NULL OR session NOT IN ({marks}))"
        values += names
    for name, prefixes in (
        ("session", several(wanted_labels.session_prefix)),
        ("kind", several(wanted_labels.kind_prefix)),
    ):
        if prefixes:
            # The database measures: PostgreSQL stores some characters as two.
            begins = f"substr({name}, 1, length(CAST(? AS TEXT))) = ?"
            condition += f" AND ({' OR '.join([begins] * len(prefixes))})"
            values += [prefix for each in prefixes for prefix in (each, each)]
    if names := several(wanted_labels.not_id):
        condition += f" AND id NOT IN ({', '.join('?' * len(names))})"
        values += names
    return condition, values


def passing(
    connection: Transaction, app: str, user: str, conditions: Filter
) -> dict[str, float | None]:
    """Return the `updated_at` of the memories in any state that pass, by id."""
    condition, values = filter_conditions(conditions)
    rows = connection.execute(
        f"SELECT rid, id, {TESTED} FROM mem WHERE part = "
        f"(SELECT id FROM part WHERE app = ? AND user = ?){condition}",
        (app, user, *values),
    )
    found = passing_metadata(rows, conditions.metadata or {})
    return {id_: updated_at for _, id_, _, updated_at, _ in found}


def rows_of_ids(connection: Transaction, part: int, ids: Sequence[str]) -> list[int]:
    """Return the numbers of a partition's rows with these ids, in any state."""
    found = select_in(
        connection, "SELECT rid FROM mem WHERE part = ? AND id IN", [part], ids
    )
    return [rid for (rid,) in found]


def likely_rows(
    connection: Transaction, part: int, conditions: Filter
) -> Iterator[tuple[int, float, float, str | None]]:
    """Return number and `TESTED` of the live rows of a partition that may match.

    All labels match. The metadata are None if the filter has no condition on metadata.
    """
    condition, values = label_conditions(conditions)
    needles, texts = _metadata_condition(conditions)
    condition, values = condition + needles, [*values, *texts]
    found = connection.execute(
        f"SELECT rid, {tested(conditions)} FROM mem "
        f"WHERE rid BETWEEN ? AND ? AND state = 'live'{condition}",
        (part << 32, (part << 32) | 0xFFFFFFFF, *values),
    )
    return iter(found)


def _metadata_condition(conditions: Filter) -> tuple[str, list[str]]:
    """Return a condition that the rows with passing metadata meet, and its values."""
    needles = list(_needles(conditions.metadata or {}))
    if not needles:
        return "", []
    literally = " AND ".join(["instr(meta, ?) > 0"] * len(needles))
    escaped = "instr(meta, '\\') > 0"
    return f" AND meta IS NOT NULL AND ({escaped} OR ({literally}))", needles


def _needles(wanted: Mapping[str, Condition]) -> Iterator[str]:
    """Yield the texts that the JSON of a matching row contains, unless it has escapes.

    JSON always escapes a lone surrogate, so its replacement here never matches.
    """
    for name, operator, value in needed(wanted):
        keys = name.split(".")  # of one key with dots, or of nested mappings
        if len(keys) == 1:
            yield _quoted(name)
        else:
            yield _quoted(keys[0])[:-1]
            yield _quoted(keys[-1])[1:]
        if operator in ("$contains", "$all"):
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, str) and each:
                    yield _quoted(each)[1:-1]  # an element, or a part of a text
        elif operator == "$eq":
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, str):
                    yield _quoted(each)
                elif each is None or isinstance(each, bool):
                    yield _LITERALS[each]


def _quoted(text: str) -> str:
    return '"' + text.encode(errors="replace").decode() + '"'
