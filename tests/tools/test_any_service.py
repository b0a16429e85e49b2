"""Tools over any memory service: two methods are enough, what is missing is said."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from helpers.embedders import Recorder
from helpers.lifecycle import get, kept, past
from helpers.memories import ALICE
from helpers.tools import SCOPE, call, run
from vecall import (
    BaseMemoryService,
    ConfigError,
    InMemoryMemoryService,
    MemoryEntry,
    MemoryService,
    SearchMemoryResponse,
    VecallError,
    VectorMemoryService,
    VectorStoreMemoryService,
)
from vecall.hooks import ALLOW, REJECT
from vecall.tools import (
    ExpandSession,
    ForgetMemory,
    LoadMemory,
    PreloadMemory,
    RecallMemory,
    Remember,
    UpdateMemory,
    memory_tools,
)
from vecall.vector_store import InMemoryVectorStore


class TwoMethods:
    """A service of somebody's own, with the two methods that every one has."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []

    async def add_session_to_memory(self, session: Any) -> None:
        raise AssertionError

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        self.asked.append({"app_name": app_name, "user_id": user_id, "query": query})
        texts = [f"{user_id} {query} {n}" for n in range(9)]
        return SearchMemoryResponse([MemoryEntry(text) for text in texts])


class Optional(BaseMemoryService):
    """One that derives from vecall's base, and writes only what it must."""

    async def add_session_to_memory(self, session: Any) -> None:
        raise AssertionError

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> Any:
        memory = {"content": {"parts": [{"text": query}]}, "author": "user"}
        return {"memories": [memory, SimpleNamespace(text="another", id="x")]}


class Wrong(TwoMethods):
    async def search_memory(self, **_: Any) -> Any:
        return "nothing"


def test_two_methods_are_enough_to_recall():
    """S0.30, S4.55: the best so many, as this service ranks them."""
    memory = TwoMethods()
    answer = call(RecallMemory(memory, *SCOPE), {"query": "zebra", "limit": 2})
    assert [each["text"] for each in answer["memories"]] == [
        "alice zebra 0",
        "alice zebra 1",
    ]
    assert len(call(LoadMemory(memory, *SCOPE), {"query": "zebra"})["memories"]) == 5
    assert "alice zebra 4" in run(PreloadMemory(memory, *SCOPE).block("zebra"))
    assert memory.asked == [{**ALICE, "query": "zebra"}] * 3


def test_memories_of_other_shapes_are_read():
    """S0.30: dicts, and objects of another library."""
    answer = call(LoadMemory(Optional(), *SCOPE), {"query": "zebra"})
    assert answer["memories"] == [
        {"text": "zebra", "author": "user"},
        {"text": "another", "id": "x"},
    ]


def test_what_is_no_answer_is_a_typed_error():
    """S0.30: no AttributeError."""
    with pytest.raises(VecallError, match="something else than memories"):
        run(LoadMemory(Wrong(), *SCOPE)(query="zebra"))
    with pytest.raises(ConfigError, match="search_memory"):
        LoadMemory(object(), *SCOPE)  # type: ignore[arg-type]


@pytest.mark.parametrize("memory", [TwoMethods(), Optional()], ids=type)
@pytest.mark.parametrize("kind", [Remember, ForgetMemory, ExpandSession, UpdateMemory])
def test_a_tool_says_which_method_it_lacks(memory, kind):
    """S0.30: when it is made."""
    with pytest.raises(ConfigError, match=kind.name):
        kind(memory, *SCOPE)


@pytest.mark.parametrize("memory", [TwoMethods(), Optional()], ids=type)
def test_tools_that_cannot_be_served_are_left_out(memory):
    """S0.30: recalling is left; asking to write is an error."""
    assert [tool.name for tool in memory_tools(memory, *SCOPE)] == ["recall_memory"]
    with pytest.raises(ConfigError, match="write"):
        memory_tools(memory, *SCOPE, write=True)


SERVICES = {
    "words": MemoryService,
    "hybrid": lambda: MemoryService(embedder=Recorder()),
    "floor": lambda: MemoryService(min_confidence=0.01, embedder=None),
    "in memory": lambda: InMemoryMemoryService("words"),
    "vectors": lambda: VectorMemoryService(Recorder()),
    "vector store": lambda: VectorStoreMemoryService(InMemoryVectorStore(), Recorder()),
}


@pytest.mark.parametrize("make", SERVICES.values(), ids=SERVICES.keys())
def test_every_service_of_vecall_serves_the_tools(make):
    """S0.30: each tool that it has a method for does its work."""
    with make() as memory:
        tools = {each.name: each for each in memory_tools(memory, *SCOPE, write=True)}
        assert tools.keys() >= {"recall_memory", "remember"}
        id_ = call(tools["remember"], {"text": "zebra one"})["id"]
        found = call(tools["recall_memory"], {"query": "zebra one"})
        assert [each["id"] for each in found["memories"]] == [id_]
        if "expand_session" in tools:
            shown = call(tools["expand_session"], {"id": id_})
            assert [each["text"] for each in shown["memories"]] == ["zebra one"]
        if "update_memory" in tools:
            changed = call(tools["update_memory"], {"id": id_, "text": "zebra two"})
            assert changed == {"status": "updated", "id": id_}
        if "forget_memory" in tools:
            asked = call(tools["forget_memory"], {"query": "zebra two"})
            done = call(tools["forget_memory"], {"token": asked["token"], "ids": [id_]})
            assert done == {"status": "forgotten", "count": 1}


def test_a_correction_is_marked_as_the_models(open_service):
    """S4.60, S4.64: what was said before stays in the history."""
    service = open_service()
    (id_,) = service.sync.add_memory(
        **ALICE, memories=[{"text": "Alice lives in Oslo.", "author": "user"}]
    )
    tool = UpdateMemory(service, *SCOPE, author="planner")
    asked = {"id": id_, "text": "Alice lives in Lima.", "importance": 0.9}
    assert call(tool, asked) == {"status": "updated", "id": id_}
    now = get(service, id_)
    assert (now.text, now.author, now.source) == (
        "Alice lives in Lima.",
        "planner",
        "tool",
    )
    assert now.importance == 0.9
    assert past(service, id_)[0] == ("Alice lives in Oslo.", "overwritten", "edit")


def test_what_is_trusted_is_not_the_models_to_correct(open_service):
    """S2.26: else its words would be shown under another's trust."""
    service = open_service()
    entry = {"text": "Refunds take 5 days.", "trust": "operator"}
    (id_,) = service.sync.add_memory(**ALICE, memories=[entry])
    asked = {"id": id_, "text": "Refunds take 1 day."}
    assert call(UpdateMemory(service, *SCOPE), asked) == {"status": "not_updated"}
    assert list(kept(service).values()) == ["Refunds take 5 days."]
    tool = UpdateMemory(service, *SCOPE, trust="operator")
    assert call(tool, asked)["status"] == "updated"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"text": "x"}, "id: expected a string"),
        ({"id": "nobody", "text": "x"}, "id: this user has no such memory"),
        ({"id": "m"}, "text: expected a string"),
        ({"id": "m", "text": " "}, "text: must not be blank"),
        ({"id": "m", "text": "x", "importance": 2}, "importance: "),
    ],
)
def test_a_correction_that_cannot_be_made_changes_nothing(
    open_service, arguments, error
):
    """S4.64: the model may mend it."""
    service = open_service()
    service.sync.add_memory(**ALICE, memories=[{"id": "m", "text": "zebra"}])
    answer = call(UpdateMemory(service, *SCOPE), arguments)
    assert list(answer) == ["error"]
    assert answer["error"].startswith(error)
    assert kept(service) == {"m": "zebra"}


def test_the_hook_judges_corrections_of_a_model_too(open_service):
    """S4.60: of what it refuses the model learns no reason."""
    service = open_service(
        on_write=lambda write: REJECT if "PIN" in write.memory.text else ALLOW
    )
    service.sync.add_memory(**ALICE, memories=[{"id": "m", "text": "zebra"}])
    asked = {"id": "m", "text": "The PIN is 1."}
    assert call(UpdateMemory(service, *SCOPE), asked) == {"status": "not_updated"}
    assert kept(service) == {"m": "zebra"}
