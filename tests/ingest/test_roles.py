"""Messages of systems and tools are no memories, in the shapes of every provider."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from helpers.memories import ALICE
from helpers.program_messages import (
    ARGUMENTS,
    CALL,
    CALL_TEXT,
    PROGRAMS,
    SECRET,
    TOOL_CALL,
    block,
)
from vecall import Event, MemoryService, Session, WritePolicy

PEOPLE = [
    {"role": "user", "content": "I keep a zebra."},
    {"role": "assistant", "content": [block("output_text", text="Noted: a zebra.")]},
    {"type": "message", "role": "user", "content": [block("input_text", text="zebra")]},
    {"type": "human", "content": "I keep a zebra.", "additional_kwargs": {}},
    {"type": "ai", "content": "zebra", "response_metadata": {}, "usage_metadata": {}},
    {"type": "human", "data": {"content": "zebra", "additional_kwargs": {}}},
    {"role": "User", "content": "I keep a zebra."},
    {"type": "Human", "content": "I keep a zebra."},
    {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", "schema", "messages", "HumanMessage"],
        "kwargs": {"content": "zebra", "type": "human", "id": "7"},
    },
    SimpleNamespace(type="ai", content="zebra"),
    {"author": "tool", "content": {"role": "model", "parts": [{"text": "zebra"}]}},
    {"role": "assistant", "content": [SimpleNamespace(type="text", text="zebra")]},
    {
        "role": "user",
        "content": [
            block("text", text="zebra"),
            block("image_url", image_url={"url": "data:image/png;base64,AAAA"}),
            block("input_image", image_url="data:image/png;base64,AAAA"),
            block("image", source={"type": "base64", "data": "AAAA"}),
            block("tool_result", tool_use_id="t", content=[block("text", text=SECRET)]),
        ],
    },
]


def stored(events, *include):
    writes = WritePolicy(include=include)
    with MemoryService(embedder=None, writes=writes) as service:
        added = service.sync.add_events_to_memory(**ALICE, events=events)
        return added, service.sync.list_memories(**ALICE)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_message_that_nobody_said_is_left_out(name):
    event, _, _ = PROGRAMS[name]
    added, found = stored([{"text": "zebra"}, event, {"text": "okapi"}])
    assert [each.text for each in found] == ["zebra", "okapi"]
    assert [(each.index, each.reason) for each in added.left_out] == [(1, "role")]


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_stored_if_include_names_it_and_no_other(name):
    event, kind, text = PROGRAMS[name]
    others = {"system", "calls", "thoughts"} - {kind}
    assert stored([event], *others)[1] == []
    assert [each.text for each in stored([event], kind)[1]] == [text]


@pytest.mark.parametrize("event", PEOPLE, ids=repr)
def test_what_people_and_agents_say_is_stored_without_photos_and_results(event):
    added, found = stored([event])
    assert added.left_out == ()
    (memory,) = found
    assert "zebra" in memory.text
    assert SECRET not in memory.text


@pytest.mark.parametrize("name", ["system", "developer", "tool", "function"])
def test_the_author_is_a_name_and_no_role(name):
    """An agent may have any name; only a role or a type tells what is no speech."""
    said = {"parts": [{"text": "I fixed it."}]}
    adk = {"invocationId": "i", "actions": {}}
    events = [
        Event("I fixed it.", author=name),
        {"author": name, "text": "I fixed it."},
        {"author": name, "content": said},
        {"author": name, "content": said, **adk},
        SimpleNamespace(author=name, content=SimpleNamespace(**said)),
    ]
    for event in events:
        added, (memory,) = stored([event])
        assert (memory.author, memory.text) == (name, "I fixed it.")
        assert added.left_out == ()


@pytest.mark.parametrize("name", ["system", "developer", "tool", "function"])
def test_a_session_has_what_an_agent_of_any_name_said(name):
    events = [Event("Fix it.", author="user"), Event("I fixed it.", author=name)]
    with MemoryService(embedder=None) as service:
        service.sync.add_session_to_memory(Session("hotel", "alice", "s", events))
        found = service.sync.list_memories(app_name="hotel", user_id="alice")
    assert [each.text for each in found] == ["Fix it.", "I fixed it."]


@pytest.mark.parametrize(
    "type_", ["user_request", "bot_response", "model_output", "phone_call", "my_tools"]
)
@pytest.mark.parametrize("author", [{}, {"author": "Ann"}], ids=["nobody", "Ann"])
def test_a_type_of_an_application_says_nothing_about_a_turn(type_, author):
    added, found = stored([block(type_, content="I live in Oslo.", **author)])
    assert [each.text for each in found] == ["I live in Oslo."]
    assert added.left_out == ()


@pytest.mark.parametrize("said_by", [{"author": "Ann"}, {"role": "user"}], ids=repr)
def test_a_turn_that_somebody_said_may_have_the_type_of_an_item(said_by):
    turn = block("computer_call", content="My computer is old.", **said_by)
    assert [each.text for each in stored([turn])[1]] == ["My computer is old."]


ITEMS = """
apply_patch_call apply_patch_call_output code_interpreter_call computer_call
computer_call_output custom_tool_call custom_tool_call_output file_search_call
image_generation_call item_reference local_shell_call local_shell_call_output
mcp_approval_request mcp_approval_response mcp_call mcp_list_tools shell_call
shell_call_output tool_search_call tool_search_output web_search_call
""".split()


@pytest.mark.parametrize("type_", ITEMS)
def test_an_item_of_a_program_is_left_out_with_whatever_fields_it_has(type_):
    item = block(type_, id="i", status="completed", action={"query": SECRET})
    added, found = stored([{"text": "zebra"}, item])
    assert [each.text for each in found] == ["zebra"]
    assert [each.reason for each in added.left_out] == ["role"]


GEMINI = {
    "user": [{"text": "I live in Oslo."}],
    "model": [{"text": "Noted."}, {"function_call": {"name": "f", "args": {}}}],
}
"""A history of google-genai: contents by themselves."""


def as_objects(contents):
    return [
        SimpleNamespace(role=role, parts=[SimpleNamespace(**part) for part in parts])
        for role, parts in contents.items()
    ]


def as_dicts(contents):
    return [{"role": role, "parts": parts} for role, parts in contents.items()]


@pytest.mark.parametrize("shape", [as_objects, as_dicts])
def test_a_turn_of_geminis_history_is_its_own_content(shape):
    added, found = stored(shape(GEMINI))
    said = [(each.author, each.text) for each in found]
    assert said == [("user", "I live in Oslo."), ("model", "Noted.")]
    assert added.left_out == ()
    _, (_, noted) = stored(shape(GEMINI), "calls")
    assert noted.text == "Noted.\n(call) f {}"


@pytest.mark.parametrize("shape", [as_objects, as_dicts])
def test_calls_and_instructions_in_geminis_history_are_no_turns(shape):
    call = {"function_call": {"name": "f", "args": {}}}
    answer = {"function_response": {"name": "f", "response": {"a": SECRET}}}
    events = shape({"model": [call], "function": [answer], "user": [answer]})
    events += shape({"system": [{"text": SECRET}]})
    added, found = stored(events)
    assert found == []
    reasons = [each.reason for each in added.left_out]
    assert reasons == ["no_text", "role", "no_text", "role"]
    shown = f'(response) f {{"a": "{SECRET}"}}'
    texts = [each.text for each in stored(events[1:2], "calls")[1]]
    assert texts == [shown]


def test_a_turn_of_geminis_history_is_found_again_when_it_is_given_again():
    with MemoryService(embedder=None) as service:
        for shape in (as_objects, as_dicts):
            service.sync.add_events_to_memory(**ALICE, events=shape(GEMINI))
        found = service.sync.list_memories(**ALICE)
    assert [each.text for each in found] == ["I live in Oslo.", "Noted."]


def test_a_request_for_a_sign_in_in_geminis_history_is_no_turn():
    call = {"function_call": {"name": "adk_request_credential", "args": {}}}
    event = {"role": "model", "parts": [{"text": "Sign in."}, call]}
    added, found = stored([event], "calls")
    assert found == []
    assert [each.reason for each in added.left_out] == ["no_text"]


@pytest.mark.parametrize(
    "event", [{"content": "zebra", "parts": [{"text": "okapi"}]}, {"parts": "okapi"}]
)
def test_parts_beside_a_content_or_of_a_wrong_type_are_refused(event):
    """They cost no other turn."""
    added, found = stored([{"role": "user", **event}, {"text": "teal"}])
    assert [each.text for each in found] == ["teal"]
    (left,) = added.left_out
    assert left.reason == "invalid"
    assert "event.parts" in left.detail


@pytest.mark.parametrize("include", [(), ("calls",)], ids=["alone", "calls"])
def test_an_item_may_have_fields_that_no_turn_has(include):
    own = {"async_": None, "caller": None, "namespace": None, "created_by": None}
    items = [
        block("function_call", id="f", call_id="c", **CALL, **own),
        block("custom_tool_call", id="t", name="f", input=ARGUMENTS, **own),
        block("mcp_call", id="m", server_label="s", output=SECRET, **CALL),
    ]
    added, found = stored([{"text": "zebra"}, *items], *include)
    texts = [each.text for each in found]
    assert texts == ["zebra"] + [CALL_TEXT] * (3 if include else 0)
    assert {each.reason for each in added.left_out} == (set() if include else {"role"})


def test_the_fields_that_the_dumps_of_providers_have_beside_a_text_do_no_harm():
    names = ("diagnostics", "context_management", "input_transformations")
    anthropic = {name: {"x": 1} for name in names}
    langchain = {"tool_call_chunks": [], "chunk_position": "last"}
    events = [
        {"role": "assistant", "content": "zebra", "type": "message", **anthropic},
        block("AIMessageChunk", content="okapi", **langchain),
    ]
    assert [each.text for each in stored(events)[1]] == ["zebra", "okapi"]


def test_the_type_of_a_message_is_its_author_where_nothing_else_tells_it():
    events = [block("human", content="a"), block("ai", content="b")]
    events += [SimpleNamespace(type="human", content="c")]
    dump = {"lc": 1, "type": "constructor", "id": ["x", "AIMessageChunk"]}
    events += [block("Human", content="d"), {**dump, "kwargs": {"content": "e"}}]
    authors = [each.author for each in stored(events)[1]]
    assert authors == ["user", "assistant", "user", "user", "assistant"]


@pytest.mark.parametrize("kind", ["Human", "AI", "System", "Tool", "Function"])
def test_a_chunk_of_a_message_of_langchain_counts_as_the_message(kind):
    read = []
    for type_ in (f"{kind}MessageChunk", kind.lower()):
        added, found = stored([{"text": "okapi"}, block(type_, content="zebra")])
        told = [(each.author, each.text) for each in found]
        read.append((told, [each.reason for each in added.left_out]))
    assert read[0] == read[1]


def test_calls_beside_a_text_are_stored_with_it_on_request():
    said = {"role": "assistant", "content": "One moment."}
    openai = {**said, "tool_calls": [TOOL_CALL]}
    langchain = block(
        "ai", content="One moment.", tool_calls=[{"name": "f", "args": {}}]
    )
    use = block("tool_use", id="t", name="f", input={"city": "Oslo"})
    text = block("text", text="One moment.")
    anthropic = {"role": "assistant", "content": [text, use]}
    for event, call in (
        (openai, CALL_TEXT),
        (langchain, "(call) f {}"),
        (anthropic, CALL_TEXT),
    ):
        assert [each.text for each in stored([event])[1]] == ["One moment."]
        (memory,) = stored([event], "calls")[1]
        assert memory.text == f"One moment.\n{call}"


def test_the_results_of_memory_tools_are_never_stored():
    events = [
        {"role": "tool", "name": "recall_memory", "content": SECRET},
        block("function_call", name="load_memory", arguments=ARGUMENTS),
        {
            "role": "assistant",
            "content": [block("tool_use", name="remember", input={})],
        },
    ]
    assert stored(events, "calls")[1] == []


def test_a_long_result_is_cut():
    event = {"role": "tool", "content": "x" * 5_000}
    (memory,) = stored([event], "calls")[1]
    assert len(memory.text) < 1_100
