"""What moves a user's data between storages: exports, imports and copies."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vecall.errors import CorruptFileError, InvalidArgumentError
from vecall.store import names as stored_names
from vecall.store import rows as records
from vecall.store import transaction
from vecall.store import values as stored_values
from vecall.store.queries.item_reads import item_state_of
from vecall.store.queries.partition_reads import load_rows
from vecall.store.rows import Change, PartitionCopy, PartitionNames, Row, RowWithVector
from vecall.store.writes import partition_writer
from vecall.store.writes.delete import delete_memories, delete_partition
from vecall.store.writes.items import import_items
from vecall.store.writes.quota import UserQuota, evict_over_quota
from vecall.store.writes.sessions import seen_turn_ids_of_partition

# A file's contents as plain values, for export and import.
#
# An export is a header, then the table rows of each (app, user). It omits numbers that
# are valid only within one file (rows, partitions, sequences), so exporting an imported
# file gives the same export.

FORMAT = 1  # the version of the format, in the header

EXPORTED_TABLES = {
    "hist": ("id", "at", "op", "old", "expires_at"),
    "tomb": ("id", "at", "why"),
    "replaced": ("id", "by", "why", "at"),
    "told": ("session", "id", "at", "pos", "event"),
    "trig": ("session", "kind", "due_at", "state"),
}
_WHERE_AND_ORDER = {
    "hist": "ORDER BY id, seq",
    "tomb": "ORDER BY id",
    "replaced": "ORDER BY id",
    "trig": "AND kind = 'make' ORDER BY session, kind",  # no derived rows
    "told": "ORDER BY session, id",
}
_EXPORTED_AT_ONCE = 200
_MAX_DIM = 65_536


def export_header(connection: transaction.Transaction, vectors: bool) -> dict[str, Any]:
    """Return the header, which is the first line."""
    model = transaction.active_model(connection) if vectors else None
    model_fields = None
    if model is not None:
        print_ = model.fingerprint
        model_fields = {
            "name": model.name,
            "dim": model.dim,
            "fingerprint": None if print_ is None else _text_of_exported_bytes(print_),
        }
    return {"vecall": "export", "format": FORMAT, "model": model_fields}


def model_of_header(header: Mapping[str, Any]) -> transaction.EmbeddingModel | None:
    """Return the model of an export's vectors; None without vectors."""
    # InvalidArgumentError: not the header of an export that this version reads.
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
    if not fits or not (fingerprint is None or transaction.is_vector(fingerprint, dim)):
        raise InvalidArgumentError("model: expected name, dim and fingerprint")
    return transaction.EmbeddingModel(name, dim, fingerprint=fingerprint)


def export_partitions(
    connection: transaction.Transaction, app: str | None, user: str | None
) -> list[tuple[int, str, str, float]]:
    """Return number, app, user and creation time of all or some partitions."""
    # Partitions whose names were replaced by digests are left out.
    return connection.execute(
        "SELECT id, app, user, created_at FROM part "
        "WHERE (CAST(? AS TEXT) IS NULL OR app = ?) "
        "AND (CAST(? AS TEXT) IS NULL OR user = ?) AND app <> ? ORDER BY app, user",
        (app, app, user, user, stored_names.HIDDEN_APP),
    ).fetchall()


def export_lines(
    connection: transaction.Transaction, part: int, model: int | None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the lines of one partition, without damaged memories in quarantine."""
    # Memories come first. Vectors of the model of the number `model` are included; None
    # includes none.
    query = "SELECT rid, state FROM mem WHERE rid BETWEEN ? AND ? ORDER BY rid"
    found = connection.execute(query, (part << 32, (part << 32) | 0xFFFFFFFF))
    while batch := found.fetchmany(_EXPORTED_AT_ONCE):
        entries = load_rows(connection, [rid for rid, _ in batch], any_state=True)
        stored = {entry.row.rid: entry for entry in entries}
        for rid, state in batch:
            entry = stored.get(rid)
            if entry is None:
                continue  # damaged and quarantined
            values = _export_line_of_memory(entry.row, state)
            if model is not None and entry.vec is not None and entry.model == model:
                values["vec"] = _text_of_exported_bytes(entry.vec)
            yield "mem", values
    for table, columns in EXPORTED_TABLES.items():
        query = f"SELECT {', '.join(columns)} FROM {table} WHERE part = ?"
        for row in connection.execute(f"{query} {_WHERE_AND_ORDER[table]}", (part,)):
            values = dict(zip(columns, row, strict=True))
            yield table, {k: v for k, v in values.items() if v is not None}


def unheld_lines(
    lines: Iterable[tuple[str, dict[str, Any]]],
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield those of the lines of `export_lines` that are not quarantined content."""
    # Omitted are quarantined memories with their history, revisions that were
    # quarantined when they were overwritten, and quarantined buffered turns.
    held: set[str] = set()
    for kind, values in lines:
        if kind == "mem" and values["state"] == "quarantined":
            held.add(values["id"])
        elif kind == "told" and "quarantined" in stored_values.parse_stored_object(
            values.get("event", "{}")
        ):
            continue
        elif kind != "hist" or not (
            values["id"] in held
            or stored_values.parse_stored_object(values["old"]).get("state")
            == "quarantined"
        ):
            yield kind, values


def exported_memory(
    connection: transaction.Transaction, stored: RowWithVector
) -> dict[str, Any]:
    """Return one memory in the format of an export line, without its vector."""
    query = "SELECT state FROM mem WHERE rid = ?"
    (state,) = connection.execute(query, (stored.row.rid,)).fetchone()
    return _export_line_of_memory(stored.row, state)


def _export_line_of_memory(row: Row, state: str) -> dict[str, Any]:
    values = zip((*Row._fields[1:], "state"), (*row[1:], state), strict=True)
    return {name: value for name, value in values if value is not None}


def _text_of_exported_bytes(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


# Reads all rows of a user, for a copy in another storage.

_LOW_BITS = 0xFFFFFFFF
_WIDTH = len(Row._fields)
_NAMES = "SELECT id, app, user, seq, live, bytes, created_at, item FROM part"


def users_after(
    connection: transaction.Transaction, after: int, limit: int
) -> list[PartitionNames]:
    """Return the users with a greater number, in order."""
    query = f"{_NAMES} WHERE id > ? ORDER BY id LIMIT ?"
    return [PartitionNames(*row) for row in connection.execute(query, (after, limit))]


def read_rows_to_copy(
    connection: transaction.Transaction, names: PartitionNames, expiry_now: float
) -> PartitionCopy | None:
    """Return all rows of a user; None if the user was deleted."""
    row = connection.execute(f"{_NAMES} WHERE id = ?", (names.part,)).fetchone()
    if row is None:
        return None
    current = PartitionNames(*row)
    tables: dict[str, list[tuple[Any, ...]]] = {}
    for table, known in records.TABLES.items():
        query = f"SELECT {', '.join(known.columns)} FROM {table} WHERE part = ?"
        found = connection.execute(f"{query} ORDER BY {known.key}", (names.part,))
        rows = [tuple(each) for each in found]
        if known.columns[0] == "rid":
            rows = [(each[0] & _LOW_BITS, *each[1:]) for each in rows]
        tables[table] = rows
    high = names.part << 32
    for rid, *values in tables["mem"]:
        if not records.is_undamaged_row(
            Row(high | rid, *values[: _WIDTH - 1]), values[-3], values[-1]
        ):
            msg = "a memory fails its checks; `vecall doctor` says more"
            raise CorruptFileError(msg)
    dim, items = item_state_of(connection, names.part).dim, tables["item"]
    for at, (rid, *values) in enumerate(items):
        stored_values.check_item_checksum((high | rid, *values[:7]), values[-1])
        vectors = stored_values.checked_vectors(high | rid, values[7], dim) or None
        items[at] = (rid, *values[:7], vectors, values[8])
    return PartitionCopy(current, tables, expiry_now)


# Writes exported lines of one partition.

_ONLY_IF = {
    "replaced": (
        "SELECT 1 FROM mem WHERE part = ? AND id = ? AND state = 'archived'",
        ("part", "id"),
    ),
    "trig": (
        "SELECT 1 FROM told WHERE part = ? AND session = ? AND event IS NOT NULL "
        "LIMIT 1",
        ("part", "session"),
    ),
}
"""Per table, the query that finds a row if a line is inserted, and the line's values in
it. Without it, an older line could bring back a state that ended in this file."""


@dataclass(slots=True, repr=False, eq=False)
class ImportLines(partition_writer.UserJob):
    """Writes exported lines of one partition; of each memory the newer version wins.

    A memory that was deleted in this file stays deleted. A memory that was deleted in
    the exported file is deleted here, unless it was changed here afterwards.
    """

    created_at: float  # when the partition was created, in seconds
    # Kind and values of each line, validated; vectors as float32 bytes.
    lines: Sequence[tuple[str, dict[str, Any]]]
    model: int | None  # number of the model of the vectors; None leaves them out
    restore: bool  # also store memories that were deleted in this file
    estimated_bytes: int = 1
    bounds: UserQuota | None = None
    items: int = 0  # after the job: the number of items that it wrote
    _written: list[RowWithVector] = field(default_factory=list)
    _removed: list[int] = field(default_factory=list)
    _ids: list[str] = field(default_factory=list)
    _known: dict[str, str] | None = None

    def run(self, connection: transaction.Transaction) -> Change:
        """Do it inside a transaction."""
        self._written, self._removed, self._ids, self._known = [], [], [], None
        transaction.require_active_model(connection, self.model)
        partition = partition_writer.PartitionWriter(
            connection, self.app, self.user, create=True
        )
        partition.reveal_user_names()
        if not partition.seq:
            own = (self.created_at, partition.id)
            partition.execute("UPDATE part SET created_at = ? WHERE id = ?", own)
        if self.bounds is not None:
            partition_writer.counts_of_buffered(
                partition
            )  # what waits is counted before it grows
        sizes = []
        write = {
            "mem": self._write_memory,
            "tomb": self._write_tombstone,
            "hist": _write_history_entry,
        }
        for kind, values in self.lines:
            if kind in write:
                write[kind](partition, values)
            if kind in write or kind == "item":
                continue
            if kind == "told" and seen_turn_ids_of_partition(
                connection, partition.id, values["session"], [values["id"]]
            ):
                continue  # deleted in this file, and its id possibly hidden since
            names = ("part", *EXPORTED_TABLES[kind])
            row = {**dict.fromkeys(names), **values, "part": partition.id}
            if kind in _ONLY_IF:
                query, keys = _ONLY_IF[kind]
                if not partition.execute(query, [row[key] for key in keys]).fetchone():
                    continue
            came = partition.execute(
                f"INSERT INTO {kind} ({', '.join(names)}) "
                f"VALUES ({', '.join('?' * len(names))}) ON CONFLICT DO NOTHING",
                [row[name] for name in names],
            ).rowcount
            if kind == "told" and came and values.get("event"):
                sizes.append(len(values["event"].encode()))
        items = [values for kind, values in self.lines if kind == "item"]
        self.items = import_items(partition, items)
        more = partition_writer.Waits(len(sizes), sum(sizes))
        partition_writer.add_buffered_counts(partition, more)
        self._removed += evict_over_quota(partition, self.bounds, self._written, more)
        return partition.changed(self._written, self._removed, self._ids)

    def _write_memory(
        self, partition: partition_writer.PartitionWriter, values: Mapping[str, Any]
    ) -> None:
        execute = partition.execute
        id_, state = values["id"], values["state"]
        mine = (partition.id, id_)
        if self.restore:
            forms = stored_names.hidden_forms_of(
                partition.connection, partition.id, [id_]
            )
            query = "DELETE FROM tomb WHERE part = ? AND id IN"
            transaction.execute_among(
                partition.connection, query, [partition.id], list(forms)
            )
        elif any(
            stored_names.read_tombstones(partition.connection, partition.id, [id_])
        ):
            return
        old = execute(_KNOWN, mine).fetchone()
        if old is not None and old[1] >= values["updated_at"]:
            return
        live, size = int(state == "live"), len(values["text"].encode())
        if old is not None:  # subtract the old row from the counts, add the new one
            was_live = int(old[3] == "live")
            live, size = live - was_live, size * live - old[2] * was_live
        else:
            size *= live
        rid = partition.change(0 if old is None else old[0], "u", live=live, size=size)
        fields: list[Any] = [values.get(name) for name in Row._fields[1:]]
        row = Row(rid, *fields)
        if old is not None and old[4]:
            row = _with_uses_of_both(partition.connection, row)
        vec = None if self.model is None else values.get("vec")
        model = None if vec is None else self.model
        columns: dict[str, Any] = {
            **dict(zip(records.COLUMNS.split(", "), row, strict=True)),
            "state": state,
            "part": partition.id,
            "seq": partition.seq,
            "hash": records.hash_of_text(row.text),
            "vec": vec,
            "model": model,
            "crc": records.checksum(row, vec),
        }
        marks = ", ".join("?" * len(columns))
        statement = f"INSERT INTO mem ({', '.join(columns)}) VALUES ({marks})"
        if old is not None:  # without: an upsert takes twice as long
            pairs = ", ".join(f"{name} = excluded.{name}" for name in columns)
            statement += f" ON CONFLICT (rid) DO UPDATE SET {pairs}"
        execute(statement, list(columns.values()))
        execute("DELETE FROM replaced WHERE part = ? AND id = ?", mine)
        self._ids.append(id_)
        if state == "live":
            self._written.append(RowWithVector(row, vec, model))
        else:
            self._removed.append(rid)

    def _write_tombstone(
        self, partition: partition_writer.PartitionWriter, values: Mapping[str, Any]
    ) -> None:
        if stored_names.is_digest_key(values["id"]):
            stored_names.add_digest_key(
                partition.connection, partition.id, values["id"], values["at"]
            )
            self._known = None
            return
        mine = (partition.id, values["id"])
        id_ = self._plain_id(partition, values["id"])
        old = partition.execute(_KNOWN, (partition.id, id_)).fetchone()
        if old is not None and old[1] > values["at"]:
            return
        if old is not None:
            self._removed += delete_memories(partition, [id_])
        new = partition.execute(
            "INSERT INTO tomb (part, id, at, why) VALUES (?, ?, ?, ?) "
            "ON CONFLICT DO NOTHING",
            (*mine, values["at"], values.get("why")),
        ).rowcount
        transaction.count_inserted(partition.connection, partition.id, "gone", new)
        if not new:
            partition.execute(
                "UPDATE tomb SET at = max(at, ?), why = "
                "CASE WHEN why IS NULL THEN NULL ELSE ? END WHERE part = ? AND id = ?",
                (values["at"], values.get("why"), *mine),
            )

    def _plain_id(self, partition: partition_writer.PartitionWriter, id_: str) -> str:
        """Return the id that a hidden id stands for, if this file has the memory."""
        if not stored_names.is_hidden_id(id_):
            return id_
        if self._known is None:
            query = "SELECT id FROM mem WHERE part = ?"
            ids = [known for (known,) in partition.execute(query, (partition.id,))]
            self._known = stored_names.hidden_forms_of(
                partition.connection, partition.id, ids
            )
        return self._known.get(id_, id_)


_KNOWN = (
    "SELECT rid, updated_at, length(CAST(text AS BLOB)), state, uses IS NOT NULL "
    "FROM mem WHERE part = ? AND id = ?"
)


def _with_uses_of_both(connection: transaction.Transaction, row: Row) -> Row:
    """An imported row, with the larger use count and later last use of both rows."""
    try:
        known = load_rows(connection, [row.rid], any_state=True)
    except CorruptFileError:
        return row  # it replaces a damaged row
    for here, *_ in known:
        uses = max(row.uses or 0, here.uses or 0)
        times = [at for at in (row.last_used, here.last_used) if at is not None]
        row = row._replace(uses=uses, last_used=max(times, default=None))
    return row


def _write_history_entry(
    partition: partition_writer.PartitionWriter, values: Mapping[str, Any]
) -> None:
    """Store an entry of a memory's history, unless the file has it."""
    entry = [values.get(name) for name in EXPORTED_TABLES["hist"]]
    known = partition.execute(
        "SELECT 1 FROM hist WHERE part = ? AND id = ? AND at = ? AND op = ? "
        "AND old IS ?",
        (partition.id, *entry[:4]),
    )
    if known.fetchone() is None:
        partition.seq += 1
        partition.execute(
            "INSERT INTO hist (part, seq, id, at, op, old, expires_at) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (partition.id, partition.seq, *entry),
        )


# Writes all rows of a user that come from another storage.


@dataclass(slots=True, repr=False, eq=False)
class CopyPartition(partition_writer.UserJob):
    """Writes all rows of a user, unless the storage has rows of the user."""

    copied: PartitionCopy  # the rows, with times on this storage's expiry clock
    # The number of the model of the vectors in this storage; None for none.
    model: int | None
    replace: bool  # delete what the storage has of the user
    estimated_bytes: int = 0
    part: int = 0  # the number of the new partition
    is_written: bool = False  # whether the rows were written

    def run(self, connection: transaction.Transaction) -> Change:
        """Do it inside a transaction."""
        self.is_written = False
        names = self.copied.names
        partition = partition_writer.PartitionWriter(
            connection, self.app, self.user, create=True
        )
        any_row = "SELECT 1 FROM {} WHERE part = ? LIMIT 1"
        if any(
            partition.execute(any_row.format(table), (partition.id,)).fetchone()
            for table in records.TABLES
        ):
            if not self.replace:
                return partition.changed()
            delete_partition(connection, partition.id)
            partition = partition_writer.PartitionWriter(
                connection, self.app, self.user, create=True
            )
        self.part = partition.id
        for table, rows in self.copied.tables.items():
            columns = ("part", *records.TABLES[table].columns)
            transaction.insert_many(
                connection,
                f"{table} ({', '.join(columns)})",
                [(self.part, *self._row_to_store(table, row)) for row in rows],
            )
        copied = self.copied.tables
        items = [row for row in copied["item"] if row[1] != stored_values.PIECES]
        gone = [row for row in copied["tomb"] if not stored_names.is_digest_key(row[0])]
        transaction.count_inserted(connection, self.part, "docs", len(items))
        transaction.count_inserted(connection, self.part, "gone", len(gone))
        query = "UPDATE part SET created_at = ?, item = ? WHERE id = ?"
        connection.execute(query, (names.created_at, names.item, self.part))
        counts = (names.seq, (), names.live, names.nbytes, None, None)
        head = transaction.leave_partition(connection, self.part, *counts)
        self.is_written = True
        return Change(self.app, self.user, self.part, 0, names.seq, head=head)

    def _row_to_store(self, table: str, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return a row with its number in this storage, and with checksums."""
        if records.TABLES[table].columns[0] != "rid":
            return row
        rid = (self.part << 32) | row[0]
        if table == "mem":
            values = Row(rid, *row[1:_WIDTH])
            seq, state, hash_, vec, _, _ = row[_WIDTH:]
            model = None if vec is None else self.model
            crc = records.checksum(values, vec)
            return (*values, seq, state, hash_, vec, model, crc)
        if table == "item":
            item = stored_values.ItemRow(rid, *row[1:8])
            vecs = (
                None
                if row[8] is None
                else stored_values.vectors_with_checksum(rid, row[8])
            )
            return (*item[:8], vecs, stored_values.item_checksum(item))
        return (rid, *row[1:])


# Gives an empty storage the identity of another one.

IDENTITY = ("uuid", "secret")
"""Facts of `meta`: the seed of the engines, and the key that hides names."""


@dataclass(slots=True, repr=False, eq=False)
class AdoptIdentity:
    """Writes the identity of another storage, unless a user or a model is there.

    With the same identity both storages give equal scores, to the last bit, and digests
    of names stay valid.
    """

    facts: Mapping[str, str]  # the facts of `IDENTITY` that the other storage has
    estimated_bytes: int = 256
    is_adopted: bool = False  # whether a fact was changed

    def run(self, connection: transaction.Transaction) -> Change:
        """Do it inside a transaction."""
        self.is_adopted = False
        taken = "SELECT EXISTS (SELECT 1 FROM part), EXISTS (SELECT 1 FROM model)"
        if not any(connection.execute(taken).fetchone()):
            for key, value in self.facts.items() - identity_facts(connection).items():
                transaction.set_fact(connection, key, value)
                self.is_adopted = True
        return partition_writer.NO_USER


def identity_facts(connection: transaction.Transaction) -> dict[str, str]:
    """Return the facts of `IDENTITY` that a storage has."""
    rows = connection.execute("SELECT key, value FROM meta").fetchall()
    return {key: value for key, value in rows if key in IDENTITY}
