"""Counts what a file holds, in the transaction that changes it.

`count_changed_rows` counts memories that are added or deleted, `count_inserted` items
and tombstones that are inserted. Temporary triggers of the writing connection count
the rest. A file itself has no trigger: whoever opens it executes no code of it.
docs/reference/file-format.md says what `part` and `fig` count.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from operator import sub

from vecall.store.names import IS_KEY
from vecall.store.rows import MemoryCounts

# What a user's row has, and the row of the app in `fig` the sum of.
_SUMS = ("live", "bytes", "n", "aged", "held", "bare", "ses", "docs", "gone")
_WATCHED = (*_SUMS, "hi", "hi_x")

_NEW_TIME, _OLD_TIME = (
    f"coalesce({row}.ts,{row}.created_at)" for row in ("new", "old")
)
_NEW_SIZE, _OLD_SIZE = (
    f"({row}.state='live')*length(CAST({row}.text AS BLOB))" for row in ("new", "old")
)


def _session_of_row(row: str) -> str:
    return f"part={row}.part AND name={row}.session"


_INTO_SESSION = f"""
INSERT INTO fig(part,name,n,live,bytes,lo,lo_x,hi,hi_x)
SELECT new.part,new.session,1,new.state='live',{_NEW_SIZE},
{_NEW_TIME},9e99,{_NEW_TIME},-9e99 WHERE new.session NOTNULL
ON CONFLICT(part,name)DO UPDATE SET n=n+1,live=live+excluded.live,
bytes=bytes+excluded.bytes,lo=min(lo,excluded.lo),hi=max(hi,excluded.hi);
"""
_OUT_OF_SESSION = f"""
UPDATE fig SET n=n-1,live=live-(old.state='live'),bytes=bytes-{_OLD_SIZE},
lo_x=min(lo_x,{_OLD_TIME}),hi_x=max(hi_x,{_OLD_TIME})
WHERE {_session_of_row("old")};
"""


def _session_has_rows(row: str, count: int) -> str:
    return f"coalesce((SELECT fig.n={count} FROM fig WHERE {_session_of_row(row)}),0)"


_END_OLD_SESSION = f"DELETE FROM fig WHERE {_session_of_row('old')} AND n=0;"


def _count_of_app(row: str, sign: str) -> str:
    return ",".join(f"{name}={name}{sign}{row}.{name}" for name in _SUMS)


def _counted_app_name(row: str) -> str:
    """The name of a user's app in `fig`; partitions of scopes have one of their own."""
    own = f"substr({row}.user,1,1)=char(1)"
    return f"CASE WHEN {own} THEN {row}.user||{row}.app ELSE {row}.app END"


_INTO_APP = f"""
INSERT INTO fig(part,name,parts,users,hi,hi_x,{",".join(_SUMS)})
VALUES(0,{_counted_app_name("new")},1,new.n>0,new.hi,new.hi_x,
{",".join(f"new.{name}" for name in _SUMS)})
ON CONFLICT(part,name)DO UPDATE SET parts=parts+1,users=users+excluded.users,
hi=max(hi,excluded.hi),hi_x=max(hi_x,excluded.hi_x),{_count_of_app("excluded", "+")};
"""
_OUT_OF_APP = f"""
UPDATE fig SET parts=parts-1,users=users-(old.n>0),hi_x=max(hi_x,old.hi),
{_count_of_app("old", "-")} WHERE part=0 AND name={_counted_app_name("old")};
DELETE FROM fig WHERE part=0 AND name={_counted_app_name("old")} AND parts=0;
"""


def _is_counter_key(row: str) -> str:
    return IS_KEY.replace("id ", f"{row}.id ")


def _counted_row(row: str, names: tuple[str, ...]) -> str:
    return f"({','.join(f'{row}.{name}' for name in names)})"


# `leave` counts the rows that a transaction adds, which have numbers above `part.seq`
# until then, and the counted rows that it deletes.
_WAS_COUNTED = "(old.rid&4294967295)<=(SELECT seq FROM part WHERE id=old.part)"
_LABELS = ("state", "text", "ts", "created_at", "updated_at")
_TRIGGERS = {
    "mem_of AFTER UPDATE OF session ON main.mem "
    f"WHEN old.session IS NOT new.session AND {_WAS_COUNTED}": f"""
{_OUT_OF_SESSION}
{_INTO_SESSION}
UPDATE part SET ses=ses+{_session_has_rows("new", 1)}-{_session_has_rows("old", 0)}
WHERE id=new.part;
{_END_OLD_SESSION}
""",
    "mem_as AFTER UPDATE OF state,text,ts,created_at,updated_at,vec ON main.mem "
    f"WHEN({_counted_row('old', _LABELS)} IS NOT {_counted_row('new', _LABELS)} "
    f"OR (old.vec ISNULL)<>(new.vec ISNULL))AND {_WAS_COUNTED}": f"""
UPDATE fig SET live=live+(new.state='live')-(old.state='live'),
bytes=bytes+{_NEW_SIZE}-{_OLD_SIZE},
lo=min(lo,{_NEW_TIME}),hi=max(hi,{_NEW_TIME}),
lo_x=CASE WHEN {_OLD_TIME}={_NEW_TIME} THEN lo_x ELSE min(lo_x,{_OLD_TIME})END,
hi_x=CASE WHEN {_OLD_TIME}={_NEW_TIME} THEN hi_x ELSE max(hi_x,{_OLD_TIME})END
WHERE {_session_of_row("new")} AND old.session IS new.session AND
(old.state,old.text,{_OLD_TIME})IS NOT(new.state,new.text,{_NEW_TIME});
UPDATE part SET live=live+(new.state='live')-(old.state='live'),
bytes=bytes+{_NEW_SIZE}-{_OLD_SIZE},
aged=aged+(new.state='archived')-(old.state='archived'),
held=held+(new.state='quarantined')-(old.state='quarantined'),
bare=bare+(new.vec ISNULL)-(old.vec ISNULL),
lo=min(lo,new.created_at),hi=max(hi,new.updated_at),
lo_x=CASE WHEN old.created_at=new.created_at THEN lo_x ELSE min(lo_x,old.created_at)END,
hi_x=CASE WHEN old.updated_at=new.updated_at THEN hi_x ELSE max(hi_x,old.updated_at)END
WHERE id=new.part;
""",
    "item_out AFTER DELETE ON main.item WHEN old.part>0 AND old.ns<>char(31)": """
UPDATE part SET docs=docs-1 WHERE id=old.part;
""",
    "item_of AFTER UPDATE OF part ON main.item "
    "WHEN (old.part>0)<>(new.part>0) AND new.ns<>char(31)": """
UPDATE part SET docs=docs+(new.part>0)-(old.part>0) WHERE id=abs(new.part);
""",
    f"tomb_out AFTER DELETE ON main.tomb WHEN NOT {_is_counter_key('old')}": """
UPDATE part SET gone=gone-1 WHERE id=old.part;
""",
    "part_in AFTER INSERT ON main.part": _INTO_APP,
    "part_out AFTER DELETE ON main.part": f"""
{_OUT_OF_APP}
DELETE FROM fig WHERE part=old.id;
""",
    "part_of AFTER UPDATE OF app ON main.part WHEN old.app<>new.app": (
        _OUT_OF_APP + _INTO_APP
    ),
    f"part_as AFTER UPDATE OF {','.join(_WATCHED)} ON main.part WHEN old.app=new.app "
    f"AND {_counted_row('old', _WATCHED)} IS NOT {_counted_row('new', _WATCHED)}": f"""
UPDATE fig SET users=users+(new.n>0)-(old.n>0),
{",".join(f"{name}={name}+new.{name}-old.{name}" for name in _SUMS)},
hi=max(hi,new.hi),hi_x=max(hi_x,new.hi_x,CASE WHEN new.hi<old.hi THEN old.hi
ELSE -9e99 END) WHERE part=0 AND name={_counted_app_name("new")};
""",
}


# `n` is of the counted rows: if all of them are gone, so are their times.
_LEAVE = """
UPDATE part SET seq=?1,head=?2,n=n+?3,live=live+?4,bytes=bytes+?5,aged=aged+?6,
held=held+?7,bare=bare+?8,ses=ses+?9,lo=min(CASE n WHEN ?10 THEN 9e99 ELSE lo END,?11),
hi=max(CASE n WHEN ?10 THEN -9e99 ELSE hi END,?12),
lo_x=CASE n WHEN ?10 THEN 9e99 ELSE min(lo_x,?13)END,
hi_x=CASE n WHEN ?10 THEN -9e99 ELSE max(hi_x,?14)END WHERE id=?15
"""
_GROWN = """
UPDATE fig SET n=n+?,live=live+?,bytes=bytes+?,lo=min(lo,?),hi=max(hi,?)
WHERE part=? AND name=?
"""
_NEW_SESSION = """
INSERT INTO fig(n,live,bytes,lo,hi,part,name,lo_x,hi_x)VALUES(?,?,?,?,?,?,?,9e99,-9e99)
"""
_SHRUNK = """
UPDATE fig SET n=n-?,live=live-?,bytes=bytes-?,lo_x=min(lo_x,?),hi_x=max(hi_x,?)
WHERE part=? AND name=?
"""
_END_SESSION = "DELETE FROM fig WHERE part=? AND name=? AND n=0"
_TIDIED = 512  # memories of a user whose times are read again after a deletion
_OWN = "FROM mem WHERE rid BETWEEN part.id<<32 AND(part.id<<32)|4294967295"
TIDY = f"""
UPDATE part SET lo=(SELECT min(created_at) {_OWN}),lo_x=9e99,
hi=(SELECT max(updated_at) {_OWN}),hi_x=-9e99
WHERE id=? AND n BETWEEN 1 AND {_TIDIED} AND(lo>=lo_x OR hi<=hi_x)
"""
"""Reads the times of a small user again, if one of them was of a deleted memory."""


def count_changed_rows(
    connection: sqlite3.Connection,
    part: int,
    seq: int,
    head: int,
    added: MemoryCounts,
    gone: MemoryCounts,
) -> None:
    """Write the newest change of a user, and count rows that were added or deleted."""
    sessions = 0
    for name, counts in gone.sessions.items():
        connection.execute(_SHRUNK, (*counts, part, name))
        sessions -= connection.execute(_END_SESSION, (part, name)).rowcount
    for name, counts in added.sessions.items():
        values = (*counts, part, name)
        if not connection.execute(_GROWN, values).rowcount:
            connection.execute(_NEW_SESSION, values)
            sessions += 1
    more = map(sub, added.counts[:6], gone.counts)
    times = (gone.counts[0], *added.counts[6:], *gone.counts[6:])
    connection.execute(_LEAVE, (seq, head, *more, sessions, *times, part))


def tally_rows_up_to_seq(
    connection: sqlite3.Connection, part: int, seq: int
) -> MemoryCounts:
    """Return the rows of a user that were added up to a change."""
    added = MemoryCounts()
    for row in connection.execute(
        "SELECT state, session, length(CAST(text AS BLOB)), vec ISNULL, created_at, "
        "updated_at, ts FROM mem WHERE rid BETWEEN (?1 << 32) + 1 + "
        "(SELECT seq FROM part WHERE id = ?1) AND (?1 << 32) + ?2",
        (part, seq),
    ):
        added.add_memory(*row)
    return added


def count_writes_of_connection(connection: sqlite3.Connection) -> None:
    """Let a connection count what it writes from now on."""
    for statement in _counter_statements():
        connection.execute(statement)


def _counter_statements() -> Iterator[str]:
    for head, body in _TRIGGERS.items():
        yield f"CREATE TEMP TRIGGER IF NOT EXISTS {head} BEGIN {body} END"
