"""Examines a database without changing it: the server, the schema, rights and rows."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from vecall.clock import ClockCheckpoint
from vecall.errors import ConfigError, VecallError
from vecall.store.maintenance.backups import purge_deleted_rows
from vecall.store.maintenance.doctor import (
    Finding,
    Level,
    checksum_finding,
    clock_finding,
    vectors_finding,
)
from vecall.store.postgres import schema
from vecall.store.postgres.claims import reading_all_users, server_time_reader
from vecall.store.postgres.transaction import PostgresTransaction, prepare_connection
from vecall.store.postgres.url import DatabaseUrl, database_errors, is_behind_pooler
from vecall.store.queries.item_reads import check_stored_items
from vecall.store.queries.listing import miscounted_counters
from vecall.store.queries.partition_reads import checked_rows, count_lacking_vectors
from vecall.store.transaction import active_model, read_fact
from vecall.store.writes.model_migration import migrating_model
from vecall.telemetry import warn_caller

_SKEW_S = 1.0
_OLD_IDS = 1_000_000_000  # transactions; autovacuum acts at 200 million
_LAST_IDS = 1_800_000_000  # the server stops writing at 2.1 billion
_BLOAT = 10  # dead rows for each live one

Connection = psycopg.Connection[tuple[Any, ...]]

_GAPS = """
SELECT count(*) FROM part LEFT JOIN (
  SELECT part, count(*) AS n, min(seq) AS first, max(seq) AS last
  FROM chg GROUP BY part
) AS logged ON logged.part = part.id
WHERE part.seq > 0 AND ((logged.last IS NULL AND part.live > 0)
  OR logged.last <> part.seq OR logged.n <> logged.last - logged.first + 1)
"""
_OTHER_HEADS = """
SELECT count(*) FROM part JOIN chg ON chg.part = part.id AND chg.seq = part.seq
WHERE chg.head <> part.head
"""
_ORPHANS = """
SELECT count(*) FROM (
  SELECT part FROM mem UNION SELECT part FROM chg UNION SELECT part FROM tomb
  UNION SELECT part FROM hist UNION SELECT part FROM trig UNION SELECT part FROM told
) AS used WHERE part NOT IN (SELECT id FROM part)
"""
_MISNUMBERED = """
SELECT count(*) FROM (
  SELECT part, rid FROM mem UNION ALL SELECT part, rid FROM item
  UNION ALL SELECT part, rid FROM chg
) AS used WHERE rid >> 32 <> part
"""
_SETTINGS = "SELECT name, setting FROM pg_settings WHERE name = ANY (%s)"
_NAMES = (
    "archive_mode",
    "autovacuum",
    "data_checksums",
    "fsync",
    "full_page_writes",
    "synchronous_commit",
    "synchronous_standby_names",
)


def examine_url(url: DatabaseUrl) -> list[Finding]:
    """Check a database with the rights of its URL; change nothing."""
    with (
        database_errors(),
        psycopg.connect(url.conninfo, autocommit=True, connect_timeout=10) as opened,
    ):
        prepare_connection(opened)
        findings = list(_server_findings(opened, url))
        try:
            schema.require_role_member(opened)
            number = schema.require_schema(opened, url.schema)
        except VecallError as error:
            message = str(error).removeprefix("path: ")
            return [*findings, Finding("error", "schema", message)]
        findings.append(_postgres_schema_finding(number))
        findings += _rights_findings(opened, url)
        findings += _catalog_findings(opened, url)
    try:
        with reading_all_users(url) as reading:
            findings += _contents_findings(reading, url)
    except VecallError as error:
        message = f"not examined: {error}"
        findings.append(Finding("error", "contents", message))
    return findings


def _fault_or_ok_finding(
    about: str, fault: str, right: str, level: Level = "warning"
) -> Finding:
    """Return a fault as a finding; without one, what is right."""
    return Finding(level, about, fault) if fault else Finding("ok", about, right)


def _server_findings(connection: Connection, url: DatabaseUrl) -> Iterator[Finding]:
    try:
        schema.require_postgres_version(connection)
        number = connection.info.server_version
        yield Finding(
            "ok", "server", f"PostgreSQL {number // 10_000}.{number % 10_000}"
        )
    except ConfigError as error:
        yield Finding("error", "server", str(error).removeprefix("path: "))
    yield _encryption_finding(connection, url)
    yield _postgres_pooler_finding(connection)
    settings: dict[str, str] = dict(
        connection.execute(_SETTINGS, (list(_NAMES),)).fetchall()
    )
    for name, about in (
        ("fsync", "a crash of the server may destroy data"),
        ("full_page_writes", "a power cut may destroy data"),
    ):
        fault = "" if settings[name] == "on" else f"{settings[name]}; {about}"
        yield _fault_or_ok_finding(name, fault, "on", "error")
    fault = "pages have no checksums; `pg_checksums --enable` adds them"
    fault = "" if settings["data_checksums"] == "on" else fault
    yield _fault_or_ok_finding("checksums", fault, "pages have checksums")
    yield _replication_finding(connection, settings)
    if settings["archive_mode"] == "off":
        message = (
            "archive_mode is off: the server cannot be restored to a point in time, "
            "unless its provider stores backups"
        )
        yield Finding("note", "backups", message)
    yield _postgres_clock_finding(connection)
    yield _vacuum_finding(connection, settings)


def _encryption_finding(connection: Connection, url: DatabaseUrl) -> Finding:
    found = connection.execute(
        "SELECT ssl, version FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
    ).fetchone()
    encrypted = found is not None and found[0]
    how = found[1] if found is not None and encrypted else "not encrypted"
    if url.is_checked:
        return Finding("ok", "connection", f"local, or verified ({how})")
    message = f"{how}, and the server is not verified; use sslmode=verify-full"
    return Finding("warning", "connection", message)


def _postgres_pooler_finding(connection: Connection) -> Finding:
    if not is_behind_pooler(connection):
        return Finding("ok", "pooler", "none")
    return Finding(
        "note",
        "pooler",
        "one is between; statements are prepared only if it is pgbouncer 1.21 or later "
        "with max_prepared_statements, or another one that renames them",
    )


def _replication_finding(connection: Connection, settings: dict[str, str]) -> Finding:
    commit, standby = (
        settings["synchronous_commit"],
        settings["synchronous_standby_names"],
    )
    about = "replication"
    found = connection.execute("SELECT pg_is_in_recovery()").fetchone()
    if found is not None and found[0]:
        return Finding("warning", about, "the server is a replica: writes are refused")
    if commit == "off":
        message = (
            "synchronous_commit is off: a crash of the server loses the last commits; "
            'durability="full" needs on'
        )
        return Finding("warning", about, message)
    if not standby or commit == "local":
        message = (
            "no synchronous standby: a failover to a replica may lose acknowledged "
            "writes, unless the storage of the server is replicated"
        )
        return Finding("warning", about, message)
    return Finding("ok", about, "commits wait for a synchronous standby")


def _postgres_clock_finding(connection: Connection) -> Finding:
    before, now, after = time.time(), server_time_reader(connection)(), time.time()
    ahead = now - (before + after) / 2
    if abs(ahead) <= _SKEW_S + (after - before):
        return Finding("ok", "clock", "as this machine's")
    side = "ahead of" if ahead > 0 else "behind"
    message = f"the server's is {abs(ahead):.1f} s {side} this machine's; use NTP"
    return Finding("warning", "clock", message)


def _vacuum_finding(connection: Connection, settings: dict[str, str]) -> Finding:
    found = connection.execute(
        "SELECT age(datfrozenxid) FROM pg_database WHERE datname = current_database()"
    ).fetchone()
    age = 0 if found is None else found[0]
    if age > _OLD_IDS:
        message = (
            f"the oldest transaction is {age:,} transactions old, and the server stops "
            "writing at 2.1 billion; VACUUM the database"
        )
        return Finding("error" if age > _LAST_IDS else "warning", "vacuum", message)
    if settings["autovacuum"] != "on":
        return Finding("warning", "vacuum", "autovacuum is off; tables only grow")
    return Finding("ok", "vacuum", "autovacuum is on")


def _postgres_schema_finding(number: int) -> Finding:
    if number == schema.NEWEST:
        return Finding("ok", "schema", "the newest")
    message = f"{number} of {schema.NEWEST}; run `vecall pg migrate URL` when it suits"
    return Finding("note", "schema", message)


def _rights_findings(connection: Connection, url: DatabaseUrl) -> Iterator[Finding]:
    for about, faults, well in (
        (
            "role",
            schema.role_faults(connection, url.schema),
            "limited to one user at a time",
        ),
        ("roles", schema.group_faults(connection), "none logs in"),
        ("policies", schema.table_faults(connection, url.schema), "hold users apart"),
    ):
        for fault in faults:
            yield Finding("error", about, fault)
        if not faults:
            yield Finding("ok", about, well)


def _catalog_findings(connection: Connection, url: DatabaseUrl) -> Iterator[Finding]:
    with connection.transaction():
        connection.execute("SET LOCAL ROLE vecall_app")
        stored = schema.stored_schema_fact(connection, url.schema, "catalog")
    if stored is None:
        yield Finding("warning", "tables", "no record of their definitions")
        return
    now, then = schema.catalog_digests(connection, url.schema), json.loads(stored)
    changed = sorted(
        name for name in {**now, **then} if now.get(name) != then.get(name)
    )
    fault = f"not as the last migration made them: {', '.join(changed)}"
    fault = fault if changed else ""
    yield _fault_or_ok_finding("tables", fault, "as the last migration made them")


def _contents_findings(
    reading: PostgresTransaction, url: DatabaseUrl
) -> Iterator[Finding]:
    backup = "restore a backup"
    yield checksum_finding("memories", checked_rows(reading), backup)
    yield checksum_finding("items", check_stored_items(reading), backup)
    wrong = miscounted_counters(reading)
    fault = f"wrong for {wrong}; {backup}" if wrong else ""
    yield _fault_or_ok_finding("counts", fault, "right", "error")
    for about, query, what, right in (
        ("changes", _GAPS, "users have gaps in the log of changes", "no gaps"),
        ("heads", _OTHER_HEADS, "users have a head that is not logged", "logged"),
        ("numbers", _MISNUMBERED, "rows have another user's number", "right"),
        ("orphans", _ORPHANS, "users are missing that have rows", "none"),
    ):
        ((number,),) = reading.execute(query)
        fault = f"{number} {what}; {backup}" if number else ""
        yield _fault_or_ok_finding(about, fault, right, "error")
    yield vectors_finding(active_model(reading), *count_lacking_vectors(reading))
    yield from _bloat_findings(reading, url)
    coming = migrating_model(reading)
    if coming is not None:
        message = f"a move to {coming} is not finished; `vecall reembed` resumes it"
        yield Finding("note", "model", message)
    checkpoint = ClockCheckpoint.parse_checkpoint(read_fact(reading, "clock"))
    if checkpoint is not None:
        yield clock_finding("expiry", checkpoint)


def _bloat_findings(
    reading: PostgresTransaction, url: DatabaseUrl
) -> Iterator[Finding]:
    found = reading.execute(
        "SELECT n_live_tup, n_dead_tup FROM pg_stat_user_tables "
        "WHERE schemaname = ? AND relname = 'part'",
        (url.schema,),
    ).fetchone()
    if found is None:
        return
    live, dead = found
    fault = ""
    if dead > 1_000 and dead > _BLOAT * live:
        fault = (
            f"the table part has {dead:,} dead rows for {live:,} live ones; it should "
            "be vacuumed more often, and no transaction should stay open for hours"
        )
    yield _fault_or_ok_finding("bloat", fault, f"{dead:,} dead rows of {live:,} users")


# Maintenance of a database, as far as it is vecall's and not the server's.

_REMEDY = (
    "deleted rows stay in the files of the server until autovacuum, or VACUUM by an "
    "administrator, removes them"
)
_Begin = Callable[[], AbstractContextManager[PostgresTransaction]]
_SIZES = """
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0),
  (SELECT coalesce(sum(octet_length(data)), 0) FROM snap)
FROM pg_class AS c WHERE c.relnamespace = CAST(current_schema() AS regnamespace)
AND c.relkind = 'r' AND c.relname <> 'snap'
"""


@dataclass(eq=False)
class PostgresMaintenance:
    """Implements `Maintenance`."""

    _reading: _Begin  # begins a transaction that reads across users
    _altering: _Begin  # begins one that writes across users
    _vacuum: Callable[[], str | None]  # returns space; says why if it could not

    def sizes(self) -> dict[str, int]:
        """Return the sizes of vecall's tables and of the snapshots, in bytes."""
        with database_errors(), self._reading() as transaction:
            row = transaction.execute(_SIZES).fetchone()
        assert row is not None
        return {"file_bytes": row[0], "wal_bytes": 0, "snapshot_bytes": row[1]}

    def has_room(self, size: int) -> bool:
        """Return True: room is the server's matter."""
        del size
        return True

    def purge(self) -> int:
        """Erase deleted data from the tables; return the bytes freed."""
        # WAL, replicas and backups keep them for their own retention. If the tables
        # were not vacuumed, the call warns and says why.
        before = sum(self.sizes().values())
        with database_errors(), self._altering() as transaction:
            transaction.execute("DELETE FROM snap")
            purge_deleted_rows(transaction, transaction.expiry_clock.wall())
        lacking = self._vacuum()
        if lacking is not None:
            warn_caller(f"purge: the tables were not vacuumed: {lacking}; {_REMEDY}")
        return max(0, before - sum(self.sizes().values()))

    def backup(self, target: Path) -> None:
        """Refuse: a database has its own means."""
        del target
        msg = "backup: a database is backed up by pg_dump, or by PITR of its server"
        raise ConfigError(msg)

    def require_unrelated(self, path: Path) -> None:
        """Accept every path: a database has no files of its own here."""
        del path
