"""Examines a file without changing it, and repairs damage.

A repair deletes nothing except snapshots, which are a cache. It quarantines damaged
memories, so that the user's other memories can be searched again.
"""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

from vecall.clock import DAY_S, Clock, ClockCheckpoint, ExpiryClock
from vecall.errors import ConfigError, VecallError
from vecall.store.file import filesystem, schema
from vecall.store.file.connections import connect_to_read, file_bytes, storage_errors
from vecall.store.file.database import MIN_FREE_BYTES, Database, load_checkpoint
from vecall.store.names import UserNames, names_of_user, partition_names
from vecall.store.queries import partition_reads
from vecall.store.queries.item_reads import check_stored_items
from vecall.store.queries.listing import miscounted_counters, read_totals, recount_rows
from vecall.store.transaction import active_model
from vecall.store.values import decode_namespace
from vecall.store.writes.model_migration import migrating_model, unmoved_vectors
from vecall.store.writes.partition_writer import PartitionWriter
from vecall.system import filesystem_of, rights_of_others
from vecall.text import lazy_pattern

_LONGEST_S = 3_600.0  # timeout of an examination; many GB take minutes
_STEPS_AT_ONCE = 100_000  # steps of SQLite's virtual machine: a few milliseconds
_REMEDY = "--repair sets them aside"

Level = Literal["ok", "note", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    # The severity; "error": data is damaged or unreadable, or users are not held apart.
    level: Level
    about: str
    message: str  # the result, and the action to take


def checksum_finding(
    about: str,
    found: tuple[int, Sequence[object], Sequence[object]],
    remedy: str,
    aside: int = 0,
) -> Finding:
    """Say what a check of all rows found, and how many were set aside before."""
    checked, damaged, old = found
    if damaged:
        message = f"{len(damaged)} of {checked} fail their checksum; {remedy}"
        return Finding("error", about, message)
    message = f"{checked} pass their checksum"
    if old:
        message += f", {len(old)} of them one of an earlier release"
    if aside:
        return Finding("warning", about, f"{message}, {aside} damaged are set aside")
    return Finding("note" if old else "ok", about, message)


def vectors_finding(model: object, memories: int, lacking: int) -> Finding:
    """Return how many memories are searched by words alone, and why."""
    if not lacking:
        message = f"all {memories} memories have one" if memories else "no memories"
        return Finding("ok", "vectors", message)
    if model is None:
        message = (
            f"none: {memories} memories are searched by words alone, as no service "
            "with an embedder wrote here. One adds the vectors in the background, as "
            '"auto" does with vecall[local]; or use `vecall reembed`'
        )
    else:
        message = (
            f"{lacking} of {memories} memories have none and are found by words alone; "
            f"they get one when a service with the embedder of {model} is opened"
        )
    return Finding("note", "vectors", message)


def clock_finding(name: str, checkpoint: ClockCheckpoint, advice: str = "") -> Finding:
    """Say how far the time by which memories expire is from the wall clock."""
    clock = Clock()
    ahead = ExpiryClock(clock, checkpoint).now() - clock.wall()
    if abs(ahead) <= DAY_S:
        return Finding("ok", name, "as the wall clock says")
    where = "ahead of" if ahead > 0 else "behind"
    message = (
        f"the time by which memories expire is {abs(ahead) / DAY_S:.1f} days {where} "
        f"the wall clock{advice}"
    )
    return Finding("warning", name, message)


def examine(path: Path) -> list[Finding]:
    """Check a file, which must exist, its folder and its snapshots; change nothing."""
    if not path.exists():
        raise ConfigError(f"{path}: there is no such file")
    findings = list(_environment_findings(path))
    try:
        with storage_errors, closing(connect_to_read(path)) as connection:
            connection.execute("PRAGMA query_only = ON")
            end = time.monotonic() + _LONGEST_S
            connection.set_progress_handler(
                lambda: time.monotonic() > end, _STEPS_AT_ONCE
            )
            findings += _content_findings(path, connection)
    except VecallError as error:
        findings.append(Finding("error", "file", str(error)))
    return findings


def _environment_findings(path: Path) -> Iterator[Finding]:
    for check in (
        filesystem.require_plain_file,
        lambda file: filesystem.require_local_folder(file.parent),
    ):
        try:
            check(path)
        except VecallError as error:
            yield Finding("error", "path", str(error))
    kind = filesystem_of(path.parent) or "unknown"
    yield Finding("ok", "file system", kind)
    about = path.stat()
    mode = stat.S_IMODE(about.st_mode)
    if rights_of_others(about):
        advice = f"others may read the file (mode {mode:o}); chmod 600 ends that"
        yield Finding("warning", "permissions", advice)
    else:
        yield Finding("ok", "permissions", f"{mode:o}")
    free = filesystem.free_disk_bytes(path.parent)
    short = free < MIN_FREE_BYTES
    message = f"{free // 2**20} MiB free" + ("; adds are refused" if short else "")
    yield Finding("warning" if short else "ok", "disk", message)
    yield _sqlite_finding()


def _sqlite_finding() -> Finding:
    version = sqlite3.sqlite_version_info
    # https://www.sqlite.org/wal.html#walresetbug
    fixed = {(3, 50): (3, 50, 7), (3, 44): (3, 44, 6)}
    if version >= fixed.get(version[:2], (3, 51, 3)):
        return Finding("ok", "sqlite", sqlite3.sqlite_version)
    return Finding(
        "note",
        "sqlite",
        f"{sqlite3.sqlite_version} has the WAL-reset bug; vecall's gate keeps clear of "
        "it as long as only vecall writes the file",
    )


def _content_findings(path: Path, connection: sqlite3.Connection) -> Iterator[Finding]:
    version = schema.check_file_origin(connection)
    level: Level = "ok" if version == schema.NEWEST else "note"
    later = "" if level == "ok" else "; the next opening brings it to the newest"
    yield Finding(level, "schema", f"{version}{later}")
    if version != schema.NEWEST:
        return
    faults = [fault for (fault,) in connection.execute("PRAGMA integrity_check(20)")]
    is_whole = faults == ["ok"]
    message = "integrity check passed"
    if not is_whole:
        message = (
            f"{len(faults)} faults in its pages, the first: {faults[0]}; "
            "`vecall doctor --recover NEW` saves what can be read to a new file"
        )
    yield Finding("ok" if is_whole else "error", "pages", message)
    schema.check_schema_unaltered(connection)
    yield from _rows_findings(connection)
    sizes = filesystem.SnapshotFolder(path).sizes()
    left = [name for name in sizes if not name.endswith(".vs")]
    message = f"{len(sizes)} of {sum(sizes.values()) // 1024} KiB"
    if left:
        message = f"{len(left)} unfinished files; --repair removes them"
    yield Finding("note" if left else "ok", "snapshots", message)
    coming = migrating_model(connection)
    if coming is not None:
        message = (
            f"a move to {coming} is not finished; `vecall reembed` goes on with it"
        )
        yield Finding("note", "model", message)
    elif unmoved_vectors(connection):
        message = (
            "vectors of a new model are being put in place; the next opening goes on"
        )
        yield Finding("note", "model", message)
    checkpoint = load_checkpoint(connection)
    if checkpoint is not None:
        advice = "; if the wall clock is right, --reset-clock mends that"
        yield clock_finding("clock", checkpoint, advice)


def _rows_findings(connection: sqlite3.Connection) -> Iterator[Finding]:
    held = connection.execute("SELECT rid FROM mem WHERE state = 'quarantined'")
    rids = [rid for (rid,) in held]
    aside = len(rids) - len(partition_reads.load_rows(connection, rids, any_state=True))
    yield checksum_finding(
        "memories", partition_reads.checked_rows(connection), _REMEDY, aside
    )
    aside = connection.execute("SELECT count(*) FROM item WHERE part < 0").fetchone()[0]
    yield checksum_finding("items", check_stored_items(connection), _REMEDY, aside)
    wrong = miscounted_counters(connection)
    message = f"wrong for {wrong}; --repair counts again" if wrong else "right"
    yield Finding("warning" if wrong else "ok", "counts", message)
    yield vectors_finding(
        active_model(connection), *partition_reads.count_lacking_vectors(connection)
    )


def repair_file(path: Path) -> list[str]:
    """Quarantine damaged memories, recount users, tidy up; return the actions taken."""
    # CorruptFileError: pages are damaged; `recover_file` saves the readable memories.
    done = []
    with closing(Database(path, "full")) as database:
        with database.read_transaction() as connection:
            _, damaged, old = partition_reads.checked_rows(connection)
            _, items, old_items = check_stored_items(connection)
        with database.write_transaction() as connection:
            for rid in damaged:
                _quarantine_row(connection, rid)
            if damaged:
                done.append(f"{len(damaged)} damaged memories were set aside")
            for rid in items:  # the other items of the user can be read again
                connection.execute(
                    "UPDATE OR REPLACE item SET part = -(rid >> 32) WHERE rid = ?",
                    (rid,),
                )
            if items:
                done.append(f"{len(items)} damaged items were set aside")
            for table, found in (("mem", old), ("item", old_items)):
                connection.executemany(
                    f"UPDATE {table} SET crc = ? WHERE rid = ?", found
                )
            if old or old_items:
                done.append(f"{len(old) + len(old_items)} checksums were written anew")
            wrong = miscounted_counters(connection)
            if wrong:
                recount_rows(connection)
                done.append(f"{wrong} were counted again")
    unfinished = filesystem.SnapshotFolder(path).clear_snapshots(unfinished_only=True)
    if unfinished:
        done.append(f"{unfinished} unfinished snapshot files were removed")
    if rights_of_others(path.stat()):
        os.chmod(path, 0o600)  # noqa: PTH101
        done.append("the file is now for its owner alone")
    return done


def _quarantine_row(connection: sqlite3.Connection, rid: int) -> None:
    names = partition_names(connection, rid >> 32)
    if names is not None:
        partition = PartitionWriter(connection, *names, create=False)
        partition.change(rid, "d")
        partition.write_change_log()
    connection.execute("UPDATE mem SET state = 'quarantined' WHERE rid = ?", (rid,))


# Facts about a file, read without opening a service.


def file_counts(path: Path) -> dict[str, Any]:
    """Return counts over a whole file, of this or an older schema; change nothing."""
    # ConfigError: the path is not a regular file. IncompatibleFileError: the file is
    # another program's, or has a newer schema. CorruptFileError, StorageError: it
    # cannot be read.
    filesystem.require_plain_file(path)
    with storage_errors, closing(connect_to_read(path)) as connection:
        version = schema.check_file_origin(connection)
        counts: dict[str, Any] = {}
        model = None
        if version:
            counts.update(
                read_totals(connection)
                if version >= _WITH_COUNTERS
                else partition_reads.count_totals(
                    connection,
                    waiting=version >= _WITH_WAITING,
                    items=version >= _WITH_ITEMS,
                )
            )
            model = active_model(connection)
    return {
        "schema": version,
        **counts,
        "file_bytes": file_bytes(path),
        "wal_bytes": file_bytes(path.with_name(path.name + "-wal")),
        "snapshot_bytes": filesystem.SnapshotFolder(path).nbytes(),
        "model": None if model is None else model.name,
    }


def names_in_file(path: Path, user: str, app: str | None) -> UserNames:
    """Return the partitions of a user, as `names_of_user` does; change nothing."""
    filesystem.require_plain_file(path)
    with storage_errors, closing(connect_to_read(path)) as connection:
        if not schema.check_file_origin(connection):
            return UserNames([], [], [])
        return names_of_user(connection, user, app)


_WITH_WAITING = 3  # the first schema with buffered turns
_WITH_ITEMS = 4  # the first schema with items
_WITH_COUNTERS = 7  # the first schema with counters


# Finds where a file still has a name: as a value, as words of a text, or deleted.
#
# A name is not found in a longer name: "user1" is not in "user10". What a file holds is
# read as rows, so that values are told apart. What it no longer holds, but has not
# overwritten, is searched as bytes: free pages and the unused bytes of other pages.

_NUMBER_OF_USER = {"part": ("id", "id"), "vec_next": ("rid", "(rid >> 32)")}
"""The column that says it, and how, in tables without a column `part`."""

ROWS_REMAIN = "rows of the user in table {}"
"""The place of rows with a number of the user's partitions."""

_NAMES_OF_USERS = {("part", "app"), ("part", "user"), ("fig", "name")}
_NAMESPACE = ("item", "ns")
_JOINING = "-.@+"  # between two parts of one name
_UNSPACED = lazy_pattern("[\u0e00-\u0eff\u1000-\u11ff\u1780-\u17ff\u2e80-\uffff]")
_INNER_INDEX, _INNER_TABLE, _INDEX, _TABLE = 2, 5, 10, 13
_HEADS = {_INNER_INDEX: 12, _INNER_TABLE: 12, _INDEX: 8, _TABLE: 8}
"""The bytes of the header of a page of a table or an index, by its type."""


def traces_in_file(
    path: Path, name: str, parts: Sequence[int] = ()
) -> list[tuple[Path, str]]:
    """Return the places that have a name: the file, and the place in it."""
    # Rows with one of the numbers of partitions `parts` are told, too.
    found = [(path, place) for place in _columns_with_name(path, name, parts)]
    found += dict.fromkeys(_unused_places_with_name(path, name.encode()))
    for file in sorted(path.with_name(path.name + ".snap").glob("*")):
        # A snapshot holds numbers and hashes; an equal sequence of bytes is chance.
        if file.is_file() and not (text := file.read_bytes()).startswith(
            filesystem.MAGIC
        ):
            found += [(file, "no snapshot")] * (name.encode() in text)
    return found


def partition_number_in_column(table: str, column: str) -> str | None:
    """Return the number of a user's partition that a column says; None if none."""
    of, number = _NUMBER_OF_USER.get(table, ("part", "part"))
    return number if column == of else None


def forms_in_text(name: str) -> list[str]:
    """Return what a text has in it that has the name: itself, or as JSON."""
    as_json = [json.dumps(name, ensure_ascii=each)[1:-1] for each in (False, True)]
    return list(dict.fromkeys([name, *as_json]))


def _columns_with_name(path: Path, name: str, parts: Sequence[int]) -> Iterator[str]:
    """Yield the columns that have the name, and the tables with rows of partitions."""
    forms = forms_in_text(name)
    with storage_errors, closing(connect_to_read(path)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type='table'")
        for (table,) in tables.fetchall():
            columns = connection.execute(f'PRAGMA table_info("{table}")').fetchall()
            for column in (each[1] for each in columns):
                number = partition_number_in_column(table, column)
                for part in parts if number else ():
                    query = f'SELECT 1 FROM "{table}" WHERE {number} = ? LIMIT 1'
                    if connection.execute(query, (part,)).fetchone():
                        yield ROWS_REMAIN.format(table)
                test = " OR ".join([f'instr("{column}", ?) > 0'] * len(forms))
                rows = connection.execute(
                    f'SELECT "{column}" FROM "{table}" '
                    f"WHERE typeof(\"{column}\") = 'text' AND ({test})",
                    tuple(forms),
                )
                if any(has_name((table, column), text, name) for (text,) in rows):
                    yield f"column {column} of table {table}"


def has_name(where: tuple[str, str], text: str, name: str) -> bool:
    """Whether the text of a column has the name."""
    if where in _NAMES_OF_USERS:
        return text == name
    if where == _NAMESPACE:
        return any(_has_name_as_words(label, name) for label in decode_namespace(text))
    if text[:1] in ("{", "[", '"'):
        try:
            return any(
                _has_name_as_words(each, name)
                for each in _strings_in_json(json.loads(text))
            )
        except (ValueError, RecursionError):
            pass
    return _has_name_as_words(text, name)


def _strings_in_json(value: Any) -> Iterator[str]:
    """Yield the strings of a JSON value, and its keys."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            waiting += [*each, *each.values()]
        elif isinstance(each, list):
            waiting += each


def _has_name_as_words(text: str, name: str) -> bool:
    """Whether a text is the name, or has it as words of its own."""
    at = text.find(name)
    while at >= 0:
        end = at + len(name)
        before, after = text[max(0, at - 2) : at][::-1], text[end : end + 2]
        if not (_continues_longer_name(before) or _continues_longer_name(after)):
            return True
        at = text.find(name, at + 1)
    return False


def _continues_longer_name(beside: str) -> bool:
    """Whether the two characters beside a name make it a part of a longer name."""
    if beside[:1] and beside[0] in _JOINING:
        beside = beside[1:]
    return bool(beside) and (
        beside[0] == "_" or (beside[0].isalnum() and not _UNSPACED.match(beside))
    )


def _unused_places_with_name(path: Path, name: bytes) -> Iterator[tuple[Path, str]]:
    """Yield the places that have the name in bytes that hold no value."""
    with path.open("rb") as file:
        head = file.read(100)
        size = int.from_bytes(head[16:18], "big")
        size = 65_536 if size == 1 else size
        free = set(_free_page_numbers(file, size, int.from_bytes(head[32:36], "big")))
        for number, _, page in _read_numbered_pages(file, 0, 0, size):
            if name in page and number in free:
                yield path, "a free page"
            elif name in page and name in _unused_page_bytes(page, number == 1):
                yield path, "the unused bytes of a page"
    log = path.with_name(path.name + "-wal")
    if file_bytes(log):
        with log.open("rb") as file:
            for _, frame, page in _read_numbered_pages(file, 32, 24, size):
                first = frame[:4] == b"\0\0\0\1"
                if name in page and name in _unused_page_bytes(page, first):
                    yield log, "the unused bytes of a page"


def _read_numbered_pages(
    file: BinaryIO, begin: int, head: int, size: int
) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield the number, the header and the bytes of each page."""
    file.seek(begin)
    number = 0
    while len(block := file.read(head + size)) == head + size:
        number += 1
        yield number, block[:head], block[head:]


def _free_page_numbers(file: BinaryIO, size: int, trunk: int) -> Iterator[int]:
    """Yield the numbers of the free pages."""
    seen: set[int] = set()
    while trunk and trunk not in seen:
        seen.add(trunk)
        file.seek((trunk - 1) * size)
        page = file.read(size)
        following, count = struct.unpack_from(">II", page)
        yield trunk
        yield from struct.unpack_from(f">{min(count, size // 4 - 2)}I", page, 8)
        trunk = following


def _unused_page_bytes(page: bytes, is_first: bool) -> bytes:
    """Return the bytes of a page of a table or an index that are in no cell."""
    # The rows tell what the cells hold, and the pages of long values.
    begin = 100 if is_first else 0
    kind = page[begin]
    if kind not in _HEADS:
        return b""
    (count,) = struct.unpack_from(">H", page, begin + 3)
    end = begin + _HEADS[kind] + 2 * count
    if end > len(page):
        return b""
    cells = struct.unpack_from(f">{count}H", page, begin + _HEADS[kind])
    unused = []
    for cell in sorted(cells):
        unused.append(page[end:cell])
        end = max(end, cell + _bytes_of_page_cell(page, cell, kind))
    return b"\xff".join([*unused, page[end:]])


def _bytes_of_page_cell(page: bytes, at: int, kind: int) -> int:
    """Return the size of a cell, without the pages of a long value."""
    begin = at
    if kind in (_INNER_INDEX, _INNER_TABLE):
        at += 4  # the page below
    payload, at = _read_varint(page, at)
    if kind == _INNER_TABLE:
        return at - begin
    room = len(page) - 35
    if kind == _TABLE:
        _, at = _read_varint(page, at)
    else:
        room = (len(page) - 12) * 64 // 255 - 23
    if payload > room:
        least = (len(page) - 12) * 32 // 255 - 23
        local = least + (payload - least) % (len(page) - 4)
        payload = (local if local <= room else least) + 4
    return at + payload - begin


def _read_varint(page: bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length, and where it ends."""
    number = 0
    for place, byte in enumerate(page[at : at + 9]):
        if place == 8:
            return number << 8 | byte, at + 9
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            return number, at + place + 1
    return number, len(page)
