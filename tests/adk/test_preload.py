"""`preload_memory` of vecall in google-adk: where its block is, and where it is not."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

pytest.importorskip("google.adk")

from google.adk.models import Gemini
from google.genai import types
from helpers.adk import (
    PARROT,
    ROOM,
    CountingMemoryService,
    a_runner,
    a_session,
    a_trip,
    adk_service,
    an_event,
    ingest,
    say,
    shown_in,
    the_session,
)
from helpers.unasked import check_unasked
from vecall.adk import (
    PreloadMemoryTool,
    VecallMemoryService,
    load_memory,
    preload_memory,
)
from vecall.content import text_parts
from vecall.prompts.render import estimate_tokens

service = pytest.fixture(adk_service)
ASK = "Which quiet room do I like?"


def requests_of(memory: Any, tool: Any, *said: str, steps: tuple[Any, ...] = ()) -> Any:
    runner, llm = a_runner(memory, *steps, tools=(tool,))
    asyncio.run(say(runner, *said))
    return llm.requests


def test_a_turn_searches_once_and_shows_the_same_block_in_each_request() -> None:
    """S0.40, S4.40: three requests, one search, and it is the user's words."""
    memory = CountingMemoryService()
    ingest(memory, a_trip())
    runner, llm = a_runner(
        memory,
        ("load_memory", {"query": "parrots"}),
        ("load_memory", {"query": "stamps"}),
        tools=(preload_memory, load_memory),
    )
    asyncio.run(say(runner, ASK))
    assert len(llm.requests) == 3
    assert len({shown_in(each.contents[-1]) for each in llm.requests}) == 1
    assert [each["query"] for each in memory.searches] == [ASK, "parrots", "stamps"]
    memory.memory.close()


def test_the_block_is_last_and_says_who_said_what(
    service: VecallMemoryService,
) -> None:
    """S0.41, S4.42: a content of the user after all others, tool answers too."""
    ingest(service, a_trip())
    step = ("load_memory", {"query": "parrots"})
    runner, llm = a_runner(service, step, tools=(preload_memory, load_memory))
    asyncio.run(say(runner, ASK))
    for request in llm.requests:
        *before, last = request.contents
        (part,) = last.parts
        assert last.role == "user"
        assert f"user: {ROOM}" in part.text
        assert part.text.count("</PAST_CONVERSATIONS>") == 1
        assert not any("PAST_CONVERSATIONS" in shown_in(each) for each in before)
    assert llm.requests[1].contents[-2].parts[0].function_response


def test_the_block_is_a_text_and_nothing_that_a_client_may_refuse(
    service: VecallMemoryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S1.13: Gemini's client refuses every part with metadata for Vertex AI."""
    seen: list[Any] = []

    async def answer(self: Any, llm_request: Any, stream: bool = False) -> Any:
        seen.append(llm_request.contents[-1].parts[0])
        raise ConnectionError
        yield

    monkeypatch.setattr(Gemini, "generate_content_async", answer)
    ingest(service, a_trip())
    runner, _ = a_runner(service, tools=(preload_memory,))
    runner.agent.model = Gemini(model="gemini-2.5-flash")
    with pytest.raises(ConnectionError):
        asyncio.run(say(runner, ASK))
    (part,) = seen
    assert ROOM in part.text
    assert part == types.Part(text=part.text)
    assert text_parts(types.Content(parts=[part])) == []  # known by its text


def test_the_block_never_becomes_part_of_the_session(
    service: VecallMemoryService,
) -> None:
    """S3.19: neither in what the run yields nor in what is stored."""
    ingest(service, a_trip())
    runner, llm = a_runner(service, tools=(preload_memory,))
    yielded = asyncio.run(say(runner, ASK, "And which parrots?", session="trip-2"))
    stored = asyncio.run(the_session(runner, session="trip-2")).events
    assert all("PAST_CONV" in shown_in(each.contents[-1]) for each in llm.requests)
    assert len(stored) == 4
    for event in [*yielded, *stored]:
        assert "PAST_CONVERSATIONS" not in event.model_dump_json()


def test_the_prefix_of_a_request_is_the_same_in_every_turn(
    service: VecallMemoryService,
) -> None:
    """Pain 14: over twenty turns instruction, tools and history only ever grow."""
    ingest(service, a_trip())
    said = [f"Tell me of the quiet room and of parrots, part {n}." for n in range(20)]
    runner, llm = a_runner(service, tools=(preload_memory, load_memory))
    asyncio.run(say(runner, *said, session="trip-2"))
    first = llm.requests[0]
    before: list[Any] = []
    for request in llm.requests:
        assert request.config.system_instruction == first.config.system_instruction
        assert request.config.tools == first.config.tools
        *history, block = request.contents
        assert "PAST_CONVERSATIONS" in shown_in(block)
        assert history[: len(before)] == before
        before = history
    assert len(before) == 39


def test_the_same_hits_are_the_same_text(service: VecallMemoryService) -> None:
    """Pain 14: no time of now and no score in it, in any format."""
    ingest(service, a_trip())
    for format in ("past_conversations", "bullets", "secure"):
        tool = PreloadMemoryTool(format=format, secret="key")  # type: ignore[arg-type]
        texts = {
            shown_in(requests_of(service, tool, ASK)[0].contents[-1]) for _ in range(2)
        }
        assert len(texts) == 1
        assert ROOM in texts.pop()


def test_the_system_placement_ends_the_instruction(
    service: VecallMemoryService,
) -> None:
    """S0.42: as bullets at the end of the system text."""
    ingest(service, a_trip())
    tool = PreloadMemoryTool(format="bullets", placement="system")
    (request,) = requests_of(service, tool, ASK)
    assert len(request.contents) == 1
    head = "Relevant prior context:\n- ["
    _, told = request.config.system_instruction.split(head)
    assert told.startswith(f"1970-01-01T00:00:00Z] user: {ROOM}")


@pytest.mark.parametrize(("most", "expected"), [(1, 1), (3, 3), (50, 30)])
def test_no_more_entries_than_asked_for(
    service: VecallMemoryService, most: int, expected: int
) -> None:
    """S0.38, S0.43: the limit reaches the search."""
    ingest(service, a_session(*(an_event(f"parrots {n}") for n in range(30))))
    tool = PreloadMemoryTool(max_entries=most, min_confidence=None)
    (request,) = requests_of(service, tool, "Tell me about parrots.")
    assert shown_in(request.contents[-1]).count("user: parrots") == expected


def test_no_more_tokens_than_asked_for(service: VecallMemoryService) -> None:
    """S0.43: the frame counts; where nothing fits there is no block."""
    ingest(service, a_session(*(an_event(f"parrots {n} " * 20) for n in range(9))))
    for most in (0, 40, 120, 400):
        tool = PreloadMemoryTool(max_entries=9, max_tokens=most, min_confidence=None)
        (request,) = requests_of(service, tool, "Tell me about parrots.")
        blocks = [shown_in(each) for each in request.contents[1:]]
        assert sum(map(estimate_tokens, blocks)) <= most
        assert len(blocks) == (most >= 120)


def test_a_floor_on_the_confidence_keeps_doubtful_memories_out(
    service: VecallMemoryService,
) -> None:
    """S0.43."""
    ingest(service, a_trip())
    (request,) = requests_of(service, PreloadMemoryTool(min_confidence=1.0), ASK)
    assert len(request.contents) == 1


@pytest.mark.parametrize(
    ("said", "searches"), [("", 0), ("   ", 0), ("Anything about llamas?", 1)]
)
def test_where_nothing_is_recalled_the_request_is_as_without_the_tool(
    said: str, searches: int
) -> None:
    """S0.45, S0.46, S4.41: and where nothing was said nothing is searched."""
    memory = CountingMemoryService(embedder=None)
    ingest(memory, a_trip())
    (with_tool,) = requests_of(memory, preload_memory, said)
    plain, llm = a_runner(memory)
    asyncio.run(say(plain, said))
    (without,) = llm.requests
    assert with_tool.contents == without.contents
    assert with_tool.config == without.config
    assert len(memory.searches) == searches
    memory.memory.close()


def test_a_failure_leaves_the_turn_alone(caplog: pytest.LogCaptureFixture) -> None:
    """S0.44: the log names the failure and no word of the user."""
    memory = VecallMemoryService(embedder=None)
    ingest(memory, a_trip())
    memory.close()
    with caplog.at_level(logging.WARNING, logger="vecall"):
        (request,) = requests_of(memory, preload_memory, ASK)
    assert len(request.contents) == 1
    (told,) = [each for each in caplog.records if each.name == "vecall"]
    assert told.getMessage() == "nothing was preloaded: ClosedError"


def test_another_user_is_shown_nothing(service: VecallMemoryService) -> None:
    """S0.35."""
    ingest(service, a_trip())
    runner, llm = a_runner(service, tools=(preload_memory,))
    asyncio.run(say(runner, ASK, PARROT, user="mallory"))
    assert [len(each.contents) for each in llm.requests] == [1, 3]


def test_an_unrelated_message_gets_no_block() -> None:
    def inject(memory: Any, text: str, **options: Any) -> str:
        tool = PreloadMemoryTool(memory=memory, **options)
        (request,) = requests_of(None, tool, text)
        return "".join(map(shown_in, request.contents))

    check_unasked(inject, ("hotel", "alice"), max_tokens=2_000)


def test_the_floor_of_the_service_replaces_the_default_one() -> None:
    memory = VecallMemoryService(embedder=None, min_confidence=0.01)
    ingest(memory, a_trip())
    weak = "Which parrot insurance forms did the accountant send in spring?"
    (request,) = requests_of(memory, preload_memory, weak)
    assert PARROT in shown_in(request.contents[-1])
    memory.memory.close()
