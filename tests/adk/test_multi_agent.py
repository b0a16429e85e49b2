"""Several agents in one turn of google-adk: each knows what its own requests carry."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("google.adk")

from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, SequentialAgent
from google.adk.apps import App
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from helpers.adk import (
    ROOM,
    CountingMemoryService,
    ScriptedLlm,
    a_trip,
    adk_service,
    ingest,
    say,
    shown_in,
)
from vecall.adk import (
    PreloadMemoryTool,
    VecallMemoryService,
    load_memory,
    preload_memory,
    recall_memory,
)

service = pytest.fixture(adk_service)
pytestmark = pytest.mark.filterwarnings(
    "ignore:.* is deprecated .*Workflow:DeprecationWarning"
)
ASK = "Which quiet room do I like?"


def an_agent(
    name: str, *steps: Any, tools: tuple[Any, ...], **more: Any
) -> tuple[LlmAgent, ScriptedLlm]:
    llm = ScriptedLlm(script=list(steps), requests=[])
    return LlmAgent(name=name, model=llm, tools=list(tools), **more), llm


def answers(memory: Any, root: BaseAgent) -> dict[str, Any]:
    """What the tools answered while the agents dealt with one turn of the user."""
    runner = Runner(
        app=App(name="hotel", root_agent=root),
        session_service=InMemorySessionService(),
        memory_service=memory,
    )
    responses = [
        response
        for event in asyncio.run(say(runner, ASK))
        for response in event.get_function_responses()
    ]
    return {each.name: each.response for each in responses}


@pytest.mark.parametrize("tool", [load_memory, recall_memory], ids=lambda t: t.name)
@pytest.mark.parametrize("transfer", [True, False])
def test_what_one_agent_was_given_is_not_kept_from_another(
    service: VecallMemoryService, tool: Any, transfer: bool
) -> None:
    """S0.36: the block is in the requests of the first agent, and in no other's."""
    ingest(service, a_trip())
    call = (tool.name, {"query": "quiet room"})
    second, asked = an_agent("second", call, tools=(tool,))
    if transfer:
        step = ("transfer_to_agent", {"agent_name": "second"})
        root, given = an_agent(
            "first", step, tools=(preload_memory,), sub_agents=[second]
        )
        answer = answers(service, root)[tool.name]
    else:
        first, given = an_agent("first", tools=(preload_memory,))
        both = SequentialAgent(name="both", sub_agents=[first, second])
        answer = answers(service, both)[tool.name]
    assert ROOM in shown_in(given.requests[0].contents[-1])
    assert not any(ROOM in shown_in(each) for each in asked.requests[0].contents)
    assert "already_in_context" not in answer
    assert ROOM in [each["text"] for each in answer["memories"]]


def test_each_agent_is_given_the_block_that_its_own_tool_makes(
    service: VecallMemoryService,
) -> None:
    """S0.42, S0.43: format, floor, placement and number are those of the agent."""
    ingest(service, a_trip())
    tools = (
        PreloadMemoryTool(format="bullets", max_entries=1),
        PreloadMemoryTool(format="secure", max_entries=5),
        PreloadMemoryTool(min_confidence=1.0),
    )
    made = [
        an_agent(f"agent_{at}", tools=(tool,), include_contents="none")
        for at, tool in enumerate(tools)
    ]
    answers(service, SequentialAgent(name="all", sub_agents=[a for a, _ in made]))
    bullets, secure, nothing = (llm.requests[0].contents for _, llm in made)
    assert shown_in(bullets[-1]).startswith("Relevant prior context:\n- ")
    assert shown_in(secure[-1]).startswith("<recalled-")
    assert not any("user: " + ROOM in shown_in(each) for each in nothing)


def test_an_agent_that_is_run_again_in_a_turn_searches_once() -> None:
    """S0.40: three rounds of a loop, one search, the same block."""
    memory = CountingMemoryService()
    ingest(memory, a_trip())
    agent, llm = an_agent("agent", tools=(preload_memory,))
    answers(memory, LoopAgent(name="loop", max_iterations=3, sub_agents=[agent]))
    assert len(llm.requests) == 3
    assert len({shown_in(each.contents[-1]) for each in llm.requests}) == 1
    assert [each["query"] for each in memory.searches] == [ASK]
    memory.memory.close()
