"""What google-adk's Runner and contexts do with this memory, and without one."""

from __future__ import annotations

import asyncio
import inspect
import re
import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from helpers.paths import ROOT

pytest.importorskip("google.adk")

import vecall
import vecall.adk
from google.adk.agents import LlmAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.runners import InMemoryRunner, Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.tool_context import ToolContext
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
    add,
    adk_service,
    an_event,
    answers_in,
    entries,
    ingest,
    say,
    search,
    stored,
    the_session,
)
from vecall import MemoryNotConfiguredError, tools
from vecall.adk import VecallMemoryPlugin, VecallMemoryService
from vecall.types import Filter

service = pytest.fixture(adk_service)
DOCS = ROOT / "docs"


def message(text: str) -> types.Content:
    return types.Content(role="user", parts=[types.Part(text=text)])


def test_a_runner_takes_the_memory_beside_all_else_that_it_takes(
    service: VecallMemoryService,
) -> None:
    """S0.32, S1.2: app name, agent, session service; sessions made as needed."""
    ingest(service, a_trip())
    llm = ScriptedLlm(script=[("load_memory", {"query": "quiet room"})], requests=[])
    agent = LlmAgent(name="concierge", model=llm, tools=[vecall.adk.load_memory])
    history = InMemorySessionService()
    made = "auto_create_session" in inspect.signature(Runner).parameters
    runner = Runner(
        app_name="hotel",
        agent=agent,
        session_service=history,
        memory_service=service,
        **({"auto_create_session": True} if made else {}),
    )

    async def scenario() -> None:
        asked = {"user_id": "alice", "session_id": "trip-2"}
        if not made:
            await history.create_session(app_name="hotel", **asked)
        async for _ in runner.run_async(**asked, new_message=message("Which room?")):
            pass
        session = await the_session(runner, session="trip-2")
        await runner.memory_service.add_session_to_memory(session)

    asyncio.run(scenario())
    (answer,) = answers_in(llm.requests[-1])
    assert answer["memories"][0]["text"] == ROOM
    assert stored(service) == 5


def test_the_runner_with_everything_in_memory_can_be_given_this_one(
    service: VecallMemoryService,
) -> None:
    """S1.1: it brings a memory of its own; this one takes its place."""
    llm = ScriptedLlm(script=[], requests=[])
    agent = LlmAgent(name="hotel", model=llm, tools=[vecall.adk.preload_memory])
    runner = InMemoryRunner(agent, app_name="hotel")
    runner.memory_service = service
    ingest(service, a_trip())
    asyncio.run(say(runner, "Which quiet room do I like?", session="trip-2"))
    assert ROOM in llm.requests[0].contents[-1].parts[0].text


def test_a_run_of_a_session_that_is_not_there_does_not_touch_the_memory() -> None:
    """S3.15: google-adk raises before any tool, callback or plugin."""
    memory = CountingMemoryService()
    runner, llm = a_runner(
        memory,
        tools=(vecall.adk.preload_memory, vecall.adk.load_memory),
        plugins=(VecallMemoryPlugin("session"),),
    )

    async def scenario() -> None:
        asked = {"user_id": "alice", "session_id": "no such"}
        with pytest.raises(ValueError, match="no such"):
            async for _ in runner.run_async(**asked, new_message=message(ROOM)):
                pass
        await runner.close()

    asyncio.run(scenario())
    assert llm.requests == []
    assert memory.searches == []
    assert stored(memory) == 0
    memory.memory.close()


def a_context(memory: Any, kind: type = CallbackContext) -> Any:
    invocation = InvocationContext(
        session_service=InMemorySessionService(),
        memory_service=memory,
        invocation_id="i1",
        agent=LlmAgent(name="concierge"),
        session=a_trip(),
    )
    return kind(invocation)


@pytest.mark.parametrize("kind", [CallbackContext, ToolContext])
def test_a_context_reaches_the_memory_of_its_user(
    service: VecallMemoryService, kind: type
) -> None:
    """S3.6, S3.9: each call of google-adk's contexts that this version has."""
    context = a_context(service, kind)

    async def scenario() -> None:
        await context.add_session_to_memory()
        found = await a_context(service, ToolContext).search_memory("parrots")
        assert found.memories[0].content.parts[0].text == PARROT
        if hasattr(context, "add_events_to_memory"):
            await context.add_events_to_memory(events=a_trip().events[:2])
            await context.add_memory(memories=[vecall.adk.entry("Likes tea.")])
            assert stored(service) == 4
        if hasattr(context, "delete_memory"):
            await context.delete_memory(found.memories[0].id)
            await context.delete_memory(None)
            assert stored(service) == 3

    asyncio.run(scenario())
    assert search(service, "parrots", user_id="bob").memories == []


def test_without_a_service_every_door_raises_the_same_kind_of_error() -> None:
    """S3.10, S3.8: google-adk's contexts and vecall's tools; or empty, if so told."""
    context = a_context(None)
    assert issubclass(MemoryNotConfiguredError, ValueError)
    with pytest.raises(ValueError, match=r"[Mm]emory service"):
        asyncio.run(context.add_session_to_memory())
    with pytest.raises(ValueError, match=r"[Mm]emory service"):
        asyncio.run(a_context(None, ToolContext).search_memory("parrots"))
    tool = tools.LoadMemory(None, "hotel", "alice")
    with pytest.raises(ValueError, match=r"[Mm]emory service"):
        asyncio.run(tool(query="parrots"))
    empty = tools.LoadMemory(None, "hotel", "alice", on_missing="empty")
    assert asyncio.run(empty(query="parrots")) == {"memories": []}


def test_turns_are_episodes_and_what_was_learned_is_not(
    service: VecallMemoryService,
) -> None:
    """S3.28: episodic and semantic memory side by side, and each by itself."""
    ingest(service, a_session(an_event(PARROT, id="e1")))
    fact = {"content": "Parrots are a preference.", "kind": "preference"}
    add(service, fact, "Parrots, plain.")
    kinds = {"episode": PARROT, "preference": fact["content"]}
    below = service.memory.sync
    told = {each.text: each.kind for each in below.list_memories(**ALICE)}
    assert told == {
        PARROT: "episode",
        "Parrots are a preference.": "preference",
        "Parrots, plain.": None,
    }
    for kind, text in kinds.items():
        only = below.search_memory(**ALICE, query="parrots", filter=Filter(kind=kind))
        assert [each.text for each in only.memories] == [text]
    assert set(entries(service, "parrots")) == set(told)


def test_the_file_is_the_memory_and_the_index_can_be_made_from_it(
    tmp_path: Path,
) -> None:
    """S3.27: what is kept in RAM, or in a snapshot of it, is never the only copy."""
    path = tmp_path / "memory.db"
    service = VecallMemoryService(path, embedder=None)
    ingest(service, a_trip())
    before = search(service, "quiet room parrots")
    assert len(before.memories) == 3
    service.close()
    shutil.rmtree(f"{path}.snap", ignore_errors=True)
    for rest in ("-wal", "-shm"):
        assert not path.with_name(path.name + rest).exists()
    copied = tmp_path / "elsewhere.db"
    shutil.copy(path, copied)
    again = VecallMemoryService(copied, embedder=None)
    assert [each.id for each in search(again, "quiet room parrots").memories] == [
        each.id for each in before.memories
    ]
    again.close()


def test_the_documentation_says_with_what_it_was_verified() -> None:
    """S1.57: the oldest google-adk that is allowed, and the one of these tests."""
    if not DOCS.exists():
        pytest.skip("the documentation is not beside the tests")
    text = (DOCS / "guide/google-adk.md").read_text()
    table = text.partition("| version of google-adk |")[2].partition("\n\n")[0]
    project = (DOCS.parent / "pyproject.toml").read_text()
    floors = re.findall(r'"google-adk>=([\d.]+)', project)
    assert len(floors) == 2
    verified = re.findall(r"\d+\.\d+(?:\.\w+)?", table)
    for floor in floors:
        assert any(each.startswith(f"{floor}.") for each in verified)


def test_the_number_and_the_floor_of_what_is_found_can_be_set() -> None:
    """S1.10: as top_k and a distance threshold elsewhere; by a URI too."""

    def embed(texts: list[str]) -> list[list[float]]:
        return [[1.0, 3.0 * ("parrot" in text.lower())] for text in texts]

    service = VecallMemoryService(
        uri="vecall://:memory:?top_k=2&min_score=0.9", embedder=embed
    )
    add(service, *[f"Parrot {n}." for n in range(4)], "A cat.")
    assert len(search(service, "parrot").memories) == 2
    above = service.memory.sync.search_memory(**ALICE, query="parrot", top_k=5)
    assert "A cat." not in [each.text for each in above.memories]
    below = service.memory.sync.search_memory(
        **ALICE, query="parrot", top_k=5, min_similarity=-1.0
    )
    assert "A cat." in [each.text for each in below.memories]
    service.close()


@pytest.mark.parametrize("wrong", ["parrots", None, 7, b"x", ["parrots"]], ids=repr)
def test_what_is_no_event_is_refused_and_not_passed_over(
    service: VecallMemoryService, wrong: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """S1.54: a list of texts looks like one of events; nothing would be remembered."""
    with pytest.raises(vecall.InvalidArgumentError, match="events"):
        asyncio.run(service.add_events_to_memory(**ALICE, events=[wrong]))
    assert stored(service) == 0
    ingest(service, {**ALICE, "id": "trip-1", "events": [a_trip().events[0], wrong]})
    assert stored(service) == 1
    assert "events: expected events" in caplog.text


def test_an_object_that_invents_every_attribute_is_read_for_what_is_a_value(
    service: VecallMemoryService,
) -> None:
    """S1.54: no time, no id, no author, no branch, no metadata, no rewind."""
    event = mock.MagicMock()
    event.content.parts = [mock.MagicMock(text=PARROT)]
    session = mock.MagicMock(app_name="hotel", user_id="alice", id="trip-1")
    session.events = [event]
    ingest(service, session)
    asyncio.run(service.observe_session(session))
    (found,) = search(service, "parrots").memories
    assert found.content.parts[0].text == PARROT
    assert (found.author, found.timestamp) == (None, None)
    assert list(found.custom_metadata) == ["vecall"]


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("私はPythonを書きます", "Python"),
        ("제주도에서 앵무새를 보았다", "앵무새"),
        ("我喜欢安静的房间", "房间"),
        ("Ich hätte gern ein ruhiges Zimmer", "ruhige Zimmer"),
        ("Хочу тихую комнату", "тихая комната"),
    ],
)
def test_a_question_in_any_script_finds_its_answer(
    service: VecallMemoryService, said: str, asked: str
) -> None:
    """S3.13: with spaces between the words or without."""
    ingest(service, a_session(an_event(said, id="e1")))
    assert list(entries(service, asked)) == [said]
