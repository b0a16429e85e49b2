"""Creates vecall's roles and schema in a database, and migrates the schema."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from importlib.resources import files
from typing import Any, TypeVar

import psycopg
from psycopg import sql

from vecall.errors import ConfigError, IncompatibleFileError
from vecall.lexical import ANALYSIS_VERSION
from vecall.store.postgres.errors import database_errors
from vecall.store.postgres.rights import catalog_digests, stored_digests
from vecall.store.postgres.url import DatabaseUrl

NEWEST = 2
"""The schema that this version of vecall migrates to.

It also reads and writes the one before. A migration only adds: columns that are NULL or
have a default, tables, indexes, functions, checks of what every version writes. So
servers of the version before, which run on, write rows that the newer ones can read.
"""

OLDEST_SERVER = 150_000
"""PostgreSQL 15."""

ROLES = ("vecall_owner", "vecall_app", "vecall_keeper", "vecall_reader")
BEHIND = "vecall_login"
"""Before PostgreSQL 16: the role through which servers may become the keeper."""
_LOCK_WAIT = "200ms"  # below deadlock_timeout: others wait for a migration as long
_PAUSE_S = 0.2
_PATIENCE_S = 60.0
_LOCK = 0x7663616C  # of migrations, in the whole database
# Functions of the owner take it over. Without pg_temp at its end, they would use
# temporary tables of their caller, whose triggers would run with the owner's rights.
_SEARCH_PATH = sql.SQL("SET LOCAL search_path = {}, pg_temp")

Connection = psycopg.Connection[Any]
_T = TypeVar("_T")


def initialize(url: DatabaseUrl, *, login: str | None = None) -> None:
    """Create the roles and the schema, unless they exist, and migrate the schema.

    Args:
        url: The URL of an administrator, who may create roles.
        login: A role that servers log in with. It gets the rights of `vecall_app`, and
            may become `vecall_keeper`.

    Raises:
        BusyError: Other transactions held the locks for a minute.
        ConfigError: The server is older than 15, or the role has too few rights.
        StorageError: The database cannot be reached.
    """
    with (
        database_errors(),
        psycopg.connect(url.conninfo, autocommit=True) as connection,
    ):
        require_server(connection)
        _until_locked(lambda: _create_roles_and_schema(connection, url, login))
    migrate(url)


def _create_roles_and_schema(
    connection: Connection, url: DatabaseUrl, login: str | None
) -> None:
    with connection.transaction():
        _lock(connection)
        _create_roles(connection, login)
        connection.execute(
            sql.SQL("CREATE SCHEMA IF NOT EXISTS {} AUTHORIZATION vecall_owner").format(
                sql.Identifier(url.schema)
            )
        )
        connection.execute(
            sql.SQL(
                "GRANT USAGE ON SCHEMA {} TO vecall_app, vecall_keeper, vecall_reader"
            ).format(sql.Identifier(url.schema))
        )


def migrate(url: DatabaseUrl) -> int:
    """Migrate the schema to the newest number; return the number before.

    Servers need not be stopped. The migration gives its locks back when it does not get
    all of them at once, and begins again.

    Args:
        url: The URL of a role that may become `vecall_owner`.

    Raises:
        BusyError: Other transactions held the tables for a minute; nothing changed.
        ConfigError: The role has too few rights, or there is no schema.
        IncompatibleFileError: The schema is newer than this version of vecall.
        StorageError: The database cannot be reached.
    """
    with (
        database_errors(),
        psycopg.connect(url.conninfo, autocommit=True) as connection,
    ):
        return _until_locked(lambda: _migrated(connection, url))


def _until_locked(step: Callable[[], _T]) -> _T:
    """Repeat a transaction until it gets its locks, for a minute at most."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return step()
        except psycopg.errors.LockNotAvailable:
            if time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE_S)


def _lock(connection: Connection) -> None:
    """Exclude other migrations. Any login may hold the advisory lock."""
    connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_WAIT}'".encode())
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))


def _migrated(connection: Connection, url: DatabaseUrl) -> int:
    with connection.transaction():
        _lock(connection)
        connection.execute("SET LOCAL ROLE vecall_owner")
        before = schema_number(connection, url.schema)
        if before > NEWEST:
            raise IncompatibleFileError(_other_schema(before))
        connection.execute(_SEARCH_PATH.format(sql.Identifier(url.schema)))
        if 0 < before < NEWEST:
            # Every write reads this table first, so none is in the middle.
            connection.execute("LOCK TABLE model IN ACCESS EXCLUSIVE MODE")
        for number in range(before + 1, NEWEST + 1):
            for kind in ("schema", "rights"):
                connection.execute(_script(f"{kind}_{number}.sql"))
        _grant_vacuum(connection, url.schema)
        if before == 0:
            facts = {
                "uuid": secrets.token_hex(16),
                "secret": secrets.token_hex(16),  # of the digests of names
                "created_at": repr(time.time()),
                "analysis": ANALYSIS_VERSION,
            }
            for fact in facts.items():
                connection.execute(
                    "INSERT INTO meta (key, value) VALUES (%s, %s)", fact
                )
        connection.execute(
            "INSERT INTO meta (key, value) VALUES ('schema', %s) "
            "ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (str(NEWEST),),
        )
        connection.execute(
            "INSERT INTO meta (key, value) VALUES ('catalog', %s) "
            "ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (stored_digests(catalog_digests(connection, url.schema)),),
        )
        return before


def _grant_vacuum(connection: Connection, schema: str) -> None:
    """Let the keeper VACUUM. The server may have been upgraded since the last call."""
    if connection.info.server_version < 170_000:
        return
    # A table of others would make GRANT ... ON ALL TABLES fail.
    own = connection.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(%s) "
        "AND relkind IN ('r', 'p') AND relowner = to_regrole('vecall_owner')",
        (schema,),
    ).fetchall()
    for (name,) in own:
        connection.execute(
            sql.SQL("GRANT MAINTAIN ON {} TO vecall_keeper").format(
                sql.Identifier(schema, name)
            )
        )


def require_schema(connection: Connection, schema: str) -> int:
    """Check that this version of vecall reads a schema, and return its number.

    Raises:
        ConfigError: There is no such schema, or it is to be migrated.
        IncompatibleFileError: It is newer.
    """
    number = schema_number(connection, schema)
    if number == 0:
        msg = (
            f"path: the database has no schema {schema} of vecall; run "
            "`vecall pg init URL`"
        )
        raise ConfigError(msg)
    if number < NEWEST - 1:
        msg = (
            f"path: the database has schema {number}, this version of vecall reads "
            f"schemas {NEWEST - 1} and {NEWEST}; run `vecall pg migrate URL`"
        )
        raise ConfigError(msg)
    if number > NEWEST:
        raise IncompatibleFileError(_other_schema(number))
    return number


def require_server(connection: Connection) -> None:
    """Check the version of the server.

    Raises:
        ConfigError: It is older than PostgreSQL 15.
    """
    version = connection.info.server_version
    if version < OLDEST_SERVER:
        msg = f"path: PostgreSQL 15 or later is required, the server is {version}"
        raise ConfigError(msg)


def schema_number(connection: Connection, schema: str) -> int:
    """Return the number of a schema; 0 if it has no tables of vecall."""
    found = connection.execute(
        "SELECT to_regclass(format('%%I.meta', %s::text))", (schema,)
    ).fetchone()
    if found is None or found[0] is None:
        return 0
    number = connection.execute(
        sql.SQL("SELECT value FROM {}.meta WHERE key = 'schema'").format(
            sql.Identifier(schema)
        )
    ).fetchone()
    return 0 if number is None else int(number[0])


def _other_schema(number: int) -> str:
    return (
        f"path: the database has schema {number}, this version of vecall reads up to "
        f"schema {NEWEST}; upgrade vecall"
    )


def _script(name: str) -> bytes:
    return files("vecall.store.postgres").joinpath(name).read_bytes()


def _create_roles(connection: Connection, login: str | None) -> None:
    for role in ROLES:
        found = connection.execute(
            "SELECT rolcanlogin OR rolsuper OR rolbypassrls FROM pg_roles "
            "WHERE rolname = %s",
            (role,),
        ).fetchone()
        if found is None:
            connection.execute(
                sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(role))
            )
        elif found[0]:
            msg = f"path: the role {role} must not log in, nor pass row-level security"
            raise ConfigError(msg)
    if connection.info.server_version >= 160_000:
        me = sql.SQL("GRANT vecall_owner TO CURRENT_USER WITH INHERIT FALSE, SET TRUE")
    else:
        me = sql.SQL("GRANT vecall_owner TO CURRENT_USER")
    connection.execute(me)
    if login is not None:
        _grant_login(connection, login)


def _grant_login(connection: Connection, login: str) -> None:
    """Let a role act as `vecall_app`, and become `vecall_keeper`."""
    name = sql.Identifier(login)
    found = connection.execute(
        "SELECT 1 FROM pg_roles WHERE rolname = %s", (login,)
    ).fetchone()
    if found is None:
        msg = "login: there is no role of that name; create it with its password first"
        raise ConfigError(msg)
    if connection.info.server_version < 160_000:
        _grant_login_of_15(connection, login)
        return
    # Only the rights of vecall_app come by themselves: with those of the keeper, the
    # role would see all users.
    for role in ("vecall_app", "vecall_keeper", "vecall_reader"):
        inherits = "TRUE" if role == "vecall_app" else "FALSE"
        connection.execute(
            sql.SQL(f"GRANT {{}} TO {{}} WITH INHERIT {inherits}, SET TRUE").format(
                sql.Identifier(role), name
            )
        )


def _grant_login_of_15(connection: Connection, login: str) -> None:
    """Do so before PostgreSQL 16, where a role inherits from all its roles or none.

    The roles that it may become, but does not inherit, are behind one that inherits
    nothing.
    """
    found = connection.execute(
        "SELECT rolinherit FROM pg_roles WHERE rolname = %s", (login,)
    ).fetchone()
    if found is None or not found[0]:
        msg = "login: before PostgreSQL 16 the role must have INHERIT"
        raise ConfigError(msg)
    if not connection.execute(
        "SELECT 1 FROM pg_roles WHERE rolname = %s", (BEHIND,)
    ).fetchone():
        connection.execute(f"CREATE ROLE {BEHIND} NOLOGIN NOINHERIT".encode())
    connection.execute(f"GRANT vecall_keeper, vecall_reader TO {BEHIND}".encode())
    connection.execute(
        sql.SQL("GRANT vecall_app, {} TO {}").format(
            sql.Identifier(BEHIND), sql.Identifier(login)
        )
    )
