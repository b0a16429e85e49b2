"""Statements of one user's calls read that user's rows, not the tables.

Each statement is explained with its values before it is executed, beside many rows of
other users.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from helpers.campaigns import scaled
from vecall import CorruptFileError, Drop, Filter, MemoryEntry, MemoryService, Put

psycopg = pytest.importorskip("psycopg")
pytestmark = pytest.mark.campaign

ME = {"app_name": "hotel", "user_id": "alice"}
ROWS = scaled(100_000, least=10_000)  # of other users
OF_A_USER = 50
OF_USERS = {
    "mem": "(rid, part, seq, crc, created_at, updated_at, id, session, pos, text, hash)"
    " SELECT (p << 32) | n, p, n, 0, n, n, 'm' || n, 's', n, 'okapi ' || n, "
    "decode(md5(n::text), 'hex')",
    "chg": "(part, seq, rid, op, head) SELECT p, n, (p << 32) | n, 'u', 1",
    "tomb": "(part, id, at) SELECT p, 't' || n, 0",
    "hist": "(part, id, seq, at, op) SELECT p, 'h' || n, n, 0, 'edit'",
    "idem": "(part, key, at) SELECT p, 'k' || n, 0",
    "told": "(part, session, id, at, pos) SELECT p, 's', 'e' || n, 0, n",
    "replaced": "(part, id, why, at) SELECT p, 'r' || n, 'folded', 0",
    "item": "(rid, part, ns, key, value, created_at, updated_at, crc) "
    "SELECT (p << 32) | n, p, 'n', 'k' || n, '{}', 0, 0, 0",
}


@pytest.fixture
def many(schema) -> str:
    """The URL of a database with many rows, of which the planner knows."""
    execute, name = schema.server.execute, schema.name
    users = ROWS // OF_A_USER
    execute(
        f'INSERT INTO {name}.part (id, app, "user", created_at, seq, live) '
        f"SELECT p, 'hotel', 'u' || p, 0, {OF_A_USER}, {OF_A_USER} "
        f"FROM generate_series(1000, {999 + users}) AS p"
    )
    for table, rows in OF_USERS.items():
        execute(
            f"INSERT INTO {name}.{table} {rows} FROM generate_series(1000::bigint, "
            f"{999 + users}) AS p, generate_series(1, {OF_A_USER}) AS n"
        )
    execute(f"SELECT setval('{name}.part_id', {2_000 + users})")
    for table in ("part", *OF_USERS):
        execute(f"ANALYZE {name}.{table}")
    return str(schema.url)


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A plan and all below it."""
    yield plan
    for each in plan.get("Plans", ()):
        yield from nodes(each)


class Explained:
    """Explains each statement of this process, and notes the scans of whole tables."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from vecall.store.postgres.transaction import (
            PostgresTransaction,
            _encoded_value,
            translate_sql,
        )

        self.statements: set[str] = set()
        self.scans: dict[str, set[str]] = {}
        sent = PostgresTransaction._send_statement

        def explained(own: PostgresTransaction, sql: str, values: Any) -> Any:
            if sql not in self.statements:
                self.statements.add(sql)
                if isinstance(values, dict):
                    given: Any = {
                        key: _encoded_value(value) for key, value in values.items()
                    }
                else:
                    given = [_encoded_value(value) for value in values] or None
                query = translate_sql(sql)
                if given is None:
                    query = query.replace("%%", "%")
                row = own.connection.execute(
                    f"EXPLAIN (FORMAT JSON) {query}", given
                ).fetchone()
                self.note(sql, row[0])
            return sent(own, sql, values)

        monkeypatch.setattr(PostgresTransaction, "_send_statement", explained)

    def note(self, sql: str, plans: Any) -> None:
        """Note which tables a plan reads from their beginning to their end."""
        for plan in json.loads(plans) if isinstance(plans, str) else plans:
            for node in nodes(plan["Plan"]):
                is_whole = "Index" in node["Node Type"] and "Index Cond" not in node
                if node["Node Type"] == "Seq Scan" or (
                    is_whole and "Relation Name" in node
                ):
                    self.scans.setdefault(node["Relation Name"], set()).add(sql)


def use(service: MemoryService) -> None:
    """The calls of an agent's turn, and of a user who looks after memories."""
    memory = service.sync
    entries = [
        MemoryEntry(f"okapi {n}", id=f"a{n}", session_id="s", timestamp=float(n))
        for n in range(30)
    ]
    memory.add_memory(**ME, memories=entries, idempotency_key="k")
    memory.add_memory(**ME, memories=["the dog is Rex"], ttl=3600)
    events = [{"id": f"e{n}", "author": "user", "text": f"zebra {n}"} for n in range(4)]
    session = {"app_name": "hotel", "user_id": "alice", "id": "s1", "events": events}
    memory.add_session_to_memory(session)
    hits = memory.search_memory(**ME, query="okapi", top_k=5).memories
    assert len(hits) == 5
    memory.search_memory(**ME, query="okapi", filter=Filter(session_id="s"))
    memory.mark_used(**ME, memory_ids=[hit.id for hit in hits])
    memory.get_memory(**ME, memory_id="a1")
    memory.get_memories(**ME, memory_ids=["a1", "a2"])
    memory.list_memories(**ME, limit=10)
    memory.count_memories(**ME)
    memory.update_memory(**ME, memory_id="a3", content="okapi changed")
    memory.memory_history(**ME, memory_id="a3")
    memory.delete_memory(**ME, memory_id="a4")
    memory.admin.warm(**ME)
    items = service.items.sync
    items.write([Put(("n", f"{n}"), "k", n, [1.0, n]) for n in range(30)], **ME)
    items.write([Drop(("n", "3"), "k")], **ME)
    assert items.get([(("n", "4"), "k")], **ME) != [None]
    assert items.get([(("n", "4"), "k"), (("n", "5"), "k")], **ME)
    assert len(items.find(("n",), **ME)) == 10
    assert len(items.find((), vector=[1.0, 1.0], limit=3, **ME)) == 3
    assert len(items.find((), where={"$not": {"a": 1}}, offset=28, **ME)) == 1
    items.namespaces(**ME)
    assert items.count(**ME) == 29


def test_no_statement_of_a_users_calls_scans_a_table(many, open_service, monkeypatch):
    explained = Explained(monkeypatch)
    service = open_service(many)
    use(service)
    other = open_service(many)  # loads from rows, and then the later changes
    assert other.sync.search_memory(**ME, query="okapi").memories
    use_again = [MemoryEntry("okapi more", id="b1")]
    service.sync.add_memory(**ME, memories=use_again)
    assert other.sync.search_memory(**ME, query="okapi more").memories
    assert len(explained.statements) > 30
    large = {"part", *OF_USERS} & explained.scans.keys()
    assert {table: explained.scans[table] for table in large} == {}


def test_the_scan_of_a_table_is_noticed(many, open_service, monkeypatch):
    explained = Explained(monkeypatch)
    service = open_service(many)
    with service._memory.storage._claiming() as transaction:
        transaction.execute("SELECT count(*) FROM mem WHERE text = ?", ("okapi",))
    assert "mem" in explained.scans


def test_the_newest_items_of_a_large_user_are_found_among_their_own(
    many, schema, open_service, monkeypatch
):
    """Reading all items backwards seems cheap, but those of later users come first."""
    schema.server.execute(
        f'INSERT INTO {schema.name}.part (id, app, "user", created_at, seq, live) '
        f"VALUES (1, 'hotel', 'alice', 0, {ROWS}, 0)"
    )
    schema.server.execute(
        f"INSERT INTO {schema.name}.item (rid, part, ns, key, value, created_at, "
        "updated_at, crc) SELECT (1::bigint << 32) | n, 1, E'n\\x1f', 'k' || n, '1', "
        f"0, 0, 0 FROM generate_series(1, {ROWS // 10}) AS n"
    )
    schema.server.execute(f"ANALYZE {schema.name}.item")
    explained = Explained(monkeypatch)
    service = open_service(many)
    for namespace in ((), ("n",)):
        with pytest.raises(CorruptFileError):  # these rows have no checksums
            service.items.sync.find(namespace, **ME)
    assert "item" not in explained.scans
