"""Creates vecall's roles and schema in a database, and migrates the schema."""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Callable
from functools import partial
from importlib.resources import files
from typing import Any, LiteralString, TypeVar

import psycopg
from psycopg import sql

from vecall.errors import ConfigError, IncompatibleFileError
from vecall.lexical import ANALYSIS_VERSION
from vecall.store.postgres.url import DatabaseUrl, database_errors

# Checks that a role sees one user at a time: its attributes, and the tables' policies.
#
# Row-level security does not apply to superusers, to roles with BYPASSRLS, and, unless
# it is forced, to the owner of a table.

Connection = psycopg.Connection[Any]

SHARED = ("meta", "model")  # tables without data of users

# Roles that are limited to the user of the transaction.
_LIMITED = "{vecall_app,vecall_reader,public}"

_ROLE = """
SELECT r.rolsuper, r.rolbypassrls,
  EXISTS (SELECT 1 FROM pg_roles AS o WHERE o.rolname = 'vecall_owner'
    AND pg_has_role(r.oid, o.oid, 'MEMBER')),
  EXISTS (SELECT 1 FROM pg_roles AS k WHERE k.rolname = 'vecall_keeper'
    AND pg_has_role(r.oid, k.oid, 'USAGE')),
  EXISTS (SELECT 1 FROM pg_roles AS a WHERE a.rolname = %(role)s
    AND pg_has_role(r.oid, a.oid, 'MEMBER')),
  EXISTS (SELECT 1 FROM pg_class AS c WHERE c.relowner = r.oid
    AND c.relnamespace = to_regnamespace(%(schema)s))
FROM pg_roles AS r WHERE r.rolname = session_user
"""
_GROUPS = """
SELECT rolname FROM pg_roles WHERE rolname = ANY (%(groups)s)
AND (rolsuper OR rolbypassrls OR rolcanlogin) ORDER BY rolname
"""
_TABLES = """
SELECT c.relname, c.relrowsecurity, c.relforcerowsecurity,
  EXISTS (SELECT 1 FROM pg_policies AS p WHERE p.schemaname = %(schema)s
    AND p.tablename = c.relname AND 'vecall_app' = ANY (p.roles)),
  EXISTS (SELECT 1 FROM pg_policies AS p WHERE p.schemaname = %(schema)s
    AND p.tablename = c.relname AND 'vecall_keeper' = ANY (p.roles)),
  (SELECT min(p.policyname) FROM pg_policies AS p WHERE p.schemaname = %(schema)s
    AND p.tablename = c.relname AND p.roles && CAST(%(limited)s AS name[])
    AND (strpos(coalesce(p.qual, 'none'), 'vecall.part') = 0 AND p.cmd <> 'INSERT'
      OR p.with_check IS NOT NULL AND strpos(p.with_check, 'vecall.part') = 0))
FROM pg_class AS c
WHERE c.relnamespace = to_regnamespace(%(schema)s) AND c.relkind IN ('r', 'p')
AND c.relname <> ALL (CAST(%(shared)s AS name[])) ORDER BY c.relname
"""
_DOORS = """
SELECT d.name, f.oid IS NOT NULL, coalesce(f.prosecdef, false),
  EXISTS (SELECT 1 FROM aclexplode(f.proacl) AS a
    WHERE a.grantee = 0 AND a.privilege_type = 'EXECUTE') OR f.proacl IS NULL,
  coalesce('search_path=' || quote_ident(%(schema)s) || ', pg_temp'
    = ANY (f.proconfig), false)
FROM unnest(CAST('{enter,heads,look}' AS text[])) AS d (name)
LEFT JOIN pg_proc AS f ON f.proname = d.name
  AND f.pronamespace = to_regnamespace(%(schema)s) ORDER BY d.name
"""
# What a migration makes: columns, indexes, constraints, policies, rights, functions.
# search_path is the schema, so that no text has its name.
_CATALOG = """
SELECT c.relname, format('column %%s %%s %%s %%s %%s', a.attnum, a.attname,
    format_type(a.atttypid, a.atttypmod), a.attnotnull,
    pg_get_expr(d.adbin, d.adrelid, true))
  FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
    AND a.attnum > 0 AND NOT a.attisdropped
  LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
  WHERE c.relnamespace = to_regnamespace(%(schema)s) AND c.relkind IN ('r', 'p')
UNION ALL SELECT c.relname, pg_get_indexdef(i.indexrelid, 0, true)
  FROM pg_class AS c JOIN pg_index AS i ON i.indrelid = c.oid
  WHERE c.relnamespace = to_regnamespace(%(schema)s)
UNION ALL SELECT c.relname, k.conname || ' ' || pg_get_constraintdef(k.oid, true)
  FROM pg_class AS c JOIN pg_constraint AS k ON k.conrelid = c.oid
  WHERE c.relnamespace = to_regnamespace(%(schema)s) AND k.contype <> 'n'
UNION ALL SELECT p.tablename, format('policy %%s %%s %%s %%s %%s %%s', p.policyname,
    p.permissive, p.roles, p.cmd, p.qual, p.with_check)
  FROM pg_policies AS p WHERE p.schemaname = %(schema)s
UNION ALL SELECT c.relname,
    format('right %%s %%s', a.grantee::regrole, a.privilege_type)
  FROM pg_class AS c CROSS JOIN aclexplode(c.relacl) AS a
  WHERE c.relnamespace = to_regnamespace(%(schema)s) AND c.relkind IN ('r', 'p')
  AND a.privilege_type <> 'MAINTAIN' -- new in 17
UNION ALL SELECT c.relname,
    format('right %%s %%s %%s', a.grantee::regrole, a.privilege_type, n.attname)
  FROM pg_class AS c JOIN pg_attribute AS n ON n.attrelid = c.oid
  CROSS JOIN aclexplode(n.attacl) AS a
  WHERE c.relnamespace = to_regnamespace(%(schema)s) AND c.relkind IN ('r', 'p')
UNION ALL SELECT c.relname, format('table %%s %%s %%s %%s', c.relrowsecurity,
    c.relforcerowsecurity, c.relpersistence, c.relowner::regrole)
  FROM pg_class AS c
  WHERE c.relnamespace = to_regnamespace(%(schema)s) AND c.relkind IN ('r', 'p')
UNION ALL SELECT f.proname, format('function %%s %%s %%s %%s',
    pg_get_function_arguments(f.oid), f.prosecdef, f.proowner::regrole, md5(f.prosrc))
  FROM pg_proc AS f WHERE f.pronamespace = to_regnamespace(%(schema)s)
UNION ALL SELECT t.tgrelid::regclass::text, pg_get_triggerdef(t.oid, true)
  FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid
  WHERE c.relnamespace = to_regnamespace(%(schema)s) AND NOT t.tgisinternal
"""


def require_role_member(connection: Connection, role: str = "vecall_app") -> None:
    """Check that the role may read the schema's number, if there is a schema."""
    if is_member(connection, role) is False:
        msg = f"path: {_no_member_message(role)}; run `vecall pg init URL --login ROLE`"
        raise ConfigError(msg)


def is_member(connection: Connection, role: str) -> bool | None:
    """Whether the role that logged in may become another; None if there is no such."""
    found = connection.execute(
        "SELECT pg_has_role(session_user, oid, 'MEMBER') FROM pg_roles "
        "WHERE rolname = %s",
        (role,),
    ).fetchone()
    return None if found is None else bool(found[0])


def _no_member_message(role: str) -> str:
    return f"the role of the URL is no member of {role}"


def role_faults(
    connection: Connection, schema: str, role: str = "vecall_app"
) -> list[str]:
    """Return why the role that logged in is not limited to one user at a time."""
    found = connection.execute(_ROLE, {"schema": schema, "role": role}).fetchone()
    assert found is not None  # a role of the server
    superuser, bypasses, owner, keeper, app, owns = found
    own = "the role of the URL"
    if superuser:
        return [f"{own} is a superuser: policies do not apply to it"]
    faults = {
        f"{own} has BYPASSRLS": bypasses,
        f"{own} is a member of vecall_owner": owner,
        f"{own} inherits the rights of vecall_keeper": keeper,
        f"{own} owns tables of vecall": owns,
        _no_member_message(role): not app,
    }
    return [fault for fault, is_so in faults.items() if is_so]


def group_faults(connection: Connection) -> list[str]:
    """Return which of vecall's own roles log in, or pass row-level security."""
    found = connection.execute(_GROUPS, {"groups": [*ROLES, BEHIND]})
    return [
        f"the role {name} can log in, is a superuser or has BYPASSRLS"
        for (name,) in found
    ]


def table_faults(connection: Connection, schema: str) -> list[str]:
    """Return which tables and functions do not hold users apart."""
    given = {"schema": schema, "limited": _LIMITED, "shared": list(SHARED)}
    faults: list[tuple[str, bool]] = []  # several functions may have one name
    for name, enabled, forced, one, every, wide in connection.execute(_TABLES, given):
        own = f"the table {name}"
        faults += (
            (f"{own} has no row-level security", not enabled),
            (f"{own} does not force row-level security", enabled and not forced),
            (f"{own} has no policy for vecall_app", not one),
            (f"{own} has no policy for vecall_keeper", not every),
            (f"a policy of {own} shows other users", wide is not None),
        )
    for name, exists, definer, public, fixed in connection.execute(_DOORS, given):
        own = f"the function {name}"
        faults += (
            (f"{own} is missing", not exists),
            (f"{own} is not SECURITY DEFINER", exists and not definer),
            (f"{own} can be executed by every role", exists and public),
            (f"{own} has not the search_path of the schema", exists and not fixed),
        )
    return [fault for fault, is_so in faults if is_so]


def require_row_level_rights(connection: Connection, schema: str, role: str) -> None:
    """Check that the role and the tables hold users apart."""
    faults = role_faults(connection, schema, role) + table_faults(connection, schema)
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise ConfigError(f"path: {faults[0]}{more}; run `vecall pg doctor URL`")


def catalog_digests(connection: Connection, schema: str) -> dict[str, str]:
    """Return a digest of the definition of each table and function of the schema."""
    with connection.transaction():
        connection.execute(
            "SELECT set_config('search_path', quote_ident(%s), true)", (schema,)
        )
        found = connection.execute(_CATALOG, {"schema": schema}).fetchall()
    lines: dict[str, list[str]] = {}
    for name, line in found:
        lines.setdefault(name, []).append(line or "")
    return {
        name: hashlib.sha256("\n".join(sorted(each)).encode()).hexdigest()[:16]
        for name, each in sorted(lines.items())
    }


NEWEST = 3
"""The schema that this version of vecall migrates to.

It also reads and writes the one before. A migration only adds: columns that are NULL or
have a default, tables, indexes, functions, checks of what every version writes. So
servers of the version before, which run on, write rows that the newer ones can read.
"""

OLDEST_SERVER = 150_000  # PostgreSQL 15

ROLES = ("vecall_owner", "vecall_app", "vecall_keeper", "vecall_reader")
BEHIND = "vecall_login"
"""Before PostgreSQL 16: the role through which servers may become the keeper."""
_LOCK_WAIT = "200ms"  # below deadlock_timeout: others wait for a migration as long
_PAUSE_S = 0.2
_PATIENCE_S = 60.0
_WITH_COUNTERS = 3  # the first schema with counters
_COUNTED_AT_ONCE = 100  # users
_IS_COUNTED = "SELECT 1 FROM meta WHERE key = 'counts'"
_LOCK = 0x7663616C  # of migrations, in the whole database
_T = TypeVar("_T")


def initialize_schema(url: DatabaseUrl, *, login: str | None = None) -> None:
    """Create the roles and the schema, unless they exist, and migrate the schema."""
    # The role of the URL may create roles. The role `login`, with which servers log in,
    # gets the rights of `vecall_app`, and may become `vecall_keeper`.
    with (
        database_errors(),
        psycopg.connect(url.conninfo, autocommit=True) as connection,
    ):
        require_postgres_version(connection)
        _retry_schema_locks(lambda: _create_roles_and_schema(connection, url, login))
    migrate_schema(url)


def _create_roles_and_schema(
    connection: Connection, url: DatabaseUrl, login: str | None
) -> None:
    with connection.transaction():
        _exclude_migrations(connection)
        _create_roles(connection, login)
        create = "CREATE SCHEMA IF NOT EXISTS {} AUTHORIZATION vecall_owner"
        _execute(connection, create, url.schema)
        use = "GRANT USAGE ON SCHEMA {} TO vecall_app, vecall_keeper, vecall_reader"
        _execute(connection, use, url.schema)


def migrate_schema(url: DatabaseUrl) -> int:
    """Migrate the schema to the newest number; return the number before."""
    # Servers need not be stopped. The migration gives its locks back when it does not
    # get all of them at once, and begins again. After a BusyError nothing changed.
    with (
        database_errors(),
        psycopg.connect(url.conninfo, autocommit=True) as connection,
    ):
        before = _retry_schema_locks(lambda: _migrate_schema(connection, url))
        after: int | None = 0
        while after is not None:
            count = partial(_count_users, connection, url, after)
            after = _retry_schema_locks(count)
        return before


def _execute(connection: Connection, text: LiteralString, *names: str) -> None:
    """Execute a statement with names in place of its braces."""
    connection.execute(sql.SQL(text).format(*map(sql.Identifier, names)))


def _set_schema_fact(connection: Connection, key: str, value: str) -> None:
    connection.execute(
        "INSERT INTO meta (key, value) VALUES (%s, %s) "
        "ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (key, value),
    )


def _retry_schema_locks(step: Callable[[], _T]) -> _T:
    """Repeat a transaction until it gets its locks, for a minute at most."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return step()
        except psycopg.errors.LockNotAvailable:
            if time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE_S)


def _exclude_migrations(connection: Connection) -> None:
    """Exclude other migrations. Any login may hold the advisory lock."""
    connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_WAIT}'".encode())
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))


def _become_schema_owner(connection: Connection, schema: str) -> int:
    """Go on as the owner of a schema, in it; return the number of the schema."""
    # Functions of the owner take the search_path over. Without pg_temp at its end, they
    # would use temporary tables of their caller, whose triggers would run with the
    # owner's rights.
    connection.execute("SET LOCAL ROLE vecall_owner")
    _execute(connection, "SET LOCAL search_path = {}, pg_temp", schema)
    return schema_number(connection, schema)


def _migrate_schema(connection: Connection, url: DatabaseUrl) -> int:
    with connection.transaction():
        _exclude_migrations(connection)
        before = _become_schema_owner(connection, url.schema)
        if before > NEWEST:
            raise IncompatibleFileError(_newer_schema_message(before))
        if 0 < before < NEWEST:
            # Every write reads this table first, so none is in the middle.
            connection.execute("LOCK TABLE model IN ACCESS EXCLUSIVE MODE")
        for number in range(before + 1, NEWEST + 1):
            for kind in ("schema", "rights"):
                connection.execute(_read_schema_script(f"{kind}_{number}.sql"))
        _grant_vacuum(connection, url.schema)
        if before == 0:
            facts = {
                "uuid": secrets.token_hex(16),
                "secret": secrets.token_hex(16),  # of the digests of names
                "created_at": repr(time.time()),
                "analysis": ANALYSIS_VERSION,
            }
            for fact in facts.items():
                _set_schema_fact(connection, *fact)
        _set_schema_fact(connection, "schema", str(NEWEST))
        digests = catalog_digests(connection, url.schema)
        stored = json.dumps(digests, separators=(",", ":"), sort_keys=True)
        _set_schema_fact(connection, "catalog", stored)
        return before


def _count_users(connection: Connection, url: DatabaseUrl, after: int) -> int | None:
    """Count what users after a number have that were there before the counters."""
    # Others wait for none but these users. Returned is the greatest number of them;
    # None if all users are counted.
    with connection.transaction():
        connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_WAIT}'".encode())
        number = _become_schema_owner(connection, url.schema)
        if number < _WITH_COUNTERS or connection.execute(_IS_COUNTED).fetchone():
            return None
        found = connection.execute(
            "SELECT id, count_again(id) FROM (SELECT id FROM part WHERE id > %s "
            "ORDER BY id LIMIT %s) AS p ORDER BY id",
            (after, _COUNTED_AT_ONCE),
        ).fetchall()
        if not found:
            _set_schema_fact(connection, "counts", "1")
            return None
        return int(found[-1][0])


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
        _execute(connection, "GRANT MAINTAIN ON {}.{} TO vecall_keeper", schema, name)


def require_schema(connection: Connection, schema: str) -> int:
    """Check that this version of vecall reads a schema, and return its number."""
    number = schema_number(connection, schema)
    if number == 0:
        raise ConfigError(
            f"path: the database has no schema {schema} of vecall; run "
            "`vecall pg init URL`"
        )
    if number < NEWEST - 1:
        raise ConfigError(
            f"path: the database has schema {number}, this version of vecall reads "
            f"schemas {NEWEST - 1} and {NEWEST}; run `vecall pg migrate URL`"
        )
    if number > NEWEST:
        raise IncompatibleFileError(_newer_schema_message(number))
    return number


def require_postgres_version(connection: Connection) -> None:
    """Check that the server is PostgreSQL 15 or later."""
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
    return int(stored_schema_fact(connection, schema, "schema") or 0)


def stored_schema_fact(connection: Connection, schema: str, key: str) -> str | None:
    """Return a value of the table `meta` of a schema, which exists."""
    query = sql.SQL("SELECT value FROM {}.meta WHERE key = %s")
    found = connection.execute(query.format(sql.Identifier(schema)), (key,)).fetchone()
    return None if found is None else str(found[0])


def _newer_schema_message(number: int) -> str:
    return (
        f"path: the database has schema {number}, this version of vecall reads up to "
        f"schema {NEWEST}; upgrade vecall"
    )


def _read_schema_script(name: str) -> bytes:
    return files("vecall.store.postgres").joinpath(name).read_bytes()


def _create_roles(connection: Connection, login: str | None) -> None:
    for role in ROLES:
        found = connection.execute(
            "SELECT rolcanlogin OR rolsuper OR rolbypassrls FROM pg_roles "
            "WHERE rolname = %s",
            (role,),
        ).fetchone()
        if found is None:
            _execute(connection, "CREATE ROLE {} NOLOGIN", role)
        elif found[0]:
            msg = f"path: the role {role} must not log in, nor pass row-level security"
            raise ConfigError(msg)
    how = " WITH INHERIT FALSE, SET TRUE"
    if connection.info.server_version < 160_000:
        how = ""
    connection.execute(f"GRANT vecall_owner TO CURRENT_USER{how}".encode())
    if login is not None:
        _grant_login(connection, login)


def _grant_login(connection: Connection, login: str) -> None:
    """Let a role act as `vecall_app`, and become `vecall_keeper`."""
    if is_member(connection, login) is None:
        msg = "login: there is no role of that name; create it with its password first"
        raise ConfigError(msg)
    if connection.info.server_version < 160_000:
        _grant_login_of_15(connection, login)
        return
    # Only the rights of vecall_app come by themselves: with those of the keeper, the
    # role would see all users.
    for role in ("vecall_app", "vecall_keeper", "vecall_reader"):
        grant = "GRANT {} TO {} WITH INHERIT FALSE, SET TRUE"
        if role == "vecall_app":
            grant = "GRANT {} TO {} WITH INHERIT TRUE, SET TRUE"
        _execute(connection, grant, role, login)


def _grant_login_of_15(connection: Connection, login: str) -> None:
    """Do so before PostgreSQL 16, where a role inherits from all its roles or none."""
    # The roles that it may become, but does not inherit, are behind one that inherits
    # nothing.
    found = connection.execute(
        "SELECT rolinherit FROM pg_roles WHERE rolname = %s", (login,)
    ).fetchone()
    if found is None or not found[0]:
        raise ConfigError("login: before PostgreSQL 16 the role must have INHERIT")
    if is_member(connection, BEHIND) is None:
        connection.execute(f"CREATE ROLE {BEHIND} NOLOGIN NOINHERIT".encode())
    connection.execute(f"GRANT vecall_keeper, vecall_reader TO {BEHIND}".encode())
    _execute(connection, "GRANT vecall_app, {} TO {}", BEHIND, login)
