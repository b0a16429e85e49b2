"""The tools that a model of google-adk calls: load, recall, remember, forget."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

pytest.importorskip("google.adk")

import vecall
from google.adk.agents import LlmAgent
from google.adk.memory import InMemoryMemoryService
from google.adk.tools import load_artifacts
from google.adk.tools.agent_tool import AgentTool
from google.genai import types
from helpers.adk import (
    ALICE,
    PARROT,
    ROOM,
    CountingMemoryService,
    ScriptedLlm,
    a_runner,
    a_session,
    a_trip,
    adk_service,
    an_event,
    answers_in,
    ingest,
    say,
    stored,
)
from vecall.adk import (
    ForgetMemoryTool,
    LoadMemoryTool,
    PreloadMemoryTool,
    RecallMemoryTool,
    RememberTool,
    VecallMemoryService,
    expand_session,
    forget_memory,
    load_memory,
    preload_memory,
    recall_memory,
    remember,
    update_memory,
)

service = pytest.fixture(adk_service)


def answer_of(
    memory: Any, tool: Any, arguments: dict[str, Any], **who: str
) -> dict[str, Any]:
    """What a tool answers a model that calls it with these arguments."""
    runner, llm = a_runner(memory, (tool.name, arguments), tools=(tool,))
    asyncio.run(say(runner, "Please.", **who))
    return answers_in(llm.requests[-1])[-1]


@pytest.mark.parametrize(
    ("tool", "required", "optional"),
    [
        (load_memory, {"query"}, set()),
        (recall_memory, {"query"}, {"limit"}),
        (remember, {"text"}, {"kind", "importance", "supersedes"}),
        (forget_memory, set(), {"query", "token", "ids"}),
    ],
)
def test_a_model_is_told_of_what_to_ask_and_never_of_whom(
    service: VecallMemoryService, tool: Any, required: set[str], optional: set[str]
) -> None:
    """S0.33, S0.34, S4.37, S4.38: no app and no user among the arguments."""
    runner, llm = a_runner(service, tools=(tool, load_artifacts))
    asyncio.run(say(runner, "Hello."))
    (declared,) = [
        each
        for each in llm.requests[0].config.tools[0].function_declarations
        if each.name == tool.name
    ]
    assert declared.description == tool.description
    assert set(declared.parameters.properties) == required | optional
    assert set(declared.parameters.required or []) == required


def test_the_searching_tools_answer_with_memories(service: VecallMemoryService) -> None:
    """S0.36, S4.39: plain JSON, the relevance with each."""
    ingest(service, a_trip())
    for tool in (load_memory, recall_memory):
        (first, *_) = answer_of(service, tool, {"query": "quiet room"})["memories"]
        assert (first["text"], first["author"]) == (ROOM, "user")
        assert first["relevance"] > 0


def test_limits_of_the_code_and_of_the_model_hold(service: VecallMemoryService) -> None:
    """S4.38: the model's limit is cut to what the code allows."""
    ingest(service, a_session(*(an_event(f"parrots {n}") for n in range(9))))
    query = {"query": "parrots"}
    for tool, asked, expected in [
        (LoadMemoryTool(max_entries=3), query, 3),
        (recall_memory, query, 5),
        (recall_memory, {**query, "limit": 7}, 7),
        (RecallMemoryTool(max_limit=2), {**query, "limit": 7}, 2),
    ]:
        assert len(answer_of(service, tool, asked)["memories"]) == expected


@pytest.mark.parametrize("tool", [load_memory, recall_memory])
def test_no_argument_reaches_another_user(
    service: VecallMemoryService, tool: Any
) -> None:
    """S0.35: mallory's model asks for alice's memory, in words and in arguments."""
    ingest(service, a_trip())
    asked = {"query": "quiet room", "user_id": "alice", "app_name": "hotel"}
    assert answer_of(service, tool, asked, user="mallory") == {"memories": []}


def test_what_was_preloaded_is_not_loaded_again() -> None:
    """S1.14: one block, and the tool's answer says how much is there already."""
    memory = CountingMemoryService()
    ingest(memory, a_trip())
    runner, llm = a_runner(
        memory,
        ("load_memory", {"query": "quiet room parrots"}),
        tools=(load_memory, PreloadMemoryTool(max_entries=1)),
    )
    asyncio.run(say(runner, "Which quiet room do I like?"))
    (answer,) = answers_in(llm.requests[-1])
    assert ROOM not in [each["text"] for each in answer["memories"]]
    assert PARROT in [each["text"] for each in answer["memories"]]
    assert answer["already_in_context"] == 1
    assert len(memory.searches) == 2
    memory.memory.close()


def test_what_a_model_remembers_is_marked_as_its_own(
    service: VecallMemoryService,
) -> None:
    """S0.35: the author is the agent, whatever the model says."""
    said = {"text": "Likes tea.", "kind": "preference", "author": "user"}
    answer = answer_of(service, RememberTool(trust="low"), said)
    assert answer["status"] == "remembered"
    kept = service.memory.sync.get_memory(**ALICE, memory_id=answer["id"])
    assert (kept.text, kept.kind) == ("Likes tea.", "preference")
    assert (kept.author, kept.source, kept.trust) == ("concierge", "tool", "low")


def test_forgetting_takes_two_steps(service: VecallMemoryService) -> None:
    """S1.6b: the first shows, the second deletes what was shown; another's is safe."""
    ingest(service, a_trip())
    shown = answer_of(service, ForgetMemoryTool(max_entries=1), {"query": "parrots"})
    assert [each["text"] for each in shown["memories"]] == [PARROT]
    assert stored(service) == 3
    token = {"token": shown["token"]}
    theirs = answer_of(service, forget_memory, token, user="mallory")
    assert theirs == {"status": "unknown_token"}
    mine = answer_of(service, forget_memory, token)
    assert mine == {"status": "forgotten", "count": 1}
    ingest(service, a_trip())
    assert stored(service) == 2


@pytest.mark.filterwarnings(r"ignore:\[EXPERIMENTAL\]:UserWarning")
@pytest.mark.parametrize(
    ("confirmed", "status", "left"),
    [(True, "forgotten", 2), (False, "refused_by_the_user", 3)],
)
def test_google_adk_asks_the_user_before_anything_is_forgotten(
    service: VecallMemoryService, confirmed: bool, status: str, left: int
) -> None:
    """S1.6b: with ask_user nothing goes until the user has answered."""
    ingest(service, a_trip())
    tool = ForgetMemoryTool(max_entries=1, ask_user=True)
    token = answer_of(service, tool, {"query": "parrots"})["token"]
    runner, llm = a_runner(service, ("forget_memory", {"token": token}), tools=(tool,))

    async def scenario() -> None:
        events = await say(runner, "Forget it.")
        assert stored(service) == 3
        (asked,) = [
            call
            for event in events
            for call in event.get_function_calls()
            if call.name == "adk_request_confirmation"
        ]
        answer = types.FunctionResponse(
            id=asked.id, name=asked.name, response={"confirmed": confirmed}
        )
        message = types.Content(
            role="user", parts=[types.Part(function_response=answer)]
        )
        async for _ in runner.run_async(
            user_id="alice", session_id="trip-1", new_message=message
        ):
            pass

    asyncio.run(scenario())
    assert answers_in(llm.requests[-1])[-1]["status"] == status
    assert stored(service) == left


CALLS = pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (load_memory, {"query": "room"}),
        (recall_memory, {"query": "room"}),
        (expand_session, {"id": "room"}),
        (remember, {"text": "room"}),
        (update_memory, {"id": "room", "text": "room"}),
        (forget_memory, {"query": "room"}),
    ],
)


@CALLS
def test_a_tool_without_its_memory_says_so(
    tool: Any, arguments: dict[str, Any]
) -> None:
    """S0.37, S1.51: it does not look as if nothing were remembered."""
    runner, _ = a_runner(None, (tool.name, arguments), tools=(tool,))
    with pytest.raises(vecall.MemoryNotConfiguredError, match=tool.name):
        asyncio.run(say(runner, "Please."))


@CALLS
def test_without_a_memory_a_tool_answers_where_it_is_told_to(
    tool: Any, arguments: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """S1.16: as if nothing were remembered, with one warning."""
    quiet = type(tool)(on_missing="empty")
    call = (tool.name, arguments)
    runner, llm = a_runner(None, call, call, tools=(quiet,))
    with caplog.at_level(logging.WARNING, logger="vecall"):
        asyncio.run(say(runner, "Please.", "Again."))
    answer = answers_in(llm.requests[-1])[-1]
    assert answer.get("memories") == [] or answer["status"].startswith("not_")
    told = [each.getMessage() for each in caplog.records if each.name == "vecall"]
    assert len(told) == 1
    assert tool.name in told[0]
    with pytest.raises(vecall.ConfigError, match="on_missing"):
        type(tool)(on_missing="maybe")


@CALLS
def test_tools_work_over_any_memory_of_the_runner(
    tool: Any, arguments: dict[str, Any]
) -> None:
    """S0.30: what searches needs two methods; the others say what is missing."""
    memory = InMemoryMemoryService()
    asyncio.run(memory.add_session_to_memory(a_trip()))
    runner, llm = a_runner(memory, (tool.name, arguments), tools=(tool,))
    if tool in (load_memory, recall_memory):
        asyncio.run(say(runner, "Please."))
        answer = answers_in(llm.requests[-1])[-1]
        assert ROOM in {each["text"] for each in answer["memories"]}
        return
    with pytest.raises(vecall.ConfigError, match=tool.name):
        asyncio.run(say(runner, "Please."))


def test_preloading_without_a_memory_is_silent_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """S0.44, S1.51."""
    runner, llm = a_runner(None, tools=(PreloadMemoryTool(),))
    with caplog.at_level(logging.WARNING, logger="vecall"):
        asyncio.run(say(runner, "Which room?", "Which floor?"))
    assert [len(request.contents) for request in llm.requests] == [1, 3]
    told = [record for record in caplog.records if record.name == "vecall"]
    assert len(told) == 1


@pytest.mark.filterwarnings("ignore:The `plugins` argument:DeprecationWarning")
def test_a_bound_tool_works_inside_an_agent_tool(service: VecallMemoryService) -> None:
    """S0.33: google-adk gives the Runner of an AgentTool an empty memory."""
    ingest(service, a_trip())
    inner = ScriptedLlm(script=[("load_memory", {"query": "quiet room"})], requests=[])
    helper = LlmAgent(
        name="archivist", model=inner, tools=[LoadMemoryTool(memory=service)]
    )
    runner, _ = a_runner(
        service, ("archivist", {"request": "Which room?"}), tools=(AgentTool(helper),)
    )
    asyncio.run(say(runner, "Which room?"))
    (answer,) = answers_in(inner.requests[-1])
    assert answer["memories"][0]["text"] == ROOM


def test_wrong_options_are_refused_when_the_tool_is_made() -> None:
    """S1.52."""
    for make in (
        lambda: LoadMemoryTool(max_entries=0),
        lambda: RecallMemoryTool(max_limit=0),
        lambda: ForgetMemoryTool(max_entries=0),
        lambda: RememberTool(trust=""),
        lambda: PreloadMemoryTool(max_entries=0),
        lambda: PreloadMemoryTool(min_confidence=2.0),
        lambda: PreloadMemoryTool(format="poem"),  # type: ignore[arg-type]
        lambda: PreloadMemoryTool(placement="tools"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ValueError, match=":"):
            make()


def test_preload_memory_is_not_for_a_model_to_call(
    service: VecallMemoryService,
) -> None:
    """S0.39: it has no declaration; called anyway it says that it is passive."""
    runner, llm = a_runner(service, tools=(preload_memory,))
    asyncio.run(say(runner, "Hello."))
    assert llm.requests[0].config.tools is None
    assert llm.requests[0].tools_dict == {}
    called = preload_memory.run_async(args={}, tool_context=None)
    assert asyncio.run(called) == {"status": "passive_only"}
