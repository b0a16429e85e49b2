"""A filter over HTTP, on the command line and on the tools that a model calls."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from helpers.embedders import Recorder
from helpers.memories import ALICE, SECRET
from helpers.vector_stores.reference import ReferenceVectorStore
from vecall import (
    ConfigError,
    Filter,
    InvalidArgumentError,
    MemoryEntry,
    MemoryService,
    SearchMemoryResponse,
)
from vecall.cli.main import main
from vecall.other_storage.vector_store import VectorStoreMemoryService
from vecall.tools import LoadMemory, PreloadMemory, RecallMemory, memory_tools

SEARCHING = (LoadMemory, RecallMemory)
TOLD = [
    MemoryEntry(
        "zebra rumour",
        author="agent",
        kind="episode",
        trust="unverified",
        source="web",
        custom_metadata={"year": 2024},
    ),
    MemoryEntry(
        "zebra fact",
        author="user",
        kind="fact",
        trust="first-party",
        source="crm",
        custom_metadata={"year": 2025},
    ),
    MemoryEntry("zebra note"),
]
FACT_ONLY: list[dict[str, Any]] = [
    {"trust": "first-party"},
    {"source": ["crm", "mail"]},
    {"author": ["user", "nobody"]},
    {"kind": "fact", "not_kind": ["episode"]},
    {"kind_prefix": "fa"},
    {"metadata": {"year": {"$gte": 2025}}},
    {"metadata": {"year": {"$in": [2025, 2026]}, "draft": {"$ne": True}}},
]


def tell(service: MemoryService) -> MemoryService:
    service.sync.add_memory(**ALICE, memories=TOLD)
    return service


def texts(answer: dict[str, Any]) -> list[str]:
    return [memory["text"] for memory in answer["memories"]]


@pytest.mark.parametrize("asked", FACT_ONLY)
def test_a_tool_shows_only_what_its_filter_lets_through(open_service, asked):
    """Given when the tool is made; what a model gives by that name changes nothing."""
    service = tell(open_service())
    for make in SEARCHING:
        tool = make(service, *ALICE.values(), filter=asked)
        assert "filter" not in tool.parameters["properties"]
        for more in ({}, {"filter": {}}, {"filter": None}):
            found = asyncio.run(tool.call({"query": "zebra", **more}))
            assert texts(found) == ["zebra fact"]
    (recall, *_) = memory_tools(service, *ALICE.values(), filter=Filter(**asked))
    assert texts(asyncio.run(recall(query="zebra"))) == ["zebra fact"]
    preload = PreloadMemory(service, *ALICE.values(), filter=asked)
    block = asyncio.run(preload.block("zebra"))
    assert "zebra fact" in block
    assert "rumour" not in block
    assert "note" not in block


def test_the_filter_of_a_tool_holds_while_the_embedder_is_down(open_service):
    class Down(Recorder):
        def embed(self, texts):
            if "zebra" in texts:
                raise ConnectionError(SECRET)
            return super().embed(texts)

    service = tell(open_service(embedder=Down()))
    tool = LoadMemory(service, *ALICE.values(), filter={"trust": "first-party"})
    answer = asyncio.run(tool(query="zebra"))
    assert answer["searched"] == "by words alone"
    assert texts(answer) == ["zebra fact"]


class Plain:
    """A memory service with the two methods that one must have."""

    async def add_session_to_memory(self, session):
        """Remember nothing."""

    async def search_memory(self, *, app_name, user_id, query):
        return SearchMemoryResponse(list(TOLD))


@pytest.mark.parametrize("make", [*SEARCHING, PreloadMemory])
def test_a_filter_that_would_not_be_applied_is_refused_when_the_tool_is_made(make):
    """By a service whose search takes none, and by one over a vector store."""
    with pytest.raises(ConfigError, match="filter"):
        make(Plain(), *ALICE.values(), filter={"trust": "x"})
    with VectorStoreMemoryService(ReferenceVectorStore(), Recorder(16)) as stored:
        with pytest.raises(InvalidArgumentError, match=r"filter\.trust"):
            make(stored, *ALICE.values(), filter={"trust": "x"})
        make(stored, *ALICE.values(), filter={"session_id": "s"})
    with pytest.raises(InvalidArgumentError, match="unknown field"):
        make(None, *ALICE.values(), filter={SECRET: "x"})


@pytest.mark.parametrize("asked", FACT_ONLY)
def test_the_filter_of_googles_memory_and_its_tools(asked):
    """The service's own search, its tools by default, and a tool that says other."""
    pytest.importorskip("google.adk")
    from helpers.adk import a_runner, answers_in, say
    from vecall.adk import LoadMemoryTool, PreloadMemoryTool, VecallMemoryService

    names = {"app_name": "hotel", "user_id": "alice"}

    def requests(memory, *tools):
        calls = [
            (each.name, {"query": "zebra"}) for each in tools if each.name[0] == "l"
        ]
        runner, llm = a_runner(memory, *calls, tools=tools)
        asyncio.run(say(runner, "zebra"))
        return llm.requests

    with MemoryService(embedder=None) as below:
        below.sync.add_memory(**names, memories=TOLD)
        service = VecallMemoryService(memory=below, filter=asked)
        found = asyncio.run(service.search_memory(**names, query="zebra"))
        assert [each.content.parts[0].text for each in found.memories] == ["zebra fact"]
        load = LoadMemoryTool()
        assert texts(answers_in(requests(service, load)[-1])[-1]) == ["zebra fact"]
        other = LoadMemoryTool(filter={"source": "web"})
        assert texts(answers_in(requests(service, other)[-1])[-1]) == ["zebra rumour"]
        for tool, memory in (
            (PreloadMemoryTool(), service),
            (PreloadMemoryTool(filter=asked), VecallMemoryService(memory=below)),
        ):
            shown = str(requests(memory, tool)[-1].contents[-1])
            assert "zebra fact" in shown
            assert "rumour" not in shown
    with pytest.raises(InvalidArgumentError, match="filter"):
        VecallMemoryService(filter={**asked, "trust": []})
    with pytest.raises(InvalidArgumentError, match="filter"):
        PreloadMemoryTool(filter={"author": 7})


@pytest.fixture
def door(open_service):
    pytest.importorskip("httptools")
    pytest.importorskip("httpx")
    from helpers.http import door_to

    return door_to(open_service())


def search(opened: Any, asked: Any) -> Any:
    from helpers import http

    body = {"query": "zebra", "filter": asked}
    return opened.ask("POST", f"{http.ALICE}/memories/search", json=body)


def put(opened: Any) -> str:
    from helpers import http

    place = f"{http.ALICE}/memories"
    names = "content author kind trust source custom_metadata".split()
    memories = [
        {name: getattr(each, name) for name in names if getattr(each, name)}
        for each in TOLD
    ]
    assert opened.ask("POST", place, json={"memories": memories}).status_code == 201
    return place


@pytest.mark.parametrize("asked", FACT_ONLY)
def test_a_filter_over_http(door, asked):
    """The same fields with the same meaning in each operation."""
    place = put(door)
    found = search(door, asked).json()["memories"]
    assert [each["content"] for each in found] == ["zebra fact"]
    for body in ({"filter": asked}, {"filter": asked, "limit": 1}):
        page = door.ask("POST", f"{place}/list", json=body).json()["memories"]
        assert [each["content"] for each in page] == ["zebra fact"]
    counted = door.ask("POST", f"{place}/count", json={"filter": asked})
    assert counted.json() == {"count": 1}
    assert door.ask("POST", f"{place}/count", json={}).json() == {"count": 3}
    deleted = door.ask("POST", f"{place}/delete", json={"filter": asked})
    left = {each["content"] for each in door.ask("GET", place).json()["memories"]}
    assert deleted.json() == {"deleted": 1}
    assert left == {"zebra rumour", "zebra note"}


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"author": []}, "body.filter.author: must have at least 1"),
        ({"author": ""}, "body.filter.author: must have at least 1"),
        ({"trust": ["x"] * 65}, "body.filter.trust: must have at most 64"),
        ({"source": [1]}, "body.filter.source[0]: expected a string"),
        ({"not_kind": 7}, "body.filter.not_kind: expected an array"),
        (
            {"metadata": {"k": {"$near": SECRET}}},
            "metadata.*: unknown field; fields are $eq",
        ),
        ({"metadata": {"k": {"$in": SECRET}}}, "metadata.*.$in: expected an array"),
        ({"metadata": {"k": {"$gt": None}}}, "metadata.*.$gt: expected a string"),
        ({"metadata": {SECRET: {}}}, "metadata.*: must have at least 1"),
        ({"auhtor": SECRET}, 'body.filter: unknown field "auhtor"'),
    ],
)
def test_a_filter_that_cannot_be_is_refused_over_http(door, asked, named):
    """422, with the field and the rule, without the value."""
    answer = search(door, asked)
    assert answer.status_code == 422
    message = answer.json()["error"]["message"]
    assert named in message
    assert SECRET not in message


def on_line(path: Any, *options: str) -> list[str]:
    return [
        "search", "zebra", "--app", "app", "--user", "alice", "--path", str(path),
        "--embedder", "none", "--json", *options,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        ["--trust", "first-party"],
        ["--source", "crm", "--source", "mail"],
        ["--author", "user", "--author", "nobody"],
        ["--kind", "fact", "--not-kind", "episode"],
        ["--metadata", '{"year": {"$gte": 2025}}'],
    ],
)
def test_a_filter_on_the_command_line(tmp_path, capsys, options):
    path = tmp_path / "m.db"
    with MemoryService(path, embedder=None) as service:
        tell(service)
    assert main(on_line(path, *options)) == 0
    found = json.loads(capsys.readouterr().out)["memories"]
    assert [each["content"] for each in found] == ["zebra fact"]


@pytest.mark.parametrize("typed", ["[1]", "{", '{"k": {"$near": 1}}', ""])
def test_metadata_that_cannot_be_are_refused_on_the_command_line(
    tmp_path, capsys, typed
):
    path = tmp_path / "m.db"
    with MemoryService(path, embedder=None) as service:
        tell(service)
    assert main(on_line(path, "--metadata", typed)) != 0
    assert "metadata" in capsys.readouterr().err
