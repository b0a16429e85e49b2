"""What a write costs SQLite, in steps of its machine: that of few rows and of many."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from vecall import MemoryService, StorageOptions
from vecall.store import AddMemories, Draft
from vecall.store.file.connections import connect_to_file
from vecall.store.file.counters import count_writes_of_connection
from vecall.store.writes.delete import users_with_expired
from vecall.store.writes.quota import UserQuota

FEW, MANY = 100, 6_000
ROUGHLY = 1.3  # a tree of many rows is a level deeper
COLUMNS = (
    "part, seq, session, pos, ts, created_at, updated_at, expires_at, valid_until, "
    "text, state, hash, crc"
)


@pytest.fixture
def path(tmp_path) -> Path:
    path = tmp_path / "m.db"
    with MemoryService(
        path,
        storage=StorageOptions(maintenance_interval=None, durability="process"),
        embedder=None,
    ) as service:
        for user in ("u", "other"):
            facts = [f"fact {number} of {user}" for number in range(30)]
            service.sync.add_memory(app_name="a", user_id=user, memories=facts)
    return path


def steps_of(path: Path, work: Callable[[sqlite3.Connection], object]) -> int:
    """Steps of SQLite's machine, by tens, for work that is taken back."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 10
        return 0

    with closing(connect_to_file(path)) as connection:
        count_writes_of_connection(connection)
        connection.execute("BEGIN IMMEDIATE")
        connection.set_progress_handler(count, 10)
        work(connection)
        connection.set_progress_handler(None, 0)
        connection.execute("ROLLBACK")
    return steps


def repeat(path: Path, count: int, table: str, columns: str, values: str) -> None:
    """Rows of a table, made by SQLite itself; `n` is their number."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            f"WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM "
            f"numbers WHERE n < {count}) INSERT OR REPLACE INTO {table} ({columns}) "
            f"SELECT {values} FROM numbers, "
            "(SELECT id AS other FROM part WHERE user = 'other') "
            "JOIN (SELECT id AS mine FROM part WHERE user = 'u')"
        )


def add(**options: object) -> Callable[[sqlite3.Connection], object]:
    drafts = [Draft(id="new", text="a new fact")]
    return AddMemories("a", "u", drafts, **options).run  # type: ignore[arg-type]


def at_limit(connection: sqlite3.Connection) -> object:
    return add(bounds=UserQuota(30, None, "oldest"))(connection)


def many_at_limit(
    eviction: str, memories: int | None, nbytes: int | None
) -> Callable[[sqlite3.Connection], object]:
    """Adds, one by one, of a user who has all that is allowed."""
    bounds = UserQuota(memories, nbytes, eviction)  # type: ignore[arg-type]

    def run(connection: sqlite3.Connection) -> None:
        for number in range(MANY // 100):
            drafts = [Draft(id=f"new {number}", text="text")]
            AddMemories("a", "u", drafts, bounds=bounds).run(connection)

    return run


def due(connection: sqlite3.Connection) -> object:
    return users_with_expired(connection, 1_700_000_000.0)


@pytest.mark.parametrize("work", [at_limit, due])
@pytest.mark.parametrize(
    ("state", "valid_until"),
    [("archived", "5.0"), ("archived", "4e9 + n"), ("live", "4e9 + n")],
    ids=["superseded", "archived before its end", "valid for long"],
)
def test_what_others_corrected_costs_nothing(path, work, state, valid_until):
    """One user's archived and passing memories do not slow another's writes."""
    costs = []
    for count in (FEW, MANY):
        values = (
            f"(other << 32) + 100 + n, 'old' || n, other, n, 's', n, 1.0, 1.0, 1.0, "
            f"NULL, {valid_until}, 'text', '{state}', x'00', 0"
        )
        repeat(path, count, "mem", f"rid, id, {COLUMNS}", values)
        costs.append(steps_of(path, work))
    assert costs[1] <= ROUGHLY * costs[0], costs


def test_what_others_let_expire_costs_nothing(path):
    """Rows of others that wait for the sweep do not slow a user at the limit."""
    costs = []
    for count in (FEW, MANY):
        values = (
            "(other << 32) + 100 + n, 'old' || n, other, n, 's', n, 1.0, 1.0, 1.0, "
            "5.0, 5.0, 'text', 'live', x'00', 0"
        )
        repeat(path, count, "mem", f"rid, id, {COLUMNS}", values)
        costs.append(steps_of(path, at_limit))
    assert costs[1] <= ROUGHLY * costs[0], costs


def test_keys_of_one_user_do_not_slow_the_next_call(path):
    """An idempotency key is kept beside thousands as beside a few."""
    costs = []
    for count in (FEW, MANY):
        values = "mine, 'key' || n, 4e9, x'00', '[]'"
        repeat(path, count, "idem", "part, key, at, hash, ids", values)
        costs.append(steps_of(path, add(key="another")))
    assert costs[1] <= ROUGHLY * costs[0], costs


def test_old_keys_are_forgotten(path):
    """Thirty days later a key may be used for something else; a newer one may not."""
    repeat(path, FEW, "idem", "part, key, at, hash, ids", "mine, n, 1.0, x'00', '[]'")

    def left(connection: sqlite3.Connection) -> None:
        add(key="another")(connection)
        query = "SELECT key FROM idem ORDER BY key"
        assert connection.execute(query).fetchall() == [("another",)]

    steps_of(path, left)


@pytest.mark.parametrize("bound", ["memories", "bytes"])
@pytest.mark.parametrize("eviction", ["oldest", "lru", "lowest_value"])
def test_eviction_costs_the_same_beside_many(path, eviction, bound):
    """Over many adds at the limit, each costs what it does of a small user."""
    costs = []
    for count in (MANY // 10, MANY):
        values = (
            "(mine << 32) + 100 + n, 'old' || n, mine, n, NULL, NULL, n, 1.0, 1.0, "
            "NULL, NULL, 'text', 'live', x'00', 0"
        )
        repeat(path, count, "mem", f"rid, id, {COLUMNS}", values)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(
                "UPDATE part SET (live, n, bytes) = (SELECT count(*), count(*), "
                "sum(length(text)) FROM mem WHERE part = part.id), "
                f"seq = {100 + count}"
            )
            live, size = connection.execute(
                "SELECT live, bytes FROM part WHERE user = 'u'"
            ).fetchone()
        limits = (live, None) if bound == "memories" else (None, size)
        costs.append(steps_of(path, many_at_limit(eviction, *limits)))
    assert costs[1] <= 1.5 * costs[0], costs
