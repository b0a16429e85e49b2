"""Recovers what can be read of a damaged file, and resets a file's clock."""

from __future__ import annotations

import math
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from vecall import errors
from vecall.clock import DAY_S, Clock, ExpiryClock
from vecall.store.file import filesystem, schema
from vecall.store.file.connections import connect_to_read
from vecall.store.file.database import Database, save_checkpoint
from vecall.store.names import copy_digest_secret, partition_names
from vecall.store.queries.item_reads import item_state_of, read_items_by_number
from vecall.store.queries.partition_reads import load_rows
from vecall.store.rows import names_checksum
from vecall.store.transaction import active_model, adopt_model, select_in
from vecall.store.values import PIECES, checked_vectors
from vecall.store.writes.items import move_item_expiries
from vecall.store.writes.partition_writer import PartitionWriter, rewrite_row
from vecall.store.writes.sessions import move_last_consolidation
from vecall.store.writes.transfers import ImportLines, exported_memory

_AT_ONCE = 500
_NAMELESS = "vecall-recovered"
_Line = tuple[str, dict[str, Any]]  # kind and values, as in an export


class Salvage(NamedTuple):
    """The result of a recovery."""

    saved: int  # the number of memories in the new file
    lost: int  # the number of known memories that cannot be read
    saved_items: int = 0  # the number of items in the new file
    lost_items: int = 0  # the number of known items that cannot be read


def recover_file(path: Path, target: Path) -> Salvage:
    """Copy every memory that can be read and passes its checksum to a new file."""
    # The damaged file does not change. Partitions with unreadable names go to the app
    # "vecall-recovered", with one user for each partition. ConfigError: the new file
    # exists. CorruptFileError: the file has views or triggers, which must not run.
    filesystem.require_new_file(target)
    with closing(connect_to_read(path)) as connection:
        with suppress(sqlite3.Error, ValueError):
            schema.require_plain_tables(connection)
        model = None
        with suppress(sqlite3.Error, ValueError, errors.CorruptFileError):
            model = active_model(connection)
        _shadow_unreadable(connection)
        rids, item_rids = _readable_rids(connection), _readable_item_rids(connection)
        names = _readable_partitions(connection)
        deleted = _readable_tombstone_lines(connection)
        rows_of: dict[int, list[int]] = defaultdict(list)
        items_of: dict[int, list[int]] = defaultdict(list)
        for rid in rids:
            rows_of[rid >> 32].append(rid)
        for rid in item_rids:
            items_of[rid >> 32].append(rid)
        saved = saved_items = 0
        with closing(Database(target, "full")) as database:
            with suppress(sqlite3.Error), database.write_transaction() as new:
                copy_digest_secret(connection, new)
            known = adopted = None
            if model is not None:
                known = model.id
                with database.write_transaction() as new:
                    adopted = adopt_model(new, model).id
            for part in sorted({*rows_of, *deleted, *items_of}):
                app, user = names.get(part, (_NAMELESS, str(part)))
                lines = [*deleted[part]]
                lines += _readable_memory_lines(connection, rows_of[part], known)
                lines += _item_lines(connection, items_of[part])
                for at in range(0, len(lines), _AT_ONCE):
                    some = lines[at : at + _AT_ONCE]
                    counts = _write_recovered(database, app, user, some, adopted)
                    saved, saved_items = saved + counts[0], saved_items + counts[1]
    return Salvage(saved, len(rids) - saved, saved_items, len(item_rids) - saved_items)


def _shadow_unreadable(connection: sqlite3.Connection) -> None:
    """Shadow unreadable tables of models and vectors by temporary ones."""
    # The file does not change. Vectors are useless without their model, but the texts
    # of the memories can still be saved.
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


def _readable_rids(connection: sqlite3.Connection) -> list[int]:
    """All row numbers that can be read from the table or one of its indexes."""
    found: set[int] = set()
    for query in (
        "SELECT rid FROM mem NOT INDEXED ORDER BY rid {}",
        "SELECT rid FROM mem INDEXED BY sqlite_autoindex_mem_1 ORDER BY part {}, id {}",
        "SELECT rid FROM mem INDEXED BY mem_session "
        "ORDER BY part {}, session {}, pos {}",
    ):
        rows = _rows_from_both_ends(connection, query)
        found.update(rid for (rid,) in rows if isinstance(rid, int))
    return sorted(found)


def _rows_from_both_ends(
    connection: sqlite3.Connection, query: str, *values: str
) -> Iterator[Any]:
    """Yield the rows of a query in order, then from the end."""
    # A walk ends at a damaged page, so each B-tree is walked from both ends.
    for direction in ("", "DESC"):
        with suppress(sqlite3.Error):
            yield from connection.execute(query.replace("{}", direction), values)


def _readable_partitions(connection: sqlite3.Connection) -> dict[int, tuple[str, str]]:
    names: dict[int, tuple[str, str]] = {}
    query = "SELECT id, app, user, crc FROM part NOT INDEXED ORDER BY id {}"
    for part, app, user, crc in _rows_from_both_ends(connection, query):
        named = isinstance(app, str) and isinstance(user, str)
        if named and crc == names_checksum(part, app, user):
            names[part] = (app, user)
    return names


def _readable_tombstone_lines(connection: sqlite3.Connection) -> dict[int, list[_Line]]:
    found: dict[int, list[_Line]] = defaultdict(list)
    with suppress(sqlite3.Error, ValueError):
        for part, id_, at in connection.execute(
            "SELECT part, id, at FROM tomb WHERE typeof(part) = 'integer' "
            "AND typeof(id) = 'text' AND typeof(at) = 'real'"
        ):
            if math.isfinite(at):
                found[part].append(("tomb", {"id": id_, "at": at}))
    return found


def _readable_item_rids(connection: sqlite3.Connection) -> set[int]:
    query = "SELECT rid FROM item NOT INDEXED WHERE ns IS NOT ? ORDER BY rid {}"
    return {rid for (rid,) in _rows_from_both_ends(connection, query, PIECES)}


def _item_lines(connection: sqlite3.Connection, rids: Iterable[int]) -> Iterator[_Line]:
    """Yield the items that can be read."""
    for rid in sorted(rids):
        with suppress(sqlite3.Error, errors.VecallError, ValueError, TypeError):
            for row in read_items_by_number(connection, rid >> 32, [rid]):
                values: dict[str, Any] = row._asdict()
                vecs = values.pop("vecs")
                with suppress(sqlite3.Error, errors.VecallError):
                    state = item_state_of(connection, rid >> 32)
                    values["vecs"] = checked_vectors(rid, vecs, state.dim)
                    values |= {"dim": state.dim, "embedder": state.embedder}
                yield "item", values


def _readable_memory_lines(
    connection: sqlite3.Connection, rids: Iterable[int], model: int | None
) -> Iterator[_Line]:
    """Yield the memories that can be read, with the vectors of a model."""
    for rid in rids:
        with suppress(sqlite3.Error, errors.VecallError, ValueError, TypeError):
            for stored in load_rows(connection, [rid], any_state=True):
                values = exported_memory(connection, stored)
                if stored.vec is not None and stored.model == model:
                    values["vec"] = stored.vec
                yield "mem", values


def _write_recovered(
    database: Database, app: str, user: str, lines: Sequence[_Line], model: int | None
) -> tuple[int, int]:
    """Write the lines whose values vecall writes; count memories and items of them."""
    job = ImportLines(app, user, 0.0, lines, model, restore=False)
    try:
        with database.write_transaction() as connection:
            memories = len(job.run(connection).ids)
    except (errors.BusyError, errors.StorageError, errors.StorageFullError):
        raise
    except errors.VecallError as error:
        if len(lines) > 1:
            counts = [_write_recovered(database, app, user, [e], model) for e in lines]
            return sum(n for n, _ in counts), sum(n for _, n in counts)
        if isinstance(error, errors.CorruptFileError | errors.InvalidArgumentError):
            return 0, 0
        raise
    return memories, sum(kind == "item" for kind, _ in lines)  # also what has expired


# Resets a file's expiry clock to the wall clock.
#
# The expiry clock never goes back by itself. If the wall clock was years ahead when the
# file was opened, the expiry clock stays years ahead, and searches do not find memories
# with an earlier `valid_until`. A reset shifts all times that depend on the expiry
# clock, so each TTL keeps its remaining seconds. A `valid_until` is a date and does not
# change.

_TIMES = (("hist", "expires_at"), ("trig", "due_at"), ("idem", "at"))


def reset_expiry_clock(path: Path, clock: Clock | None = None) -> list[str]:
    """Set a file's expiry clock to the wall clock; return the actions taken."""
    # No other process may use the file meanwhile: it would continue with the old time.
    # Clocks that differ by less than a second are left. CorruptFileError: what has a
    # TTL fails its checksum. BusyError: timeout on the file lock. Nothing changed then.
    with (
        closing(Database(path, "full", clock=clock)) as database,
        database.write_transaction() as connection,
    ):
        expiry_clock = ExpiryClock.expiry_clock_of(connection)
        ahead = expiry_clock.reset_to_wall_clock()
        if abs(ahead) < 1.0:
            return []
        count = _shift_expiry_times(connection, -ahead)
        save_checkpoint(connection, expiry_clock)
    where = "back" if ahead > 0 else "forward"
    days = abs(ahead) / DAY_S
    return [f"the clock was set {where} by {days:.1f} days; {count} ttls moved with it"]


def _shift_expiry_times(connection: sqlite3.Connection, seconds: float) -> int:
    """Shift every time of the expiry clock; return how many rows have a TTL."""
    for table, column in _TIMES:
        connection.execute(
            f"UPDATE {table} SET {column} = {column} + ? WHERE {column} IS NOT NULL",
            (seconds,),
        )
    move_last_consolidation(connection, seconds)
    query = "SELECT rid FROM mem WHERE expires_at IS NOT NULL ORDER BY rid"
    rids = [rid for (rid,) in connection.execute(query)]
    for part, some in groupby(rids, lambda rid: rid >> 32):
        names = partition_names(connection, part)
        if names is None:
            continue
        partition = PartitionWriter(connection, *names, create=False)
        mine = list(some)
        for at in range(0, len(mine), _AT_ONCE):
            _shift_ttl_expiries(partition, mine[at : at + _AT_ONCE], seconds)
        partition.write_change_log()
    return len(rids) + move_item_expiries(connection, seconds)


def _shift_ttl_expiries(partition: PartitionWriter, rids: list[int], by: float) -> None:
    query = "SELECT rid, state FROM mem WHERE rid IN"
    states = dict(select_in(partition.connection, query, [], rids))
    for stored in load_rows(partition.connection, rids, any_state=True):
        row, state = stored.row, states[stored.row.rid]
        assert row.expires_at is not None
        row = row._replace(expires_at=row.expires_at + by)
        rewrite_row(partition, stored, row, was=state, state=state)
