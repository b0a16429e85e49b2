"""Rows by labels and custom_metadata, which the engine does not know.

Whether metadata pass is decided on the JSON as Python reads it, which is what callers
see: SQLite cuts texts at a NUL and makes floats of large integers. SQL only leaves out
most of the rows that cannot pass.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping

from vecall.concurrency.time_slices import in_slices
from vecall.errors import CorruptFileError
from vecall.filters.metadata import comparisons, has_values, needs_key
from vecall.store.values import stored_object
from vecall.types import Condition, Filter, several

_LITERALS = {True: "true", False: "false", None: "null"}
_LABELS = ("author", "kind", "source", "trust")


def needs_rows(wanted_labels: Filter) -> bool:
    """Whether the engine cannot apply a filter alone: it knows one author, one kind."""
    return (
        wanted_labels.metadata is not None
        or wanted_labels.trust is not None
        or wanted_labels.source is not None
        or wanted_labels.not_kind is not None
        or len(several(wanted_labels.author)) > 1
        or len(several(wanted_labels.kind)) > 1
    )


def label_conditions(wanted_labels: Filter) -> tuple[str, list[str]]:
    """Return what labels a row of `mem` must have, as SQL that begins with AND."""
    condition, values = "", list[str]()
    for name in _LABELS:
        if names := several(getattr(wanted_labels, name)):
            condition += f" AND {name} IN ({', '.join('?' * len(names))})"
            values += names
    if names := several(wanted_labels.not_kind):
        marks = ", ".join("?" * len(names))
        condition += f" AND (kind IS NULL OR kind NOT IN ({marks}))"
        values += names
    return condition, values


def likely_rows(
    connection: sqlite3.Connection, part: int, conditions: Filter
) -> Iterator[tuple[int, str | None]]:
    """Return number and metadata of the live rows of a partition that may pass.

    The labels of each are what the filter wants. Without a condition on metadata, these
    are None.
    """
    condition, values = label_conditions(conditions)
    meta = "NULL"
    if conditions.metadata is not None:
        meta = "meta"
        needles = list(_needles(conditions.metadata))
        if needles:
            literally = " AND ".join(["instr(meta, ?)"] * len(needles))
            condition += (
                f" AND meta IS NOT NULL AND (instr(meta, '\\') OR ({literally}))"
            )
            values += needles
    return connection.execute(
        f"SELECT rid, {meta} FROM mem "
        f"WHERE rid BETWEEN ? AND ? AND state = 'live'{condition}",
        (part << 32, (part << 32) | 0xFFFFFFFF, *values),
    )


def passing(
    rows: Iterable[tuple[int, str | None]], wanted: Mapping[str, Condition] | None
) -> Iterator[int]:
    """Yield the numbers of those rows whose metadata meet all conditions.

    Raises:
        CorruptFileError: The metadata of a row are not a JSON object.
    """
    for rid, meta in in_slices(rows):
        if wanted is None:
            yield rid
            continue
        try:
            if has_values({} if meta is None else stored_object(meta), wanted):
                yield rid
        except (TypeError, ValueError):
            msg = (
                f"the file is damaged: the metadata of memory row {rid} is not JSON; "
                "`vecall doctor --repair` sets it aside"
            )
            raise CorruptFileError(msg) from None


def _needles(wanted: Mapping[str, Condition]) -> Iterator[str]:
    """Yield what the JSON of a row that passes holds, unless it holds an escape.

    A lone surrogate is always escaped, so its replacement here is not found.
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
