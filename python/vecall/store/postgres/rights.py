"""Checks that a role sees one user at a time: its attributes, and the tables' policies.

Row-level security does not apply to superusers, to roles with BYPASSRLS, and, unless it
is forced, to the owner of a table.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import psycopg

from vecall.errors import ConfigError

Connection = psycopg.Connection[Any]

SHARED = ("meta", "model")
"""Tables without data of users."""

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


def require_member(connection: Connection, role: str = "vecall_app") -> None:
    """Check that the role may read the schema's number, if there is a schema.

    Args:
        connection: A connection of the role.
        role: The role whose rights a service uses.

    Raises:
        ConfigError: It is no member of `role`.
    """
    found = connection.execute(
        "SELECT 1 FROM pg_roles WHERE rolname = %s "
        "AND NOT pg_has_role(session_user, oid, 'MEMBER')",
        (role,),
    ).fetchone()
    if found is not None:
        msg = f"path: {_no_member(role)}; run `vecall pg init URL --login ROLE`"
        raise ConfigError(msg)


def may_become_keeper(connection: Connection) -> bool:
    """Whether the role that logged in may do what concerns all users."""
    found = connection.execute(
        "SELECT 1 FROM pg_roles WHERE rolname = 'vecall_keeper' "
        "AND pg_has_role(session_user, oid, 'MEMBER')"
    ).fetchone()
    return found is not None


def _no_member(role: str) -> str:
    return f"the role of the URL is no member of {role}"


def role_faults(
    connection: Connection, schema: str, role: str = "vecall_app"
) -> list[str]:
    """Return why the role that logged in is not limited to one user at a time."""
    found = connection.execute(_ROLE, {"schema": schema, "role": role}).fetchone()
    assert found is not None  # a role of the server
    texts = (
        "is a superuser",
        "has BYPASSRLS",
        "is a member of vecall_owner",
        "inherits the rights of vecall_keeper",
    )
    superuser, bypasses, owner, keeper, app, owns = found
    if superuser:
        return [f"the role of the URL {texts[0]}: policies do not apply to it"]
    faults = [
        f"the role of the URL {text}"
        for text, is_so in zip(texts[1:], (bypasses, owner, keeper), strict=True)
        if is_so
    ]
    if owns:
        faults.append("the role of the URL owns tables of vecall")
    if not app:
        faults.append(_no_member(role))
    return faults


def group_faults(connection: Connection) -> list[str]:
    """Return which of vecall's own roles log in, or pass row-level security."""
    groups = [
        f"vecall_{each}" for each in ("owner", "app", "keeper", "reader", "login")
    ]
    found = connection.execute(_GROUPS, {"groups": groups})
    return [
        f"the role {name} can log in, is a superuser or has BYPASSRLS"
        for (name,) in found
    ]


def table_faults(connection: Connection, schema: str) -> list[str]:
    """Return which tables and functions do not hold users apart."""
    given = {"schema": schema, "limited": _LIMITED, "shared": list(SHARED)}
    faults = []
    for name, enabled, forced, one, every, wide in connection.execute(_TABLES, given):
        if not enabled:
            faults.append(f"the table {name} has no row-level security")
        elif not forced:
            faults.append(f"the table {name} does not force row-level security")
        if not one:
            faults.append(f"the table {name} has no policy for vecall_app")
        if not every:
            faults.append(f"the table {name} has no policy for vecall_keeper")
        if wide is not None:
            faults.append(f"a policy of the table {name} shows other users")
    for name, exists, definer, public, fixed in connection.execute(_DOORS, given):
        if not exists:
            faults.append(f"the function {name} is missing")
            continue
        if not definer:
            faults.append(f"the function {name} is not SECURITY DEFINER")
        if public:
            faults.append(f"the function {name} can be executed by every role")
        if not fixed:
            faults.append(f"the function {name} has not the search_path of the schema")
    return faults


def require_rights(
    connection: Connection, schema: str, role: str = "vecall_app"
) -> None:
    """Check that the role and the tables hold users apart.

    Args:
        connection: A connection of the role.
        schema: The schema of the tables.
        role: The role whose rights a service uses.

    Raises:
        ConfigError: They do not.
    """
    faults = role_faults(connection, schema, role) + table_faults(connection, schema)
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        msg = f"path: {faults[0]}{more}; run `vecall pg doctor URL`"
        raise ConfigError(msg)


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


def stored_digests(digests: dict[str, str]) -> str:
    """Return digests as `meta` stores them."""
    return json.dumps(digests, separators=(",", ":"), sort_keys=True)


def changed_definitions(now: dict[str, str], stored: str) -> list[str]:
    """Return the tables and functions that differ from those of the last migration."""
    then: dict[str, str] = json.loads(stored)
    return sorted(
        name for name in now.keys() | then.keys() if now.get(name) != then.get(name)
    )
