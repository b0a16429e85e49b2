"""Examines a file without changing it, and repairs damage.

A repair deletes nothing except snapshots, which are a cache. It quarantines damaged
memories, so that the user's other memories can be searched again.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from vecall.clock import DAY_S, Clock, ExpiryClock
from vecall.errors import ConfigError, VecallError
from vecall.store.file import schema
from vecall.store.file.clock_state import load_checkpoint
from vecall.store.file.connections import connect_to_read
from vecall.store.file.database import MIN_FREE_BYTES, Database
from vecall.store.file.filesystem import (
    filesystem_of,
    free_bytes,
    require_local,
    require_plain,
)
from vecall.store.file.snapshot_folder import SnapshotFolder
from vecall.store.file.sqlite_errors import storage_errors
from vecall.store.findings import Finding, Level, old_checksums, vectors_finding
from vecall.store.models import active_model
from vecall.store.partition_lookup import partition_names
from vecall.store.reads.item_reads import checked_items
from vecall.store.reads.partition_reads import (
    checked_rows,
    lacking_vectors,
    load_rows,
)
from vecall.store.writes.model_migration import migrating_model, unmoved_vectors
from vecall.store.writes.partition_writer import PartitionWriter

_LONGEST_S = 3_600.0  # timeout of an examination; many GB take minutes
_STEPS_AT_ONCE = 100_000  # steps of SQLite's virtual machine: a few milliseconds


def examine(path: Path) -> list[Finding]:
    """Check a file, its folder and its snapshots; change nothing.

    Raises:
        ConfigError: The file does not exist.
    """
    if not path.exists():
        msg = f"{path}: there is no such file"
        raise ConfigError(msg)
    findings = list(_surroundings(path))
    try:
        with storage_errors(), closing(connect_to_read(path)) as connection:
            connection.execute("PRAGMA query_only = ON")
            end = time.monotonic() + _LONGEST_S
            connection.set_progress_handler(
                lambda: time.monotonic() > end, _STEPS_AT_ONCE
            )
            findings += _contents(path, connection)
    except VecallError as error:
        findings.append(Finding("error", "file", str(error)))
    return findings


def _surroundings(path: Path) -> Iterator[Finding]:
    for check in (require_plain, lambda file: require_local(file.parent)):
        try:
            check(path)
        except VecallError as error:
            yield Finding("error", "path", str(error))
    kind = filesystem_of(path.parent) or "unknown"
    yield Finding("ok", "file system", kind)
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        advice = f"others may read the file (mode {mode:o}); chmod 600 ends that"
        yield Finding("warning", "permissions", advice)
    else:
        yield Finding("ok", "permissions", f"{mode:o}")
    free = free_bytes(path.parent)
    short = free < MIN_FREE_BYTES
    message = f"{free // 2**20} MiB free" + ("; adds are refused" if short else "")
    yield Finding("warning" if short else "ok", "disk", message)
    yield _sqlite()


def _sqlite() -> Finding:
    version = sqlite3.sqlite_version_info
    # https://www.sqlite.org/wal.html#walresetbug
    fixed = version >= (3, 51, 3) or version[:2] in ((3, 50), (3, 44))
    if version[:2] == (3, 50):
        fixed = version >= (3, 50, 7)
    elif version[:2] == (3, 44):
        fixed = version >= (3, 44, 6)
    if fixed:
        return Finding("ok", "sqlite", sqlite3.sqlite_version)
    return Finding(
        "note",
        "sqlite",
        f"{sqlite3.sqlite_version} has the WAL-reset bug; vecall's gate keeps clear of "
        "it as long as only vecall writes the file",
    )


def _contents(path: Path, connection: sqlite3.Connection) -> Iterator[Finding]:
    version = schema.check_origin(connection)
    level: Level = "ok" if version == schema.NEWEST else "note"
    later = "" if level == "ok" else "; the next opening brings it to the newest"
    yield Finding(level, "schema", f"{version}{later}")
    if version != schema.NEWEST:
        return
    faults = [fault for (fault,) in connection.execute("PRAGMA integrity_check(20)")]
    if faults != ["ok"]:
        advice = (
            f"{len(faults)} faults in its pages, the first: {faults[0]}; "
            "`vecall doctor --recover NEW` saves what can be read to a new file"
        )
        yield Finding("error", "pages", advice)
    else:
        yield Finding("ok", "pages", "integrity check passed")
    schema.check_whole(connection)
    yield _rows(connection)
    yield _items(connection)
    yield _counts(connection)
    yield vectors_finding(active_model(connection), *lacking_vectors(connection))
    yield from _snapshots(path)
    yield from _unfinished(connection)
    yield from _clock(connection)


def _rows(connection: sqlite3.Connection) -> Finding:
    checked, damaged, old = checked_rows(connection)
    held = connection.execute("SELECT rid FROM mem WHERE state = 'quarantined'")
    rids = [rid for (rid,) in held]
    aside = len(rids) - len(load_rows(connection, rids, any_state=True))
    if damaged:
        message = (
            f"{len(damaged)} of {checked} fail their checksum; --repair sets them aside"
        )
        return Finding("error", "memories", message)
    message = f"{checked} pass their checksum{old_checksums(len(old))}"
    if aside:
        return Finding(
            "warning", "memories", f"{message}, {aside} damaged are set aside"
        )
    return Finding("note" if old else "ok", "memories", message)


def _items(connection: sqlite3.Connection) -> Finding:
    checked, damaged, old = checked_items(connection)
    if damaged:
        message = (
            f"{len(damaged)} of {checked} fail their checksum; --repair sets them aside"
        )
        return Finding("error", "items", message)
    message = f"{checked} pass their checksum{old_checksums(len(old))}"
    aside = connection.execute("SELECT count(*) FROM item WHERE part < 0").fetchone()[0]
    if aside:
        return Finding("warning", "items", f"{message}, {aside} damaged are set aside")
    return Finding("note" if old else "ok", "items", message)


_MISCOUNTED = """
SELECT count(*) FROM part LEFT JOIN (
  SELECT part, count(*) AS live, sum(length(CAST(text AS BLOB))) AS bytes
  FROM mem WHERE state = 'live' GROUP BY part
) AS real ON real.part = part.id
WHERE part.live <> coalesce(real.live, 0) OR part.bytes <> coalesce(real.bytes, 0)
"""


def _counts(connection: sqlite3.Connection) -> Finding:
    wrong = connection.execute(_MISCOUNTED).fetchone()[0]
    if wrong:
        message = f"{wrong} users have a wrong count; --repair counts them again"
        return Finding("warning", "counts", message)
    return Finding("ok", "counts", "right")


def _snapshots(path: Path) -> Iterator[Finding]:
    folder = SnapshotFolder(path)
    sizes = folder.sizes()
    left = [name for name in sizes if not name.endswith(".vs")]
    if left:
        message = f"{len(left)} unfinished files; --repair removes them"
        yield Finding("note", "snapshots", message)
    else:
        message = f"{len(sizes)} of {sum(sizes.values()) // 1024} KiB"
        yield Finding("ok", "snapshots", message)


def _unfinished(connection: sqlite3.Connection) -> Iterator[Finding]:
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


def _clock(connection: sqlite3.Connection) -> Iterator[Finding]:
    checkpoint = load_checkpoint(connection)
    if checkpoint is None:
        return
    clock = Clock()
    ahead = ExpiryClock(clock, checkpoint).now() - clock.wall()
    if abs(ahead) <= DAY_S:
        yield Finding("ok", "clock", "as the wall clock says")
        return
    where = "ahead of" if ahead > 0 else "behind"
    message = (
        f"the time by which memories expire is {abs(ahead) / DAY_S:.1f} days {where} "
        "the wall clock; if the wall clock is right, --reset-clock mends that"
    )
    yield Finding("warning", "clock", message)


def repair(path: Path) -> list[str]:
    """Quarantine damaged memories, recount users, tidy up; return the actions taken.

    Raises:
        CorruptFileError: Pages are damaged; `recover` saves the readable memories.
    """
    done = []
    database = Database(path, "full")
    try:
        with database.read_transaction() as connection:
            _, damaged, old = checked_rows(connection)
            _, items, old_items = checked_items(connection)
        with database.write_transaction() as connection:
            for rid in damaged:
                _set_aside(connection, rid)
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
            wrong = connection.execute(_MISCOUNTED).fetchone()[0]
            if wrong:
                _count_again(connection)
                done.append(f"{wrong} users were counted again")
    finally:
        database.close()
    unfinished = SnapshotFolder(path).clear(unfinished_only=True)
    if unfinished:
        done.append(f"{unfinished} unfinished snapshot files were removed")
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        os.chmod(path, 0o600)  # noqa: PTH101
        done.append("the file is now for its owner alone")
    return done


def _set_aside(connection: sqlite3.Connection, rid: int) -> None:
    names = partition_names(connection, rid >> 32)
    if names is not None:
        partition = PartitionWriter(connection, *names, create=False)
        partition.change(rid, "d")  # the recount below corrects the counts
        partition.finish()
    connection.execute("UPDATE mem SET state = 'quarantined' WHERE rid = ?", (rid,))


def _count_again(connection: sqlite3.Connection) -> None:
    connection.execute(
        "UPDATE part SET live = (SELECT count(*) FROM mem WHERE part = part.id AND "
        "state = 'live'), bytes = (SELECT coalesce(sum(length(CAST(text AS BLOB))), 0) "
        "FROM mem WHERE part = part.id AND state = 'live')"
    )
