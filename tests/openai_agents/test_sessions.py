"""Sessions of the OpenAI Agents SDK: durable, apart for each user, remembered."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from helpers.embedders import Recorder
from helpers.memories import ALICE
from hypothesis import given, settings
from hypothesis import strategies as st
from vecall import InvalidArgumentError, MemoryService, render

pytest.importorskip("agents", reason="openai-agents is not installed")

from agents import Agent, Model, ModelResponse, RunConfig, Runner, SQLiteSession, Usage
from agents.memory import session as session_module
from openai.types.responses import ResponseOutputMessage, ResponseOutputText
from vecall.openai_agents import IngestingSession, VecallSession

WHO = tuple(ALICE.values())
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=4,
).filter(lambda value: "\\ud" not in ascii(value) and "\\x00" not in ascii(value))
ITEM = st.dictionaries(st.sampled_from(["role", "content", "ä"]), VALUES, max_size=3)
STEP = st.one_of(
    st.tuples(st.just("add"), st.lists(ITEM, max_size=4)),
    st.tuples(st.just("pop"), st.none()),
    st.tuples(st.just("clear"), st.none()),
    st.tuples(st.just("get"), st.none() | st.integers(-1, 6)),
)


def item(text: str, role: str = "user", **more: Any) -> dict[str, Any]:
    return {"role": role, "content": text, **more}


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(STEP, max_size=10))
def test_a_session_is_a_list(steps):
    """The reference: a list of the JSON values, and two other sessions beside it."""
    with MemoryService(embedder=None) as memory:
        session = VecallSession("s", memory, *WHO)
        others = [
            VecallSession("t", memory, *WHO),
            VecallSession("s", memory, "b", "u"),
        ]

        async def walk() -> None:
            for other in others:
                await other.add_items([item("other")])
            model: list[Any] = []
            for what, value in steps:
                if what == "add":
                    await session.add_items(value)
                    model += value
                elif what == "pop":
                    assert await session.pop_item() == (model.pop() if model else None)
                elif what == "clear":
                    await session.clear_session()
                    model.clear()
                else:
                    expected = model
                    if value is not None and value >= 0:
                        expected = model[len(model) - min(value, len(model)) :]
                    assert await session.get_items(value) == expected
            assert await session.get_items() == model
            for other in others:
                assert await other.get_items() == [item("other")]

        asyncio.run(walk())


def test_sessions_of_several_writers_lose_nothing_and_survive(open_service, tmp_path):
    path = tmp_path / "m.db"
    services = [open_service(path), open_service(path)]
    sessions = [VecallSession("s", service, *WHO) for service in services]

    async def write(number: int) -> None:
        for turn in range(5):
            pair = [item(f"{number} {turn}"), item("answer", "assistant")]
            await sessions[number % 2].add_items(pair)

    async def both() -> None:
        await asyncio.gather(*map(write, range(4)))

    asyncio.run(both())
    for service in services:
        service.close()
    again = VecallSession("s", open_service(path), *WHO)
    items = asyncio.run(again.get_items())
    assert len(items) == 40
    for number in range(4):  # each writer's items in order, each pair together
        own = [n for n, each in enumerate(items) if each["content"][0] == str(number)]
        assert [items[n]["content"] for n in own] == [f"{number} {t}" for t in range(5)]
        assert all(items[n + 1]["role"] == "assistant" for n in own)


def test_what_is_no_json_is_refused_and_nothing_is_added(open_service):
    session = VecallSession("s", open_service(), *WHO)
    for bad in (object(), float("nan"), {1: 2}):
        with pytest.raises(InvalidArgumentError):
            asyncio.run(session.add_items([item("first"), {"content": bad}]))
    assert asyncio.run(session.get_items()) == []


def test_a_search_does_not_find_a_session_and_deleting_the_user_deletes_it(
    open_service,
):
    memory = open_service()
    session = VecallSession("s", memory, *WHO)
    asyncio.run(session.add_items([item("zebra")]))
    assert memory.sync.search_memory(**ALICE, query="zebra").memories == []
    memory.sync.delete_user(**ALICE)
    assert asyncio.run(session.get_items()) == []


def test_what_is_said_is_remembered_and_what_was_recalled_is_not(open_service):
    memory = open_service()
    memory.sync.add_memory(**ALICE, memories=["Alice feeds an okapi"])
    recalled = memory.sync.search_memory(**ALICE, query="okapi").memories
    inner = VecallSession("s", memory, *WHO)
    session = IngestingSession(inner, memory, *WHO)
    items = [
        item("I keep a zebra", id="m1"),
        item(render(recalled, "secure") + "\nAnd a gnu?", id="__fake_id__"),
        {"type": "function_call", "name": "f", "arguments": "zebra", "call_id": "c"},
        {"type": "function_call_output", "call_id": "c", "output": "zebra lion"},
        item("", "assistant"),
        {
            "type": "message",
            "id": "__fake_id__",  # as some models of the SDK name every message
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Gnus eat grass"}],
        },
    ]

    async def run() -> None:
        await session.add_items(items)
        assert await session.get_items() == items
        assert await session.get_items(1) == items[-1:]
        assert await session.pop_item() == items[-1]
        await session.clear_session()
        assert await inner.get_items() == []

    asyncio.run(run())
    entries = memory.sync.list_memories(**ALICE)
    told = {entry.text.strip(): (entry.author, entry.session_id) for entry in entries}
    assert told == {
        "Alice feeds an okapi": (None, None),
        "I keep a zebra": ("user", "s"),
        "And a gnu?": ("user", "s"),
        "Gnus eat grass": ("assistant", "s"),
    }


def test_a_failing_memory_does_not_end_the_run(open_service, caplog):
    class Broken(Recorder):
        def embed(self, texts: list[str]) -> Any:
            raise ValueError(texts[0])

    memory = open_service(embedder=Broken())
    inner = VecallSession("s", memory, *WHO)
    asyncio.run(IngestingSession(inner, memory, *WHO).add_items([item("s3cret")]))
    assert asyncio.run(inner.get_items()) == [item("s3cret")]
    assert "turns were not remembered: EmbedderError" in caplog.text
    assert "s3cret" not in caplog.text


def test_an_inner_session_that_fails_is_heard_and_nothing_is_remembered(open_service):
    memory = open_service()

    class Full(VecallSession):
        async def add_items(self, items: list[Any]) -> None:
            msg = "no space"
            raise OSError(msg)

    session = IngestingSession(Full("s", memory, *WHO), memory, *WHO)
    with pytest.raises(OSError, match="no space"):
        asyncio.run(session.add_items([item("zebra")]))
    assert memory.sync.list_memories(**ALICE) == []


def test_the_input_of_a_run_that_fails_is_remembered(open_service):
    """The SDK hands it to the session before it calls the model."""

    class Fails(Model):
        async def get_response(self, *_: Any, **__: Any) -> Any:
            raise ZeroDivisionError

        def stream_response(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

    memory = open_service()
    inner = VecallSession("s", memory, **ALICE)
    session = IngestingSession(inner, memory, **ALICE)
    agent = Agent("agent", model=Fails())
    run = Runner.run(
        agent,
        "I keep a zebra",
        session=session,
        run_config=RunConfig(tracing_disabled=True),
    )
    with pytest.raises(ZeroDivisionError):
        asyncio.run(run)
    entries = memory.sync.list_memories(**ALICE)
    assert [entry.text for entry in entries] == ["I keep a zebra"]


class Compacting(SQLiteSession):
    """A session that counts the compactions for which the runner asks."""

    def __init__(self) -> None:
        super().__init__("s")
        self.compacted = 0

    async def run_compaction(self, args: Any = None) -> None:
        self.compacted += 1


class InContext(SQLiteSession):
    """A session whose every call takes the context of the run."""

    def __init__(self) -> None:
        super().__init__("s")
        self.seen: list[Any] = []

    async def get_items(self, limit: int | None = None, *, wrapper: Any = None) -> Any:
        self.seen.append(wrapper)
        return await super().get_items(limit)

    async def add_items(self, items: Any, *, wrapper: Any = None) -> None:
        self.seen.append(wrapper)
        await super().add_items(items)

    async def pop_item(self, *, wrapper: Any = None) -> Any:
        self.seen.append(wrapper)
        return await super().pop_item()

    async def clear_session(self, *, wrapper: Any = None) -> None:
        self.seen.append(wrapper)
        await super().clear_session()


class Says(Model):
    async def get_response(self, *_: Any, **__: Any) -> Any:
        part = ResponseOutputText(annotations=[], text="hello", type="output_text")
        message = ResponseOutputMessage(
            id="m",
            content=[part],
            role="assistant",
            status="completed",
            type="message",
        )
        return ModelResponse(output=[message], usage=Usage(), response_id="r1")

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


def run_in(session: Any) -> None:
    config = RunConfig(tracing_disabled=True)
    agent = Agent("agent", model=Says())
    asyncio.run(Runner.run(agent, "I keep a zebra", session=session, run_config=config))


def test_a_session_that_compacts_still_does_when_it_is_wrapped(open_service):
    memory = open_service()
    plain, inner = Compacting(), Compacting()
    run_in(plain)
    run_in(IngestingSession(inner, memory, *WHO))
    run_in(IngestingSession(IngestingSession(inner, memory, *WHO), memory, *WHO))
    assert plain.compacted == 1
    assert inner.compacted == 2
    entries = memory.sync.list_memories(**ALICE)
    assert {entry.text for entry in entries} == {"I keep a zebra", "hello"}


def test_a_wrapped_session_has_what_the_session_has_and_nothing_else(open_service):
    memory = open_service()
    inner = VecallSession("s", memory, *WHO)
    session = IngestingSession(inner, memory, *WHO)
    assert isinstance(session, VecallSession)  # the runner asks for classes
    assert isinstance(session, IngestingSession)
    assert isinstance(session, session_module.Session)
    assert session.session_id == "s"
    assert session.session_settings is inner.session_settings
    session.session_settings = "other"
    session.session_id = "t"
    assert (inner.session_settings, inner.session_id) == ("other", "t")
    assert not hasattr(session, "run_compaction")
    compacting = IngestingSession(Compacting(), memory, *WHO)
    assert compacting.compacted == 0
    assert not isinstance(compacting, VecallSession)


@pytest.mark.skipif(
    not hasattr(session_module, "_session_accepts_wrapper"),
    reason="this SDK hands no context to sessions",
)
def test_a_session_that_takes_the_context_of_a_run_gets_it_when_it_is_wrapped(
    open_service,
):
    inner = InContext()
    run_in(IngestingSession(inner, open_service(), *WHO))
    assert inner.seen
    assert None not in inner.seen


def test_the_context_of_a_run_is_handed_only_to_a_session_that_takes_it(open_service):
    memory = open_service()
    inner = InContext()

    async def walk(session: Any) -> None:
        for wrapper in (None, "context"):
            await session.add_items([item("a")], wrapper=wrapper)
            assert await session.get_items(1, wrapper=wrapper) == [item("a")]
            assert await session.pop_item(wrapper=wrapper) == item("a")
            await session.clear_session(wrapper=wrapper)

    asyncio.run(walk(IngestingSession(SQLiteSession("s"), memory, *WHO)))
    asyncio.run(walk(IngestingSession(inner, memory, *WHO)))
    assert inner.seen == [None] * 4 + ["context"] * 4
