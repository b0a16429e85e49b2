"""Files that somebody crafted: cells of other types and sizes, checksums set right."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

import numpy as np
from vecall import MemoryService, StorageOptions
from vecall.store import examine, recover_file, repair_file
from vecall.store.rows import COLUMNS, Row, checksum, names_checksum

from helpers.options import grouped

USERS = ("ann", "ben")
TABLES = "meta model part mem hist tomb idem trig told replaced chg".split()
VALUES = [
    None, 0, 1, -1, 2**31, 2**63 - 1, -(2**63), 1e308, float("inf"), -float("inf"),
    1e18, 0.5, "", "x", "live", "quarantined", "archived", b"", b"\xff\xfe", b"x" * 99,
    "a\0b", "x" * 9_999, "[", "{}", "[]", '{"a":1e999}', '{"ttl":5}', '{"parts":5}',
    '{"parts":[5,{"text":5}]}', '"x"', "[" * 9_999, "NaN", '{"1":5}', '{"tries":"x"}',
    '{"content":5}', '{"content":"x","timestamp":"y"}', '{"digest":"x"}', "9e999",
]  # fmt: skip


def ones(texts):
    """An embedder."""
    return np.ones((len(texts), 4), dtype=np.float32)


def owner(user):
    """The names of a user."""
    return {"app_name": "a", "user_id": user}


def make(path: Path) -> None:
    """Write a file in which every table has rows, of two users."""
    how = {"history_ttl": 10**6, "trigger": {"type": "message_count",
           "message_count": 9}}  # fmt: skip
    with MemoryService(path, **grouped(embedder=ones, **how)) as memory:
        for user in USERS:
            own = owner(user)
            entries = [
                {"content": f"zebra one of {user}", "id": "1", "author": "user",
                 "timestamp": 1e9, "custom_metadata": {"topic": "tea"}},
                {"content": {"parts": [{"text": f"zebra of {user}"}, {"text": "b"}]},
                 "id": "2", "importance": 0.5},
                {"content": f"zebra three of {user}", "id": "3", "valid_until": 4e9},
                {"content": f"zebra four of {user}", "id": "4", "supersedes": "1"},
            ]  # fmt: skip
            memory.sync.add_memory(**own, memories=entries, idempotency_key="k")
            memory.sync.update_memory(**own, memory_id="2", content=f"changed {user}")
            memory.sync.delete_memory(**own, memory_id="3")
            memory.sync.mark_used(**own, memory_ids=["4"])
            turn = {"content": f"said by {user}", "id": "e1", "timestamp": 1e9}
            memory.sync.observe_session({**own, "id": "s", "events": [turn]})
            memory.sync.propose_forget(**own, query="zebra")


def spoil(path: Path, random: Random) -> list[tuple[str, ...]]:
    """Change cells of a file and set the checksums right; return what was changed."""
    done: list[tuple[str, ...]] = []
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
        connection.execute("PRAGMA ignore_check_constraints = ON")
        for _ in range(random.choice([1, 1, 1, 2, 3, 5])):
            table = random.choice([*TABLES, "mem", "mem", "told", "hist"])
            rows = connection.execute(f"SELECT * FROM {table}").fetchall()
            names = [
                row[1] for row in connection.execute(f"PRAGMA table_info({table})")
            ]
            if not rows:
                continue
            name, row = random.choice(names), random.choice(rows)
            where = " AND ".join(f"{each} IS ?" for each in names)
            value = random.choice(VALUES)
            try:
                if random.random() < 0.08:
                    bad = "CAST(x'ff41fe' AS TEXT)"
                    connection.execute(
                        f"UPDATE {table} SET {name} = {bad} WHERE {where}", row
                    )
                elif random.random() < 0.06:
                    connection.execute(f"DELETE FROM {table} WHERE {where}", row)
                else:
                    connection.execute(
                        f"UPDATE {table} SET {name} = ? WHERE {where}", (value, *row)
                    )
            except (sqlite3.Error, UnicodeError):
                continue
            done.append((table, name, repr(value)[:30]))
        if random.random() < 0.85:
            sum_up(connection)
    return done


def sum_up(connection: sqlite3.Connection) -> None:
    """Set the checksums of all rows right."""
    try:
        rows = connection.execute(f"SELECT {COLUMNS}, vec FROM mem").fetchall()
        for *row, vec in rows:
            values = (checksum(Row(*row), vec), row[0])
            connection.execute("UPDATE mem SET crc = ? WHERE rid = ?", values)
        for part in connection.execute("SELECT id, app, user FROM part").fetchall():
            values = (names_checksum(*part), part[0])
            connection.execute("UPDATE part SET crc = ? WHERE id = ?", values)
    except (sqlite3.Error, TypeError, UnicodeError):
        return


def calls(path: Path, random: Random):
    """Yield the name of each call on a file, and the call."""
    yield "examine", lambda: examine(path)
    opened: list[MemoryService] = []
    given = random.choice([ones, None])
    yield (
        "open",
        lambda: opened.append(
            MemoryService(
                path,
                embedder=given,
                storage=StorageOptions(maintenance_interval=None, durability="process"),
            )
        ),
    )  # fmt: skip
    if opened:
        with opened[0] as memory:
            for user in USERS:
                yield from _calls_of(memory.sync, user)
            target = path.with_name("out.jsonl")
            yield "export", lambda: memory.sync.admin.export_jsonl(target)
            target.unlink(missing_ok=True)
            copy = path.with_name("copy.db")
            yield "backup", lambda: memory.sync.admin.backup(copy)
            copy.unlink(missing_ok=True)
            for name in ("run_due", "stats", "purge"):
                yield name, getattr(memory.sync.admin, name)
            yield "delete_user", lambda: memory.sync.delete_user(**owner("ann"))
    yield "repair", lambda: repair_file(path)
    yield "recover", lambda: recover_file(path, path.with_name("saved.db"))


def _calls_of(memory, user):
    own = owner(user)
    yield "search", lambda: memory.search_memory(**own, query="zebra", top_k=100)
    for state in ("live", "archived", "quarantined"):
        yield "list", lambda state=state: memory.list_memories(**own, state=state)
    for id_ in ("1", "2", "4"):
        for name in ("memory_history", "expand_session", "get_memory"):
            call = getattr(memory, name)
            yield name, lambda call=call, id_=id_: call(**own, memory_id=id_)
    new = {"content": "new zebra", "id": "9"}
    for key in ("k", "k2"):
        yield (
            "add",
            lambda key=key: memory.add_memory(
                **own, memories=[new], idempotency_key=key
            ),
        )
    yield "update", lambda: memory.update_memory(**own, memory_id="4", kind="x")
    yield "restore", lambda: memory.restore_memory(**own, memory_id="2")
    yield "mark_used", lambda: memory.mark_used(**own, memory_ids=["1", "4"])
    turn = {"content": "more", "id": "e2", "timestamp": 1e9 + 9}
    yield (
        "observe",
        lambda: memory.observe_session({**own, "id": "s", "events": [turn]}),
    )
    yield "end_session", lambda: memory.end_session(**own, session_id="s")
    yield "propose", lambda: memory.propose_forget(**own, query="zebra")
    yield "consolidate", lambda: memory.consolidate(**own)
    yield "delete", lambda: memory.delete_memory(**own, memory_id="1")
