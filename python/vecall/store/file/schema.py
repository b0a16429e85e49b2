"""The numbered migrations from an empty file to the newest schema.

`PRAGMA user_version` is the schema's number. Each migration takes a file from the
number before it, in its own transaction. One that was released is never edited.
docs/reference/file-format.md says what every column means.
"""

from __future__ import annotations

import secrets
import sqlite3
import time
from collections.abc import Iterable
from contextlib import closing
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from vecall.errors import CorruptFileError, IncompatibleFileError
from vecall.lexical import ANALYSIS_VERSION
from vecall.store.rows import names_checksum

APPLICATION_ID = 0x7663616C
"""`PRAGMA application_id` of every vecall file: "vcal" in ASCII."""

# REMAKE TABLE makes a table again with another text, and keeps its rows.
_MIGRATIONS = {
    1: """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE model (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, dim INTEGER NOT NULL, fingerprint BLOB,
  state TEXT NOT NULL CHECK (state IN ('active', 'migrating', 'retired'))
);
CREATE TABLE part (
  id INTEGER PRIMARY KEY, app TEXT NOT NULL, user TEXT NOT NULL,
  seq INTEGER NOT NULL DEFAULT 0, live INTEGER NOT NULL DEFAULT 0,
  bytes INTEGER NOT NULL DEFAULT 0, created_at REAL NOT NULL, UNIQUE (app, user)
);
CREATE TABLE mem (
  rid INTEGER PRIMARY KEY, part INTEGER NOT NULL, id TEXT NOT NULL,
  seq INTEGER NOT NULL, session TEXT, event TEXT, pos INTEGER, ts REAL,
  created_at REAL NOT NULL, updated_at REAL NOT NULL, expires_at REAL,
  valid_until REAL, author TEXT, kind TEXT, source TEXT, trust TEXT,
  text TEXT NOT NULL, content TEXT, meta TEXT, importance_prior REAL, last_used REAL,
  uses INTEGER, state TEXT NOT NULL DEFAULT 'live'
    CHECK (state IN ('live', 'archived', 'quarantined')),
  supersedes TEXT, hash BLOB NOT NULL, vec BLOB, model INTEGER, crc INTEGER NOT NULL,
  UNIQUE (part, id)
);
CREATE INDEX mem_session ON mem (part, session, pos);
CREATE TABLE vec_next (
  rid INTEGER PRIMARY KEY, model INTEGER NOT NULL, vec BLOB NOT NULL
);
CREATE TABLE chg (
  part INTEGER NOT NULL, seq INTEGER NOT NULL, rid INTEGER NOT NULL, op TEXT NOT NULL,
  PRIMARY KEY (part, seq)
) WITHOUT ROWID;
CREATE TABLE tomb (
  part INTEGER NOT NULL, id TEXT NOT NULL, at REAL NOT NULL, PRIMARY KEY (part, id)
) WITHOUT ROWID;
CREATE TABLE hist (
  part INTEGER NOT NULL, id TEXT NOT NULL, seq INTEGER NOT NULL, at REAL NOT NULL,
  op TEXT NOT NULL, old TEXT, PRIMARY KEY (part, id, seq)
) WITHOUT ROWID;
CREATE TABLE idem (
  part INTEGER NOT NULL, key TEXT NOT NULL, at REAL NOT NULL, PRIMARY KEY (part, key)
) WITHOUT ROWID;
CREATE TABLE trig (
  part INTEGER NOT NULL, session TEXT NOT NULL, kind TEXT NOT NULL, due_at REAL,
  state TEXT, PRIMARY KEY (part, session, kind)
) WITHOUT ROWID;
CREATE TABLE embed_cache (
  model INTEGER NOT NULL, hash BLOB NOT NULL, vec BLOB NOT NULL,
  PRIMARY KEY (model, hash)
) WITHOUT ROWID;
""",
    2: """
ALTER TABLE part ADD COLUMN snap BLOB;
ALTER TABLE part ADD COLUMN crc INTEGER;
ALTER TABLE idem ADD COLUMN hash BLOB;
ALTER TABLE idem ADD COLUMN ids TEXT;
ALTER TABLE vec_next ADD COLUMN crc INTEGER;
CREATE INDEX vec_todo ON vec_next (rid) WHERE vec = x'';
CREATE INDEX mem_bare ON mem (rid) WHERE vec IS NULL;
CREATE INDEX part_user ON part (user, app);
""",
    # The schema fits into the file's first page: damage to any page with a part of the
    # schema would make the whole file unreadable.
    3: """
ALTER TABLE tomb ADD COLUMN why TEXT;
ALTER TABLE hist ADD COLUMN expires_at REAL;
CREATE TABLE replaced (
  part INTEGER NOT NULL, id TEXT NOT NULL, by TEXT, why TEXT NOT NULL, at REAL NOT NULL,
  PRIMARY KEY (part, id)
) WITHOUT ROWID;
CREATE TABLE told (
  part INTEGER NOT NULL, session TEXT NOT NULL, id TEXT NOT NULL, at REAL NOT NULL,
  pos INTEGER, event TEXT, PRIMARY KEY (part, session, id)
) WITHOUT ROWID;
CREATE INDEX mem_expires ON mem (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX mem_valid ON mem (valid_until) WHERE valid_until IS NOT NULL;
CREATE INDEX hist_expires ON hist (expires_at) WHERE expires_at IS NOT NULL;
""",
    # Indexes for the rows of one user begin with the partition, so that others' rows
    # cost nothing. SQLite stores this text literally, so it has no superfluous spaces,
    # and small tables get a shorter text to make room on the first page. `embed_cache`
    # is not needed: `mem_hash` finds the vector of a text in the rows.
    4: """
DROP TABLE embed_cache;
DROP INDEX mem_valid;
CREATE INDEX mem_valid ON mem(valid_until)WHERE state='live'AND valid_until NOTNULL;
CREATE INDEX mem_lapse ON mem(part,valid_until)WHERE state='live'AND
valid_until NOTNULL;
CREATE INDEX mem_ends ON mem(part,expires_at)WHERE expires_at NOTNULL;
CREATE INDEX mem_old ON mem(part,coalesce(ts,created_at))WHERE state='live';
CREATE INDEX idem_at ON idem(part,at);
CREATE INDEX mem_hash ON mem(part,hash);
DROP INDEX mem_bare;
DROP INDEX mem_expires;
DROP INDEX hist_expires;
CREATE INDEX mem_bare ON mem(rid)WHERE vec ISNULL;
CREATE INDEX mem_expires ON mem(expires_at)WHERE expires_at NOTNULL;
CREATE INDEX hist_expires ON hist(expires_at)WHERE expires_at NOTNULL;
REMAKE TABLE model(id INTEGER PRIMARY KEY,name TEXT,dim INTEGER,fingerprint BLOB,
state TEXT);
REMAKE TABLE trig(part INTEGER,session TEXT,kind TEXT,due_at REAL,state TEXT,
PRIMARY KEY(part,session,kind))WITHOUT ROWID;
ALTER TABLE part ADD COLUMN item;
CREATE TABLE item(rid INTEGER PRIMARY KEY,part,ns,key,value,created_at,updated_at,ttl,
expires_at,vecs,crc,UNIQUE(part,ns,key));
CREATE INDEX item_ends ON item(expires_at)WHERE expires_at NOTNULL;
""",
    # Random bits of a user's newest change, and of the last change of a transaction: an
    # older copy of the file that takes its place is no state that caches know. Two
    # indexes get a shorter text.
    5: """
DROP INDEX vec_todo;
DROP INDEX part_user;
CREATE INDEX vec_todo ON vec_next(rid)WHERE vec=x'';
CREATE INDEX part_user ON part(user,app);
ALTER TABLE part ADD COLUMN head;
ALTER TABLE chg ADD COLUMN head;
UPDATE part SET head = (random() & 0x7fffffffffffffff) | 1;
UPDATE chg SET head = (SELECT head FROM part WHERE id = chg.part)
WHERE (part, seq) IN (SELECT id, seq FROM part);
""",
    6: "",  # older versions know no pieces
    # What is counted is in `part` and `fig`. Tables get a shorter text.
    7: """
REMAKE TABLE meta(key TEXT PRIMARY KEY,value TEXT)WITHOUT ROWID;
REMAKE TABLE chg(part INTEGER,seq INTEGER,rid INTEGER,op TEXT,head,
PRIMARY KEY(part,seq))WITHOUT ROWID;
REMAKE TABLE tomb(part INTEGER,id TEXT,at REAL,why TEXT,
PRIMARY KEY(part,id))WITHOUT ROWID;
REMAKE TABLE idem(part INTEGER,key TEXT,at REAL,hash BLOB,ids TEXT,
PRIMARY KEY(part,key))WITHOUT ROWID;
CREATE INDEX idem_at ON idem(part,at);
REMAKE TABLE told(part INTEGER,session TEXT,id TEXT,at REAL,pos INTEGER,event TEXT,
PRIMARY KEY(part,session,id))WITHOUT ROWID;
REMAKE TABLE hist(part INTEGER,id TEXT,seq INTEGER,at REAL,op TEXT,old TEXT,
expires_at REAL,PRIMARY KEY(part,id,seq))WITHOUT ROWID;
CREATE INDEX hist_expires ON hist(expires_at)WHERE expires_at NOTNULL;
REMAKE TABLE replaced(part INTEGER,id TEXT,by TEXT,why TEXT,at REAL,
PRIMARY KEY(part,id))WITHOUT ROWID;
CREATE TABLE fig(part,name,n,live,bytes,lo,lo_x,hi,hi_x,parts,users,aged,held,bare,ses,
docs,gone,PRIMARY KEY(part,name))WITHOUT ROWID;
INSERT INTO fig(part,name,n,live,bytes,lo,lo_x,hi,hi_x)
SELECT part,session,count(*),sum(state='live'),
sum((state='live')*length(CAST(text AS BLOB))),min(coalesce(ts,created_at)),9e99,
max(coalesce(ts,created_at)),-9e99 FROM mem WHERE session NOTNULL GROUP BY 1,2;
CREATE TEMP TABLE old AS SELECT * FROM part;
DROP TABLE part;
CREATE TABLE part(id INTEGER PRIMARY KEY,app TEXT,user TEXT,seq INTEGER DEFAULT 0,
live INTEGER DEFAULT 0,bytes INTEGER DEFAULT 0,created_at REAL,snap,crc,item,head,
n,aged,held,bare,ses,docs,gone,lo,lo_x,hi,hi_x,UNIQUE(app,user));
INSERT INTO part SELECT old.*,coalesce(m.n,0),coalesce(aged,0),coalesce(held,0),
coalesce(bare,0),coalesce(ses,0),coalesce(docs,0),coalesce(gone,0),coalesce(lo,9e99),
9e99,coalesce(hi,-9e99),-9e99 FROM old LEFT JOIN(SELECT part,count(*)AS n,
sum(state='archived')AS aged,sum(state='quarantined')AS held,sum(vec ISNULL)AS bare,
min(created_at)AS lo,max(updated_at)AS hi FROM mem GROUP BY 1)AS m ON m.part=old.id
LEFT JOIN(SELECT part,count(*)AS ses FROM fig GROUP BY 1)AS s ON s.part=old.id
LEFT JOIN(SELECT part,count(*)AS docs FROM item WHERE ns<>char(31)GROUP BY 1)AS i
ON i.part=old.id LEFT JOIN(SELECT part,count(*)AS gone FROM tomb
WHERE NOT(id>=char(0,33)AND id<char(0,34))GROUP BY 1)AS t ON t.part=old.id;
DROP TABLE old;
CREATE INDEX part_user ON part(user,app);
CREATE INDEX part_age ON part(app,created_at);
CREATE INDEX told_wait ON told(part)WHERE event NOTNULL;
INSERT INTO fig SELECT 0,
CASE WHEN substr(user,1,1)=char(1)THEN user||app ELSE app END,
sum(n),sum(live),sum(bytes),NULL,NULL,max(hi),-9e99,count(*),
sum(n>0),sum(aged),sum(held),sum(bare),sum(ses),sum(docs),sum(gone)FROM part
GROUP BY 2;
INSERT INTO meta VALUES('counts','1');
""",
}

NEWEST = len(_MIGRATIONS)  # the schema that this version of vecall writes


def _run_migration(connection: sqlite3.Connection, version: int) -> None:
    """Bring a file to a schema from the one before it."""
    for statement in filter(str.strip, _MIGRATIONS[version].split(";\n")):
        if statement.lstrip().startswith("REMAKE"):
            _remake_table(connection, statement)
        else:
            connection.execute(statement)
    if version == 1:
        _write_file_facts(connection, 1)
    if version == 2:
        names = connection.execute("SELECT id, app, user FROM part").fetchall()
        connection.executemany(
            "UPDATE part SET crc = ? WHERE id = ?",
            [(names_checksum(*row), row[0]) for row in names],
        )
    connection.execute(f"UPDATE meta SET value = '{version}' WHERE key = 'schema'")


def _remake_table(connection: sqlite3.Connection, statement: str) -> None:
    """Make a table again with another text, and put its rows back."""
    name = statement.partition("(")[0].split()[-1]
    for each in (
        f"CREATE TEMP TABLE old AS SELECT * FROM {name}",
        f"DROP TABLE {name}",
        statement.replace("REMAKE", "CREATE", 1),
        f"INSERT INTO {name} SELECT * FROM old",
        "DROP TABLE old",
    ):
        connection.execute(each)


def _write_file_facts(connection: sqlite3.Connection, version: int) -> None:
    """Write what a new file says of itself."""
    facts = {
        "uuid": secrets.token_hex(16),
        "schema": str(version),
        "created_at": repr(time.time()),
        "analysis": ANALYSIS_VERSION,
    }
    facts_sql = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
    connection.executemany(facts_sql, facts.items())
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _create_newest_schema(connection: sqlite3.Connection) -> None:
    """Make the tables and indexes that the migrations lead to, in one step each."""
    for *_, sql in _schema_of_migrations(NEWEST):
        if sql is not None:
            connection.execute(sql)
    _write_file_facts(connection, NEWEST)
    connection.execute("INSERT INTO meta VALUES ('counts', '1')")


def check_file_origin(connection: sqlite3.Connection) -> int:
    """Return the file's schema number, 0 for an empty file; change nothing."""
    # No code of the file is executed: a view or a trigger could run for ever.
    # IncompatibleFileError: the file is another program's, or has a newer schema.
    # CorruptFileError: its tables and indexes differ from those of the schema number.
    # In one transaction, because another process may be creating the file.
    own = not connection.in_transaction
    if own:
        connection.execute("BEGIN")
    try:
        version, origin, objects = connection.execute(
            "SELECT user_version, application_id, (SELECT count(*) FROM sqlite_master) "
            "FROM pragma_user_version, pragma_application_id"
        ).fetchone()
        if origin != APPLICATION_ID and (version != 0 or objects != 0):
            msg = "path: this SQLite file belongs to another program"
            raise IncompatibleFileError(msg)
        if not 0 <= version <= NEWEST:
            raise IncompatibleFileError(
                f"path: the file has schema {version}, this version of vecall reads up "
                f"to schema {NEWEST}; upgrade vecall"
            )
        _require_known_schema(connection, int(version))
    finally:
        if own and connection.in_transaction:
            connection.execute("ROLLBACK")
    return int(version)


def require_plain_tables(connection: sqlite3.Connection) -> None:
    """Check that reading the file runs no code from it."""
    found = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    for kind, name, sql in found:
        made = " ".join(str(sql or "").upper().split())
        bad = kind not in ("table", "index") or made.startswith("CREATE VIRTUAL")
        if kind == "table" and not bad:
            columns = connection.execute(
                "SELECT 1 FROM pragma_table_xinfo(?) WHERE hidden <> 0", (name,)
            )
            bad = columns.fetchone() is not None
        if bad:
            raise CorruptFileError(
                "the file has a view, a trigger, a virtual table or a calculated "
                "column, which vecall never makes"
            )


def _require_known_schema(connection: sqlite3.Connection, version: int) -> None:
    rows = _read_schema_rows(connection)
    if rows == _schema_of_migrations(version):
        return
    found = _schema_objects(rows)
    if any(kind not in ("table", "index") for kind, *_ in found):
        require_plain_tables(connection)
    if found != _schema_objects(_schema_of_migrations(version)):
        raise CorruptFileError(
            f"the file is damaged: it has other tables or indexes than schema {version}"
            "; `vecall doctor --recover NEW` saves what can be read to a new file"
        )


def _read_schema_rows(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
    return connection.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY rowid"
    ).fetchall()


def _schema_objects(rows: Iterable[tuple[Any, ...]]) -> frozenset[tuple[str, ...]]:
    """The objects in a schema, except those that SQLite makes by itself."""
    return frozenset(
        (kind, name, table, " ".join(str(sql).split()))
        for kind, name, table, sql in rows
        if not (kind == "index" and sql is None)
        and not (kind == "table" and name in ("sqlite_stat1", "sqlite_stat4"))
    )


@lru_cache(maxsize=16)
def _schema_of_migrations(version: int) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for number in range(1, version + 1):
            _run_migration(connection, number)
        return _read_schema_rows(connection)


def migrate_file(connection: sqlite3.Connection) -> None:
    """Migrate the file to the newest schema, one transaction per step."""
    # A new file gets the newest schema in one transaction. Each transaction reads the
    # number again, because another process may migrate at the same time.
    version = 0
    while version < NEWEST:
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            version = check_file_origin(connection)
            if version == NEWEST:
                return
            if version:
                version += 1
                _run_migration(connection, version)
            else:
                version = NEWEST
                _create_newest_schema(connection)
            connection.execute(f"PRAGMA user_version = {version}")
            connection.execute(
                "INSERT OR REPLACE INTO meta VALUES ('schema_hash', ?)",
                (_hash_of_schema(connection),),
            )


_COPIES_PAGES = hasattr(sqlite3.Connection, "deserialize")  # not before SQLite 3.36


def create_schema_in_memory(connection: sqlite3.Connection) -> None:
    """Give a database in memory the newest schema."""
    # To copy its pages takes a tenth of the time that its statements take.
    if not _COPIES_PAGES:
        migrate_file(connection)
        return
    with closing(sqlite3.connect(":memory:")) as made:
        made.deserialize(_newest_schema_pages())
        made.backup(connection)
    _write_file_facts(connection, NEWEST)


@lru_cache(maxsize=1)
def _newest_schema_pages() -> bytes:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as made:
        migrate_file(made)
        return made.serialize()


def _hash_of_schema(connection: sqlite3.Connection) -> str:
    """A hash of the statements that made the tables and indexes."""
    rows = connection.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_master "
        "WHERE name NOT LIKE 'sqlite_%' ORDER BY type, name"
    )
    return _hash_of_schema_rows(tuple(rows))


@lru_cache(maxsize=2 * NEWEST)
def _hash_of_schema_rows(rows: tuple[tuple[Any, ...], ...]) -> str:
    digest = blake2b(digest_size=16)
    for row in rows:
        digest.update(repr(row).encode())
    return digest.hexdigest()


def check_schema_unaltered(connection: sqlite3.Connection) -> bytes:
    """Check that the schema is unaltered; return the file's uuid."""
    # SQLite would not notice: a changed letter may turn a column into another one.
    found = dict(
        connection.execute(
            "SELECT key, value FROM meta WHERE key IN ('uuid', 'schema_hash')"
        ).fetchall()
    )
    try:
        uuid = bytes.fromhex(found["uuid"])
        whole = len(uuid) == 16 and found["schema_hash"] == _hash_of_schema(connection)
    except (KeyError, TypeError, ValueError):
        whole = False
    if not whole:
        raise CorruptFileError(
            "the file is damaged: its schema or its identity has changed; `vecall "
            "doctor --recover NEW` saves what can be read to a new file"
        )
    return uuid
