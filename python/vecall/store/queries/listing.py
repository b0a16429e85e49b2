"""Lists and counts: memories that pass a filter, apps, users and sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from vecall.errors import NotFoundError
from vecall.filters.metadata import EVERY
from vecall.filters.rights import FULL, Rights
from vecall.limits import APP_WIDE
from vecall.store.names import HIDDEN_APP, IS_KEY, is_hidden_id
from vecall.store.queries.partition_reads import (
    END,
    OF_USER,
    TIME,
    TOTALS,
    count_totals,
    load_rows,
    partition_number,
    passing_metadata,
    sql_of_filter,
    tested_columns,
)
from vecall.store.rows import RevisionRow, Row, RowWithVector
from vecall.store.transaction import Transaction, given_rows, read_fact, visible
from vecall.store.values import parse_stored_object
from vecall.types import AppSummary, Filter, ListedSession, MemoryFigures, UserSummary

_AT_ONCE = 1_000  # rows whose metadata are read together


def list_memories(
    connection: Transaction,
    app: str,
    user: str,
    state: str,
    cursor: str | None,
    limit: int,
    now: float,
    conditions: Filter = EVERY,
    rights: Rights = FULL,
) -> list[Row]:
    """Return a user's memories in one state, in order of creation."""
    # Expired memories, and memories quarantined as damaged, are left out. `cursor` is
    # the id of the last memory of the page before; NotFoundError if the user has none.
    # The `limit` -1 returns all.
    part = partition_number(connection, app, user)
    lowest = part << 32
    if cursor is not None:
        query = f"SELECT rid FROM mem WHERE part = ? AND id = ?{visible(rights)}"
        row = connection.execute(query, (part, cursor)).fetchone()
        if row is None:
            msg = (
                "cursor: this user has no such memory any more; begin without a cursor"
            )
            raise NotFoundError(msg)
        lowest = row[0] + 1
    where, values = _listing_from_and_where(part, state, now, conditions, rights)
    if conditions.metadata is None:
        page = connection.execute(
            f"SELECT rid {where} ORDER BY rid LIMIT ?",
            (lowest, *values, limit if limit >= 0 else _ALL),
        )
        rids = [rid for (rid,) in page]
    else:
        passing = _passing_row_numbers(connection, where, values, lowest, conditions)
        rids = list(passing if limit < 0 else islice(passing, limit))
    found = load_rows(connection, rids, any_state=True)
    return sorted((stored.row for stored in found), key=lambda row: row.rid)


# The memories of a user whose end has come, and which a sweep will delete or archive.
_OVER = (
    "SELECT rid FROM mem INDEXED BY mem_ends WHERE part = :part "
    "AND expires_at <= :now UNION SELECT rid FROM mem INDEXED BY mem_lapse "
    "WHERE part = :part AND state = 'live' AND valid_until <= :now"
)
_COUNTED_IN = {"live": "live", "archived": "aged", "quarantined": "held"}


def count_listed_memories(
    connection: Transaction,
    app: str,
    user: str,
    state: str,
    now: float,
    conditions: Filter,
    rights: Rights = FULL,
) -> int:
    """Return the number of memories that `list_memories` returns without a limit."""
    part = partition_number(connection, app, user)
    if rights is FULL and conditions == EVERY and has_counters(connection):
        counted = connection.execute(
            f"SELECT {_COUNTED_IN[state]} - (SELECT count(*) FROM mem WHERE "
            f"state = :state AND rid IN ({_OVER})) FROM part WHERE id = :part",
            {"state": state, "part": part, "now": now},
        ).fetchone()
        return int(counted[0]) if counted else 0
    where, values = _listing_from_and_where(part, state, now, conditions, rights)
    if conditions.metadata is not None:
        lowest = part << 32
        passing = _passing_row_numbers(connection, where, values, lowest, conditions)
        return sum(1 for _ in passing)
    found = connection.execute(f"SELECT count(*) {where}", (part << 32, *values))
    return int(found.fetchone()[0])


# SQLite's CAST cuts and PostgreSQL's rounds: a day begins up to 9 microseconds early.
_DAY = "CAST(round(coalesce(ts, created_at) / 86400.0 - 0.4999999999) AS BIGINT)"


def memory_figures(
    connection: Transaction, app: str, user: str, state: str, now: float, rights: Rights
) -> MemoryFigures:
    """Count the memories that `list_memories` returns, by day and by kind."""
    part = partition_number(connection, app, user)
    where, values = _listing_from_and_where(part, state, now, EVERY, rights)
    days: Counter[int] = Counter()
    kinds: Counter[str] = Counter()
    for day, kind, count in connection.execute(
        f"SELECT {_DAY}, kind, count(*) {where} GROUP BY 1, 2", (part << 32, *values)
    ):
        days[day] += count
        if kind is not None:
            kinds[kind] += count
    return MemoryFigures(dict(sorted(days.items())), dict(kinds.most_common()))


_ALL = 1 << 32  # more rows than a partition has


def _listing_from_and_where(
    part: int, state: str, now: float, conditions: Filter, rights: Rights
) -> tuple[str, list[Any]]:
    """Return FROM and WHERE of the memories in one state that may pass a filter."""
    # The first value, the lowest row number, is not among the returned values.
    condition, values = sql_of_filter(conditions)
    sql = (
        "FROM mem WHERE rid BETWEEN ? AND ? AND state = ? "
        "AND coalesce(expires_at, 9e99) > ? "
        f"AND (state <> 'live' OR coalesce(valid_until, 9e99) > ?)"
        f"{visible(rights)}{condition}"
    )
    return sql, [(part << 32) | 0xFFFFFFFF, state, now, now, *values]


def _passing_row_numbers(
    connection: Transaction,
    where: str,
    values: list[Any],
    lowest: int,
    conditions: Filter,
) -> Iterator[int]:
    """Yield the numbers of rows with passing metadata, in order, from `lowest` on."""
    query = f"SELECT rid, {tested_columns(conditions)} {where} ORDER BY rid LIMIT ?"

    def read_in_pages(lowest: int) -> Iterator[tuple[Any, ...]]:
        own = (*values, _AT_ONCE)
        while rows := connection.execute(query, (lowest, *own)).fetchall():
            yield from rows
            if len(rows) < _AT_ONCE:
                break
            lowest = rows[-1][0] + 1

    rows = read_in_pages(lowest)
    return (row[0] for row in passing_metadata(rows, conditions.metadata or {}))


# The history of memories: overwritten revisions, and replacements.

_ALIVE = "coalesce(expires_at, 9e99) > ?"


def read_history(
    connection: Transaction, app: str, user: str, id_: str, now: float, rights: Rights
) -> list[RevisionRow]:
    """Return the revisions of a memory and of those it replaced, oldest first.

    Empty if this user has no memory with that id, or the caller does not see it.
    Revisions that expired by `now`, or that the caller does not see, are left out.
    """
    part = partition_number(connection, app, user)
    if not part:
        return []
    revisions: list[RevisionRow] = []
    seen: set[str] = set()
    waiting = [id_]
    while waiting:
        current = waiting.pop()
        if current not in seen:
            seen.add(current)
            own = _revisions_of_one(connection, part, current, now)
            if rights is not FULL:
                own = _memory_versions_seen_by(connection, own, rights)
            if not own and current == id_:
                return []
            revisions = own + revisions
            query = "SELECT id FROM replaced WHERE part = ? AND by = ? ORDER BY at, id"
            replaced = connection.execute(query, (part, current))
            waiting += [older for (older,) in replaced]
    return revisions


def _memory_versions_seen_by(
    connection: Transaction, own: list[RevisionRow], rights: Rights
) -> list[RevisionRow]:
    """Return the revisions of one memory that a caller sees: none of a hidden one."""
    # A hidden memory that replaced it is not named.
    if not own or not rights.sees(own[-1].row.trust, own[-1].state):
        return []
    if own[-1].by is not None:
        newer = connection.execute(
            f"SELECT 1 FROM mem WHERE part = ? AND id = ?{visible(rights)}",
            (own[-1].row.rid >> 32, own[-1].by),
        ).fetchone()
        own[-1] = own[-1]._replace(by=None) if newer is None else own[-1]
    return [each for each in own if rights.sees(each.row.trust, each.state)]


def _revisions_of_one(
    connection: Transaction, part: int, id_: str, time: float
) -> list[RevisionRow]:
    """Return the revisions of one memory, the current one last."""
    own = (part, id_)
    query = f"SELECT rid, state FROM mem WHERE part = ? AND id = ? AND {_ALIVE}"
    found = connection.execute(query, (*own, time)).fetchone()
    rows = load_rows(connection, found[:1], any_state=True) if found else []
    if not rows:
        return []
    now, state, past = rows[0].row, found[1], []
    for at, operation, text in connection.execute(
        "SELECT at, op, old FROM hist WHERE part = ? AND id = ? "
        f"AND {_ALIVE} ORDER BY seq",
        (*own, time),
    ):
        old = parse_stored_object(text)
        if "digest" not in old:
            was = "overwritten" if old.get("state") != "quarantined" else old["state"]
            known = {name: value for name, value in old.items() if name in Row._fields}
            past.append(RevisionRow(now._replace(**known), was, at, operation, None))
    query = "SELECT at, why, by FROM replaced WHERE part = ? AND id = ?"
    at, why, other = connection.execute(query, own).fetchone() or (None, None, None)
    if other is not None and is_hidden_id(other):
        other = None  # deleted, and a purge replaced its id by a digest
    return [*past, RevisionRow(now, state, at, why, other)]


def read_old_sessions(
    connection: Transaction, app: str, user: str, before: float, now: float
) -> list[tuple[str, list[Row]]]:
    """Return the sessions without turns since `before`, with their live turns."""
    # Turns that expired by `now` are left out. Turns with a TTL are included only if
    # all turns of the session have one: otherwise a summary would either outlive them
    # or expire before the other turns.
    found = connection.execute(
        f"SELECT session, rid, coalesce(ts, created_at) FROM mem WHERE part = {OF_USER}"
        " AND state = 'live' AND session IS NOT NULL AND pos IS NOT NULL "
        f"AND {END} > ? ORDER BY session, pos",
        (app, user, now),
    )
    turns: dict[str, list[int]] = {}
    recent: set[str] = set()
    for session, rid, time in found:
        turns.setdefault(session, []).append(rid)
        if time >= before:
            recent.add(session)
    old = []
    for session, rids in turns.items():
        if session not in recent:
            rows = [stored.row for stored in load_rows(connection, rids)]
            lasting = [row for row in rows if row.expires_at is None]
            old.append((session, sorted(lasting or rows, key=lambda row: row.pos or 0)))
    return old


def read_facts(
    connection: Transaction, app: str, user: str, now: float
) -> list[RowWithVector]:
    """Return a user's live memories that are not turns, with their vectors."""
    found = connection.execute(
        f"SELECT rid FROM mem WHERE part = {OF_USER} AND state = 'live' "
        f"AND pos IS NULL AND {END} > ?",
        (app, user, now),
    )
    return load_rows(connection, [rid for (rid,) in found])


def read_old_facts(
    connection: Transaction, app: str, user: str, before: float, now: float
) -> list[Row]:
    """Return live facts and summaries from before a time, oldest first."""
    # Memories with a TTL or a `valid_until` are left out: a summary would outlive them,
    # or would expire with them too early for the others.
    rows = [entry.row for entry in read_facts(connection, app, user, now)]
    lasting = [row for row in rows if row.time < before and row.end is None]
    return sorted(lasting, key=lambda row: (row.time, row.rid))


_SIZE = "length(CAST(text AS BLOB))"
_LIVE = "sum(CASE WHEN state = 'live' THEN 1 ELSE 0 END)"
_BYTES = f"sum(CASE WHEN state = 'live' THEN {_SIZE} ELSE 0 END)"
_FIRST = chr(2)  # the least name of an app that callers may use


# What a storage holds, read from its counters: totals, apps, users and sessions.
#
# `part` has the figures of each user, `fig` those of each session, and of each app as
# the sum over its rows with part 0. docs/reference/file-format.md says what they count.
#
# A time is exact until a memory that had it is gone: `lo` is the least time that there
# ever was, `lo_x` the least of those that are gone, `hi` and `hi_x` are the greatest.
# If it is not exact, the memories are read.
#
# A database of schema 2 has no counters. There the same figures are counted.

_SUMS = ("live", "bytes", "n", "aged", "held", "bare", "ses", "docs", "gone")
_OF_MEMORIES = f"""
SELECT part, count(*) AS n, {_LIVE} AS live, {_BYTES} AS bytes,
  sum(CASE WHEN state = 'archived' THEN 1 ELSE 0 END) AS aged,
  sum(CASE WHEN state = 'quarantined' THEN 1 ELSE 0 END) AS held,
  sum(CASE WHEN vec IS NULL THEN 1 ELSE 0 END) AS bare,
  count(DISTINCT session) AS ses, min(created_at) AS lo, max(updated_at) AS hi
FROM mem GROUP BY part"""
_USERS = f"""(
SELECT p.id, p.app, p.user, p.created_at,
  {", ".join(f"coalesce({name}, 0) AS {name}" for name in _SUMS)},
  coalesce(lo, 9e99) AS lo, 9e99 AS lo_x, coalesce(hi, -9e99) AS hi, -9e99 AS hi_x
FROM (SELECT id, app, user, created_at FROM part) AS p
LEFT JOIN ({_OF_MEMORIES}) AS m ON m.part = p.id
LEFT JOIN (SELECT part, count(*) AS docs FROM item WHERE ns <> char(31) GROUP BY part)
  AS i ON i.part = p.id
LEFT JOIN (SELECT part, count(*) AS gone FROM tomb WHERE NOT {IS_KEY} GROUP BY part)
  AS t ON t.part = p.id
)"""
_SESSIONS = f"""(
SELECT part, session AS name, count(*) AS n, {_LIVE} AS live, {_BYTES} AS bytes,
  min({TIME}) AS lo, 9e99 AS lo_x, max({TIME}) AS hi, -9e99 AS hi_x
FROM mem WHERE session IS NOT NULL GROUP BY part, session
)"""


def _app_sums(users: str) -> str:
    """The sums over users, by app; partitions of scopes have names of their own."""
    return f"""(
SELECT 0 AS part, CASE WHEN user >= char(1) AND user < char(2) THEN user || app
  ELSE app END AS name, count(*) AS parts,
  sum(CASE WHEN n > 0 THEN 1 ELSE 0 END) AS users,
  {", ".join(f"sum({name}) AS {name}" for name in _SUMS)}, max(hi) AS hi,
  -9e99 AS hi_x
FROM {users} AS u GROUP BY 2
)"""


class _Source(NamedTuple):
    """Where the figures of users, sessions and apps are read."""

    users: str
    sessions: str
    apps: str


_KEPT = _Source("part", "fig", "fig")
_COUNTED = _Source(_USERS, _SESSIONS, _app_sums(_USERS))


def has_counters(connection: Transaction) -> bool:
    """Whether a storage has counters."""
    return read_fact(connection, "counts") is not None


def _counter_source(connection: Transaction) -> _Source:
    return _KEPT if has_counters(connection) else _COUNTED


# A time that is not exact is a bound of what is counted.
_LOST = (
    "(k.lo < k.lo_x AND k.lo <> c.lo) OR k.lo > c.lo OR "
    "(k.hi > k.hi_x AND k.hi <> c.hi) OR k.hi < c.hi"
)


def _differing_counts(known: str, names: Sequence[str]) -> str:
    return " OR ".join(f"{known}.{name} <> coalesce(c.{name}, 0)" for name in names)


_MISCOUNT = (
    f"SELECT count(*) FROM part AS k JOIN {_USERS} AS c ON c.id = k.id WHERE {{}}"
)
_OF_APPS = ("parts", "users", *_SUMS)
_MISCOUNTS = {
    "users": _MISCOUNT.format(f"{_differing_counts('k', _SUMS)} OR {_LOST}"),
    "sessions": f"SELECT count(*) FROM {_SESSIONS} AS c LEFT JOIN fig AS k "
    "ON k.part = c.part AND k.name = c.name WHERE k.n IS NULL "
    f"OR {_differing_counts('k', ('n', 'live', 'bytes'))} OR {_LOST}",
    "ended sessions": f"SELECT count(*) FROM fig AS k LEFT JOIN {_SESSIONS} AS c "
    "ON k.part = c.part AND k.name = c.name WHERE k.part > 0 AND c.n IS NULL",
    "apps": "SELECT count(*) FROM (SELECT name, "
    f"{', '.join(f'sum({name}) AS {name}' for name in _OF_APPS)} "
    "FROM fig WHERE part = 0 GROUP BY name) AS k "
    f"LEFT JOIN {_app_sums('part')} AS c ON c.name = k.name "
    f"WHERE {_differing_counts('k', _OF_APPS)}",
    "missing apps": f"SELECT count(*) FROM {_app_sums('part')} AS c "
    "WHERE c.name NOT IN (SELECT name FROM fig WHERE part = 0)",
}


def miscounted_counters(connection: Transaction) -> str:
    """Return how many counters differ from what is there, in words; "" if none does."""
    # All rows are read.
    queries = _MISCOUNTS
    if not has_counters(connection):
        queries = {"users": _MISCOUNT.format(_differing_counts("k", ("live", "bytes")))}
    found = [
        (connection.execute(query).fetchone()[0], what)
        for what, query in queries.items()
    ]
    return ", ".join(f"{count} {what}" for count, what in found if count)


def recount_rows(connection: Transaction) -> None:
    """Write the counters of a file anew."""
    own = (*_SUMS, "lo", "lo_x", "hi", "hi_x")
    counted = connection.execute(f"SELECT {', '.join(own)}, id FROM {_USERS} AS c")
    for row in counted.fetchall():
        values = ", ".join(f"{name} = ?" for name in own)
        connection.execute(f"UPDATE part SET {values} WHERE id = ?", row)
    connection.execute("DELETE FROM fig")
    for source, names in (
        (_SESSIONS, "part, name, n, live, bytes, lo, lo_x, hi, hi_x"),
        (_app_sums("part"), f"part, name, parts, users, {', '.join(_SUMS)}, hi, hi_x"),
    ):
        connection.execute(f"INSERT INTO fig ({names}) SELECT {names} FROM {source}")


# Reads the figures.


def read_totals(connection: Transaction) -> dict[str, int]:
    """Return counts over the whole file."""
    if not has_counters(connection):
        return count_totals(connection)
    own = "CASE WHEN name = ? THEN 0 ELSE"
    counted = connection.execute(
        f"SELECT sum({own} parts END), sum(ses), sum({own} live END), sum(n - bare), "
        f"sum({own} gone END), sum(aged), sum(held), "
        "(SELECT count(*) FROM told WHERE event IS NOT NULL), "
        f"sum(docs), sum({own} bytes END) FROM fig WHERE part = 0",
        (HIDDEN_APP,) * 4,
    ).fetchone()
    return {name: int(value or 0) for name, value in zip(TOTALS, counted, strict=True)}


_NEWEST = (
    "CASE WHEN p.hi > p.hi_x THEN p.hi ELSE "
    "(SELECT max(updated_at) FROM mem WHERE mem.part = p.id) END"
)
_OLDEST = (
    "CASE WHEN p.lo < p.lo_x THEN p.lo ELSE "
    "(SELECT min(created_at) FROM mem WHERE mem.part = p.id) END"
)


def list_apps(
    connection: Transaction, prefix: str, after: str, limit: int, rights: Rights = FULL
) -> list[AppSummary]:
    """Return the apps after a name, in order of their names.

    Where memories are hidden from the caller, those that are not are counted.
    """
    apps: list[AppSummary] = []
    while len(apps) < limit:
        known = _list_known_apps(connection, prefix, after, limit)
        for app, held in known:
            after, seen = app.app_name, [app]
            if _may_hide_memories(rights, held):
                seen = _seen_app(connection, after, rights)
            apps += seen
        if len(known) < limit:
            break
    return apps[:limit]


def _may_hide_memories(rights: Rights, held: int) -> bool:
    """Whether some of the memories are hidden, of which so many are quarantined."""
    return rights.has_floor or bool(held and not rights.review)


def _seen_app(connection: Transaction, app: str, rights: Rights) -> list[AppSummary]:
    """Count the memories of an app that a caller sees; nothing without one."""
    found = connection.execute(
        "SELECT count(*), sum(live), sum(bytes), sum(docs), min(lo), max(hi) FROM ("
        f"SELECT p.docs AS docs, {_LIVE} AS live, {_BYTES} AS bytes, "
        "min(mem.created_at) AS lo, max(mem.updated_at) AS hi "
        f"FROM {_counter_source(connection).users} AS p JOIN mem ON mem.part = p.id "
        f"WHERE p.app = ? AND p.user <> ?{visible(rights)} GROUP BY p.id, p.docs) AS u",
        (app, APP_WIDE),
    ).fetchone()
    users, live, nbytes, items, lo, hi = found
    if not users:
        return []
    return [AppSummary(app, users, int(live), int(nbytes), int(items), lo, hi)]


def _list_known_apps(
    connection: Transaction, prefix: str, after: str, limit: int
) -> list[tuple[AppSummary, int]]:
    """Return the apps after a name with their numbers of quarantined memories."""
    source = _counter_source(connection)
    condition, values = _names_after("name", prefix, after)
    found = connection.execute(
        "SELECT name, sum(users), sum(live), sum(bytes), sum(docs), max(hi), max(hi_x)"
        ", sum(held) "
        f"FROM {source.apps} AS f WHERE part = 0 AND name >= ? AND {condition} "
        "GROUP BY name HAVING sum(users) > 0 ORDER BY name LIMIT ?",
        (_FIRST, *values, limit),
    ).fetchall()
    of_app = "p.app = ? AND p.user <> ? AND p.n > 0"
    apps = []
    for name, users, live, nbytes, items, hi, hi_x, held in found:
        one = (name, APP_WIDE)
        (made,) = connection.execute(
            f"SELECT p.created_at FROM {source.users} AS p INDEXED BY part_age "
            f"WHERE {of_app} ORDER BY p.created_at LIMIT 1",
            one,
        ).fetchone()
        newest = hi
        if hi <= hi_x:
            query = f"SELECT max({_NEWEST}) FROM {source.users} AS p WHERE {of_app}"
            (newest,) = connection.execute(query, one).fetchone()
        figures = (int(users), int(live), int(nbytes), int(items), made, newest)
        apps.append((AppSummary(name, *figures), int(held)))
    return apps


def list_users(
    connection: Transaction,
    app: str,
    prefix: str,
    after: str,
    limit: int,
    rights: Rights = FULL,
) -> list[UserSummary]:
    """Return the users of an app after a name, in order of their names.

    Where memories are hidden from the caller, those that are not are counted.
    """
    users: list[UserSummary] = []
    while len(users) < limit:
        condition, values = _names_after("p.user", prefix, after)
        rows = connection.execute(
            f"SELECT p.user, p.live, p.bytes, {_OLDEST}, {_NEWEST}, p.ses, p.docs, "
            f"p.id, p.held FROM {_counter_source(connection).users} AS p "
            "INDEXED BY sqlite_autoindex_part_1 WHERE p.app = ? AND p.user <> ? "
            f"AND p.n > 0 AND {condition} ORDER BY p.user LIMIT ?",
            (app, APP_WIDE, *values, limit),
        ).fetchall()
        hidden = [row[7] for row in rows if _may_hide_memories(rights, row[8])]
        seen = {row[7]: row[1:6] for row in rows}
        if hidden:
            seen |= dict.fromkeys(hidden) | _seen_users(connection, hidden, rights)
        for name, *_, items, part, _ in rows:
            if counted := seen[part]:
                live, nbytes, lo, hi, ses = counted
                figures = (int(live), int(nbytes), lo, hi, int(ses), items)
                users.append(UserSummary(name, *figures))
        if len(rows) < limit:
            break
        after = rows[-1][0]
    return users[:limit]


def _seen_users(
    connection: Transaction, parts: Sequence[int], rights: Rights
) -> dict[int, tuple[float, ...]]:
    """Count the memories of users that a caller sees, by partition."""
    given, values = given_rows(connection, "given (part)", [(part,) for part in parts])
    found = connection.execute(
        f"{given} SELECT mem.part, {_LIVE}, {_BYTES}, min(created_at), "
        "max(updated_at), count(DISTINCT session) FROM given CROSS JOIN mem "
        f"WHERE mem.part = given.part{visible(rights)} GROUP BY mem.part",
        values,
    )
    return {part: tuple(figures) for part, *figures in found.fetchall()}


_SESSIONS_AT_ONCE = 400


def list_sessions(
    connection: Transaction,
    app: str,
    user: str,
    prefix: str,
    after: str,
    limit: int,
    now: float,
    rights: Rights = FULL,
) -> list[ListedSession]:
    """Return the sessions of a user after a name, in order of their names.

    Memories that expired by `now`, or that the caller does not see, count nowhere.
    """
    sessions: list[ListedSession] = []
    part = partition_number(connection, app, user)
    if not part:
        return sessions
    source = _counter_source(connection).sessions
    while len(sessions) < limit:
        condition, values = _names_after("name", prefix, after)
        rows = connection.execute(
            f"SELECT name, live, bytes, lo, hi, lo_x, hi_x FROM {source} AS f "
            f"WHERE part = ? AND {condition} ORDER BY name LIMIT ?",
            (part, *values, limit),
        ).fetchall()
        if not rows:
            break
        after = rows[-1][0]
        known = {row[0]: ListedSession(*row[:5]) for row in rows}
        read = set(known)
        if rights is FULL:
            read = {row[0] for row in rows if row[3] >= row[5] or row[4] <= row[6]}
            query = f"SELECT DISTINCT session FROM mem WHERE rid IN ({_OVER})"
            over = connection.execute(query, {"part": part, "now": now})
            read |= known.keys() & {name for (name,) in over.fetchall()}
        for name in read:
            del known[name]
        for each in _read_sessions(connection, part, sorted(read), now, rights):
            known[each.session_id] = each
        sessions += [known[row[0]] for row in rows if row[0] in known]
    return sessions[:limit]


def _read_sessions(
    connection: Transaction, part: int, names: Sequence[str], now: float, rights: Rights
) -> Iterator[ListedSession]:
    """Count the memories of sessions; those without one are left out."""
    live = "state = 'live' AND coalesce(valid_until, 9e99) > ?"
    for start in range(0, len(names), _SESSIONS_AT_ONCE):
        some = [(name,) for name in names[start : start + _SESSIONS_AT_ONCE]]
        given, values = given_rows(connection, "given (session)", some)
        found = connection.execute(
            f"{given} SELECT mem.session, sum(CASE WHEN {live} THEN 1 ELSE 0 END), "
            f"sum(CASE WHEN {live} THEN {_SIZE} ELSE 0 END), "
            f"min({TIME}), max({TIME}) FROM given CROSS JOIN mem "
            "WHERE mem.part = ? AND mem.session = given.session "
            f"AND coalesce(mem.expires_at, 9e99) > ?{visible(rights)} "
            "GROUP BY mem.session",
            (*values, now, now, part, now),
        )
        for name, count, nbytes, lo, hi in found.fetchall():
            yield ListedSession(name, int(count), int(nbytes), lo, hi)


_LAST = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


def _names_after(column: str, prefix: str, after: str) -> tuple[str, list[str]]:
    """Return the condition of names with a prefix after one, and its values."""
    condition, values = f"{column} > ? AND {column} >= ?", [after, prefix]
    rest = prefix.rstrip(chr(_LAST))
    if not rest:
        return condition, values
    # The least text above all with the prefix, by code points as in UTF-8.
    following = ord(rest[-1]) + 1
    if following in _SURROGATES:
        following = _SURROGATES.stop
    return f"{condition} AND {column} < ?", [*values, rest[:-1] + chr(following)]
