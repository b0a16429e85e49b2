"""The doctor of a database finds damage in its rows, and says what the server risks."""

from __future__ import annotations

import pytest
from helpers.old_checksums import old_item_checksum, old_row_checksum
from vecall import MemoryService, Put
from vecall.index.partition_cache import examine_storage
from vecall.store import examine_database
from vecall.store.rows import COLUMNS, Row
from vecall.store.values import ITEM_COLUMNS, ItemRow


def levels(schema):
    return {each.about: each.level for each in examine_database(schema.url)}


@pytest.fixture
def stored(schema):
    """A schema with the memories of three users."""
    with MemoryService(schema.url, embedder=None).sync as memory:
        for user in ("alice", "bob", "carol"):
            memory.user("hotel", user).add(["Prefers tea.", "Arrives at nine."])
        bob = memory.user("hotel", "bob")
        bob.delete(next(iter(bob.search("tea"))).id)
    return schema


CONTENTS = ("memories", "items", "counts", "changes", "heads", "orphans")


def test_a_database_that_was_written_is_sound(stored):
    found = levels(stored)
    assert {about: found[about] for about in CONTENTS} == dict.fromkeys(CONTENTS, "ok")
    assert found["role"] == found["policies"] == found["tables"] == "ok"


@pytest.mark.parametrize(
    ("statement", "about"),
    [
        (
            "UPDATE mem SET text = 'Prefers rum.' WHERE text = 'Prefers tea.'",
            "memories",
        ),
        ("UPDATE part SET live = live + 1 WHERE \"user\" = 'bob'", "counts"),
        ("UPDATE part SET bytes = bytes - 1 WHERE \"user\" = 'bob'", "counts"),
        ("DELETE FROM chg WHERE seq = 2", "changes"),
        ("UPDATE part SET seq = seq + 1 WHERE \"user\" = 'carol'", "changes"),
        ("UPDATE part SET head = head + 2 WHERE \"user\" = 'carol'", "heads"),
        ("INSERT INTO tomb (part, id, at) VALUES (999999, 'x', 0)", "orphans"),
    ],
)
def test_each_kind_of_damage_is_found(stored, statement, about):
    stored.server.execute(f"SET search_path = {stored.name}; {statement}")
    found = levels(stored)
    assert {each for each in CONTENTS if found[each] == "error"} == {about}


def test_the_settings_that_lose_data_are_named(schema):
    found = levels(schema)
    on = dict(schema.server.execute("SELECT name, setting FROM pg_settings"))
    for name in ("fsync", "full_page_writes"):
        assert found[name] == ("ok" if on[name] == "on" else "error")
    assert found["replication"] == "warning"  # there is no standby
    assert found["connection"] == "ok"  # a unix socket


def test_more_rows_than_a_page_are_all_checked(schema):
    number = 2_100
    with MemoryService(schema.url, embedder=None).sync as memory:
        memory.user("hotel", "alice").add([f"Note {n}." for n in range(number)])
    (rows,) = (
        each for each in examine_database(schema.url) if each.about == "memories"
    )
    assert rows.message.startswith(f"{number} ")


def test_rows_with_a_checksum_of_numpys_spelling_are_found_and_counted(schema):
    carol = {"app_name": "hotel", "user_id": "carol"}
    with MemoryService(schema.url, embedder=None) as service:
        service.sync.add_memory(**carol, memories=["Prefers tea."], ttl=1e6)
        put = Put(("notes",), "k", {"n": 1}, ttl=1e6)
        service.items.sync.write([put], **carol)
    inside = f"SET search_path = {schema.name}; "
    execute = schema.server.execute
    (found,) = execute(f"SELECT {quoted(COLUMNS)} FROM {schema.name}.mem")
    row = Row(*found)
    crc = old_row_checksum(row, None, ["expires_at"])
    execute(f"{inside}UPDATE mem SET crc = {crc} WHERE rid = {row.rid}")
    (found,) = execute(f"SELECT {quoted(ITEM_COLUMNS)} FROM {schema.name}.item")
    item = ItemRow(*found)
    crc = old_item_checksum(item, ["key", "ttl"])
    execute(f"{inside}UPDATE item SET crc = {crc} WHERE rid = {item.rid}")
    with MemoryService(schema.url, embedder=None) as service:
        assert len(service.sync.search_memory(**carol, query="tea").memories) == 1
        assert len(service.items.sync.find_all((), **carol)) == 1
    said = {each.about: each for each in examine_storage(schema.url)}
    for about in ("memories", "items"):
        assert said[about].level == "note"
        assert said[about].message.startswith("1 pass their checksum, 1 of them")
    assert said["loading"].level == "ok"
    execute(f"{inside}UPDATE item SET value = '2'")
    assert levels(schema)["items"] == "error"


def quoted(columns):
    return ", ".join(f'"{name}"' for name in columns.split(", "))
