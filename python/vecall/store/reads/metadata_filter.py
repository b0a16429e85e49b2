"""Finds rows by labels and custom_metadata, which the engine does not store.

SQL excludes most rows that cannot match. The caller then evaluates the parsed metadata.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from vecall.filters.metadata import comparisons, needs_key
from vecall.store.sql import select_in
from vecall.store.transaction import Transaction
from vecall.types import Condition, Filter, several

_LITERALS = {True: "true", False: "false", None: "null"}
_LABELS = ("author", "kind", "source", "trust")


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
    if names := several(wanted_labels.not_id):
        condition += f" AND id NOT IN ({', '.join('?' * len(names))})"
        values += names
    return condition, values


def rows_of_ids(connection: Transaction, part: int, ids: Sequence[str]) -> list[int]:
    """Return the numbers of a partition's rows with these ids, in any state."""
    found = select_in(
        connection, "SELECT rid FROM mem WHERE part = ? AND id IN", [part], ids
    )
    return [rid for (rid,) in found]


def likely_rows(
    connection: Transaction, part: int, conditions: Filter
) -> Iterator[tuple[int, str | None]]:
    """Return number and metadata of the live rows of a partition that may match.

    All labels match. The metadata is None if the filter has no condition on metadata.
    """
    condition, values = label_conditions(conditions)
    meta = "NULL"
    if conditions.metadata is not None:
        meta = "meta"
        needles = list(_needles(conditions.metadata))
        if needles:
            literally = " AND ".join(["instr(meta, ?) > 0"] * len(needles))
            condition += (
                f" AND meta IS NOT NULL AND (instr(meta, '\\') > 0 OR ({literally}))"
            )
            values += needles
    found = connection.execute(
        f"SELECT rid, {meta} FROM mem "
        f"WHERE rid BETWEEN ? AND ? AND state = 'live'{condition}",
        (part << 32, (part << 32) | 0xFFFFFFFF, *values),
    )
    return iter(found)


def _needles(wanted: Mapping[str, Condition]) -> Iterator[str]:
    """Yield the texts that the JSON of a matching row contains, unless it has escapes.

    JSON always escapes a lone surrogate, so its replacement here never matches.
    """
    for name, operator, value in comparisons(wanted):
        if not needs_key(operator):
            continue
        yield _quoted(name)
        if operator != "$eq":
            continue
        if isinstance(value, str):
            yield _quoted(value)
        elif value is None or isinstance(value, bool):
            yield _LITERALS[value]


def _quoted(text: str) -> str:
    return '"' + text.encode(errors="replace").decode() + '"'
