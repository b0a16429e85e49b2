"""Tools and recall for the OpenAI Agents SDK."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.memories import ALICE
from helpers.unasked import check_unasked
from vecall import ConfigError, InvalidArgumentError, MemoryService, render

pytest.importorskip("agents", reason="openai-agents is not installed")

from agents import FunctionTool
from agents.run import CallModelData, ModelInputData
from vecall.openai_agents import memory_tools, recall_filter
from vecall.tools import memory_tools as plain_tools

WHO = tuple(ALICE.values())
BOB = {**ALICE, "user_id": "bob"}


def tools_of(memory: MemoryService, **options: Any) -> dict[str, Any]:
    return {tool.name: tool for tool in memory_tools(memory, *WHO, **options)}


def call(tool: Any, arguments: str) -> dict[str, Any]:
    answer = asyncio.run(tool.on_invoke_tool(SimpleNamespace(), arguments))
    return json.loads(answer)


def test_the_tools_are_those_of_every_framework(open_service):
    memory = open_service()
    for write in (False, True):
        plain = {tool.name: tool for tool in plain_tools(memory, *WHO, write=write)}
        tools = tools_of(memory, write=write)
        assert tools.keys() == plain.keys()
        for name, tool in tools.items():
            assert tool.params_json_schema == plain[name].parameters
            assert tool.description == plain[name].description
            assert not tool.strict_json_schema


def test_a_model_writes_only_where_it_is_allowed(open_service):
    memory = open_service()
    assert tools_of(memory).keys() == tools_of(memory, write=False).keys()
    assert tools_of(memory).keys() < tools_of(memory, write=True).keys()


def test_a_model_reads_and_writes_the_memories_of_its_own_user_alone(open_service):
    memory = open_service()
    memory.sync.add_memory(**BOB, memories=["Bob has a zebra"])
    tools = tools_of(memory, write=True)
    forged = {"text": "a zebra in Ünï", "user_id": "bob", "app_name": "other"}
    assert "error" not in call(tools["remember"], json.dumps(forged))
    found = call(tools["recall_memory"], json.dumps({"query": "zebra", **BOB}))
    assert "Ünï" in json.dumps(found, ensure_ascii=False)
    assert "Bob" not in json.dumps(found)
    texts = [entry.text for entry in memory.sync.list_memories(**BOB)]
    assert texts == ["Bob has a zebra"]


@pytest.mark.parametrize("arguments", ["{", "[]", "null", '"x"', "", "[" * 50_000])
def test_bad_arguments_are_answered(open_service, arguments):
    tool = tools_of(open_service())["recall_memory"]
    assert set(call(tool, arguments)) == {"error"}


def test_forgetting_may_need_an_approval(open_service):
    if not hasattr(FunctionTool, "needs_approval"):  # before approvals
        with pytest.raises(ConfigError, match="approvals"):
            tools_of(open_service(), write=True, needs_approval=True)
        return
    tools = tools_of(open_service(), write=True, needs_approval=True)
    asked = {name for name, tool in tools.items() if tool.needs_approval is True}
    assert asked == {"forget_memory"}


def filtered(function: Any, items: list[Any]) -> ModelInputData:
    given = ModelInputData(input=items, instructions="be kind")
    return asyncio.run(function(CallModelData(given, None, None)))


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def test_one_block_comes_before_the_last_message_of_the_user(open_service):
    memory = open_service()
    memory.sync.add_memory(**ALICE, memories=["Alice feeds an okapi"])
    memory.sync.add_memory(**BOB, memories=["Bob feeds an okapi"])
    function = recall_filter(memory, *WHO, secret="key")
    call_ = {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"}
    items = [user("hi"), user([{"type": "input_text", "text": "my okapi?"}]), call_]
    got = filtered(function, items)
    assert got.instructions == "be kind"
    assert [got.input[0], *got.input[2:]] == items
    block = got.input[1]["content"]
    assert "Alice feeds an okapi" in block
    assert "Bob" not in block
    found = memory.sync.search_memory(**ALICE, query="my okapi?").memories
    assert block == render(found, "secure", secret="key", scores=False)
    assert filtered(function, items).input == got.input


@pytest.mark.parametrize("items", [[], [user("")], [{"role": "assistant"}]])
def test_nothing_is_inserted_where_nothing_is_asked(open_service, items):
    function = recall_filter(open_service(), *WHO)
    assert filtered(function, items).input == items


def test_the_running_session_is_left_out(open_service):
    memory = open_service()
    for session in ("now", "before"):
        memory.sync.add_events_to_memory(
            **ALICE, session_id=session, events=[{"text": f"okapi {session}"}]
        )
    block = filtered(recall_filter(memory, *WHO, session_id="now"), [user("okapi")])
    assert "okapi before" in str(block.input)
    assert "okapi now" not in str(block.input)


def test_a_search_that_fails_inserts_nothing(open_service):
    memory = open_service()
    function = recall_filter(memory, *WHO)
    memory.close()
    assert filtered(function, [user("okapi")]).input == [user("okapi")]


def test_an_unrelated_message_gets_no_block():
    def inject(memory, text, **options):
        return str(filtered(recall_filter(memory, *WHO, **options), [user(text)]))

    check_unasked(inject, WHO)


def test_one_agent_serves_the_user_that_the_context_of_each_run_names(open_service):
    memory = open_service()
    memory.sync.add_memory(**ALICE, memories=["Alice feeds an okapi"])
    memory.sync.add_memory(**BOB, memories=["Bob feeds an okapi"])

    def user_of(run: Any) -> str:
        return run.context["user"]

    tools = {
        tool.name: tool
        for tool in memory_tools(memory, ALICE["app_name"], user_of, write=True)
    }
    fixed = tools_of(memory, write=True)
    assert tools.keys() == fixed.keys()
    assert all(
        tools[name].params_json_schema == fixed[name].params_json_schema
        for name in fixed
    )
    function = recall_filter(memory, lambda _: ALICE["app_name"], user_of)
    for name, other in (("Alice", "Bob"), ("Bob", "Alice")):
        context = {"user": {"Alice": ALICE["user_id"], "Bob": "bob"}[name]}
        run = SimpleNamespace(context=context)
        question = json.dumps({"query": "okapi", "user_id": other})
        found = asyncio.run(tools["recall_memory"].on_invoke_tool(run, question))
        assert f"{name} feeds" in found
        assert other not in found
        told = json.dumps({"text": f"{name} has a gnu"})
        asyncio.run(tools["remember"].on_invoke_tool(run, told))
        given = ModelInputData(input=[user("okapi gnu")], instructions="")
        block = asyncio.run(function(CallModelData(given, None, context))).input[0]
        assert f"{name} feeds" in block["content"]
        assert f"{name} has" in block["content"]
        assert other not in block["content"]


@pytest.mark.parametrize("wrong", [None, "", 7, "\x01vecall app\x01"])
def test_a_run_that_names_no_user_reads_and_writes_nothing(open_service, wrong):
    memory = open_service()
    tools = {
        tool.name: tool
        for tool in memory_tools(memory, "a", lambda _: wrong, write=True)
    }
    run = SimpleNamespace(context=None)
    with pytest.raises(InvalidArgumentError, match="user_id"):
        asyncio.run(tools["remember"].on_invoke_tool(run, '{"text": "a zebra"}'))
    with pytest.raises(InvalidArgumentError, match="user_id"):
        filtered(recall_filter(memory, "a", lambda _: wrong), [user("zebra")])
    assert memory.admin.sync.list_users(app_name="a") == []
    for function in (memory_tools, recall_filter):
        with pytest.raises(InvalidArgumentError, match="app_name"):
            function(memory, "", lambda _: "u")


def test_the_session_to_leave_out_may_come_from_the_context(open_service):
    memory = open_service()
    for session in ("now", "before"):
        memory.sync.add_events_to_memory(
            **ALICE, session_id=session, events=[{"text": f"okapi {session}"}]
        )
    function = recall_filter(memory, *WHO, session_id=lambda data: data.context)
    given = ModelInputData(input=[user("okapi")], instructions="")
    for now, before in (("now", "before"), ("before", "now")):
        found = str(asyncio.run(function(CallModelData(given, None, now))).input)
        assert f"okapi {before}" in found
        assert f"okapi {now}" not in found


def test_a_filter_beside_a_session_is_refused_and_not_dropped(open_service):
    with pytest.raises(ConfigError, match="session_id"):
        recall_filter(open_service(), *WHO, session_id="s", filter={"kind": "fact"})
