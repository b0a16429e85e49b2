"""The capability of pydantic-ai: recall, tools, and what is remembered."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from typing import Any

import pytest
from helpers.embedders import Recorder
from helpers.memories import ALICE
from helpers.paths import ROOT
from helpers.unasked import check_unasked
from vecall import InvalidArgumentError, MemoryService

pytest.importorskip("pydantic_ai", reason="pydantic-ai is not installed")

from pydantic_ai import Agent
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from vecall.pydantic_ai import VecallMemory

WHO = tuple(ALICE.values())
BOB = {**ALICE, "user_id": "bob"}


class Model:
    """Answers with given parts, and keeps what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.__name__ = "model"
        self.answers = list(answers)
        self.asked: list[str] = []
        self.tools: set[str] = set()

    def __call__(self, messages: Any, info: Any) -> ModelResponse:
        self.asked.append(str(messages))
        self.tools = {tool.name for tool in info.function_tools}
        return ModelResponse([self.answers.pop(0)])


def agent_of(memory: MemoryService, *answers: Any, **options: Any) -> Any:
    model = Model(*answers)
    who = options.pop("who", WHO)
    capability = VecallMemory(memory, *who, **options)
    return Agent(FunctionModel(model), capabilities=[capability]), model


def told(memory: MemoryService, who: dict[str, str] = ALICE) -> dict[str, Any]:
    entries = memory.sync.list_memories(**who)
    return {entry.text: (entry.author, entry.session_id) for entry in entries}


def test_a_run_recalls_and_is_remembered(open_service):
    memory = open_service()
    memory.sync.add_memory(**ALICE, memories=["Alice feeds an okapi"])
    memory.sync.add_memory(**BOB, memories=["Bob feeds an okapi"])
    agent, model = agent_of(memory, TextPart("It eats leaves"))
    result = agent.run_sync("my okapi?")
    assert result.output == "It eats leaves"
    assert "Alice feeds an okapi" in model.asked[0]
    assert "Bob" not in model.asked[0]
    assert "Alice feeds" not in str(result.all_messages())
    texts = told(memory)
    assert texts.keys() == {"Alice feeds an okapi", "my okapi?", "It eats leaves"}
    assert texts["my okapi?"][0] == "user"
    assert texts["It eats leaves"][0] == "assistant"
    assert texts["my okapi?"][1] == texts["It eats leaves"][1]
    assert told(memory, BOB).keys() == {"Bob feeds an okapi"}


def test_turns_said_twice_in_a_conversation_are_each_remembered_in_order(open_service):
    memory = open_service()
    agent, _ = agent_of(memory, *map(TextPart, ["yes", "yes", "no"]))
    history: Any = []
    for _ in range(3):
        result = agent.run_sync("an okapi?", message_history=history)
        history = result.all_messages()
    entries = memory.sync.list_memories(**ALICE)
    assert len({entry.session_id for entry in entries}) == 1
    by_time = sorted(entries, key=lambda entry: entry.timestamp)
    assert [entry.text for entry in by_time] == [
        *("an okapi?", "yes", "an okapi?", "yes", "an okapi?", "no")
    ]


def test_a_tool_writes_for_the_user_of_the_run_alone(open_service):
    memory = open_service()
    forged = {"text": "Bob has a gnu", "user_id": "bob"}
    agent, model = agent_of(
        memory,
        ToolCallPart("remember", forged),  # which the framework refuses
        ToolCallPart("remember", {"text": "She has a zebra"}),
        TextPart("noted"),
        who=("app", lambda ctx: ctx.deps),
        remember=False,
    )
    agent.run_sync("remember my zebra", deps="alice")
    assert {"recall_memory", "remember", "forget_memory"} <= model.tools
    owner = {"app_name": "app", "user_id": "alice"}
    assert told(memory, owner).keys() == {"She has a zebra"}
    assert memory.sync.admin.stats()["users"] == 1


def test_the_block_stays_in_the_requests_after_a_tool(open_service):
    memory = open_service()
    memory.sync.add_memory(**ALICE, memories=["Alice feeds an okapi"])
    call = ToolCallPart("recall_memory", {"query": "nothing like it"})
    agent, model = agent_of(memory, call, TextPart("leaves"), write=False)
    agent.run_sync("my okapi?")
    assert "remember" not in model.tools
    assert [asked.count("Alice feeds an okapi") for asked in model.asked] == [1, 1]


def test_without_preload_and_remember_a_run_does_neither(open_service):
    memory = open_service()
    memory.sync.add_memory(**ALICE, memories=["Alice feeds an okapi"])
    agent, model = agent_of(memory, TextPart("x"), preload=False, remember=False)
    agent.run_sync("my okapi?")
    assert "Alice feeds" not in model.asked[0]
    assert told(memory).keys() == {"Alice feeds an okapi"}


def test_a_run_with_a_history_recalls_no_turns_of_its_conversation(open_service):
    memory = open_service()
    memory.sync.add_memory(**ALICE, memories=["Alice feeds an okapi"])
    agent, model = agent_of(memory, *map(TextPart, "abc"), min_confidence=None)
    first = agent.run_sync("my okapi is old")
    agent.run_sync("my okapi?", message_history=first.all_messages())
    agent.run_sync("my okapi?")
    assert [asked.count("my okapi is old") for asked in model.asked] == [1, 1, 1]
    assert [asked.count("Alice feeds an okapi") for asked in model.asked] == [1, 1, 1]


def test_a_failing_memory_does_not_end_the_run(open_service, caplog):
    class Broken(Recorder):
        def embed(self, texts: list[str]) -> Any:
            raise ValueError(texts[0])

    agent, _ = agent_of(open_service(embedder=Broken()), TextPart("fine"))
    assert agent.run_sync("s3cret").output == "fine"
    assert "turns were not remembered: EmbedderError" in caplog.text
    assert "s3cret" not in caplog.text


def test_a_wrong_name_is_refused(open_service):
    with pytest.raises(InvalidArgumentError):
        VecallMemory(open_service(), "app", "")


def test_the_program_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/guide/pydantic-ai.md").read_text()
    program, _ = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(program.strip().splitlines()) <= 15
    model = Model(TextPart("hello"))
    program = program.replace('"openai:gpt-5"', "model").replace(
        '"memory.db"', '"memory.db", embedder=None'
    )
    names: dict[str, Any] = {"model": FunctionModel(model)}
    exec(program, names)
    with names["memory"] as memory:
        assert told(memory, {"app_name": "hotel", "user_id": "alice"}).keys() == {
            "I keep a zebra",
            "hello",
        }


def test_an_unrelated_message_gets_no_block():
    def inject(memory, text, **options):
        agent, model = agent_of(memory, TextPart("x"), remember=False, **options)
        agent.run_sync(text)
        return model.asked[0]

    check_unasked(inject, WHO)


def test_a_wrong_floor_is_refused(open_service):
    with pytest.raises(InvalidArgumentError, match="min_confidence"):
        VecallMemory(open_service(), *WHO, min_confidence=1.5)


def failing(memory: MemoryService, model: Any, **options: Any) -> Any:
    capability = VecallMemory(memory, *WHO, **options)
    return Agent(FunctionModel(model), capabilities=[capability])


def test_the_prompt_of_a_run_that_fails_is_remembered(open_service):
    def fails(*_: Any) -> ModelResponse:
        raise ZeroDivisionError

    memory = open_service()
    with pytest.raises(ZeroDivisionError):
        failing(memory, fails).run_sync("My okapi is called Ada.")
    assert {text: author for text, (author, _) in told(memory).items()} == {
        "My okapi is called Ada.": "user"
    }
    with pytest.raises(ZeroDivisionError):
        failing(memory, fails, remember=False).run_sync("Not this one.")
    assert len(told(memory)) == 1


def test_the_prompt_of_a_cancelled_run_is_remembered(open_service):
    memory = open_service()
    asked = asyncio.Event()

    async def hangs(*_: Any) -> ModelResponse:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def cancelled() -> None:
        run = asyncio.ensure_future(failing(memory, hangs).run("I keep a zebra."))
        await asked.wait()
        run.cancel()
        with suppress(asyncio.CancelledError):
            await run

    asyncio.run(cancelled())
    assert list(told(memory)) == ["I keep a zebra."]


def test_a_run_whose_end_fails_is_remembered_once(open_service):
    class Fails(AbstractCapability[Any]):
        async def wrap_run(self, ctx: Any, *, handler: Any) -> Any:
            await handler()
            raise ZeroDivisionError

    memory = open_service()
    agent, _ = agent_of(memory, TextPart("It eats leaves"))
    with pytest.raises(ZeroDivisionError):
        agent.run_sync("my okapi?", capabilities=[Fails()])
    assert sorted(told(memory)) == ["It eats leaves", "my okapi?"]


def test_a_capability_of_a_service_is_in_no_file_of_an_agent():
    """A name would promise that a file can make it, without the service."""
    assert VecallMemory.get_serialization_name() is None
