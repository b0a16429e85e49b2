"""A file's contents as plain values, for export and import.

An export is a header, then the table rows of each (app, user). It omits numbers that
are valid only within one file (rows, partitions, sequences), so exporting an imported
file gives the same export.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from vecall.errors import InvalidArgumentError
from vecall.store.erased_names import HIDDEN_APP
from vecall.store.models import active_model, is_print
from vecall.store.reads.partition_reads import load_rows
from vecall.store.results import EmbeddingModel
from vecall.store.rows import RowWithVector
from vecall.store.transaction import Transaction
from vecall.store.values import stored_object

FORMAT = 1
"""The version of the format, in the header."""

ROW_FIELDS = (
    "id session event pos ts created_at expires_at author kind source trust text "
    "content meta importance uses last_used valid_until supersedes updated_at"
).split()
TABLES = {
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
_AT_ONCE = 200
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

    Raises:
        InvalidArgumentError: Not the header of an export that this version reads.
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
        msg = "model: expected name, dim and fingerprint"
        raise InvalidArgumentError(msg)
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

    Args:
        connection: A connection with an open read transaction.
        part: The partition's number.
        model: Export the vectors of this model; None exports no vectors.

    Raises:
        CorruptFileError: A row fails its checksum.
    """
    found = connection.execute(
        "SELECT rid, state FROM mem WHERE rid BETWEEN ? AND ? ORDER BY rid",
        (part << 32, (part << 32) | 0xFFFFFFFF),
    )
    while batch := found.fetchmany(_AT_ONCE):
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
    for table, columns in TABLES.items():
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
    """Yield the lines of one partition without quarantined content.

    Omitted are quarantined memories with their history, revisions that were quarantined
    when they were overwritten, and quarantined buffered turns.

    Args:
        lines: The lines of one partition from `export_lines`; memories come first.
    """
    held: set[str] = set()
    for kind, values in lines:
        if kind == "mem" and values["state"] == "quarantined":
            held.add(values["id"])
        elif kind == "told" and _is_held(values):
            continue
        elif kind != "hist" or not (
            values["id"] in held
            or stored_object(values["old"]).get("state") == "quarantined"
        ):
            yield kind, values


def _is_held(turn: Mapping[str, Any]) -> bool:
    return "quarantined" in stored_object(turn.get("event", "{}"))


def exported_memory(connection: Transaction, stored: RowWithVector) -> dict[str, Any]:
    """Return one memory in the format of an export line, without its vector."""
    query = "SELECT state FROM mem WHERE rid = ?"
    values = {name: getattr(stored.row, name) for name in ROW_FIELDS}
    values["state"] = connection.execute(query, (stored.row.rid,)).fetchone()[0]
    return {name: value for name, value in values.items() if value is not None}


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
