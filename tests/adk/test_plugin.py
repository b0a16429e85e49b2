"""The plugin that hands every turn to the memory, without anybody waiting for it."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path
from typing import Any

import pytest
from helpers.options import grouped

pytest.importorskip("google.adk")

import vecall
import vecall.adk.plugin
from google.adk.apps.app import EventsCompactionConfig
from google.adk.apps.llm_event_summarizer import LlmEventSummarizer
from google.adk.memory import InMemoryMemoryService
from google.adk.plugins.plugin_manager import PluginManager
from helpers.adk import (
    ALICE,
    PARROT,
    ROOM,
    CountingMemoryService,
    ScriptedLlm,
    a_runner,
    adk_service,
    entries,
    needs_compaction,
    say,
    stored,
    the_session,
)
from vecall.adk import VecallMemoryPlugin, VecallMemoryService

service = pytest.fixture(adk_service)
EACH = pytest.mark.parametrize("ingest", [None, "delta", "session"])


class Delayed:
    """An embedder that waits until it is let go, and fails when told to."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.go.set()
        self.fails = False
        self.texts: list[str] = []

    def __call__(self, texts: list[str]) -> list[list[float]]:
        assert self.go.wait(30)
        if self.fails:
            raise ConnectionError(texts[0])
        self.texts += texts
        return [[1.0, float(len(text))] for text in texts]


@EACH
def test_every_run_is_remembered(service: VecallMemoryService, ingest: Any) -> None:
    """S1.46: closing the Runner waits for what is under way."""

    async def scenario() -> None:
        runner, _ = a_runner(service, plugins=(VecallMemoryPlugin(ingest),))
        await say(runner, ROOM, PARROT)
        await say(runner, "My cat is called Tom.", session="trip-2")
        await runner.close()

    asyncio.run(scenario())
    assert stored(service) == 6
    found = entries(service, "quiet room parrots cat")
    assert {ROOM, PARROT, "My cat is called Tom."} <= set(found)
    assert found[ROOM].custom_metadata["vecall"]["session_id"] == "trip-1"


def test_a_run_hands_over_only_what_is_new() -> None:
    """S1.46: so that a long session does not cost more with every turn."""
    memory = CountingMemoryService()
    told: list[int] = []
    add = memory.add_events_to_memory

    async def noted(**arguments: Any) -> None:
        told.append(len(arguments["events"]))
        await add(**arguments)

    memory.add_events_to_memory = noted  # type: ignore[method-assign]
    plugin = VecallMemoryPlugin()

    async def scenario() -> None:
        runner, _ = a_runner(memory, plugins=(plugin,))
        for n in range(5):
            await say(runner, f"parrot {n}")
            await plugin.flush()

    asyncio.run(scenario())
    assert told == [2] * 5
    assert memory.searches == []
    memory.memory.close()


def test_the_end_of_an_agent_will_do_where_google_adk_tells_of_no_other(
    service: VecallMemoryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S1.57: 2.0.0b1 to 2.1.0 forget to, with an LlmAgent as root."""

    async def forgotten(self: Any, *, invocation_context: Any) -> None:
        pass

    monkeypatch.setattr(PluginManager, "run_after_run_callback", forgotten)
    monkeypatch.setattr(vecall.adk.plugin, "_adk_hides_run_ends", lambda: True)
    plugin = VecallMemoryPlugin()

    async def scenario() -> None:
        runner, _ = a_runner(service, plugins=(plugin,))
        await say(runner, ROOM)
        await asyncio.wrap_future(plugin._worker.submit(lambda: None))
        assert stored(service) == 2

    asyncio.run(scenario())


@EACH
def test_the_reply_does_not_wait_for_the_memory(ingest: Any) -> None:
    """S1.46: two turns are answered while the embedder has answered none."""
    embedder = Delayed()
    memory = VecallMemoryService(embedder=embedder)
    embedder.texts.clear()
    embedder.go.clear()

    async def scenario() -> None:
        runner, _ = a_runner(memory, plugins=(VecallMemoryPlugin(ingest),))
        events = await say(runner, ROOM, PARROT)
        assert len(events) == 2
        assert embedder.texts == []
        embedder.go.set()
        await runner.close()

    asyncio.run(scenario())
    assert stored(memory) == 4
    assert any(PARROT in text for text in embedder.texts)
    memory.close()


@EACH
def test_a_failure_is_logged_without_content_and_made_up_for(
    ingest: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """S1.46: the next turn brings what the last one could not."""
    embedder = Delayed()
    memory = VecallMemoryService(embedder=embedder)
    plugin = VecallMemoryPlugin(ingest)

    async def scenario() -> None:
        runner, _ = a_runner(memory, plugins=(plugin,))
        embedder.fails = True
        with caplog.at_level(logging.DEBUG, logger="vecall"):
            await say(runner, ROOM)
            await plugin.flush()
        embedder.fails = False
        await say(runner, PARROT)
        await runner.close()

    asyncio.run(scenario())
    assert stored(memory) == 4
    told = [each.getMessage() for each in caplog.records if each.name == "vecall"]
    assert any("not remembered: EmbedderError" in each for each in told)
    assert not any("quiet" in each for each in told)
    memory.close()


def test_one_plugin_serves_the_event_loops_of_many_runs(
    service: VecallMemoryService,
) -> None:
    """S0.31: each run on a loop of its own, as Runner.run has it."""
    runner, _ = a_runner(service, plugins=(VecallMemoryPlugin(),))
    for n in range(4):
        asyncio.run(say(runner, f"parrot {n}"))
    asyncio.run(runner.close())
    assert stored(service) == 8


def test_sessions_that_were_let_go_of_are_not_remembered_twice(
    service: VecallMemoryService,
) -> None:
    """S1.46: more sessions than the plugin follows, turn and turn about."""

    async def scenario() -> None:
        runner, _ = a_runner(service, plugins=(VecallMemoryPlugin(sessions=1),))
        for turn in range(3):
            for session in ("a", "b", "c"):
                await say(runner, f"{session} says {turn}", session=session)
        await runner.close()

    asyncio.run(scenario())
    assert stored(service) == 18


def test_a_session_that_is_not_stored_yet_is_not_let_go_of() -> None:
    """Of more sessions than the plugin follows, one that is stored makes room."""
    embedder = Delayed()
    memory = VecallMemoryService(embedder=embedder)
    plugin = VecallMemoryPlugin(sessions=2)

    async def scenario() -> None:
        runner, _ = a_runner(memory, plugins=(plugin,))
        embedder.fails = True
        await say(runner, ROOM, session="a")
        await plugin.flush()
        embedder.fails = False
        await say(runner, PARROT, session="b")
        await asyncio.wrap_future(plugin._worker.submit(lambda: None))
        await say(runner, "Good night.", session="c")
        await runner.close()

    asyncio.run(scenario())
    assert {ROOM, PARROT, "Good night."} <= set(entries(memory, "quiet parrots night"))
    memory.close()


@EACH
def test_a_rewind_reaches_what_was_remembered_before(
    service: VecallMemoryService, ingest: Any
) -> None:
    """S3.22: although the rewound turn is in no delta any more."""
    plugin = VecallMemoryPlugin(ingest)

    async def scenario() -> None:
        runner, _ = a_runner(service, plugins=(plugin,))
        await say(runner, ROOM, PARROT)
        await plugin.flush()
        assert PARROT in entries_of(await recall(service))
        rewound = (await the_session(runner)).events[2].invocation_id
        await runner.rewind_async(
            user_id="alice",
            session_id="trip-1",
            rewind_before_invocation_id=rewound,
        )
        await say(runner, "Good night.")
        await runner.close()
        assert entries_of(await recall(service)) == {ROOM, "Good night."}

    asyncio.run(scenario())


async def recall(memory: VecallMemoryService) -> Any:
    query = "quiet room parrots good night"
    return await memory.search_memory(**ALICE, query=query)


def entries_of(found: Any) -> set[str]:
    texts = {each.content.parts[0].text for each in found.memories}
    return texts - {"Certainly."}


class HandedOver(VecallMemoryService):
    """Says when it is done with the four events of two turns."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.done = threading.Event()

    def _note(self, count: int) -> None:
        if count == 4:
            self.done.set()

    async def add_session_to_memory(self, session: Any) -> None:
        count = len(session.events)
        await super().add_session_to_memory(session)
        self._note(count)

    async def observe_session(self, session: Any) -> None:
        count = len(session.events)
        await super().observe_session(session)
        self._note(count)


class LateLlm(ScriptedLlm):
    """Sums up only after the plugin has handed over what was to be summed up."""

    memory: Any

    async def generate_content_async(self, llm_request: Any, stream: bool = False):
        assert await asyncio.to_thread(self.memory.done.wait, 30)
        async for answer in super().generate_content_async(llm_request):
            yield answer


@pytest.mark.filterwarnings(r"ignore:\[EXPERIMENTAL\]:UserWarning")
@pytest.mark.parametrize("ingest", ["trigger", "session"])
def test_what_google_adk_sums_up_after_a_run_is_remembered_too(ingest: Any) -> None:
    """S3.26: the summary is written when the plugin has done its work, and it is due
    when the Runner is closed.
    """
    needs_compaction()
    summary = "The guest wants a quiet room."
    memory = HandedOver(trigger="compaction", top_k=20)
    llm = LateLlm(script=[summary], requests=[], memory=memory)

    async def scenario() -> None:
        runner, _ = a_runner(
            memory,
            plugins=(VecallMemoryPlugin(ingest),),
            events_compaction_config=EventsCompactionConfig(
                compaction_interval=2,
                overlap_size=0,
                summarizer=LlmEventSummarizer(llm=llm),
            ),
        )
        await say(runner, ROOM, PARROT)
        events = (await the_session(runner)).events
        assert events[-1].actions.compaction is not None
        assert summary not in entries_of(await recall(memory))
        await runner.close()
        assert summary in entries_of(await recall(memory))

    asyncio.run(scenario())
    if ingest == "trigger":
        assert stored(memory) == 1
    memory.close()


def test_a_trigger_decides_when(tmp_path: Path) -> None:
    """S4.13: nothing before the third turn, and what waits survives a restart."""
    options: dict[str, Any] = {"maintenance_interval": None}
    options["trigger"] = vecall.MessageCount(6)
    path = tmp_path / "memory.db"

    async def scenario(memory: VecallMemoryService, *said: str) -> None:
        runner, _ = a_runner(memory, plugins=(VecallMemoryPlugin("trigger"),))
        await say(runner, *said, session=said[0])
        await runner.close()
        await memory.memory.admin.run_due()

    memory = VecallMemoryService(path, **grouped(**{"embedder": None, **options}))
    asyncio.run(scenario(memory, "parrot one", "parrot two"))
    assert stored(memory) == 0
    asyncio.run(scenario(memory, "cat", "cat two", "cat three"))
    assert stored(memory) == 6
    memory.close()
    again = VecallMemoryService(path, **grouped(**{"embedder": None, **options}))
    scope = {**ALICE, "session_id": "parrot one"}
    assert len(again.memory.sync.end_session(**scope)) == 4
    again.close()


class OneLine:
    """Sums up whatever it is given in one line."""

    def get_summaries(self, request: Any) -> list[vecall.SessionSummary]:
        return [vecall.SessionSummary("A guest of the hotel.")]


@pytest.mark.parametrize("ingest", [None, "delta"])
@pytest.mark.parametrize(
    "options",
    [{}, {"summarizer": OneLine()}, {"trigger": "session_end"}],
    ids=["by default", "summarizer", "session_end"],
)
def test_what_the_memory_is_set_up_for_says_what_is_handed_over(
    ingest: Any, options: dict[str, Any]
) -> None:
    """S1.46, S4.13: unless the plugin is told to pass it over."""
    memory = VecallMemoryService(**grouped(**{"embedder": None, **options}))

    async def scenario() -> set[str]:
        runner, _ = a_runner(memory, plugins=(VecallMemoryPlugin(ingest),))
        await say(runner, ROOM)
        await runner.close()
        found = await memory.memory.list_memories(**ALICE)
        return {each.text for each in found}

    said = asyncio.run(scenario())
    turns = {ROOM, "Certainly."}
    if ingest == "delta" or not options:
        assert said == turns
    elif "summarizer" in options:
        assert said == {"A guest of the hotel."}
    else:
        assert said == set()
        assert memory.memory.sync.admin.stats()["waiting_turns"] == 2
    memory.close()


@pytest.mark.parametrize("memory", [None, InMemoryMemoryService()], ids=type)
def test_another_memory_is_left_alone_and_said_once(
    memory: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """S1.51."""
    runner, _ = a_runner(memory, plugins=(VecallMemoryPlugin(),))
    with caplog.at_level(logging.WARNING, logger="vecall"):
        asyncio.run(say(runner, ROOM, PARROT))
    told = [each.getMessage() for each in caplog.records if each.name == "vecall"]
    assert len(told) == 1
    assert "no VecallMemoryService" in told[0]


@pytest.mark.parametrize(
    "wrong", [{"ingest": "now"}, {"sessions": 0}, {"index_artifacts": "yes"}], ids=str
)
def test_wrong_options_are_refused(wrong: dict[str, Any]) -> None:
    """S1.52."""
    with pytest.raises(vecall.ConfigError):
        VecallMemoryPlugin(**wrong)
