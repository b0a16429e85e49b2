"""Turns that are refused, runs that fail or overlap: nothing else is lost."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator
from typing import Any

import pytest

pytest.importorskip("google.adk")

from google.adk.models import LlmRequest, LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.genai import types
from helpers.adk import (
    ALICE,
    PARROT,
    ROOM,
    ScriptedLlm,
    a_runner,
    adk_service,
    an_event,
    entries,
    needs_after_run_callbacks,
    say,
    shown_in,
    stored,
    the_session,
)
from vecall.adk import VecallMemoryPlugin, VecallMemoryService
from vecall.ingest.passages import PASSAGE_BYTES, split_into_passages

service = pytest.fixture(adk_service)
LONG = "zebra " * 50_000
SECRET = "My secret is okapi."


@pytest.mark.parametrize("ingest", ["delta", "session"])
def test_a_turn_that_is_too_long_does_not_keep_the_others_out(
    service: VecallMemoryService, ingest: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """S1.46: all of it is stored, in passages, and the log has nothing to say."""
    plugin = VecallMemoryPlugin(ingest)

    async def scenario() -> None:
        runner, _ = a_runner(service, plugins=(plugin,))
        for text in (PARROT, LONG, ROOM):
            await say(runner, text)
            await plugin.flush()
        await runner.close()

    with caplog.at_level(logging.WARNING, logger="vecall"):
        asyncio.run(scenario())
    assert stored(service) == 5 + len(split_into_passages(LONG, PASSAGE_BYTES))
    assert {PARROT, ROOM} <= set(entries(service, "parrots quiet room"))
    assert [each for each in caplog.records if each.name == "vecall"] == []


@pytest.mark.parametrize("told_before", [True, False])
@pytest.mark.parametrize("ingest", ["delta", "session"])
def test_a_refused_turn_does_not_bring_back_what_was_rewound(
    service: VecallMemoryService, ingest: Any, told_before: bool
) -> None:
    """S3.22: the rewind and the refused turn are told at once."""
    plugin = VecallMemoryPlugin(ingest)

    async def scenario() -> None:
        first, _ = a_runner(service, plugins=(plugin,) if told_before else ())
        events = await say(first, SECRET)
        await plugin.flush()
        assert stored(service) == 2 * told_before
        await first.rewind_async(
            user_id="alice",
            session_id="trip-1",
            rewind_before_invocation_id=events[0].invocation_id,
        )
        sessions = first.session_service
        second, _ = a_runner(service, plugins=(plugin,), sessions=sessions)
        await say(second, LONG)
        await say(second, ROOM)
        await plugin.flush()

    asyncio.run(scenario())
    assert ROOM in entries(service, "quiet room")
    assert SECRET not in entries(service, "secret okapi")


@pytest.mark.parametrize("ingest", ["delta", "session", "trigger"])
def test_an_event_that_cannot_be_stored_costs_no_other(
    ingest: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """S1.46: the others are told in one call, and the log says what is wrong."""
    memory = VecallMemoryService(embedder=None)
    plugin = VecallMemoryPlugin(ingest)

    async def scenario() -> None:
        before, _ = a_runner(memory)
        for number in range(30):
            await say(before, f"okapi {number}")
        sessions = before.session_service
        event = an_event(SECRET, custom_metadata={"notes": "x" * 20_000})
        session = await the_session(before)
        await sessions.append_event(session, event)
        after, _ = a_runner(memory, plugins=(plugin,), sessions=sessions)
        await say(after, ROOM)
        await plugin.flush()
        await memory.end_session(**ALICE, session_id="trip-1")

    with caplog.at_level(logging.WARNING, logger="vecall"):
        asyncio.run(scenario())
    assert stored(memory) == 2 * 31
    assert SECRET not in entries(memory, "secret okapi")
    told = {each.getMessage() for each in caplog.records if each.name == "vecall"}
    assert told == {
        "1 of 63 items of a call cannot be stored and are left out: "
        "custom_metadata: at most max_metadata_bytes = 16384"
    }
    memory.close()


class Failing(ScriptedLlm):
    """Fails where it is asked to."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        if PARROT in shown_in(llm_request.contents[-1]):
            raise ConnectionError
        async for answer in super().generate_content_async(llm_request, stream):
            yield answer


def test_what_was_said_in_a_run_that_failed_is_remembered(
    service: VecallMemoryService,
) -> None:
    """S1.46: the user said it, whatever became of the answer."""
    if not hasattr(BasePlugin, "on_run_error_callback"):
        pytest.skip("this google-adk does not tell plugins of runs that fail")
    plugin = VecallMemoryPlugin()

    async def scenario() -> None:
        runner, _ = a_runner(service, plugins=(plugin,))
        runner.agent.model = Failing(script=[], requests=[])
        await say(runner, ROOM)
        with pytest.raises(ConnectionError):
            await say(runner, PARROT)
        await plugin.flush()

    asyncio.run(scenario())
    assert PARROT in entries(service, "parrots")
    assert stored(service) == 3


class Hanging(ScriptedLlm):
    """Never answers what it is asked about parrots."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        if PARROT in shown_in(llm_request.contents[-1]):
            await asyncio.sleep(3600)
        async for answer in super().generate_content_async(llm_request, stream):
            yield answer


@pytest.mark.parametrize("way", ["cancelled", "timeout"])
def test_what_was_said_in_a_run_that_was_cancelled_is_remembered(
    service: VecallMemoryService, way: str
) -> None:
    """The client went away, or a timeout ended the run; no other run follows."""
    plugin = VecallMemoryPlugin()

    async def scenario() -> None:
        runner, _ = a_runner(service, plugins=(plugin,))
        runner.agent.model = Hanging(script=[], requests=[])
        if way == "timeout":
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(say(runner, PARROT), 0.2)
        else:
            run = asyncio.create_task(say(runner, PARROT))
            await asyncio.sleep(0.2)
            run.cancel()
            await asyncio.wait([run])
        await plugin.flush()

    asyncio.run(scenario())
    assert PARROT in entries(service, "parrots")
    assert stored(service) == 1


def test_what_was_said_in_a_run_whose_reader_leaves_is_remembered(
    service: VecallMemoryService,
) -> None:
    """The application stops reading the events before the last one."""
    plugin = VecallMemoryPlugin()

    async def scenario() -> None:
        runner, _ = a_runner(service, plugins=(plugin,))
        await say(runner, ROOM)
        content = types.Content(role="user", parts=[types.Part(text=PARROT)])
        events = runner.run_async(
            user_id="alice", session_id="trip-1", new_message=content
        )
        await anext(events)
        await events.aclose()
        await plugin.flush()

    asyncio.run(scenario())
    assert PARROT in entries(service, "parrots")


def test_memories_that_share_a_plugin_get_their_own_turns() -> None:
    """S1.46: also of sessions with the same names."""
    plugin = VecallMemoryPlugin()
    memories = VecallMemoryService(embedder=None), VecallMemoryService(embedder=None)

    async def scenario() -> None:
        for memory, said in zip(memories, (PARROT, ROOM), strict=True):
            runner, _ = a_runner(memory, plugins=(plugin,))
            await say(runner, said)
        await plugin.flush()

    asyncio.run(scenario())
    for memory, said in zip(memories, (PARROT, ROOM), strict=True):
        assert stored(memory) == 2
        assert said in entries(memory, "parrots quiet room")
        memory.close()


def test_runs_of_one_session_at_once_are_both_remembered() -> None:
    """S1.46: each has a copy of the session that lacks what the other one said."""
    needs_after_run_callbacks()
    may_go_on = threading.Event()
    may_go_on.set()

    def embed(texts: list[str]) -> list[list[float]]:
        may_go_on.wait(20)
        return [[1.0, float(len(text))] for text in texts]

    memory = VecallMemoryService(embedder=embed)
    plugin = VecallMemoryPlugin()

    class Slow(ScriptedLlm):
        async def generate_content_async(
            self, llm_request: LlmRequest, stream: bool = False
        ) -> AsyncGenerator[LlmResponse, None]:
            await asyncio.sleep(0.05)
            async for answer in super().generate_content_async(llm_request, stream):
                yield answer

    async def scenario() -> None:
        runner, _ = a_runner(memory, plugins=(plugin,))
        runner.agent.model = Slow(script=[], requests=[])
        await say(runner, "hello there")
        await plugin.flush()
        may_go_on.clear()
        await say(runner, "something else", session="other")
        await asyncio.gather(say(runner, PARROT), say(runner, ROOM))
        may_go_on.set()
        await plugin.flush()

    asyncio.run(scenario())
    assert stored(memory) == 8
    memory.close()
