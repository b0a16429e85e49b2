"""Over HTTP: fields by each of their names, and reasons for what is left out."""

from __future__ import annotations

import pytest

pytest.importorskip("httptools")
pytest.importorskip("httpx")

from helpers.http import ALICE, Door, door_to, known
from vecall.ingest.fields import ENTRY, EVENT
from vecall.limits import Limits
from vecall.server import HttpLimits, create_app
from vecall.server.operations import all_operations
from vecall.server.schemas import shared_schemas

MEMORIES = f"{ALICE}/memories"
EVENTS = f"{ALICE}/events"


@pytest.fixture
def opened(open_service):
    return door_to(open_service())


def test_a_chat_message_keeps_who_said_it_and_when(opened):
    parts = [{"type": "text", "text": "zebra two"}]
    messages = [
        {"role": "user", "content": "zebra one", "created_at": "2020-01-01T00:00:00Z"},
        {"role": "assistant", "content": parts, "metadata": {"a": 1}},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
    ]
    body = {"messages": messages, "session_id": "s"}
    answer = opened.ask("POST", EVENTS, json=body)
    assert answer.status_code == 201
    ids = answer.json()["ids"]
    assert ids[2] is None
    assert answer.json()["left_out"] == [{"index": 2, "reason": "no_text"}]
    one, two = (opened.ask("GET", f"{MEMORIES}/{id_}").json() for id_ in ids[:2])
    assert (one["author"], one["timestamp"]) == ("user", 1577836800.0)
    assert (two["author"], two["content"]) == ("assistant", "zebra two")
    assert two["custom_metadata"] == {"a": 1}


def test_a_turn_of_geminis_history_is_its_own_content(opened):
    turns = [
        {"role": "user", "parts": [{"text": "I keep a zebra."}]},
        {"role": "model", "parts": [{"text": "Noted."}, {"functionCall": {}}]},
    ]
    answer = opened.ask("POST", EVENTS, json={"messages": turns})
    assert "left_out" not in answer.json()
    stored = opened.ask("GET", MEMORIES).json()["memories"]
    said = [(each["author"], each["content"]) for each in stored]
    assert said == [("user", "I keep a zebra."), ("model", "Noted.")]


@pytest.mark.parametrize(
    ("bad", "detail"),
    [
        (7, "body.events[1]: expected an object"),
        ({"content": 7}, "body.events[1].content: expected an object"),
        ({"content": "x", "author": 5}, "body.events[1].author: expected a string"),
        ({"content": "x", "zebra": 1}, 'body.events[1]: unknown field "zebra"'),
        ({"content": "x", "timestamp": "soon"}, "event.timestamp: expected an ISO"),
        ({"content": "x", "custom_metadata": {"a": "b" * 20_000}}, "custom_metadata"),
    ],
)
@pytest.mark.parametrize("path", ["events", "sessions/s/observe"])
def test_a_turn_that_breaks_a_rule_costs_no_other(opened, path, bad, detail):
    events = [{"content": "zebra"}, bad, {"content": "okapi"}]
    answer = opened.ask("POST", f"{ALICE}/{path}", json={"events": events})
    assert answer.is_success
    if path == "events":
        (left,) = answer.json()["left_out"]
        assert (left["index"], left["reason"]) == (1, "invalid")
        assert left["detail"].startswith(detail)
    else:
        opened.ask("POST", f"{ALICE}/sessions/s/end", json={})
    stored = opened.ask("GET", MEMORIES).json()["memories"]
    assert [each["content"] for each in stored] == ["zebra", "okapi"]


@pytest.mark.parametrize("path", ["events", "sessions/s/observe"])
def test_a_message_that_nobody_said_is_left_out_by_its_role_whatever_its_fields(
    opened, path
):
    nobody = [
        {"role": "system", "content": "okapi", "cache_control": {"type": "ephemeral"}},
        {"role": "Tool", "content": 7, "zebra": 1},
        {"type": "computer_call", "id": "c", "action": {"type": "click"}},
        {"type": "system", "data": {"content": "okapi"}},
    ]
    said = {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", "schema", "messages", "HumanMessage"],
        "kwargs": {"content": "zebra", "type": "human"},
    }
    body = {"events": [*nobody, said, {"role": "user", "content": "x", "zebra": 1}]}
    answer = opened.ask("POST", f"{ALICE}/{path}", json=body)
    assert answer.is_success
    if path == "events":
        reasons = [each["reason"] for each in answer.json()["left_out"]]
        assert reasons == ["role"] * 4 + ["invalid"]
    else:
        opened.ask("POST", f"{ALICE}/sessions/s/end", json={})
    (stored,) = opened.ask("GET", MEMORIES).json()["memories"]
    assert (stored["author"], stored["content"]) == ("user", "zebra")


def test_a_token_still_bounds_the_turns_beside_one_that_is_left_out(open_service):
    bearer, tokens = known(author="okapi bot")
    opened = Door(create_app(open_service(), tokens=tokens), bearer)
    events = [7, {"content": "zebra"}]
    answer = opened.ask("POST", EVENTS, json={"events": events})
    assert [each["reason"] for each in answer.json()["left_out"]] == ["invalid"]
    (stored,) = opened.ask("GET", MEMORIES).json()["memories"]
    assert stored["author"] == "okapi bot"


def test_observed_messages_are_turns(opened):
    body = {"messages": [{"role": "user", "content": "zebra"}]}
    assert opened.ask("POST", f"{ALICE}/sessions/s/observe", json=body).is_success
    ended = opened.ask("POST", f"{ALICE}/sessions/s/end", json={})
    (id_,) = ended.json()["ids"]
    assert opened.ask("GET", f"{MEMORIES}/{id_}").json()["author"] == "user"


def test_a_deleted_fact_that_is_given_again_is_stored(opened):
    def add(**more):
        return opened.ask("POST", MEMORIES, json={"memories": ["zebra"], **more})

    (id_,) = add().json()["ids"]
    assert opened.ask("DELETE", f"{MEMORIES}/{id_}").status_code == 204
    refused = add(restore=False)
    assert refused.status_code == 200
    assert refused.json() == {
        "ids": [None],
        "left_out": [{"index": 0, "reason": "deleted"}],
    }
    again = add()
    assert (again.status_code, again.json()) == (201, {"ids": [id_]})


@pytest.mark.parametrize("body", [{"memories": []}, {"events": []}])
def test_nothing_given_is_not_created(opened, body):
    path = MEMORIES if "memories" in body else EVENTS
    answer = opened.ask("POST", path, json=body)
    assert (answer.status_code, answer.json()) == (200, {"ids": []})


@pytest.mark.parametrize(
    ("path", "item", "where"),
    [
        (MEMORIES, {"memories": [{"text": "a", "importnace": 1}]}, "memories[0]"),
        (EVENTS, {"events": [{"text": "a", "importnace": 1}]}, "events[0]"),
        (MEMORIES, {"memories": ["a"], "importnace": 1}, "body"),
    ],
)
def test_an_unknown_field_is_named_with_those_that_are_known(opened, path, item, where):
    answer = opened.ask("POST", path, json=item)
    assert answer.status_code == 422
    message = answer.json()["error"]["message"]
    assert f'{where}: unknown field "importnace"; fields are ' in message


def test_two_values_of_one_field_are_refused(opened):
    entry = {"text": "zebra", "role": "user", "author": "agent"}
    answer = opened.ask("POST", MEMORIES, json={"memories": [entry]})
    assert answer.status_code == 422
    assert "author and role are one field" in answer.json()["error"]["message"]


def test_the_document_shows_the_fields_that_the_core_knows():
    """One list for Python, the import and HTTP."""
    shared = shared_schemas(all_operations(HttpLimits(), Limits()), HttpLimits())
    for name, fields in (("NewMemory", ENTRY), ("NewEvent", EVENT)):
        shown = set(shared[name]["properties"])
        assert shown == {*fields.names, *fields.aliases, *fields.ignored}
