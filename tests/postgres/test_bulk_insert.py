"""Rows that are inserted together come back as rows that are inserted one by one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vecall.clock import Clock, ExpiryClock
from vecall.store.postgres.transaction import MAX_ROWS, column_type
from vecall.store.rows import TABLES
from vecall.store.transaction import insert_many

psycopg = pytest.importorskip("psycopg")

FIRST = 1 << 32  # the first number of a row of partition 1
NAMES = {
    "int8": "bigint",
    "int4": "integer",
    "float8": "double precision",
    "bytea": "bytea",
    "text": "text",
}


@pytest.fixture
def transaction(schema):
    """A transaction in the schema, which is rolled back."""
    from vecall.store.postgres.transaction import PostgresTransaction

    path = f"-csearch_path={schema.name}"
    with psycopg.connect(schema.server.url(), options=path) as connection:
        yield PostgresTransaction(connection, ExpiryClock(Clock()), b"")
        connection.rollback()


@pytest.mark.parametrize("table", TABLES)
def test_the_type_of_each_column_is_that_of_the_catalog(schema, table):
    found = schema.server.execute(
        "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute "
        f"WHERE attnum > 0 AND attrelid = '{schema.name}.{table}'::regclass"
    )
    assert {name: NAMES[column_type(table, name)] for name, _ in found} == dict(found)


texts = st.none() | st.text(st.characters(codec="utf-8"), max_size=8)
numbers = (
    st.none()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
)
rows_of_mem = st.lists(
    st.tuples(
        st.integers(-(2**63), 2**63 - 1),
        st.integers(-(2**31), 2**31 - 1) | st.none(),
        numbers,
        st.binary(max_size=8),
        texts,
        texts,
    ),
    max_size=12,
    unique_by=lambda row: row[0],
)


def test_rows_with_any_values_are_those_of_single_inserts(transaction):
    """Each column has NULLs, whole numbers among others, and texts with NUL."""
    columns = "rid, model, pos, hash, session, author"
    fixed = "part, id, seq, created_at, updated_at, text, crc"

    @settings(max_examples=60, derandomize=True, deadline=None, database=None)
    @given(rows_of_mem)
    def check(rows):
        transaction.connection.rollback()
        whole = [
            (*row, row[0] >> 32, f"m{n}", n, 0, 0.5, "a\0b", 7)
            for n, row in enumerate(rows)
        ]
        select = f"SELECT {columns}, {fixed} FROM mem ORDER BY seq"
        insert_many(transaction, f"mem ({columns}, {fixed})", whole)
        together = transaction.execute(select).fetchall()
        transaction.execute("DELETE FROM mem")
        for row in whole:
            marks = ", ".join("?" * len(row))
            transaction.execute(
                f"INSERT INTO mem ({columns}, {fixed}) VALUES ({marks})", row
            )
        assert transaction.execute(select).fetchall() == together
        assert [row[4:6] for row in together] == [row[4:6] for row in rows]

    check()


def test_more_rows_than_one_statement_has_are_all_inserted_in_order(transaction):
    rows = [(1, n, FIRST + n, "u", 9) for n in range(1, 2 * MAX_ROWS + 2)]
    insert_many(transaction, "chg (part, seq, rid, op, head)", rows)
    found = transaction.execute(
        "SELECT part, seq, rid, op, head FROM chg ORDER BY seq"
    ).fetchall()
    assert found == rows


def test_of_rows_with_a_conflict_the_clause_is_executed(transaction):
    again = "ON CONFLICT (part, id) DO UPDATE SET at = excluded.at, why = excluded.why"
    for at in (1, 2.5):
        insert_many(
            transaction, "tomb (part, id, at, why)", [(1, "a", at, None)], again
        )
    assert transaction.execute("SELECT at FROM tomb").fetchall() == [(2.5,)]


def test_zeros_of_different_signs_are_not_one_value(transaction):
    zeros = enumerate([0.0, -0.0, 0.0])
    rows = [(FIRST + n, 1, f"{n}", n, 0, at, "x", 7, b"h") for n, at in zeros]
    columns = "rid, part, id, seq, created_at, updated_at, text, crc, hash"
    insert_many(transaction, f"mem ({columns})", rows)
    found = transaction.execute("SELECT updated_at FROM mem ORDER BY seq").fetchall()
    assert [repr(at) for (at,) in found] == ["0.0", "-0.0", "0.0"]
