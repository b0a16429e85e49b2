"""`vecall erase` over a database leaves no row of a user, or says where one is."""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import Any

import pytest
from helpers.campaigns import scaled
from vecall import MemoryEntry, MemoryService, Put, Scopes, WritePolicy
from vecall.cli.main import main

pytestmark = pytest.mark.skipif(not find_spec("psycopg"), reason="needs psycopg")

SHARED = WritePolicy(scopes=Scopes(read=("shared",), write=("shared",)))
SECRET = "hush-4711"


@pytest.fixture
def service(schema, open_service) -> MemoryService:
    """A service on the database; it stays open meanwhile, as other servers do."""
    return open_service(schema.url, writes=SHARED)


def fill(service: MemoryService, app: str, user: str) -> None:
    """Write rows of a user into every table."""
    who = {"app_name": app, "user_id": user}
    memory = service.sync
    entries = [MemoryEntry(f"of {user}", id=f"{user}-1"), f"more of {user}", "third"]
    ids = memory.add_memory(**who, memories=entries, idempotency_key=f"key of {user}")
    memory.update_memory(**who, memory_id=ids[0], content=f"now of {user}")
    memory.delete_memory(**who, memory_id=ids[2])
    memory.propose_forget(**who, query=user)
    turn = {"text": f"waits for {user}", "id": "e"}
    memory.observe_session({**who, "id": f"s of {user}", "events": [turn]})
    service.items.sync.write([Put((user,), user, {user: 1}, [1.0, 2.0])], **who)


def contents(schema: Any) -> dict[str, list[str]]:
    """All rows of all tables as text, read by the superuser."""
    name = schema.name
    tables = schema.server.execute(
        f"SELECT relname FROM pg_class WHERE relnamespace = '{name}'::regnamespace "
        "AND relkind = 'r'"
    )
    return {
        table: [
            row
            for (row,) in schema.server.execute(
                f"SELECT t::text FROM {name}.{table} AS t"
            )
        ]
        for (table,) in tables
    }


def rows_of(schema: Any, user: str) -> list[str]:
    return [row for rows in contents(schema).values() for row in rows if user in row]


def erase(capsys: Any, url: str, user: str, *more: str) -> tuple[int, dict[str, Any]]:
    code = main(["erase", "--user", user, "--yes", "--json", "--path", url, *more])
    return code, json.loads(capsys.readouterr().out)


def test_no_row_of_an_erased_user_is_left_and_every_row_of_others(
    schema, service, capsys
):
    for app in ("hotel", "desk"):
        fill(service, app, "alice")
    fill(service, "hotel", "bob")
    service.sync.add_memory(
        app_name="hotel", user_id="alice", memories=["for all apps"], scope="shared"
    )
    before = {table: len(rows) for table, rows in contents(schema).items()}
    filled = {"part", "mem", "chg", "tomb", "hist", "idem", "told", "item"}
    assert {table for table in before if before[table]} >= filled
    of_bob = rows_of(schema, "bob")
    code, facts = erase(capsys, schema.url, "alice")
    assert (code, facts["places"], facts["memories"]) == (0, [], 5)
    assert facts["apps"] == ["the shared scope", "desk", "hotel"]
    assert rows_of(schema, "alice") == []
    after = contents(schema)
    assert len(after["part"]) == 1
    (number,) = (int(row[1:].split(",")[0]) for row in after["part"])
    for table, column in (("mem", "part"), ("item", "part"), ("told", "part")):
        query = f"SELECT DISTINCT {column} FROM {schema.name}.{table}"
        assert schema.server.execute(query) == [(number,)]
    # A purge hides the ids of deleted memories and keys, and leaves the rest alone.
    kept = rows_of(schema, "bob")
    assert {row for row in of_bob if "now of bob" in row} <= set(kept)
    # The server that ran meanwhile no longer finds anything either.
    found = service.sync.search_memory(app_name="hotel", user_id="alice", query="now")
    assert found.memories == []
    assert service.items.sync.find(app_name="hotel", user_id="alice") == []
    assert service.sync.admin.stats()["users"] == 1


def test_what_the_command_cannot_reach_is_told(schema, service, capsys):
    fill(service, "hotel", "alice")
    url = schema.url.replace("server@", f"server:{SECRET}@")
    assert main(["erase", "--user", "alice", "--yes", "--path", url]) == 0
    said = capsys.readouterr()
    assert SECRET not in said.out + said.err
    assert said.out.startswith(
        "erased 2 memories of alice in 1 app\n"
        "no row of the database has the name any more\n"
        "what this command cannot reach:\n"
    )
    for each in ("VACUUM", "write-ahead log", "replicas", "backups", "running servers"):
        assert each in said.out


@pytest.mark.campaign
def test_users_whose_names_begin_alike_are_told_apart(schema, service, capsys):
    """user1 is in user10 and user100, as a part of a longer name."""
    numbers = [1, 10, 100, *(n for n in range(2, 100) if n != 10)]
    users = [f"user{n}" for n in numbers[: scaled(100, 4)]]
    for user in users:
        fill(service, "hotel", user)
    for user in users:
        code, facts = erase(capsys, schema.url, user)
        assert (code, facts["places"], facts["memories"]) == (0, [], 2)
    assert contents(schema)["part"] == []
    assert rows_of(schema, "user") == []


def test_the_places_where_a_name_remains_are_told(schema, service, capsys):
    fill(service, "hotel", "alice")
    bob = {"app_name": "hotel", "user_id": "bob"}
    quoting = MemoryEntry("Ask alice.", id="1", custom_metadata={"friends": ["alice"]})
    service.sync.add_memory(**bob, memories=[quoting, "alice2 and my_alice"])
    service.items.sync.write([Put(("of", "alice"), "k", {"alice": 1})], **bob)
    code, facts = erase(capsys, schema.url, "alice")
    where = f"{facts['name_is_in'][0]}: column "
    columns = ["ns of table item", "value of table item", "text of table mem"]
    columns.append("meta of table mem")
    assert (code, sorted(facts["places"])) == (
        1,
        sorted(f"{where}{column}" for column in columns),
    )
    assert "server@" not in where


def test_rows_with_the_number_of_an_erased_user_are_told(schema, service, capsys):
    fill(service, "hotel", "alice")
    # The operator made a copy in the schema.
    schema.server.execute(
        f"CREATE MATERIALIZED VIEW {schema.name}.kept AS "
        f"SELECT part, crc FROM {schema.name}.mem"
    )
    schema.server.execute(f"GRANT SELECT ON {schema.name}.kept TO vecall_keeper")
    code, facts = erase(capsys, schema.url, "alice")
    assert code == 1
    assert [each.rpartition(": ")[2] for each in facts["places"]] == [
        "rows of the user in table kept"
    ]


def test_one_app_is_erased_alone_and_the_rest_is_told(schema, service, capsys):
    for app in ("hotel", "desk"):
        fill(service, app, "alice")
    code, facts = erase(capsys, schema.url, "alice", "--app", "desk")
    assert (code, facts["apps"], facts["memories"]) == (0, ["desk"], 2)
    assert any(place.endswith("user of table part") for place in facts["places"])
    assert service.sync.admin.stats()["users"] == 1


def test_a_user_whom_a_purge_has_hidden_is_erased(schema, service, capsys):
    fill(service, "hotel", "alice")
    service.sync.delete_user(app_name="hotel", user_id="alice")
    service.sync.admin.purge()
    assert rows_of(schema, "alice") == []
    assert len(contents(schema)["part"]) == 1
    code, facts = erase(capsys, schema.url, "alice")
    assert (code, facts["places"], facts["memories"]) == (0, [], 0)
    assert contents(schema)["part"] == []
    assert contents(schema)["tomb"] == []


def test_nothing_is_erased_without_being_asked_for(schema, service, capsys):
    fill(service, "hotel", "alice")
    before = contents(schema)
    for asked in (["alice"], ["nobody", "--yes"]):
        assert main(["erase", "--user", *asked, "--path", schema.url]) == 1
    said = capsys.readouterr().err
    assert "--yes" in said
    assert "the database has no such user" in said
    after = contents(schema)
    assert {t: after[t] for t in after if t != "meta"} == {
        t: before[t] for t in before if t != "meta"
    }


@pytest.mark.parametrize(
    "name", ["100%", "a_b", "李", 'O"Brien', "back\\slash", "x'y", "\x01é"]
)
def test_any_name_is_found_as_a_value(schema, service, capsys, name):
    fill(service, "hotel", name)
    bob = {"app_name": "hotel", "user_id": "bob"}
    quoting = MemoryEntry("x", id="1", custom_metadata={"friends": [name]})
    service.sync.add_memory(**bob, memories=[quoting])
    code, facts = erase(capsys, schema.url, name)
    places = [each.rpartition(": ")[2] for each in facts["places"]]
    assert (code, places) == (1, ["column meta of table mem"])
    service.sync.delete_user(**bob, forget=True)
    fill(service, "hotel", name)
    code, facts = erase(capsys, schema.url, name)
    assert (code, facts["places"]) == (0, [])
