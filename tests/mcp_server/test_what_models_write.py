"""Arguments as models write them: dates, numbers as texts, "" and null for absent."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from vecall import MemoryEntry

pytest.importorskip("mcp", reason="mcp is not installed")
pytest.importorskip("jsonschema")

from helpers.mcp_tools import Client

TIMES = [
    ("2021-04-02", "2021-04-02T00:00:00+00:00"),
    ("20210402", "2021-04-02T00:00:00+00:00"),
    ("2021-04", "2021-04-01T00:00:00+00:00"),
    ("2021", "2021-01-01T00:00:00+00:00"),
    (" 2021-04-02T10:00:00Z ", "2021-04-02T10:00:00+00:00"),
    ("2021-04-02 10:00", "2021-04-02T10:00:00+00:00"),
    ("2021-04-02T10:00:00+02:00", "2021-04-02T08:00:00+00:00"),
    ("1617321600", "2021-04-02T00:00:00+00:00"),
    (1617321600, "2021-04-02T00:00:00+00:00"),
]


@pytest.fixture
def alice(open_service):
    return Client(open_service())


@pytest.mark.parametrize(("written", "shown"), TIMES)
def test_an_old_note_is_added_with_its_time(alice, written, shown):
    added = alice.call("add_memory", text="Moved to Oslo", timestamp=written)
    assert added["status"] == "remembered"
    assert alice.call("get_memory", id=added["id"])["timestamp"] == shown

    def found(**narrowed: Any) -> int:
        answer = alice.call("search_memory", query="Oslo", **narrowed)
        return len(answer["memories"])

    assert found(before="2022-01-01") == found(after="2021-01-01") == 1
    assert found(after="2022-01-01") == found(before="2021-01-01") == 0
    assert found(after=written) == 1
    assert found(before=written) == 0


def test_the_schema_says_what_a_time_may_look_like(alice):
    for tool, name in (("add_memory", "timestamp"), ("search_memory", "after")):
        schema = alice.tools[tool]["inputSchema"]["properties"][name]
        assert schema["type"] == "string"
        assert '"2025-06-18"' in schema["description"]
        assert "UTC" in schema["description"]


@pytest.mark.parametrize("empty", [None, ""])
def test_an_empty_argument_that_is_not_required_counts_as_absent(alice, empty):
    """Some models must give every argument of a tool."""
    made = alice.call(
        "add_memory", text="an okapi", kind=empty, importance=empty, timestamp=empty
    )
    assert made["status"] == "remembered"
    (found,) = alice.call(
        "search_memory",
        query="okapi",
        limit=empty,
        kind=empty,
        after=empty,
        before=empty,
    )["memories"]
    assert "kind" not in found
    (listed,) = alice.call("list_memories", limit=empty, after=empty, state=empty)[
        "memories"
    ]
    assert listed["id"] == found["id"] == made["id"]
    assert alice.call("get_memory", id=found["id"], begin=empty)["text"] == "an okapi"
    done = alice.call(
        "update_memory", id=made["id"], text="two okapis", importance=empty
    )
    assert done["status"] == "updated"
    asked = alice.call("delete_memory", id=made["id"], token=empty)
    assert asked["status"] == "confirm"
    assert "error" in alice.call("add_memory", text=empty)
    assert "error" in alice.call("get_memory", id=empty)


@pytest.mark.parametrize("two", ["2", "2.0", " 2 ", 2.0])
def test_a_number_may_be_a_text(alice, two):
    texts = ["okapi one", "okapi two", "okapi three"]
    alice.memory.sync.add_memory(
        **alice.who, memories=[MemoryEntry(each, id=each[6:]) for each in texts]
    )
    found = alice.call("search_memory", query="okapi", limit=two)["memories"]
    assert len(found) == 2
    page = alice.call("list_memories", limit=two)
    assert page["next"] == "two"
    assert alice.call("get_memory", id="one", begin=two)["cut"]["from"] == 2
    for importance, text in ((0.75, "an ibis"), ("0.75", "an owl"), (0.5, "an elk")):
        alice.call("add_memory", text=text, importance=importance)
    listed = alice.memory.sync.list_memories(**alice.who)
    known = {each.text: each.importance for each in listed}
    assert known["an ibis"] == known["an owl"] != known["an elk"]


def test_the_state_of_a_list_may_be_in_capitals(alice):
    assert alice.call("list_memories", state="Archived") == {"memories": []}


WRONG = [
    "soon",
    "2021-13-01",
    "2021-02-30",
    "5",
    "99999999999999",
    {},
    [],
    True,
    -1e300,
]


@pytest.mark.parametrize(
    ("written", "argument"),
    list(itertools.product(WRONG, ["timestamp", "after", "before"])),
)
def test_what_is_no_time_is_an_error_and_stores_nothing(alice, written, argument):
    given: dict[str, Any] = {argument: written}
    if argument == "timestamp":
        answer = alice.call("add_memory", text="an okapi", **given)
    else:
        answer = alice.call("search_memory", query="okapi", **given)
    assert answer["error"].startswith(f"{argument}: ")
    assert alice.texts() == []


@pytest.mark.parametrize("written", ["two", "nan", "inf", "1e999", "2.5", "0", True])
def test_a_text_that_is_no_such_number_is_an_error(alice, written):
    answer = alice.call("search_memory", query="okapi", limit=written)
    assert answer["error"].startswith("limit: ")


def test_a_new_text_is_answered_with_what_it_may_replace(alice):
    old = alice.call("add_memory", text="The wedding is on 14 June.")["id"]
    new = "We moved the wedding to 21 June."
    answer = alice.call("add_memory", text=new)
    assert [each["id"] for each in answer["similar"]] == [old]
    again = alice.call("add_memory", text=new, supersedes=[old])
    assert again == {"status": "remembered", "id": answer["id"]}
    found = alice.call("search_memory", query="wedding")["memories"]
    assert [each["text"] for each in found] == [new]
