"""Lists the apps and the users that have memories.

Users whose names a purge has hidden, and the partitions of scopes, are not listed.
"""

from __future__ import annotations

from vecall.owner_summaries import AppSummary, UserSummary
from vecall.scopes import APP_WIDE, SHARED_APP
from vecall.store.erased_names import HIDDEN_APP
from vecall.store.transaction import Transaction

_LAST = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
_HAS_MEMORIES = "EXISTS (SELECT 1 FROM mem WHERE mem.part = p.id)"


def list_apps(connection: Transaction, after: str, limit: int) -> list[AppSummary]:
    """Return the apps after a name, in order of their names."""
    found = connection.execute(
        "SELECT p.app, count(*), sum(p.live) FROM part AS p WHERE p.app > ? "
        f"AND p.app NOT IN (?, ?) AND p.user <> ? AND {_HAS_MEMORIES} "
        "GROUP BY p.app ORDER BY p.app LIMIT ?",
        (after, HIDDEN_APP, SHARED_APP, APP_WIDE, limit),
    )
    return [AppSummary(app, users, int(live)) for app, users, live in found]


def list_users(
    connection: Transaction, app: str, prefix: str, after: str, limit: int
) -> list[UserSummary]:
    """Return the users of an app after a name, in order of their names."""
    query = (
        "SELECT p.user, p.live, p.bytes, "
        "(SELECT min(mem.created_at) FROM mem WHERE mem.part = p.id), "
        "(SELECT max(coalesce(mem.updated_at, mem.created_at)) FROM mem "
        "WHERE mem.part = p.id) "
        "FROM part AS p WHERE p.app = ? AND p.user > ? AND p.user >= ? "
        f"AND p.user <> ? AND {_HAS_MEMORIES}"
    )
    values: list[object] = [app, after, prefix, APP_WIDE]
    end = _after_prefix(prefix)
    if end is not None:
        query += " AND p.user < ?"
        values.append(end)
    found = connection.execute(
        f"{query} ORDER BY p.user LIMIT ?", (*values, limit)
    ).fetchall()
    return [UserSummary(*values) for values in found]


def _after_prefix(prefix: str) -> str | None:
    """Return the least text above all texts with a prefix; None if there is none.

    The order is that of code points, which is also the order of UTF-8.
    """
    rest = prefix.rstrip(chr(_LAST))
    if not rest:
        return None
    following = ord(rest[-1]) + 1
    if following in _SURROGATES:
        following = _SURROGATES.stop
    return rest[:-1] + chr(following)
