"""A file's contents as plain values, for export and import.

One header, then for each (app, user) what the tables hold of it. Numbers that only mean
something inside one file (rows, partitions, sequences) are left out, so an export of an
import is the same as the export.
"""

from __future__ import annotations

import base64
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vecall.errors import CorruptFileError, InvalidArgumentError
from vecall.store.erased_names import (
    HIDDEN_APP,
    add_key,
    drop_tombstone,
    forms_of,
    is_hidden,
    is_key,
    tombstones,
)
from vecall.store.models import EmbeddingModel, active_model, is_print, require_active
from vecall.store.reads.partition_reads import load_rows
from vecall.store.rows import (
    COLUMNS,
    Change,
    Row,
    RowWithVector,
    checksum,
    text_hash,
)
from vecall.store.values import stored_object
from vecall.store.writes.delete import RowToDelete, delete_rows
from vecall.store.writes.partition_writer import PartitionWriter
from vecall.store.writes.quota import UserQuota, evict
from vecall.store.writes.session_buffer import seen_turn_ids_of_partition
from vecall.store.writes.waiting_counts import Waits, add_waits, waits_of

FORMAT = 1
"""The number of the format, in the header."""

_ROW = (
    "id session event pos ts created_at expires_at author kind source trust text "
    "content meta importance uses last_used valid_until supersedes updated_at"
).split()
_TABLES = {
    "hist": ("id", "at", "op", "old", "expires_at"),
    "tomb": ("id", "at", "why"),
    "replaced": ("id", "by", "why", "at"),
    "told": ("session", "id", "at", "pos", "event"),
    "trig": ("session", "kind", "due_at", "state"),
}
_ONLY_IF = {
    "replaced": "SELECT 1 FROM mem WHERE part = :part AND id = :id "
    "AND state = 'archived'",
    "told": "SELECT 1",
    "trig": "SELECT 1 FROM told WHERE part = :part AND session = :session "
    "AND event IS NOT NULL",
}
"""What must be there, so that nothing older comes back that is over here."""
_ORDER = {
    "hist": "id, seq",
    "tomb": "id",
    "replaced": "id",
    "trig": "session, kind",
    "told": "session, id",
}
_BUT = {"trig": "AND kind = 'make'"}
"""What is no part of an export: what follows from the rest."""
_AT_ONCE = 200
_MAX_DIM = 65_536


def export_header(connection: sqlite3.Connection, vectors: bool) -> dict[str, Any]:
    """Return the first line."""
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
    """Return the model of an export's vectors.

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
    connection: sqlite3.Connection, app: str | None, user: str | None
) -> list[tuple[int, str, str, float]]:
    """Return number, app, user and time of making of all or some partitions.

    Users whose names are hidden are not among them.
    """
    return connection.execute(
        "SELECT id, app, user, created_at FROM part WHERE (? IS NULL OR app = ?) "
        "AND (? IS NULL OR user = ?) AND app <> ? ORDER BY app, user",
        (app, app, user, user, HIDDEN_APP),
    ).fetchall()


def export_lines(
    connection: sqlite3.Connection, part: int, model: int | None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what the file holds of one partition, but for what is set aside as damaged.

    Args:
        connection: Reads one state throughout.
        part: The partition.
        model: Export the vectors of this model; None exports none.

    Raises:
        CorruptFileError: A row fails its checksum.
    """
    found = connection.execute(
        "SELECT rid, state FROM mem WHERE rid BETWEEN ? AND ? ORDER BY rid",
        (part << 32, (part << 32) | 0xFFFFFFFF),
    )
    while some := found.fetchmany(_AT_ONCE):
        rids = [row[0] for row in some]
        stored = {
            entry.row.rid: entry
            for entry in load_rows(connection, rids, any_state=True)
        }
        for rid, state in some:
            entry = stored.get(rid)
            if entry is None:
                continue  # set aside as damaged
            values = {name: getattr(entry.row, name) for name in _ROW}
            values["state"] = state
            if model is not None and entry.vec is not None and entry.model == model:
                values["vec"] = _text(entry.vec)
            yield "mem", {k: v for k, v in values.items() if v is not None}
    for table, columns in _TABLES.items():
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
    """Yield the lines of one partition but for what is or was quarantined.

    Left out are memories that are quarantined with all of their history, versions that
    were quarantined when they were overwritten, and waiting turns that are.

    Args:
        lines: What `export_lines` yields of one partition: memories come first.
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


def exported_memory(
    connection: sqlite3.Connection, stored: RowWithVector
) -> dict[str, Any]:
    """Return one memory as the line of an export has it, without its vector."""
    query = "SELECT state FROM mem WHERE rid = ?"
    values = {name: getattr(stored.row, name) for name in _ROW}
    values["state"] = connection.execute(query, (stored.row.rid,)).fetchone()[0]
    return {name: value for name, value in values.items() if value is not None}


@dataclass(slots=True)
class ImportLines:
    """Writes exported lines of one partition; what is newer stays.

    A memory that was deleted here stays deleted, and one that was deleted there is
    deleted here, unless it was changed here afterwards.

    Attributes:
        app: The app.
        user: The user.
        created_at: When the partition was made.
        lines: Kind and values of each line, checked; vectors as float32 bytes.
        model: Number of the model of the vectors; None leaves them out.
        restore: Bring back what was deleted here.
        bounds: How much the user may have.
    """

    app: str
    user: str
    created_at: float
    lines: Sequence[tuple[str, dict[str, Any]]]
    model: int | None
    restore: bool
    estimated_bytes: int = 1
    bounds: UserQuota | None = None
    _written: list[RowWithVector] = field(default_factory=list)
    _removed: list[int] = field(default_factory=list)
    _ids: list[str] = field(default_factory=list)
    _known: dict[str, str] | None = None

    def run(self, connection: sqlite3.Connection) -> Change:
        """Do it inside a transaction."""
        self._written, self._removed, self._ids = [], [], []
        self._known = None
        require_active(connection, self.model)
        partition = PartitionWriter(connection, self.app, self.user, create=True)
        partition.reveal()
        if not partition.seq:
            connection.execute(
                "UPDATE part SET created_at = ? WHERE id = ?",
                (self.created_at, partition.id),
            )
        if self.bounds is not None:
            waits_of(partition)  # what waits is counted before it grows
        sizes = []
        take = {"mem": self._memory, "tomb": self._tombstone, "hist": _past}
        for kind, values in self.lines:
            if kind in take:
                take[kind](partition, values)
                continue
            if kind == "told" and seen_turn_ids_of_partition(
                connection, partition.id, values["session"], [values["id"]]
            ):
                continue  # it is over here, and perhaps hidden since
            names = ("part", *_TABLES[kind])
            came = connection.execute(
                f"INSERT OR IGNORE INTO {kind} ({', '.join(names)}) "
                f"SELECT :{', :'.join(names)} WHERE EXISTS ({_ONLY_IF[kind]})",
                {**dict.fromkeys(names), **values, "part": partition.id},
            ).rowcount
            if kind == "told" and came and values.get("event"):
                sizes.append(len(values["event"].encode()))
        more = Waits(len(sizes), sum(sizes))
        add_waits(partition, more)
        if self.bounds is not None:
            self._removed += evict(partition, self.bounds, self._written, more)
        partition.finish()
        gone = set(self._removed)
        indexed = [entry for entry in self._written if entry.row.rid not in gone]
        return partition.changed(indexed, self._removed, self._ids)

    def _memory(self, partition: PartitionWriter, values: Mapping[str, Any]) -> None:
        execute = partition.connection.execute
        id_, state = values["id"], values["state"]
        mine = (partition.id, id_)
        if self.restore:
            drop_tombstone(partition.connection, *mine)
        elif any(tombstones(partition.connection, partition.id, [id_])):
            return
        old = execute(_KNOWN, mine).fetchone()
        if old is not None and old[1] >= values["updated_at"]:
            return
        live, size = int(state == "live"), len(values["text"].encode())
        if old is not None:  # count the row as it is now out, and as it will be in
            was_live = int(old[3] == "live")
            live, size = live - was_live, size * live - old[2] * was_live
        else:
            size *= live
        rid = partition.change(0 if old is None else old[0], "u", live=live, size=size)
        fields: list[Any] = [values.get(name) for name in _ROW]
        row = Row(rid, *fields)
        if old is not None and old[4]:
            row = _as_used_here(partition.connection, row)
        vec = None if self.model is None else values.get("vec")
        model = None if vec is None else self.model
        columns: dict[str, Any] = {
            **dict(zip(COLUMNS.split(", "), row, strict=True)),
            "state": state,
            "part": partition.id,
            "seq": partition.seq,
            "hash": text_hash(row.text),
            "vec": vec,
            "model": model,
            "crc": checksum(row, vec),
        }
        execute(
            f"INSERT OR REPLACE INTO mem ({', '.join(columns)}) "
            f"VALUES ({', '.join('?' * len(columns))})",
            list(columns.values()),
        )
        execute("DELETE FROM replaced WHERE part = ? AND id = ?", mine)
        self._ids.append(id_)
        if state == "live":
            self._written.append(RowWithVector(row, vec, model))
        else:
            self._removed.append(rid)

    def _tombstone(self, partition: PartitionWriter, values: Mapping[str, Any]) -> None:
        execute = partition.connection.execute
        if is_key(values["id"]):
            add_key(partition.connection, partition.id, values["id"], values["at"])
            self._known = None
            return
        mine = (partition.id, values["id"])
        id_ = self._id_of(partition, values["id"])
        old = execute(_KNOWN, (partition.id, id_)).fetchone()
        if old is not None:
            if old[1] > values["at"]:
                return
            delete_rows(partition, [RowToDelete(old[0], id_, old[2], old[3])])
            self._removed.append(old[0])
        execute(
            "INSERT INTO tomb (part, id, at, why) VALUES (?, ?, ?, ?) "
            "ON CONFLICT DO UPDATE SET at = max(at, excluded.at), "
            "why = CASE WHEN why IS NULL THEN NULL ELSE excluded.why END",
            (*mine, values["at"], values.get("why")),
        )

    def _id_of(self, partition: PartitionWriter, id_: str) -> str:
        """Return the id that is hidden, if there is a memory of it."""
        if not is_hidden(id_):
            return id_
        if self._known is None:
            query = "SELECT id FROM mem WHERE part = ?"
            found = partition.connection.execute(query, (partition.id,)).fetchall()
            ids = [known for (known,) in found]
            self._known = forms_of(partition.connection, partition.id, ids)
        return self._known.get(id_, id_)


_KNOWN = (
    "SELECT rid, updated_at, length(CAST(text AS BLOB)), state, uses IS NOT NULL "
    "FROM mem WHERE part = ? AND id = ?"
)


def _as_used_here(connection: sqlite3.Connection, row: Row) -> Row:
    """A row from outside, used at least as often and lately as the one it replaces."""
    try:
        known = load_rows(connection, [row.rid], any_state=True)
    except CorruptFileError:
        return row  # it heals what is here
    for here, *_ in known:
        uses = max(row.uses or 0, here.uses or 0)
        times = [at for at in (row.last_used, here.last_used) if at is not None]
        row = row._replace(uses=uses, last_used=max(times, default=None))
    return row


def _past(partition: PartitionWriter, values: Mapping[str, Any]) -> None:
    """Take an entry of a memory's history, unless it is there."""
    entry = [values.get(name) for name in _TABLES["hist"]]
    known = partition.connection.execute(
        "SELECT 1 FROM hist WHERE part = ? AND id = ? AND at = ? AND op = ? "
        "AND old IS ?",
        (partition.id, *entry[:4]),
    )
    if known.fetchone() is None:
        partition.seq += 1
        partition.connection.execute(
            "INSERT INTO hist (part, seq, id, at, op, old, expires_at) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (partition.id, partition.seq, *entry),
        )


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
