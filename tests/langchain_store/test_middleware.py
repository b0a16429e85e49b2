"""The middleware of LangChain's agents: recall, and what is remembered."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from typing import Any, NamedTuple

import pytest
from helpers.embedders import Recorder
from helpers.memories import ALICE
from helpers.paths import ROOT
from helpers.unasked import check_unasked
from vecall import InvalidArgumentError, MemoryService

pytest.importorskip("langchain.agents", reason="langchain is not installed")

from helpers.langchain_agents import Model, agent_of
from langchain.agents.middleware import (
    AgentMiddleware,
    ModelRetryMiddleware,
    PIIMiddleware,
    SummarizationMiddleware,
)
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from vecall.langchain.middleware import VecallMemoryMiddleware

WHO = tuple(ALICE.values())
BOB = {**ALICE, "user_id": "bob"}
THREAD: Any = {"configurable": {"thread_id": "t"}}


class Context(NamedTuple):
    user_id: str


@pytest.fixture
def memory(tmp_path):
    with MemoryService(tmp_path / "m.db", embedder=None) as service:
        yield service


def told(memory: MemoryService, who: dict[str, str] = ALICE) -> dict[str, Any]:
    entries = memory.sync.list_memories(**who)
    return {entry.text: (entry.author, entry.session_id) for entry in entries}


def in_order(memory: MemoryService) -> list[str]:
    entries = memory.sync.list_memories(**ALICE)
    return [each.text for each in sorted(entries, key=lambda each: each.timestamp or 0)]


def call_of(name: str, text: str = "") -> AIMessage:
    return AIMessage(text, tool_calls=[{"name": name, "args": {}, "id": "c"}])


@pytest.mark.parametrize("is_async", [False, True])
def test_a_run_recalls_and_is_remembered(memory, is_async):
    memory.sync.add_memory(**ALICE, memories=["Alice feeds an okapi"])
    memory.sync.add_memory(**BOB, memories=["Bob feeds an okapi"])
    agent, model = agent_of(memory, WHO, AIMessage("It eats leaves"))
    asked: Any = ({"messages": "my okapi?"}, THREAD)
    if is_async:
        state = asyncio.run(agent.ainvoke(*asked))
    else:
        state = agent.invoke(*asked)
    assert [each.content for each in state["messages"]] == [
        "my okapi?",
        "It eats leaves",
    ]
    block, prompt = model.asked[0]
    assert "Alice feeds an okapi" in block.content
    assert "Bob" not in block.content
    assert isinstance(block, HumanMessage)
    assert prompt.content == "my okapi?"
    assert told(memory) == {
        "Alice feeds an okapi": (None, None),
        "my okapi?": ("user", "t"),
        "It eats leaves": ("assistant", "t"),
    }
    assert told(memory, BOB).keys() == {"Bob feeds an okapi"}


def test_the_context_of_a_run_says_the_user(memory):
    memory.sync.add_memory(**ALICE, memories=["Alice feeds an okapi"])
    memory.sync.add_memory(**BOB, memories=["Bob feeds an okapi"])
    who = (WHO[0], lambda runtime: runtime.context.user_id)
    agent, model = agent_of(memory, who, *map(AIMessage, "xy"), context_schema=Context)
    for user in ("alice", "bob"):
        agent.invoke({"messages": "my okapi?"}, context=Context(user))
    (alices, _), (bobs, _) = model.asked
    assert "Alice feeds" in alices.content
    assert "Bob feeds" not in alices.content
    assert "Bob feeds" in bobs.content
    assert "Alice feeds" not in bobs.content
    assert told(memory).keys() == {"Alice feeds an okapi", "my okapi?", "x"}
    assert told(memory, BOB).keys() == {"Bob feeds an okapi", "my okapi?", "y"}


@pytest.mark.parametrize("options", [{}, {"preload": False}])
def test_a_run_without_a_valid_user_fails_and_stores_nothing(memory, options):
    for user_id, error in [
        (lambda runtime: runtime.context.user_id, AttributeError),
        (lambda runtime: "", InvalidArgumentError),
    ]:
        agent, model = agent_of(memory, ("app", user_id), AIMessage("x"), **options)
        with pytest.raises(error):
            agent.invoke({"messages": "my okapi?"})
        assert model.asked == []
    assert memory.sync.admin.stats()["users"] == 0


def test_turns_of_a_thread_are_each_remembered_once_and_in_order(memory):
    """A checkpointer gives every run the turns of the earlier ones."""
    memory.sync.add_memory(**ALICE, memories=["Alice feeds an okapi"])
    agent, model = agent_of(
        memory,
        WHO,
        *map(AIMessage, ["yes", "yes", "no"]),
        checkpointer=InMemorySaver(),
        min_confidence=0,
    )
    for _ in range(3):
        agent.invoke({"messages": "my okapi is old"}, THREAD)
    assert in_order(memory)[-6:] == [
        *("my okapi is old", "yes", "my okapi is old", "yes", "my okapi is old", "no")
    ]
    for asked in model.asked:  # what the request has anyway is not recalled
        blocks = [each for each in asked if "Alice feeds" in each.content]
        assert len(blocks) == 1
        assert "my okapi is old" not in blocks[0].content
    saved = agent.get_state(THREAD).values["messages"]
    assert len(saved) == 6
    assert "Alice feeds" not in str(saved)


def test_a_conversation_that_the_caller_holds_is_stored_once(memory):
    agent, _ = agent_of(memory, WHO, *map(AIMessage, ["leaves", "five"]))
    said: list[Any] = [{"role": "user", "content": "What does an okapi eat?"}]
    state = agent.invoke({"messages": said})
    said += [{"role": "assistant", "content": state["messages"][-1].content}]
    said += [{"role": "user", "content": "How many zebras are there?"}]
    agent.invoke({"messages": said})
    assert in_order(memory) == [
        *("What does an okapi eat?", "leaves", "How many zebras are there?", "five")
    ]


def test_what_left_the_request_of_a_thread_is_recalled(memory):
    summary = Model(answers=[AIMessage("They spoke of animals.")])
    cut = SummarizationMiddleware(
        summary, trigger=("messages", 5), keep=("messages", 1)
    )
    agent, model = agent_of(
        memory,
        WHO,
        *map(AIMessage, ["nice", "sure", "Ada"]),
        middleware=[cut],
        checkpointer=InMemorySaver(),
    )
    for text in ("My okapi is called Ada.", "I like tea.", "How is my okapi called?"):
        agent.invoke({"messages": text}, THREAD)
    texts = [each.content for each in model.asked[-1]]
    assert len(texts) == 3
    assert "They spoke of animals." in texts[0]
    assert "My okapi is called Ada." in texts[1]
    assert in_order(memory) == [
        *("My okapi is called Ada.", "nice", "I like tea.", "sure"),
        *("How is my okapi called?", "Ada"),
    ]


def test_the_block_stays_in_the_requests_after_a_tool(memory):
    def find_food() -> str:
        """Find food."""
        return "leaves of a wombat"

    memory.sync.add_memory(**ALICE, memories=["Alice feeds an okapi"])
    answers = [call_of("find_food", "Let me look."), AIMessage("Leaves.", name="Vet")]
    agent, model = agent_of(
        memory, WHO, *answers, tools=[find_food], system_prompt="Be brief, gnu."
    )
    agent.invoke({"messages": "my okapi?"})
    assert [str(asked).count("Alice feeds an okapi") for asked in model.asked] == [1, 1]
    assert [str(asked).count("my okapi?") for asked in model.asked] == [1, 1]
    kinds = [type(each) for each in model.asked[1]]
    assert kinds == [SystemMessage, HumanMessage, HumanMessage, AIMessage, ToolMessage]
    assert {text: author for text, (author, _) in told(memory).items()} == {
        "Alice feeds an okapi": None,
        "my okapi?": "user",
        "Let me look.": "assistant",
        "Leaves.": "Vet",
    }


def test_an_interrupted_run_is_remembered_when_it_goes_on(memory):
    def ask_owner() -> str:
        """Ask."""
        return str(interrupt("may I?"))

    agent, _ = agent_of(
        memory,
        WHO,
        call_of("ask_owner"),
        AIMessage("It is fed."),
        tools=[ask_owner],
        checkpointer=InMemorySaver(),
    )
    agent.invoke({"messages": "Feed my okapi"}, THREAD)
    assert in_order(memory) == ["Feed my okapi"]
    agent.invoke(Command(resume="yes"), THREAD)
    assert in_order(memory) == ["Feed my okapi", "It is fed."]


def test_without_preload_and_remember_a_run_does_neither(memory):
    memory.sync.add_memory(**ALICE, memories=["Alice feeds an okapi"])
    options = {"preload": False, "remember": False}
    agent, model = agent_of(memory, WHO, AIMessage("x"), **options)
    agent.invoke({"messages": "my okapi?"})
    assert len(model.asked[0]) == 1
    assert told(memory).keys() == {"Alice feeds an okapi"}


def test_images_and_empty_replies_are_no_memories(memory):
    memory.sync.add_memory(**ALICE, memories=["Alice feeds an okapi"])
    photo = {"type": "image", "base64": "AAAA", "mime_type": "image/png"}
    agent, model = agent_of(memory, WHO, AIMessage(""), AIMessage("nice"))
    agent.invoke({"messages": [HumanMessage([photo])]})
    text = {"type": "text", "text": "My okapi!"}
    agent.invoke({"messages": [HumanMessage([text, photo])]})
    assert [len(asked) for asked in model.asked] == [1, 2]
    assert in_order(memory)[-2:] == ["My okapi!", "nice"]
    assert len(told(memory)) == 3


def test_what_another_middleware_hides_is_not_remembered(memory):
    hide = [
        PIIMiddleware("email", apply_to_input=True, apply_to_output=True),
    ]
    agent, model = agent_of(
        memory, WHO, AIMessage("I write to zoe@zoo.org."), middleware=hide
    )
    agent.invoke({"messages": "I am ada@zoo.org."})
    assert "zoo.org" not in str(model.asked)
    assert in_order(memory) == [
        "I am [REDACTED_EMAIL].",
        "I write to [REDACTED_EMAIL].",
    ]


def test_a_retried_call_of_the_model_stores_its_prompt_once(memory):
    class Once(AgentMiddleware):
        tries = 0

        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            self.tries += 1
            if self.tries == 1:
                raise ConnectionError
            return handler(request)

    retry = ModelRetryMiddleware(initial_delay=0, jitter=False)
    agent, model = agent_of(
        memory, WHO, AIMessage("leaves"), middleware=[retry], inner=[Once()]
    )
    agent.invoke({"messages": "my okapi?"})
    assert len(model.asked) == 1
    assert len(model.asked[0]) == 1, "the prompt is not recalled for itself"
    assert in_order(memory) == ["my okapi?", "leaves"]


def test_a_failing_memory_does_not_end_the_run(caplog):
    class Broken(Recorder):
        def embed(self, texts: list[str]) -> Any:
            raise ValueError(texts[0])

    with MemoryService(embedder=Broken()) as memory:
        agent, _ = agent_of(memory, WHO, AIMessage("fine"))
        state = agent.invoke({"messages": "s3cret"})
    assert state["messages"][-1].content == "fine"
    assert "turns were not remembered: EmbedderError" in caplog.text
    assert "s3cret" not in caplog.text


def test_the_prompt_of_a_run_that_fails_is_remembered(memory):
    agent, _ = agent_of(memory, WHO, ZeroDivisionError(), checkpointer=InMemorySaver())
    with pytest.raises(ZeroDivisionError):
        agent.invoke({"messages": "My okapi is called Ada."}, THREAD)
    assert told(memory) == {"My okapi is called Ada.": ("user", "t")}


def test_the_prompt_of_a_cancelled_run_is_remembered(memory):
    asked = asyncio.Event()

    async def hang() -> str:
        """Wait."""
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def cancelled() -> None:
        agent, _ = agent_of(memory, WHO, call_of("hang"), tools=[hang])
        run = asyncio.ensure_future(agent.ainvoke({"messages": "I keep a zebra."}))
        await asked.wait()
        run.cancel()
        with suppress(asyncio.CancelledError):
            await run

    asyncio.run(cancelled())
    assert list(told(memory)) == ["I keep a zebra."]


def test_a_blocking_run_on_a_thread_with_an_event_loop_works(memory):
    """As in a notebook."""
    memory.sync.add_memory(**ALICE, memories=["Alice feeds an okapi"])
    agent, model = agent_of(memory, WHO, AIMessage("leaves"))

    async def blocking() -> None:
        agent.invoke({"messages": "my okapi?"})

    asyncio.run(blocking())
    assert "Alice feeds" in model.asked[0][0].content
    assert told(memory).keys() >= {"my okapi?", "leaves"}


def test_a_wrong_name_or_number_is_refused(memory):
    for who, options in [
        (("app", ""), {}),
        (WHO, {"min_confidence": 1.5}),
        (WHO, {"max_entries": 0}),
        (WHO, {"max_tokens": -1}),
    ]:
        with pytest.raises(InvalidArgumentError):
            VecallMemoryMiddleware(memory, *who, **options)


def test_an_unrelated_message_gets_no_block():
    def inject(memory: MemoryService, text: str, **options: Any) -> str:
        agent, model = agent_of(memory, WHO, AIMessage("x"), remember=False, **options)
        agent.invoke({"messages": text})
        return str(model.asked[0])

    check_unasked(inject, WHO)


def test_the_program_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/guide/langchain.md").read_text()
    _, program = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(program.strip().splitlines()) <= 20
    model = Model(answers=[AIMessage("hello")])
    program = program.replace('"openai:gpt-5"', "model").replace(
        '"memory.db"', '"memory.db", embedder=None'
    )
    names: dict[str, Any] = {"model": model, "__name__": "page"}
    exec(compile(program, "langchain.md", "exec", dont_inherit=True), names)
    with names["memory"] as memory:
        assert told(memory, {"app_name": "hotel", "user_id": "alice"}).keys() == {
            "I keep a zebra",
            "hello",
        }
