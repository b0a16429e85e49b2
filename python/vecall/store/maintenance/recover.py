"""Copies the readable memories of a file with damaged pages to a new file."""

from __future__ import annotations

import math
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

from vecall.errors import (
    BusyError,
    CorruptFileError,
    InvalidArgumentError,
    StorageError,
    StorageFullError,
    VecallError,
)
from vecall.store.erased_names import copy_secret
from vecall.store.file.connections import connect_to_read
from vecall.store.file.database import Database
from vecall.store.file.filesystem import require_new
from vecall.store.file.schema import require_plain_tables
from vecall.store.item_records import checked_vectors
from vecall.store.item_values import PIECES
from vecall.store.models import active_model, adopt
from vecall.store.reads.export import exported_memory
from vecall.store.reads.item_reads import items_by_number, state_of
from vecall.store.reads.partition_reads import load_rows
from vecall.store.results import EmbeddingModel
from vecall.store.rows import names_checksum
from vecall.store.writes.import_lines import ImportLines

_AT_ONCE = 500
_NAMELESS = "vecall-recovered"


class Salvage(NamedTuple):
    """The result of a recovery.

    Attributes:
        saved: The number of memories in the new file.
        lost: The number of known memories that cannot be read.
        saved_items: The number of items in the new file.
        lost_items: The number of known items that cannot be read.
    """

    saved: int
    lost: int
    saved_items: int = 0
    lost_items: int = 0


def recover(path: Path, target: Path) -> Salvage:
    """Copy every memory that can be read and passes its checksum to a new file.

    The damaged file does not change. Partitions with unreadable names go to the app
    "vecall-recovered", with one user for each partition.

    Raises:
        ConfigError: The new file exists already.
        CorruptFileError: The file has views or triggers, which must not run.
    """
    require_new(target)
    with closing(connect_to_read(path)) as connection:
        with suppress(sqlite3.Error, ValueError):
            require_plain_tables(connection)
        model = None
        with suppress(sqlite3.Error, ValueError, CorruptFileError):
            model = active_model(connection)
        _shadow_unreadable(connection)
        rows = _row_numbers(connection)
        names = _names(connection)
        deleted = _tombstones(connection)
        database = Database(target, "full")
        try:
            with suppress(sqlite3.Error), database.write_transaction() as new:
                copy_secret(connection, new)
            copy = _Copy(connection, database, model)
            by_part: dict[int, list[int]] = defaultdict(list)
            for rid in rows:
                by_part[rid >> 32].append(rid)
            for part in sorted(by_part.keys() | deleted.keys()):
                app, user = names.get(part, (_NAMELESS, str(part)))
                copy.partition(app, user, by_part[part], deleted.get(part, []))
            items, known = _item_lines(connection)
            for part in sorted(items):
                app, user = names.get(part, (_NAMELESS, str(part)))
                copy.items(app, user, items[part])
        finally:
            database.close()
    return Salvage(
        copy.saved, len(rows) - copy.saved, copy.saved_items, known - copy.saved_items
    )


def _shadow_unreadable(connection: sqlite3.Connection) -> None:
    """Shadow unreadable tables of models and vectors by temporary ones.

    The file does not change. Vectors are useless without their model, but the texts of
    the memories can still be saved.
    """
    try:
        connection.execute("SELECT * FROM model").fetchall()
    except sqlite3.Error:
        connection.execute(
            "CREATE TEMP TABLE model (id, name, dim, fingerprint, state)"
        )
        with suppress(sqlite3.Error):
            connection.execute(
                "INSERT INTO temp.model (id, state) SELECT model, 'active' FROM mem "
                "WHERE model IS NOT NULL LIMIT 1"
            )
    try:
        connection.execute("SELECT rid, length(vec) FROM vec_next").fetchall()
    except sqlite3.Error:
        connection.execute("CREATE TEMP TABLE vec_next (rid, model, vec, crc)")


def _row_numbers(connection: sqlite3.Connection) -> list[int]:
    """All row numbers that can be read from the table or one of its indexes.

    A walk ends at a damaged page, so each B-tree is walked from both ends.
    """
    found: set[int] = set()
    walks = (
        "SELECT rid FROM mem NOT INDEXED ORDER BY rid {}",
        "SELECT rid FROM mem INDEXED BY sqlite_autoindex_mem_1 ORDER BY part {}, id {}",
        "SELECT rid FROM mem INDEXED BY mem_session "
        "ORDER BY part {}, session {}, pos {}",
    )
    for walk in walks:
        for direction in ("", "DESC"):
            with suppress(sqlite3.Error):
                for (rid,) in connection.execute(walk.replace("{}", direction)):
                    if isinstance(rid, int):
                        found.add(rid)
    return sorted(found)


def _names(connection: sqlite3.Connection) -> dict[int, tuple[str, str]]:
    names: dict[int, tuple[str, str]] = {}
    for direction in ("", "DESC"):
        with suppress(sqlite3.Error):
            for part, app, user, crc in connection.execute(
                "SELECT id, app, user, crc FROM part NOT INDEXED "
                f"ORDER BY id {direction}"
            ):
                named = isinstance(app, str) and isinstance(user, str)
                if named and crc == names_checksum(part, app, user):
                    names[part] = (app, user)
    return names


def _tombstones(
    connection: sqlite3.Connection,
) -> dict[int, list[tuple[str, dict[str, Any]]]]:
    found: dict[int, list[tuple[str, dict[str, Any]]]] = defaultdict(list)
    with suppress(sqlite3.Error, ValueError):
        for part, id_, at in connection.execute(
            "SELECT part, id, at FROM tomb WHERE typeof(part) = 'integer' "
            "AND typeof(id) = 'text' AND typeof(at) = 'real'"
        ):
            if math.isfinite(at):
                found[part].append(("tomb", {"id": id_, "at": at}))
    return found


def _item_lines(
    connection: sqlite3.Connection,
) -> tuple[dict[int, list[tuple[str, dict[str, Any]]]], int]:
    """The items that can be read, by partition, and the number of known items.

    Vectors are only read with their dimension.
    """
    rids: set[int] = set()
    for direction in ("", "DESC"):
        with suppress(sqlite3.Error):
            for (rid,) in connection.execute(
                f"SELECT rid FROM item NOT INDEXED WHERE ns IS NOT ? "
                f"ORDER BY rid {direction}",
                (PIECES,),
            ):
                rids.add(rid)
    found: dict[int, list[tuple[str, dict[str, Any]]]] = defaultdict(list)
    for rid in sorted(rids):
        with suppress(sqlite3.Error, VecallError, ValueError, TypeError):
            for row in items_by_number(connection, rid >> 32, [rid]):
                values: dict[str, Any] = row._asdict()
                vecs = values.pop("vecs")
                with suppress(sqlite3.Error, VecallError):
                    state = state_of(connection, rid >> 32)
                    values["vecs"] = checked_vectors(rid, vecs, state.dim)
                    values |= {"dim": state.dim, "embedder": state.embedder}
                found[rid >> 32].append(("item", values))
    return found, len(rids)


class _Copy:
    def __init__(
        self,
        source: sqlite3.Connection,
        database: Database,
        model: EmbeddingModel | None,
    ) -> None:
        self._source = source
        self._database = database
        self._number: dict[int, int] = {}
        self.saved = 0
        self.saved_items = 0
        if model is not None:
            with database.write_transaction() as connection:
                self._number[model.id] = adopt(connection, model).id

    def partition(
        self,
        app: str,
        user: str,
        rids: Sequence[int],
        deleted: Sequence[tuple[str, dict[str, Any]]],
    ) -> None:
        lines = [*deleted, *self._readable(rids)]
        for start in range(0, len(lines), _AT_ONCE):
            some = lines[start : start + _AT_ONCE]
            model = next(iter(self._number.values()), None)
            try:
                self._write(app, user, some, model)
            except (BusyError, StorageError, StorageFullError):
                raise
            except VecallError:  # a value that vecall does not write
                for line in some:
                    with suppress(CorruptFileError, InvalidArgumentError):
                        self._write(app, user, [line], model)

    def _write(
        self,
        app: str,
        user: str,
        lines: Sequence[tuple[str, dict[str, Any]]],
        model: int | None,
    ) -> None:
        job = ImportLines(app, user, 0.0, lines, model, restore=False)
        with self._database.write_transaction() as connection:
            written = len(job.run(connection).ids)
        self.saved += written

    def items(
        self, app: str, user: str, lines: Sequence[tuple[str, dict[str, Any]]]
    ) -> None:
        for line in lines:
            with suppress(CorruptFileError, InvalidArgumentError):
                self._write(app, user, [line], None)
                self.saved_items += 1

    def _readable(self, rids: Sequence[int]) -> Iterator[tuple[str, dict[str, Any]]]:
        for rid in rids:
            with suppress(sqlite3.Error, VecallError, ValueError, TypeError):
                for stored in load_rows(self._source, [rid], any_state=True):
                    values = exported_memory(self._source, stored)
                    if stored.vec is not None and stored.model in self._number:
                        values["vec"] = stored.vec
                    yield "mem", values
