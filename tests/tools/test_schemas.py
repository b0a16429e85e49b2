"""What a model and a framework are told about the memory tools."""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Iterator
from typing import Any

import pytest
from helpers.tools import ACTIVE, SCOPE, Watched, ids, run, watched_service
from vecall import ConfigError, InvalidArgumentError, MemoryNotConfiguredError
from vecall.tools import (
    ForgetMemory,
    LoadMemory,
    MemoryTool,
    PreloadMemory,
    RecallMemory,
    Remember,
    memory_tools,
)


@pytest.fixture(name="memory")
def memory_fixture() -> Iterator[Watched]:
    yield from watched_service()


def test_load_memory_takes_one_required_string():
    """S0.33, S0.34: the schema, exactly."""
    declared = LoadMemory(None, *SCOPE).declaration()
    assert declared is not None
    assert declared["name"] == "load_memory"
    assert declared["parameters"] == {
        "type": "object",
        "properties": {"query": {"type": "string", "description": "What to look for"}},
        "required": ["query"],
    }


def test_recall_memory_is_declared_word_for_word():
    """S4.7, S4.37, S4.38: name, description and parameters, exactly."""
    assert RecallMemory(None, *SCOPE).declaration() == {
        "name": "recall_memory",
        "description": "Search memory for past conversations.",
        "parameters": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What to search for"},
                "limit": {
                    "type": "number",
                    "description": "Max results (default: 5)",
                },
            },
            "required": ["query"],
        },
    }


def test_the_writing_tools_ask_for_a_text_and_for_one_of_query_and_token():
    """S4.60, S4.64: what a model may say when it writes."""
    remember, forget = Remember(None, *SCOPE), ForgetMemory(None, *SCOPE)
    assert remember.name == "remember"
    assert list(remember.parameters["properties"]) == [
        *("text", "kind", "importance", "supersedes")
    ]
    assert remember.parameters["required"] == ["text"]
    importance = remember.parameters["properties"]["importance"]
    assert (importance["minimum"], importance["maximum"]) == (0, 1)
    assert forget.name == "forget_memory"
    assert list(forget.parameters["properties"]) == ["query", "token", "ids"]
    assert forget.parameters["required"] == []


@pytest.mark.parametrize("kind", ACTIVE)
def test_a_declaration_is_json_and_the_callers_own(kind: type[MemoryTool]):
    """S0.34: whoever changes a declaration changes nobody else's."""
    tool = kind(None, *SCOPE)
    first = tool.declaration()
    assert first is not None
    as_it_was = json.dumps(first)
    first["parameters"]["properties"].clear()
    first["parameters"]["required"].append("app_name")
    for each in tool.parameters["properties"].values():
        each["type"] = "object"
    assert json.dumps(tool.declaration()) == as_it_was
    assert tool.openai_schema() == {"type": "function", "function": tool.declaration()}


def test_preload_is_never_advertised_and_says_so_when_called(memory: Watched):
    """S0.39: passive, with a service and without."""
    for service in (memory, None):
        preload = PreloadMemory(service, *SCOPE)
        assert preload.declaration() is None
        assert preload.openai_schema() is None
        assert run(preload(query="zebra")) == {"status": "passive_only"}
        assert run(preload.as_function()()) == {"status": "passive_only"}
    assert memory.searches == []


def test_writing_is_off_unless_it_is_asked_for():
    """S4.36: the tools that write are apart from those that recall."""

    def names(**options: Any) -> list[str]:
        return [tool.name for tool in memory_tools(None, *SCOPE, **options)]

    reading = ["recall_memory", "expand_session"]
    assert names() == reading
    writing = ["remember", "update_memory", "forget_memory"]
    assert names(write=True) == [*reading, *writing]


def test_memory_tools_hands_on_what_it_is_given(memory: Watched):
    """S4.36: author and trust reach what is written, on_missing every tool."""
    _, _, remember, _, _ = memory_tools(
        memory, *SCOPE, write=True, author="planner", trust="first-party"
    )
    id_ = run(remember(text="A sentence."))["id"]
    stored = memory.sync.get_memory(app_name="app", user_id="alice", memory_id=id_)
    assert (stored.author, stored.trust) == ("planner", "first-party")
    for tool in memory_tools(None, *SCOPE, write=True, on_missing="empty"):
        assert "error" not in run(tool())


@pytest.mark.parametrize("kind", ACTIVE)
def test_as_a_function_a_tool_has_its_own_name_doc_and_signature(
    kind: type[MemoryTool],
):
    """S0.33: frameworks that inspect functions see what the schema says."""
    tool = kind(None, *SCOPE)
    function = tool.as_function()
    assert inspect.iscoroutinefunction(function)
    assert function.__name__ == function.__qualname__ == tool.name
    doc = inspect.getdoc(function)
    assert doc is not None
    assert doc.startswith(tool.description)
    types = {"string": str, "number": float, "array": list[str]}
    hints = typing.get_type_hints(function)
    assert hints.pop("return") == dict[str, Any]
    parameters = inspect.signature(function).parameters
    assert list(parameters) == list(hints) == list(tool.parameters["properties"])
    for name, schema in tool.parameters["properties"].items():
        assert f"{name}: {schema['description']}" in doc
        if name in tool.parameters["required"]:
            assert parameters[name].default is inspect.Parameter.empty
            assert hints[name] is types[schema["type"]]
        else:
            assert parameters[name].default is None
            assert hints[name] == types[schema["type"]] | None


def test_as_a_function_a_tool_takes_values_by_place_and_by_name(memory: Watched):
    """S0.33: a plain callable; what its signature does not have is ignored."""
    recall = RecallMemory(memory, *SCOPE).as_function()
    by_place = run(recall("zebra", 2))
    assert len(ids(by_place)) == 2
    assert run(recall(query="zebra", limit=2)) == by_place
    assert run(recall("zebra", 2, "more", user_id="bob")) == by_place
    assert run(recall()) == {"error": "query: expected a string"}


@pytest.mark.parametrize("kind", ACTIVE)
def test_without_a_service_a_tool_raises_or_answers_as_it_was_told(
    kind: type[MemoryTool], caplog: pytest.LogCaptureFixture
):
    """S0.37, S1.16, S1.51: an error, or nothing found and a warning at the start."""
    tool = kind(None, *SCOPE)
    with pytest.raises(MemoryNotConfiguredError, match=tool.name):
        run(tool(query="zebra"))
    assert caplog.messages == []
    silent = kind(None, *SCOPE, on_missing="empty")
    assert caplog.messages == [f"{tool.name} has no memory service and finds nothing"]
    answer = run(silent(query="zebra", text="zebra"))
    assert answer in (
        {"memories": []},
        {"status": "nothing_found", "memories": []},
        {"status": "not_remembered"},
    )
    answer.clear()
    assert run(silent(query="zebra")) != {}


@pytest.mark.parametrize("kind", [*ACTIVE, PreloadMemory])
def test_a_tool_is_bound_to_names_that_can_be_names(kind: type[MemoryTool]):
    """S0.35: no default user, and an empty one is refused."""
    for scope in (("", "alice"), ("app", ""), ("app", None), ("app\0", "alice")):
        with pytest.raises(InvalidArgumentError, match=r"app_name|user_id"):
            kind(None, *scope)
    if kind is not PreloadMemory:
        with pytest.raises(ConfigError, match="on_missing"):
            kind(None, *SCOPE, on_missing="ignore")
