"""The history of memories: overwritten revisions, and replacements."""

from __future__ import annotations

from typing import Any

from vecall.filters.rights import FULL, Rights
from vecall.store.erased_names import is_hidden
from vecall.store.reads.partition_reads import END, load_rows
from vecall.store.results import RevisionRow
from vecall.store.rows import Row
from vecall.store.transaction import Transaction
from vecall.store.values import stored_object
from vecall.store.visible import visible

_ALIVE = "coalesce(expires_at, 9e99) > ?"


def history(
    connection: Transaction,
    app: str,
    user: str,
    id_: str,
    now: float,
    rights: Rights = FULL,
) -> list[RevisionRow]:
    """Return the revisions of a memory and of those it replaced, oldest first.

    Empty if this user has no memory with that id, or the caller does not see it.
    Revisions that expired by `now`, or that the caller does not see, are left out.
    """
    found = connection.execute(
        "SELECT id FROM part WHERE app = ? AND user = ?", (app, user)
    ).fetchone()
    if found is None:
        return []
    part: int = found[0]
    revisions: list[RevisionRow] = []
    seen: set[str] = set()
    waiting = [id_]
    while waiting:
        current = waiting.pop()
        if current not in seen:
            seen.add(current)
            own = _of_one(connection, part, current, now)
            if rights is not FULL:
                own = _seen(connection, own, rights)
            if not own and current == id_:
                return []
            revisions = own + revisions
            replaced = connection.execute(
                "SELECT id FROM replaced WHERE part = ? AND by = ? ORDER BY at, id",
                (part, current),
            )
            waiting += [older for (older,) in replaced]
    return revisions


def _seen(
    connection: Transaction, own: list[RevisionRow], rights: Rights
) -> list[RevisionRow]:
    """Return the revisions of one memory that a caller sees: none of a hidden one.

    A hidden memory that replaced it is not named.
    """
    if not own or not rights.sees(own[-1].row.trust, own[-1].state):
        return []
    if own[-1].by is not None:
        newer = connection.execute(
            f"SELECT 1 FROM mem WHERE part = ? AND id = ?{visible(rights)}",
            (own[-1].row.rid >> 32, own[-1].by),
        ).fetchone()
        own[-1] = own[-1]._replace(by=None) if newer is None else own[-1]
    return [each for each in own if rights.sees(each.row.trust, each.state)]


def _standing(
    connection: Transaction, part: int, id_: str, time: float
) -> tuple[Row, str] | None:
    """The current revision of a memory, and its state."""
    found = connection.execute(
        f"SELECT rid, state FROM mem WHERE part = ? AND id = ? AND {_ALIVE}",
        (part, id_, time),
    ).fetchone()
    if found is None:
        return None
    rid, state = found
    rows = load_rows(connection, [rid], any_state=True)
    return (rows[0].row, state) if rows else None


def _of_one(
    connection: Transaction, part: int, id_: str, time: float
) -> list[RevisionRow]:
    own = (part, id_)
    found = _standing(connection, part, id_, time)
    if found is None:
        return []
    now, state = found
    past = []
    for at, operation, text in connection.execute(
        "SELECT at, op, old FROM hist WHERE part = ? AND id = ? "
        f"AND {_ALIVE} ORDER BY seq",
        (*own, time),
    ):
        old = stored_object(text)
        if "digest" not in old:
            was = "quarantined" if _was_held(old) else "overwritten"
            past.append(RevisionRow(_as_it_was(now, old), was, at, operation, None))
    by = connection.execute(
        "SELECT at, why, by FROM replaced WHERE part = ? AND id = ?", own
    ).fetchone()
    at, why, other = by or (None, None, None)
    if other is not None and is_hidden(other):
        other = None  # deleted, and a purge replaced its id by a digest
    return [*past, RevisionRow(now, state, at, why, other)]


def _was_held(old: dict[str, Any]) -> bool:
    return old.get("state") == "quarantined"


def _as_it_was(now: Row, old: dict[str, Any]) -> Row:
    known = {name: value for name, value in old.items() if name in Row._fields}
    return now._replace(**known)


def old_sessions(
    connection: Transaction, app: str, user: str, before: float, now: float
) -> list[tuple[str, list[Row]]]:
    """Return the sessions without turns since `before`, with their live turns.

    Turns that expired by `now` are left out. Turns with a TTL are included only if all
    turns of the session have one: otherwise a summary would either outlive them or
    expire before the other turns.
    """
    found = connection.execute(
        "SELECT session, rid, coalesce(ts, created_at) FROM mem WHERE part = "
        "(SELECT id FROM part WHERE app = ? AND user = ?) AND state = 'live' "
        "AND session IS NOT NULL AND pos IS NOT NULL "
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
