"""What the HTTP door does for a client that does all right."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("httptools")
pytest.importorskip("httpx")

from helpers.http import (
    ALICE,
    SECRET,
    TURN,
    Door,
    door_to,
    error_of,
    load_session,
    refused,
)
from vecall import Limits


@pytest.fixture
def door(open_service):
    """Makes doors to a memory service, a new one unless it is given."""

    def make(memory=None, **more):
        return door_to(memory or open_service(), **more)

    return make


def test_what_was_added_is_found_listed_shown_exported_and_deleted(door):
    """One user's memories by every operation. S0.47, S0.48."""
    opened = door(session_loader=load_session)
    memory = {"content": f"Keeps a {SECRET}.", "kind": "fact", "importance": 0.9}
    added = opened.ask("POST", f"{ALICE}/memories", json={"memories": [memory, "Tea."]})
    assert added.status_code == 201
    first, second = added.json()["ids"]
    told = opened.ask("POST", f"{ALICE}/events", json={"events": [TURN]})
    assert told.status_code == 201
    loaded = opened.ask("PATCH", f"{ALICE}/memory", json={"sessionId": "trip"})
    assert loaded.status_code == 200
    assert len(loaded.json()["ids"]) == 1

    found = opened.ask("POST", f"{ALICE}/memories/search", json={"query": SECRET})
    assert first in [entry["id"] for entry in found.json()["memories"]]
    assert found.json()["memories"][0]["score"] > 0
    one = opened.ask("GET", f"{ALICE}/memories/{first}").json()
    assert (one["content"], one["kind"]) == (memory["content"], "fact")
    assert len(opened.ask("GET", f"{ALICE}/memories").json()["memories"]) == 4
    page = opened.ask("GET", f"{ALICE}/memories?limit=1&cursor={first}").json()
    assert [entry["id"] for entry in page["memories"]] == [second]

    exported = opened.ask("GET", f"{ALICE}/export")
    assert exported.headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in exported.text.splitlines()]
    assert lines[0]["vecall"] == "export"
    assert sum("mem" in line for line in lines) == 4

    assert opened.ask("DELETE", f"{ALICE}/memories/{first}").status_code == 204
    assert error_of(opened.ask("GET", f"{ALICE}/memories/{first}")) == (
        404,
        "not_found",
    )
    gone = opened.ask("DELETE", f"{ALICE}/sessions/trip")
    assert gone.json() == {"deleted": 1}
    assert opened.ask("DELETE", f"{ALICE}/memories?confirm=true").json() == {
        "deleted": 2
    }
    assert opened.ask("GET", f"{ALICE}/memories").json() == {"memories": []}


def test_an_export_is_read_by_an_import(door, open_service, tmp_path):
    """What is streamed is what `vecall import` takes."""
    opened = door()
    opened.ask("POST", f"{ALICE}/memories", json={"memories": ["Likes tea."]})
    file = tmp_path / "alice.jsonl"
    file.write_bytes(opened.ask("GET", f"{ALICE}/export?vectors=true").content)
    other = open_service().sync
    assert other.admin.import_jsonl(file) == 1
    found = other.search_memory(app_name="hotel", user_id="alice", query="tea")
    assert [entry.text for entry in found.memories] == ["Likes tea."]


def test_what_supersedes_a_memory_that_is_not_there_is_refused(door):
    """404, and nothing is written."""
    opened = door()
    body = {"memories": [{"content": "x", "supersedes": "unknown"}]}
    answer = opened.ask("POST", f"{ALICE}/memories", json=body)
    assert refused(answer) == (404, "not_found")
    assert opened.ask("GET", f"{ALICE}/memories").json() == {"memories": []}


def test_a_search_returns_five_memories_unless_it_says_otherwise(door):
    """The default k of the HTTP door is 5."""
    opened = door()
    texts = [f"Tea number {number}." for number in range(9)]
    opened.ask("POST", f"{ALICE}/memories", json={"memories": texts})
    for asked, expected in (({}, 5), ({"k": 7}, 7), ({"k": 7.0}, 7), ({"k": 1}, 1)):
        body = {"query": "tea", **asked}
        found = opened.ask("POST", f"{ALICE}/memories/search", json=body)
        assert len(found.json()["memories"]) == expected


def test_a_search_looks_only_at_memories_with_the_metadata_that_it_names(door):
    """S1.22: over HTTP too; what is no single value breaks a rule."""
    opened = door()
    for topic in ("green", "black"):
        told = {"memories": [f"{topic} tea"], "custom_metadata": {"topic": topic}}
        opened.ask("POST", f"{ALICE}/memories", json=told)

    def search(metadata):
        body = {"query": "tea", "filter": {"metadata": metadata}}
        return opened.ask("POST", f"{ALICE}/memories/search", json=body)

    found = search({"topic": "black"}).json()["memories"]
    assert [each["content"] for each in found] == ["black tea"]
    assert search({"topic": "white"}).json()["memories"] == []
    assert search({"topic": ["black"]}).json()["memories"] == []  # a text, no list
    assert refused(search({"topic": {"$like": "b"}})) == (422, "invalid")
    black = {"filter": {"metadata": {"topic": "black"}}}
    answer = opened.ask("POST", f"{ALICE}/memories/delete", json=black)
    assert answer.json() == {"deleted": 1}
    assert search({"topic": "black"}).json()["memories"] == []
    assert len(search({"topic": "green"}).json()["memories"]) == 1


def test_a_session_is_not_found_where_the_loader_has_none_of_this_user(door):
    """S0.50; a session that belongs to another user is not there."""
    opened = door(session_loader=load_session)
    for name in ("unknown", "foreign"):
        answer = opened.ask("PATCH", f"{ALICE}/memory", json={"sessionId": name})
        assert refused(answer) == (404, "not_found")
        assert answer.json()["error"]["message"] == "Session not found"
    assert opened.ask("GET", f"{ALICE}/memories").json() == {"memories": []}


def test_without_a_memory_service_every_question_to_it_is_a_bad_request():
    """S0.49; who is healthy may still be asked."""
    opened = door_to(None, session_loader=load_session)
    for method, path, body in (
        ("PATCH", f"{ALICE}/memory", {"sessionId": "trip"}),
        ("POST", f"{ALICE}/memories/search", {"query": "tea"}),
    ):
        answer = opened.ask(method, path, json=body)
        assert error_of(answer) == (400, "not_configured")
        message = answer.json()["error"]["message"]
        assert message == "Memory service is not configured."
    assert opened.ask("GET", "/healthz").json() == {"status": "ok"}


def test_without_a_memory_service_a_page_of_apps_is_a_bad_request():
    """Also where the token's only app is not on it."""
    opened = door_to(None)
    for query in ("", "?prefix=zz"):
        assert error_of(opened.ask("GET", f"/apps{query}")) == (400, "not_configured")


def test_a_session_cannot_be_loaded_without_a_loader_or_by_one_that_fails(door):
    """S0.47: the loader is a hook."""
    answer = door().ask("PATCH", f"{ALICE}/memory", json={"sessionId": "trip"})
    assert error_of(answer) == (400, "not_configured")
    answer = door(session_loader=load_session).ask(
        "PATCH", f"{ALICE}/memory", json={"sessionId": "broken"}
    )
    assert refused(answer) == (503, "session_loader")


def test_limits_of_the_service_are_those_of_the_door(open_service, door):
    """A service with a smaller k refuses a larger one."""
    opened = door(open_service(limits=Limits(max_top_k=9)))
    body = {"query": "x", "k": 10}
    answer = opened.ask("POST", f"{ALICE}/memories/search", json=body)
    assert error_of(answer) == (422, "invalid")
    answer = opened.ask("GET", f"{ALICE}/memories")
    assert answer.status_code == 200


def test_an_id_may_be_the_word_of_another_path(door):
    """A memory whose id is "search" is found by it."""
    opened = door()
    body = {"memories": [{"content": "x", "id": "search"}]}
    assert opened.ask("POST", f"{ALICE}/memories", json=body).status_code == 201
    assert opened.ask("GET", f"{ALICE}/memories/search").json()["content"] == "x"
    assert opened.ask("DELETE", f"{ALICE}/memories/search").status_code == 204


def test_the_app_lives_under_another_app(door):
    """Mounted under a prefix, it finds its paths without it."""
    inner = door()

    async def outer(scope, receive, send):
        await inner.app({**scope, "root_path": "/memory"}, receive, send)

    mounted = Door(outer, inner.bearer)
    assert mounted.ask("GET", "/memory/healthz").json() == {"status": "ok"}
    for asked, servers in ((mounted, [{"url": "/memory"}]), (inner, None)):
        path = "/memory/openapi.json" if servers else "/openapi.json"
        for _ in range(2):
            assert asked.ask("GET", path).json().get("servers") == servers
