"""A model chooses what to look for, never whose memory, and never who it is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from helpers.campaigns import examples
from helpers.memories import ALICE, BOB, texts
from helpers.tools import SCOPE, Watched, run, watched_service
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from vecall.tools import ForgetMemory, LoadMemory, PreloadMemory, RecallMemory, Remember

SCOPE_NAMES = (
    *("app_name", "user_id", "appName", "userId", "app", "user", "scope", "tenant"),
    *("session_id", "author", "source", "trust", "id", "custom_metadata", "restore"),
    *(
        "self",
        "memory",
        "memories",
        "turn",
        "turns",
        "filter",
        "top_k",
        "min_similarity",
    ),
    *("_memory", "__class__", "on_missing", "max_limit", "arguments", "", "\0"),
)
VALUES = st.one_of(
    st.sampled_from(["bob", "app", "system", "first-party", "zebra", ""]),
    st.none(),
    st.booleans(),
    st.floats(),
    st.integers(),
    st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
    st.lists(st.text(max_size=3), max_size=2),
)
NAMES = st.one_of(st.sampled_from(SCOPE_NAMES), st.text(max_size=8))
CALLS = settings(
    max_examples=examples(150),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(name="memory")
def memory_fixture() -> Iterator[Watched]:
    for service in watched_service():
        service.sync.add_memory(**BOB, memories=[{"id": "m0", "text": "zebra of bob"}])
        yield service


def extra(*own: str) -> Any:
    """Arguments of any name and value beside the tool's own."""
    return st.dictionaries(NAMES.filter(lambda name: name not in own), VALUES)


@pytest.mark.campaign
@CALLS
@given(more=extra("query", "limit"))
def test_no_argument_changes_whose_memory_is_searched(
    memory: Watched, more: dict[str, Any]
):
    """S0.35: whatever a model adds is ignored."""
    memory.searches.clear()
    tools = (LoadMemory(memory, *SCOPE), RecallMemory(memory, *SCOPE))
    expected = [run(tool(query="zebra")) for tool in tools]
    for tool, plain in zip(tools, expected, strict=True):
        assert run(tool.call({**more, "query": "zebra"})) == plain
        assert run(tool(**{**more, "query": "zebra"})) == plain
        assert run(tool.as_function()(**{**more, "query": "zebra"})) == plain
    assert "bob" not in json.dumps(expected)
    assert len(memory.searches) == 8
    for asked in memory.searches:
        assert asked == {**ALICE, "query": "zebra", "top_k": 5}


@pytest.mark.campaign
@CALLS
@given(arguments=st.dictionaries(NAMES | st.sampled_from(["query", "limit"]), VALUES))
def test_no_arguments_make_a_search_raise(memory: Watched, arguments: dict[str, Any]):
    """S0.35: an answer or an error to read, in JSON, and only of this user."""
    for tool in (LoadMemory(memory, *SCOPE), RecallMemory(memory, *SCOPE)):
        answer = run(tool(**arguments))
        assert set(answer) - {"note"} in ({"memories"}, {"error"})
        assert "bob" not in json.dumps(answer, allow_nan=False)
    for asked in memory.searches:
        assert (asked["app_name"], asked["user_id"]) == SCOPE
        assert 1 <= asked["top_k"] <= 20


@pytest.mark.campaign
@CALLS
@given(more=extra("text", "kind", "importance"))
def test_no_argument_changes_whose_memory_is_written_or_by_whom(
    memory: Watched, more: dict[str, Any]
):
    """S4.64: app, user, author, source and trust are set in code."""
    remember = Remember(memory, *SCOPE, author="planner", trust="third-party-public")
    id_ = run(remember(**{**more, "text": "A sentence.", "kind": "fact"}))["id"]
    stored = memory.sync.get_memory(**ALICE, memory_id=id_)
    assert stored.text == "A sentence."
    assert (stored.author, stored.source) == ("planner", "tool")
    assert (stored.kind, stored.trust) == ("fact", "third-party-public")
    assert (stored.session_id, stored.custom_metadata) == (None, {})
    assert texts(memory, "sentence zebra", **BOB) == ["zebra of bob"]
    memory.sync.delete_memory(**ALICE, memory_id=id_)


@pytest.mark.campaign
@CALLS
@given(
    more=st.dictionaries(
        NAMES | st.sampled_from(["text", "kind", "importance"]), VALUES
    )
)
def test_no_arguments_make_remembering_raise(memory: Watched, more: dict[str, Any]):
    """S4.64: remembered, or an error to read."""
    answer = run(Remember(memory, *SCOPE)(**more))
    json.dumps(answer, allow_nan=False)
    assert set(answer) in ({"status", "id"}, {"error"})
    assert texts(memory, "bob zebra system", **BOB) == ["zebra of bob"]


@pytest.mark.campaign
@CALLS
@given(more=extra("query", "token"))
def test_no_argument_changes_whose_memory_is_forgotten(
    memory: Watched, more: dict[str, Any]
):
    """S4.60: both steps, with anything beside them."""
    memory.sync.add_memory(**ALICE, memories=[{"id": "o", "text": "okapi"}])
    memory.sync.add_memory(**BOB, memories=[{"id": "o", "text": "okapi"}])
    forget = ForgetMemory(memory, *SCOPE)
    token = run(forget(**{**more, "query": "okapi"}))["token"]
    answer = run(forget(**{**more, "token": token}))
    assert answer == {"status": "forgotten", "count": 1}
    assert texts(memory, "okapi", **ALICE) == []
    assert texts(memory, "okapi", **BOB) == ["okapi"]
    memory.sync.add_memory(
        **ALICE, memories=[{"id": "o", "text": "okapi"}], restore=True
    )


@pytest.mark.campaign
@CALLS
@given(arguments=st.dictionaries(NAMES | st.sampled_from(["query", "token"]), VALUES))
def test_no_arguments_make_forgetting_raise(memory: Watched, arguments: dict[str, Any]):
    """S4.60: an answer to read, and nothing goes by one call."""
    answer = run(ForgetMemory(memory, *SCOPE)(**arguments))
    json.dumps(answer, allow_nan=False)
    assert answer.get("status") != "forgotten"
    assert len(texts(memory, **ALICE)) == 10
    assert run(PreloadMemory(memory, *SCOPE)(**arguments)) == {"status": "passive_only"}


def test_tools_of_many_users_at_once_stay_with_their_own(memory: Watched):
    """S0.35: a hundred calls on one loop."""
    bob = LoadMemory(memory, "app", "bob")
    alice = LoadMemory(memory, *SCOPE)

    async def all_at_once() -> list[dict[str, Any]]:
        calls = [tool(query="zebra bob") for tool in (alice, bob) * 50]
        return await asyncio.gather(*calls)

    answers = run(all_at_once())
    for mine, his in zip(answers[::2], answers[1::2], strict=True):
        assert len(mine["memories"]) == 5
        assert [each["text"] for each in his["memories"]] == ["zebra of bob"]
        assert "of bob" not in json.dumps(mine)
