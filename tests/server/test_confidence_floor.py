"""A token with a floor on trust reads nothing below it."""

from __future__ import annotations

import pytest

pytest.importorskip("httptools")
pytest.importorskip("httpx")

from helpers.http import ALICE, Door, door_to, error_of
from vecall import ConfigError, MemoryEntry
from vecall.cli.main import main
from vecall.server import TokenFile, Tokens, create_app, mint

MEMORIES = f"{ALICE}/memories"
WHO = {"app_name": "hotel", "user_id": "alice"}
LOW, HIGH = "secret low", "secret high"


@pytest.fixture
def memory(open_service):
    made = open_service()
    told = [
        MemoryEntry(LOW, id="low", trust="unverified"),
        MemoryEntry(HIGH, id="high", trust="first-party"),
        MemoryEntry("secret none", id="none"),
    ]
    made.sync.add_memory(**WHO, memories=told)
    return made


@pytest.fixture
def door(memory):
    bearer, token = mint(app="hotel", min_trust="third-party-public")
    return Door(create_app(memory, tokens=Tokens([token])), bearer)


def ids(answer):
    assert answer.status_code == 200
    return [entry["id"] for entry in answer.json()["memories"]]


@pytest.mark.parametrize(
    "filter_", [None, {"min_trust": "unknown"}, {"min_trust": "unverified"}]
)
def test_no_search_reaches_below_the_floor(door, filter_):
    body = {"query": "secret", "k": 10, **({"filter": filter_} if filter_ else {})}
    assert ids(door.ask("POST", f"{MEMORIES}/search", json=body)) == ["high"]


def test_a_search_may_have_a_higher_floor(door, memory):
    memory.sync.add_memory(
        **WHO, memories=[MemoryEntry("secret", id="mid", trust="third-party-public")]
    )
    for floor, expected in (("unknown", 2), ("first-party", 1)):
        body = {"query": "secret", "k": 10, "filter": {"min_trust": floor}}
        assert len(ids(door.ask("POST", f"{MEMORIES}/search", json=body))) == expected


def test_a_token_without_a_floor_may_ask_for_one(memory):
    door = door_to(memory)
    for floor, expected in (("unknown", 3), ("unverified", 2), ("first-party", 1)):
        body = {"query": "secret", "k": 10, "filter": {"min_trust": floor}}
        assert len(ids(door.ask("POST", f"{MEMORIES}/search", json=body))) == expected
    body["filter"] = {"min_trust": "mine"}
    assert door.ask("POST", f"{MEMORIES}/search", json=body).status_code == 422


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_pages_lead_past_what_is_below_the_floor(door, limit):
    seen, after = [], ""
    while True:
        answer = door.ask("GET", f"{MEMORIES}?limit={limit}{after}")
        seen += ids(answer)
        if "next" not in answer.json():
            break
        after = f"&cursor={answer.json()['next']}"
    assert seen == ["high"]


@pytest.mark.parametrize("filter_", [{}, {"min_trust": "unknown"}, {"not_kind": "x"}])
def test_lists_and_counts_by_a_filter_do_not_reach_below_the_floor(door, filter_):
    for body in ({"filter": filter_}, {"filter": filter_, "limit": 1}):
        assert ids(door.ask("POST", f"{MEMORIES}/list", json=body)) == ["high"]
    counted = door.ask("POST", f"{MEMORIES}/count", json={"filter": filter_})
    assert counted.json() == {"count": 1}


def test_what_is_below_the_floor_is_not_there(door, memory):
    """One by one, in histories, after a change, in exports."""
    for id_ in ("low", "none"):
        for method, path, body in (
            ("GET", f"{MEMORIES}/{id_}", None),
            ("GET", f"{MEMORIES}/{id_}/history", None),
            ("PATCH", f"{MEMORIES}/{id_}", {"kind": "x"}),
        ):
            answer = door.ask(method, path, **({"json": body} if body else {}))
            assert answer.status_code == 404
            assert "secret" not in answer.text
    assert {entry.kind for entry in memory.sync.list_memories(**WHO)} == {None}
    assert door.ask("GET", f"{MEMORIES}/high").json()["content"] == HIGH
    changed = door.ask("PATCH", f"{MEMORIES}/high", json={"kind": "x"})
    assert changed.json()["kind"] == "x"
    past = door.ask("GET", f"{MEMORIES}/high/history").json()["revisions"]
    assert {each["memory"]["trust"] for each in past} == {"first-party"}
    assert error_of(door.ask("GET", f"{ALICE}/export"))[:2] == (403, "trust")


def test_the_command_line_makes_tokens_with_a_floor(tmp_path, capsys):
    path = str(tmp_path / "m.db")
    made = ["token", "create", "--app", "a", "--path", path, "--min-trust"]
    assert main([*made, "unverified"]) == 0
    assert [token.min_trust for token in TokenFile(f"{path}.tokens").read()] == [
        "unverified"
    ]
    assert main([*made, "mine"]) != 0
    capsys.readouterr()
    with pytest.raises(ConfigError, match="min_trust"):
        mint(app="a", min_trust="mine")
