"""LangChain's chat message history: order, durability, isolation, and the guide."""

from __future__ import annotations

import asyncio
import re
import threading
from typing import Any

import pytest
from helpers.paths import ROOT
from vecall import InvalidArgumentError, InvalidTypeError, MemoryService

pytest.importorskip("langchain_core", reason="langchain-core is not installed")

from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.history import RunnableWithMessageHistory
from vecall.langchain import VecallChatMessageHistory

WHO = ("app", "alice")
MESSAGES = [
    SystemMessage("Be brief"),
    HumanMessage(
        [{"type": "text", "text": "ä"}, {"type": "text", "text": "?"}], id="h"
    ),
    AIMessage(
        "",
        tool_calls=[{"name": "f", "args": {"x": [1, None, 1.5]}, "id": "c"}],
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
        additional_kwargs={"deep": {"b": 1, "a": 2}},
    ),
    ToolMessage("42", tool_call_id="c", artifact={"rows": [1, 2]}),
    ChatMessage("hm", role="narrator", name="N"),
    AIMessageChunk("par"),
]


@pytest.fixture
def memory(tmp_path):
    with MemoryService(tmp_path / "m.db", embedder=None) as service:
        yield service


def test_a_history_is_that_of_langchain_and_survives(tmp_path):
    """The reference is LangChain's own history in memory."""
    reference = InMemoryChatMessageHistory()
    path = tmp_path / "m.db"
    with MemoryService(path, embedder=None) as memory:
        history = VecallChatMessageHistory("s", memory, *WHO)
        for each in (reference, history):
            each.add_user_message("Hi")
            each.add_messages(MESSAGES[:3])
            asyncio.run(each.aadd_messages(MESSAGES[3:]))
            each.add_messages([])
            each.add_ai_message("bye")
    with MemoryService(path, embedder=None) as memory:
        history = VecallChatMessageHistory("s", memory, *WHO)
        assert history.messages == reference.messages
        assert asyncio.run(history.aget_messages()) == reference.messages
        assert list(map(type, history.messages)) == list(map(type, reference.messages))
        assert str(history) == str(reference)
        found = memory.sync.search_memory(app_name="app", user_id="alice", query="Hi")
        assert found.memories == []
        history.clear()
        assert history.messages == []
        history.add_user_message("again")
        asyncio.run(history.aclear())
        assert asyncio.run(history.aget_messages()) == []


def test_histories_of_sessions_and_users_are_apart(memory):
    homes = [
        VecallChatMessageHistory(session, memory, app, user)
        for app, user in (("a", "b"), ("a", "b\x1fs"), ("a", "c"), ("ab", "b"))
        for session in ("s", "s/t", "ss", "s\x1ft", "state", "history", "../s", "%")
    ]
    for number, history in enumerate(homes):
        history.add_user_message(f"{number}")
    for number, history in enumerate(homes):
        assert [each.content for each in history.messages] == [f"{number}"]
    homes[0].clear()
    assert [len(history.messages) for history in homes] == [0] + [1] * (len(homes) - 1)
    memory.sync.delete_user(app_name="a", user_id="b")
    assert [len(history.messages) for history in homes[8:]] == [1] * (len(homes) - 8)


def test_writers_of_one_session_lose_nothing(memory):
    def write(number: int) -> None:
        history = VecallChatMessageHistory("s", memory, *WHO)
        for turn in range(25):
            history.add_messages(
                [HumanMessage(f"{number} {turn}"), AIMessage(f"{number} {turn}")]
            )

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = VecallChatMessageHistory("s", memory, *WHO).messages
    assert len(found) == 150
    assert all(found[at].content == found[at + 1].content for at in range(0, 150, 2))
    for number in range(3):
        own = [each.content for each in found[::2] if each.content[0] == str(number)]
        assert own == [f"{number} {turn}" for turn in range(25)]


def test_what_is_no_json_is_refused_and_nothing_is_added(memory):
    history = VecallChatMessageHistory("s", memory, *WHO)
    for bad in (object(), float("nan"), {1: 2}):
        message = AIMessage("x", additional_kwargs={"bad": bad})
        with pytest.raises(InvalidTypeError):
            history.add_messages([HumanMessage("first"), message])
    assert history.messages == []
    for session, user in (("", "u"), ("s", ""), ("s\x00", "u")):
        with pytest.raises(InvalidArgumentError):
            VecallChatMessageHistory(session, memory, "app", user)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_runnable_has_its_history(memory, is_async):
    asked: list[list[Any]] = []

    def answer(messages: list[Any]) -> AIMessage:
        asked.append([each.content for each in messages])
        return AIMessage(f"answer {len(asked)}")

    chain = RunnableWithMessageHistory(
        RunnableLambda(answer),
        lambda session_id: VecallChatMessageHistory(session_id, memory, *WHO),
    )
    for text, session in (("one", "s"), ("two", "s"), ("three", "t")):
        config = {"configurable": {"session_id": session}}
        if is_async:
            asyncio.run(chain.ainvoke([HumanMessage(text)], config))
        else:
            chain.invoke([HumanMessage(text)], config)
    assert asked == [["one"], ["one", "answer 1", "two"], ["three"]]


def test_the_program_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/guide/langchain.md").read_text()
    program, _ = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(program.strip().splitlines()) <= 15
    names: dict[str, Any] = {}
    exec(program.replace('"memory.db"', '"memory.db", embedder=None'), names)
    with names["memory"]:
        contents = [each.content for each in names["history"].messages]
        assert contents == ["When does the pool open?", "The pool opens at seven."]
        assert names["found"].metadata == {"page": 3}
