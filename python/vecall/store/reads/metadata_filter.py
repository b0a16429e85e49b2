"""Rows by labels and custom_metadata, which the engine does not know.

SQL excludes most of the rows that cannot pass. The caller decides on the metadata as
Python reads them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping

from vecall.filters.metadata import comparisons, needs_key
from vecall.types import Condition, Filter, several

_LITERALS = {True: "true", False: "false", None: "null"}
_LABELS = ("author", "kind", "source", "trust")


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
