"""Thoughts and calls are remembered on request, and never without it."""

from __future__ import annotations

import asyncio
import json

import pytest
from helpers.conversations import ALICE, session
from vecall import (
    ConfigError,
    Event,
    InMemoryMemoryService,
    LlmSummaryProvider,
    MemoryService,
    MessageCount,
    WritePolicy,
    redact,
)
from vecall.ingest.parts import MEMORY_TOOLS, MOST_CHARS
from vecall.tools import (
    ExpandSession,
    ForgetMemory,
    LoadMemory,
    PreloadMemory,
    RecallMemory,
    Remember,
    UpdateMemory,
)

SAID = {"text": "It rains in Paris."}
THOUGHT = {"text": "The user likes zebras.", "thought": True}
CALL = {"function_call": {"name": "get_weather", "args": {"city": "Paris"}}}
RESPONSE = {"function_response": {"name": "get_weather", "response": {"rain": 2.5}}}
PARTS = [THOUGHT, CALL, RESPONSE, SAID]

THOUGHT_TEXT = "(thought) The user likes zebras."
CALL_TEXTS = (
    '(call) get_weather {"city": "Paris"}\n(response) get_weather {"rain": 2.5}'
)
TEXTS = {
    (): "It rains in Paris.",
    ("thoughts",): f"{THOUGHT_TEXT}\nIt rains in Paris.",
    ("calls",): f"{CALL_TEXTS}\nIt rains in Paris.",
    ("thoughts", "calls"): f"{THOUGHT_TEXT}\n{CALL_TEXTS}\nIt rains in Paris.",
}


def event(*parts, id_="e1", **more):
    return {"id": id_, "author": "agent", "content": {"parts": list(parts)}, **more}


def texts(service):
    return [entry.text for entry in service.sync.list_memories(**ALICE)]


def told(*parts, include=("thoughts", "calls")):
    """The text of a turn that has these parts, or None."""
    with MemoryService(embedder=None, writes=WritePolicy(include=include)) as service:
        service.sync.add_events_to_memory(**ALICE, events=[event(*parts)])
        return next(iter(texts(service)), None)


@pytest.mark.parametrize("include", TEXTS)
@pytest.mark.parametrize("way", ["events", "session", "observe", "count", "matching"])
def test_what_is_asked_for_is_remembered_in_the_order_of_the_parts(include, way):
    trigger = MessageCount(1) if way == "count" else None
    make = InMemoryMemoryService if way == "matching" else MemoryService
    more = {} if way == "matching" else {"embedder": None}
    writes = WritePolicy(include=include)
    with make(writes=writes, trigger=trigger, **more) as service:
        sync = service.sync
        if way in ("events", "matching"):
            sync.add_events_to_memory(**ALICE, events=[event(*PARTS)])
        elif way == "session":
            sync.add_session_to_memory(session(event(*PARTS)))
        else:
            sync.observe_session(session(event(*PARTS)))
            sync.end_session(session(event(*PARTS)))
        assert texts(service) == [TEXTS[include]]
        found = sync.search_memory(**ALICE, query="zebras").memories
        assert bool(found) == ("thoughts" in include)


def test_a_turn_of_calls_alone_is_a_memory_only_on_request():
    assert told(CALL, RESPONSE) == CALL_TEXTS
    assert told(CALL, RESPONSE, include=("thoughts",)) is None
    assert told(THOUGHT, include=("calls",)) is None
    assert told(THOUGHT, include=()) is None


def test_dicts_in_camel_case_objects_and_chat_messages_are_read_alike():
    camel = [
        {"functionCall": CALL["function_call"]},
        {"functionResponse": RESPONSE["function_response"]},
    ]
    assert told(*camel) == CALL_TEXTS
    assert told({"type": "thinking", "thinking": "hm"}, SAID).startswith("(thought) hm")
    assert told({"type": "reasoning", "text": "hm"}) == "(thought) hm"
    given = Event({"parts": PARTS}, id="e1", author="agent")
    with MemoryService(
        embedder=None, writes=WritePolicy(include=["calls", "thoughts"])
    ) as service:
        service.sync.add_events_to_memory(**ALICE, events=[given])
        assert texts(service) == [TEXTS["thoughts", "calls"]]


def test_requests_for_credentials_stay_out():
    secret = {"name": "adk_request_credential", "args": {"key": "secret"}}
    assert told({"function_call": secret}, SAID) is None


def test_calls_of_memory_tools_stay_out():
    tools = (
        ExpandSession,
        ForgetMemory,
        LoadMemory,
        PreloadMemory,
        RecallMemory,
        Remember,
        UpdateMemory,
    )
    assert {tool.name for tool in tools} == MEMORY_TOOLS
    for name in MEMORY_TOOLS:
        call = {"function_call": {"name": name, "args": {"text": "secret"}}}
        answer = {"function_response": {"name": name, "response": {"text": "secret"}}}
        assert told(call, SAID, answer) == SAID["text"]


def test_what_was_recalled_stays_out():
    marked = {**CALL, "vecall": "recalled"}
    assert told(marked, {**THOUGHT, "vecall": "recalled"}, SAID) == SAID["text"]


def circular():
    made = {}
    made["self"] = made
    return made


def deep():
    made = value = {}
    for _ in range(100_000):
        value["x"] = value = {}
    return made


@pytest.mark.parametrize(
    "values",
    [
        lambda: {"x": "y" * 3_000_000},
        lambda: {str(n): n for n in range(100_000)},
        {"x": object()},
        {("a", "b"): 1, "c": "d"},
        {"x": "\ud800"},
        {"x": float("nan")},
        lambda: {"x": 10**6000},
        circular,
        deep,
        "no mapping",
        None,
    ],
    ids=lambda value: type(value).__name__,
)
def test_any_arguments_give_a_short_text(values):
    args = values() if callable(values) else values  # large ones are made here
    text = told({"function_call": {"name": "f", "args": args}})
    assert text.startswith("(call) f")
    assert len(text) <= MOST_CHARS + 20
    text.encode()


def test_short_arguments_are_whole():
    args = {"q": "é" * (MOST_CHARS - 9)}
    text = told({"function_call": {"name": "f", "args": args}})
    assert json.loads(text.removeprefix("(call) f ")) == args


def test_added_again_with_the_option_a_turn_gets_its_calls(tmp_path):
    for include in ((), ("calls",), ()):
        path = tmp_path / "m.db"
        with MemoryService(
            path, embedder=None, writes=WritePolicy(include=include)
        ) as service:
            service.sync.add_session_to_memory(session(event(*PARTS)))
            assert texts(service) == [TEXTS[include]]


def test_the_hook_and_the_summarizer_see_them():
    def hide(write):
        return redact(write.memory.text.replace("Paris", "[city]"))

    with MemoryService(
        embedder=None, writes=WritePolicy(include=("calls",), on_write=hide)
    ) as service:
        service.sync.add_session_to_memory(session(event(*PARTS)))
        (entry,) = service.sync.list_memories(**ALICE)
        assert "Paris" not in str(entry)
        assert '(call) get_weather {"city": "[city]"}' in entry.text

    asked = []

    def summarize(prompt):
        asked.append(prompt)
        return "A summary."

    provider = LlmSummaryProvider(summarize)
    for include in ((), ("calls",)):
        with MemoryService(
            embedder=None, writes=WritePolicy(include=include), summarizer=provider
        ) as service:
            service.sync.add_session_to_memory(session(event(*PARTS)))
            assert texts(service) == ["A summary."]
    assert ["(call)" in str(prompt) for prompt in asked] == [False, True]


@pytest.mark.parametrize("given", ["calls", None, 1, ("files",), (1,), {"calls": 1}])
def test_another_include_is_refused(given):
    with pytest.raises(ConfigError, match="include: "):
        MemoryService(embedder=None, writes=WritePolicy(include=given))


def test_google_adks_events_are_read(tmp_path):
    pytest.importorskip("google.adk")
    from google.adk.events import Event as AdkEvent
    from google.adk.sessions import Session
    from google.genai import types
    from vecall.adk import VecallMemoryService

    parts = [
        types.Part(text="The user likes zebras.", thought=True),
        types.Part.from_function_call(name="get_weather", args={"city": "Paris"}),
        types.Part.from_function_response(name="get_weather", response={"rain": 2.5}),
        types.Part(text="It rains in Paris."),
    ]
    content = types.Content(role="model", parts=parts)
    given = AdkEvent(id="e1", author="agent", content=content, timestamp=1e9)
    whole = Session(id="s", **ALICE, events=[given])

    async def remembered(way, include, uri):
        where = f"vecall://:memory:?embedder=none&include={include}"
        service = (
            VecallMemoryService(uri=where)
            if uri
            else VecallMemoryService(
                embedder=None,
                writes=WritePolicy(
                    include=tuple(include.split(",")) if include else ()
                ),
            )
        )
        if way == "events":
            await service.add_events_to_memory(**ALICE, session_id="s", events=[given])
        elif way == "session":
            await service.add_session_to_memory(whole)
        else:
            await service.observe_session(whole)
            await service.end_session(whole)
        made = texts(service.memory)
        service.close()
        return made

    for way in ("events", "session", "observe"):
        for include, expected in TEXTS.items():
            names = ",".join(include)
            for uri in (False, True) if include else (False,):
                assert asyncio.run(remembered(way, names, uri)) == [expected]
