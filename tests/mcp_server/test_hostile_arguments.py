"""Arguments that no schema allows: every tool answers, and nobody else is touched."""

from __future__ import annotations

import json

import pytest
from helpers.memories import BOB, SECRET
from hypothesis import given, settings
from hypothesis import strategies as st
from vecall import MemoryService

pytest.importorskip("mcp", reason="mcp is not installed")
pytest.importorskip("jsonschema")

from helpers.mcp_tools import Client

TOOLS = (
    "search_memory get_memory list_memories add_memory update_memory delete_memory"
).split()


@pytest.fixture
def alice(open_service):
    return Client(open_service())


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.sampled_from(["", " ", "\0", "\ud800", "x" * 2_000, SECRET, "bob", "1e9"])
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
NAMES = (
    "query limit kind after before id begin state text importance token user_id "
    "app_name __class__"
).split()


@pytest.fixture(scope="module")
def shared():
    with MemoryService(":memory:", embedder=None) as memory:
        memory.sync.add_memory(**BOB, memories=[f"Bob keeps a {SECRET}"])
        yield Client(memory)


@settings(max_examples=150, deadline=None)
@given(
    name=st.sampled_from(TOOLS),
    arguments=st.dictionaries(st.sampled_from(NAMES), JSON, max_size=5),
)
def test_any_arguments_are_answered_and_reach_no_other_user(shared, name, arguments):
    """Answers encode as JSON, errors repeat nothing, and no other user changes."""
    before = shared.memory.sync.list_memories(**BOB)
    answer = shared.call_with(name, arguments)
    json.dumps(answer, allow_nan=False).encode()
    if "error" in answer:
        assert SECRET not in answer["error"]
        assert len(answer["error"]) < 300
    assert "Bob keeps" not in json.dumps(answer)
    assert shared.memory.sync.list_memories(**BOB) == before


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "blank"),
        (" \n", "blank"),
        (5, "string"),
        (["x"], "string"),
    ],
)
def test_a_text_that_cannot_be_stored_is_refused_with_the_rule(alice, text, says):
    answer = alice.call("add_memory", text=text)
    assert says in answer["error"]
    assert alice.texts() == []


@pytest.mark.parametrize("odd", ["\0", "\ud800", "\u202e", "\x1b[31m"])
def test_a_text_with_odd_characters_is_shown_without_them(alice, odd):
    id_ = alice.call("add_memory", text=f"an {odd}okapi")["id"]
    shown = alice.call("get_memory", id=id_)["text"]
    assert odd not in shown
    shown.encode()
