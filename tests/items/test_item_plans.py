"""Reads of items use the indexes of a file, whatever its statistics say."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from helpers.memories import ALICE
from vecall import MemoryService, Put
from vecall.store.queries import item_reads

NOTES = "notes\x1f"


@pytest.fixture(params=["none", "of one item", "of many users"])
def connection(request, tmp_path) -> Iterator[sqlite3.Connection]:
    """A connection to a file with statistics, which may be older than its rows."""
    users = 1 if request.param == "of one item" else 200
    with MemoryService(tmp_path / "m.db", embedder=None) as service:
        for number in range(users):
            who = {**ALICE, "user_id": f"u{number}"}
            service.items.sync.write([Put(("notes",), "k", 1)], **who)
    with closing(sqlite3.connect(tmp_path / "m.db", isolation_level=None)) as own:
        if request.param != "none":
            own.execute("ANALYZE")
    with closing(sqlite3.connect(tmp_path / "m.db", isolation_level=None)) as own:
        yield own


READS = {
    "state": lambda own: item_reads.find_item_state(own, ALICE["app_name"], "u0"),
    "get": lambda own: item_reads.read_item_at(
        own, ALICE["app_name"], "u0", NOTES, "k"
    ),
    "get two": lambda own: item_reads.read_items_at(
        own, 1, [(NOTES, "k"), (NOTES, "l")]
    ),
    "all": lambda own: list(item_reads.read_newest_items(own, 1, "", None, 1)),
    "list": lambda own: list(item_reads.read_newest_items(own, 1, NOTES, "notes ", 1)),
    "numbers": lambda own: item_reads.read_items_by_number(own, 1, [1, 2]),
}


@pytest.mark.parametrize("name", READS)
def test_no_read_scans_a_table_or_an_index(connection, name):
    sent: list[str] = []
    connection.set_trace_callback(sent.append)
    READS[name](connection)
    connection.set_trace_callback(None)
    assert sent
    steps = [
        step
        for statement in sent
        for *_, step in connection.execute(f"EXPLAIN QUERY PLAN {statement}")
    ]
    named = ("SCAN named", "SCAN newest")  # the rows that a part of the statement found
    assert [s for s in steps if s.startswith("SCAN") and s not in named] == []
    assert any(s.startswith("SEARCH") for s in steps)
