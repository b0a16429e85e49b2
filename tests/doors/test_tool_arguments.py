"""An argument of a tool is declared once, and every face shows and checks that."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Annotated, Any, get_args, get_type_hints

import pytest
from helpers.memories import ALICE
from helpers.tools import SCOPE, Watched, run, watched_service
from vecall import MemoryService
from vecall.limits import Within
from vecall.store import State
from vecall.tools import ExpandSession, memory_tools
from vecall.tools.base import ARGUMENTS

pytest.importorskip("mcp")
pytest.importorskip("google.adk")

from vecall import adk
from vecall.mcp.answers import Answers
from vecall.mcp.tools import Access

ADK_TOOLS = (
    adk.ExpandSessionTool,
    adk.ForgetMemoryTool,
    adk.LoadMemoryTool,
    adk.RecallMemoryTool,
    adk.RememberTool,
    adk.UpdateMemoryTool,
)
ACCESS = Access(app_name="app", user_id="alice")


@pytest.fixture(name="memory")
def memory_fixture() -> Iterator[Watched]:
    yield from watched_service()


def faces(memory: Watched) -> dict[str, dict[str, Any]]:
    """The parameters of every tool, by face and name, as each face declares them."""
    plain = [each.declaration() for each in memory_tools(None, *SCOPE, write=True)]
    served = Answers(memory, ACCESS).list_tools()["tools"]
    of_adk = [kind()._get_declaration() for kind in ADK_TOOLS]
    shown = [each.model_dump(mode="json", exclude_none=True) for each in of_adk]
    found = {f"tools.{each['name']}": each["parameters"] for each in plain if each}
    found |= {f"mcp.{each['name']}": each["inputSchema"] for each in served}
    return found | {f"adk.{each['name']}": each["parameters"] for each in shown}


@pytest.mark.parametrize(
    ("name", "limit", "where"),
    [
        ("importance", Within(0, 0.5), {
            *("tools.remember", "tools.update_memory", "mcp.add_memory"),
            *("mcp.update_memory", "adk.remember", "adk.update_memory"),
        }),
        ("turns_before", Within(0, 3), {"tools.expand_session", "adk.expand_session"}),
        ("begin", Within(0, 9), {
            *("tools.expand_session", "adk.expand_session", "mcp.get_memory"),
        }),
    ],
)  # fmt: skip
def test_a_changed_argument_changes_in_the_tools_of_all_faces(
    memory: Watched,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    limit: Within,
    where: set[str],
):
    """Each argument is declared once: its words and its bounds are those of all."""
    before = faces(memory)
    kind = Annotated[get_args(ARGUMENTS[name].kind)[0], limit]
    changed = ARGUMENTS[name]._replace(kind=kind, says="Another, up to {high}")
    monkeypatch.setitem(ARGUMENTS, name, changed)
    after = faces(memory)
    assert {tool for tool in after if after[tool] != before[tool]} == where
    for tool in where:
        schema = after[tool]["properties"][name]
        assert schema["description"].startswith(f"Another, up to {limit.high}")
        if not tool.endswith("expand_session"):  # which clamps instead
            assert schema["maximum"] == limit.high


def test_a_changed_limit_holds_for_a_call(
    memory: Watched, monkeypatch: pytest.MonkeyPatch
):
    """What a schema says, a call is held to."""
    id_ = memory.sync.search_memory(**ALICE, query="zebra").memories[0].id
    kind = Annotated[int, Within(0, 1)]
    changed = ARGUMENTS["begin"]._replace(kind=kind)
    served = Answers(memory, ACCESS)
    asked = {"id": id_, "begin": 2}
    assert not run(served.call_tool("get_memory", asked))["isError"]
    monkeypatch.setitem(ARGUMENTS, "begin", changed)
    refused = run(served.call_tool("get_memory", asked))
    assert refused["isError"]
    assert refused["content"][0]["text"] == "begin: must be from 0 to 1"
    shown = run(ExpandSession(memory, *SCOPE)(**asked))["memories"]
    assert next(each for each in shown if each["id"] == id_)["cut"]["from"] <= 1


def test_defaults_are_those_of_the_methods_that_the_tools_call():
    """An argument that a method has by the same name says the method's default."""
    methods = {
        "turns_before": MemoryService.expand_session,
        "turns_after": MemoryService.expand_session,
        "list_memories.state": MemoryService.list_memories,
    }
    for name, method in methods.items():
        parameter = inspect.signature(method).parameters[name.rpartition(".")[2]]
        assert ARGUMENTS[name].default == parameter.default
    states = get_args(ARGUMENTS["list_memories.state"].kind)
    assert set(states) < set(get_args(State))
    hints = get_type_hints(MemoryService.update_memory, include_extras=True)
    assert ARGUMENTS["importance"].kind in get_args(hints["importance"])
