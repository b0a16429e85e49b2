"""Microsoft Agent Framework: recall, what is remembered, and durable histories."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from helpers.embedders import Recorder
from helpers.memories import ALICE, BOB
from helpers.paths import ROOT
from helpers.unasked import check_unasked
from vecall import (
    ConfigError,
    InvalidArgumentError,
    InvalidTypeError,
    MemoryService,
    render,
)

pytest.importorskip("agent_framework", reason="agent-framework-core is not installed")

from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    InMemoryHistoryProvider,
    Message,
    SessionContext,
)
from vecall.agent_framework import VecallContextProvider, VecallHistoryProvider

WHO = tuple(ALICE.values())


class Model(BaseChatClient):
    """Answers with given texts, and keeps the texts that it was asked."""

    def __init__(self, *answers: str) -> None:
        super().__init__()
        self.answers = list(answers)
        self.asked: list[list[str]] = []

    def _inner_get_response(
        self, *, messages: Any, stream: bool, options: Any, **more: Any
    ) -> Any:
        self.asked.append([message.text for message in messages])
        text = self.answers.pop(0)

        async def once() -> ChatResponse:
            return ChatResponse(messages=[Message("assistant", [text])])

        async def pieces() -> Any:
            for piece in text.split(" "):
                yield ChatResponseUpdate(
                    role="assistant", contents=[Content.from_text(piece + " ")]
                )

        return self._build_response_stream(pieces()) if stream else once()


def agent_of(model: Model, *providers: Any) -> Agent:
    return Agent(model, name="Concierge", context_providers=list(providers))


def remembered(memory: MemoryService, who: dict[str, str] = ALICE) -> dict[str, Any]:
    entries = memory.sync.list_memories(**who)
    return {entry.text.strip(): (entry.author, entry.session_id) for entry in entries}


def context_of(*texts: str, session_id: str = "s", **more: Any) -> SessionContext:
    messages = [Message("user", [text]) for text in texts]
    return SessionContext(session_id=session_id, input_messages=messages, **more)


async def recalled(provider: Any, context: SessionContext, agent: Any = None) -> str:
    session = AgentSession(session_id=context.session_id)
    await provider.before_run(agent=agent, session=session, context=context, state={})
    return "\n".join(message.text for message in context.get_messages())


def test_a_run_recalls_and_is_remembered(open_service):
    memory = open_service()
    memory.sync.add_memory(**ALICE, memories=["Alice feeds an okapi"])
    memory.sync.add_memory(**BOB, memories=["Bob feeds an okapi"])
    model = Model("It eats leaves")
    agent = agent_of(model, VecallContextProvider(memory, *WHO))
    session = AgentSession(session_id="s1")
    answer = asyncio.run(agent.run("my okapi?", session=session))
    assert answer.text == "It eats leaves"
    [(block, question)] = model.asked
    assert question == "my okapi?"
    assert "Alice feeds an okapi" in block
    assert "Bob" not in block
    assert remembered(memory) == {
        "Alice feeds an okapi": (None, None),
        "my okapi?": ("user", "s1"),
        "It eats leaves": ("Concierge", "s1"),
    }
    assert remembered(memory, BOB).keys() == {"Bob feeds an okapi"}


def test_a_streamed_run_is_remembered(open_service):
    memory = open_service()
    agent = agent_of(Model("It eats leaves"), VecallContextProvider(memory, *WHO))

    async def run() -> None:
        async for _ in agent.run("my okapi?", stream=True):
            pass

    asyncio.run(run())
    assert remembered(memory).keys() == {"my okapi?", "It eats leaves"}


class Fails(Model):
    """Fails where another model would answer, or in the middle of an answer."""

    def _inner_get_response(
        self, *, messages: Any, stream: bool, options: Any, **more: Any
    ) -> Any:
        async def once() -> ChatResponse:
            raise ZeroDivisionError

        async def pieces() -> Any:
            yield ChatResponseUpdate(
                role="assistant", contents=[Content.from_text("It ")]
            )
            raise ZeroDivisionError

        return self._build_response_stream(pieces()) if stream else once()


@pytest.mark.parametrize("stream", [False, True])
def test_the_input_of_a_run_that_fails_is_remembered(open_service, stream):
    memory = open_service()
    agent = agent_of(Fails(), VecallContextProvider(memory, *WHO))
    session = AgentSession(session_id="s1")

    async def run() -> None:
        if stream:
            async for _ in agent.run("my okapi?", session=session, stream=True):
                pass
        else:
            await agent.run("my okapi?", session=session)

    with pytest.raises(ZeroDivisionError):
        asyncio.run(run())
    assert remembered(memory) == {"my okapi?": ("user", "s1")}


def test_every_run_remembers_its_input_once_also_if_it_is_said_again(open_service):
    memory = open_service()
    agent = agent_of(Model("a", "b", "c"), VecallContextProvider(memory, *WHO))
    session = AgentSession(session_id="s1")

    async def run() -> None:
        for text in ("yes", "no", "yes"):
            await agent.run(text, session=session)

    asyncio.run(run())
    texts = [each.text for each in memory.sync.list_memories(**ALICE)]
    assert texts == ["yes", "a", "no", "b", "yes", "c"]


def test_making_a_provider_logs_nothing(open_service, caplog):
    VecallContextProvider(open_service(), *WHO)
    VecallContextProvider(open_service(), WHO[0], lambda session_id: "u")
    assert caplog.records == []


def test_context_messages_and_recalled_text_are_not_remembered(open_service):
    memory = open_service()
    memory.sync.add_memory(**ALICE, memories=["Alice feeds an okapi"])
    block = render(memory.sync.search_memory(**ALICE, query="okapi").memories, "secure")
    provider = VecallContextProvider(memory, *WHO)
    context = context_of(f"{block}\nAnd a gnu?")
    context.extend_messages("documents", [Message("user", ["A lion is a cat"])])
    context.input_messages += context.get_messages()  # as between agents
    context.input_messages += [
        Message("system", ["Be brief"]),
        Message("tool", [Content.from_function_result("c", result="zebra")]),
        Message("assistant", [Content.from_function_call("c", "f", arguments="{}")]),
    ]
    session = AgentSession(session_id="s")
    arguments = {"agent": None, "session": session, "context": context, "state": {}}
    asyncio.run(provider.after_run(**arguments))
    assert remembered(memory).keys() == {"Alice feeds an okapi", "And a gnu?"}


def test_a_message_with_an_id_that_is_given_again_is_one_memory(open_service):
    memory = open_service()
    provider = VecallContextProvider(memory, *WHO)
    session = AgentSession(session_id="s")
    context = SessionContext(
        session_id="s",
        input_messages=[
            Message("user", ["zebra"], message_id="m"),
            Message("user", ["okapi"], message_id="m"),
        ],
    )
    arguments = {"agent": None, "session": session, "context": context, "state": {}}
    for _ in range(2):
        asyncio.run(provider.after_run(**arguments))
    entries = memory.sync.list_memories(**ALICE)
    assert sorted(entry.text for entry in entries) == ["okapi", "zebra"]


def test_the_breadth_of_search_and_of_storage_are_chosen_apart(open_service):
    memory = open_service()
    for session_id, text in (("s", "okapi one"), ("t", "okapi two")):
        memory.sync.add_events_to_memory(
            **ALICE, events=[{"text": text, "author": "user"}], session_id=session_id
        )
    memory.sync.add_memory(**ALICE, memories=["okapi three"])

    def seen(agent: Any = None, session_id: Any = "s", **options: Any) -> set[str]:
        provider = VecallContextProvider(memory, *WHO, store=None, **options)
        context = context_of("okapi", session_id=session_id)
        block = asyncio.run(recalled(provider, context, agent))
        return {word for word in ("one", "two", "three") if word in block}

    history = InMemoryHistoryProvider()
    deaf = InMemoryHistoryProvider(load_messages=False)
    assert seen() == {"one", "two", "three"}
    assert seen(agent_of(Model(), history)) == {"two", "three"}
    assert seen(agent_of(Model(), deaf)) == {"one", "two", "three"}
    assert seen(search="session") == {"one"}
    assert seen(search="session", session_id=None) == set()
    assert seen(session_id=None) == {"one", "two", "three"}
    assert seen(search=None) == set()

    def stored(**options: Any) -> Any:
        owner = {"app_name": "stored", "user_id": str(options)}
        provider = VecallContextProvider(memory, *owner.values(), **options)
        asyncio.run(agent_of(Model("fine"), provider).run("zebra", session=session))
        return remembered(memory, owner).get("zebra")

    session = AgentSession(session_id="s")
    assert stored(search=None) == ("user", "s")
    assert stored(store="user") == ("user", None)
    assert stored(store=None) is None


def test_a_session_belongs_to_the_user_that_a_function_names(open_service):
    memory = open_service()
    users = {"s1": "alice", "s2": "bob"}
    who = ("app", users.__getitem__)
    providers = VecallHistoryProvider(memory, *who), VecallContextProvider(memory, *who)
    model = Model(*"abcd")
    agent = agent_of(model, *providers)
    for session_id, text in (("s1", "my okapi"), ("s2", "an okapi?"), ("s1", "gnu")):
        session = AgentSession(session_id=session_id)
        asyncio.run(agent.run(text, session=session))
    assert model.asked == [["my okapi"], ["an okapi?"], ["my okapi", "a", "gnu"]]
    assert remembered(memory).keys() == {"my okapi", "a", "gnu", "c"}
    assert remembered(memory, BOB).keys() == {"an okapi?", "b"}


def test_a_failing_memory_does_not_end_the_run(open_service, caplog):
    class Broken(Recorder):
        def embed(self, texts: list[str]) -> Any:
            raise ValueError(texts[0])

    memory = open_service(embedder=Broken())
    agent = agent_of(Model("fine"), VecallContextProvider(memory, *WHO))
    assert asyncio.run(agent.run("s3cret")).text == "fine"

    def unknown(session_id: str | None) -> str:
        raise KeyError(session_id)

    nobody = VecallContextProvider(memory, "app", unknown)
    assert asyncio.run(agent_of(Model("fine"), nobody).run("s3cret")).text == "fine"
    assert "turns were not remembered: EmbedderError" in caplog.text
    assert "nothing was recalled: KeyError" in caplog.text
    assert "s3cret" not in caplog.text


def test_a_message_that_cannot_be_read_does_not_end_the_run(open_service, caplog):
    class Odd(Message):
        @property
        def text(self) -> str:
            raise ValueError("s3cret")

    context = SessionContext(session_id="s1", input_messages=[Odd("user", ["okapi"])])
    provider = VecallContextProvider(open_service(), *WHO)
    options = {"agent": agent_of(Model("fine")), "context": context, "state": {}}
    options["session"] = AgentSession(session_id="s1")
    asyncio.run(provider.before_run(**options))
    assert "turns were not remembered: ValueError" in caplog.text
    assert "s3cret" not in caplog.text


def test_wrong_names_and_options_are_refused(open_service):
    memory = open_service()
    for door in (VecallContextProvider, VecallHistoryProvider):
        with pytest.raises(InvalidArgumentError):
            door(memory, "app", "")
    with pytest.raises(InvalidArgumentError):
        VecallContextProvider(memory, *WHO, max_entries=0)
    for name in ("search", "store"):
        with pytest.raises(ConfigError):
            VecallContextProvider(memory, *WHO, **{name: "all"})


MESSAGES = [
    Message(
        "user", ["Hi"], author_name="Alice", additional_properties={"n": [1, None]}
    ),
    Message("assistant", [Content.from_function_call("c", "f", arguments={"x": "ä"})]),
    Message("tool", [Content.from_function_result("c", result={"y": 1.5})]),
    Message(
        "assistant",
        ["It is ", Content.from_uri("https://x.test/a.png", media_type="image/png")],
        message_id="m1",
    ),
]


def dicts(messages: Any) -> list[Any]:
    return [message.to_dict() for message in messages]


def test_a_history_is_durable_and_complete(open_service, tmp_path):
    path = tmp_path / "m.db"
    memory = open_service(path)
    history = VecallHistoryProvider(memory, *WHO)
    for part in (MESSAGES[:2], MESSAGES[2:], []):
        asyncio.run(history.save_messages("s", part))
    memory.close()
    memory = open_service(path)
    again = VecallHistoryProvider(memory, *WHO)
    assert dicts(asyncio.run(again.get_messages("s"))) == dicts(MESSAGES)
    assert memory.sync.search_memory(**ALICE, query="Hi").memories == []
    memory.sync.delete_user(**ALICE)
    assert asyncio.run(again.get_messages("s")) == []


def test_histories_of_sessions_users_and_providers_are_apart(open_service):
    memory = open_service()
    homes = [
        (VecallHistoryProvider(memory, app, user, source_id=source), session)
        for app, user in (("a", "b"), ("a", "b\x1fc"), ("a", "c"), ("ab", "b"))
        for source in ("h", "h/s")
        for session in (None, "s", "s/t", "ss", "state", "000000000000")
    ]
    for number, (history, session) in enumerate(homes):
        message = Message("user", [f"{number}"])
        asyncio.run(history.save_messages(session, [message]))
    for number, (history, session) in enumerate(homes):
        found = asyncio.run(history.get_messages(session))
        assert [message.text for message in found] == [f"{number}"]
    asyncio.run(homes[0][0].clear(None))
    assert asyncio.run(homes[0][0].get_messages(None)) == []
    assert len(asyncio.run(homes[1][0].get_messages("s"))) == 1


def message(text: str, id_: str | None = None) -> Message:
    return Message("user", [text], message_id=id_)


@pytest.mark.parametrize(
    ("stored", "given", "expected"),
    [
        ("", "a b", "a b"),
        ("a1 b2", "a1 b2 c3", "a1 b2 c3"),  # the whole conversation again
        ("a b2", "a b2 c", "a b2 c"),  # one id is enough
        ("a1 b2", "x a1 b2 c", "a1 b2 c"),  # behind other messages
        ("x a1 b2", "a1 b2 c", "x a1 b2 c"),  # its end
        ("a1 b2", "a1 b2", "a1 b2"),
        ("a b", "a b", "a b a b"),  # said twice
        ("a1 b2", "a1 c3", "a1 b2 a1 c3"),  # no repetition up to the end
        ("a1", "a2", "a1 a2"),
    ],
)
def test_a_conversation_that_is_given_again_is_stored_once(
    open_service, stored, given, expected
):
    def messages(words: str) -> list[Message]:
        return [message(word[0], word[1:] or None) for word in words.split()]

    history = VecallHistoryProvider(open_service(), *WHO)
    for words in (stored, given):
        asyncio.run(history.save_messages("s", messages(words)))
    found = dicts(asyncio.run(history.get_messages("s")))
    assert found == dicts(messages(expected))


def test_writers_of_one_session_lose_nothing(open_service, tmp_path):
    services = [open_service(tmp_path / "m.db") for _ in range(2)]
    histories = [VecallHistoryProvider(service, *WHO) for service in services]

    async def write(number: int) -> None:
        for turn in range(30):
            pair = [message(f"{number} {turn}"), message(f"{number} {turn} answer")]
            await histories[number].save_messages("s", pair)

    async def both() -> None:
        await asyncio.gather(write(0), write(1))

    asyncio.run(both())
    found = [each.text for each in asyncio.run(histories[0].get_messages("s"))]
    assert len(found) == 120
    for number in range(2):
        own = [text for text in found if text[0] == str(number) and len(text) < 6]
        assert own == [f"{number} {turn}" for turn in range(30)]
        assert all(found[found.index(text) + 1] == text + " answer" for text in own)


def test_a_message_that_is_no_json_is_refused_and_nothing_is_added(open_service):
    history = VecallHistoryProvider(open_service(), *WHO)
    bad = Message("user", ["x"], additional_properties={"n": float("nan")})
    with pytest.raises(InvalidTypeError):
        asyncio.run(history.save_messages("s", [message("first"), bad]))
    assert asyncio.run(history.get_messages("s")) == []


def test_what_a_compaction_marked_is_not_loaded_on_request(open_service):
    memory = open_service()
    marked = Message("user", ["old"], additional_properties={"_excluded": True})
    writer = VecallHistoryProvider(memory, *WHO)
    asyncio.run(writer.save_messages("s", [marked, message("new")]))
    reader = VecallHistoryProvider(memory, *WHO, skip_excluded=True)
    assert [each.text for each in asyncio.run(reader.get_messages("s"))] == ["new"]
    assert len(asyncio.run(writer.get_messages("s"))) == 2


def test_the_program_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/guide/agent-framework.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(program.strip().splitlines()) <= 15
    model = Model("hello", "a zebra")
    program = program.replace('"memory.db"', '"memory.db", embedder=None')
    names: dict[str, Any] = {"client": model}
    exec(program, names)
    assert asyncio.run(names["chat"]("I keep a zebra")) == "hello"
    assert asyncio.run(names["chat"]("what do I keep?")) == "a zebra"
    assert model.asked[1] == ["I keep a zebra", "hello", "what do I keep?"]
    with names["memory"] as memory:
        owner = {"app_name": "hotel", "user_id": "alice"}
        assert len(remembered(memory, owner)) == 4


def test_an_unrelated_message_gets_no_block():
    def inject(memory, text, **options):
        provider = VecallContextProvider(memory, *WHO, store=None, **options)
        return asyncio.run(recalled(provider, context_of(text)))

    check_unasked(inject, WHO)
