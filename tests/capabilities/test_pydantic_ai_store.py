"""The store of pydantic-ai-harness' notebook, beside the harness' own InMemoryStore."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from helpers.memories import ALICE, BOB
from helpers.paths import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from vecall import (
    ConflictError,
    InvalidArgumentError,
    LimitExceededError,
    MemoryService,
)

pytest.importorskip("pydantic_ai_harness", reason="the harness is not installed")

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai_harness.memory import (
    InMemoryStore,
    Memory,
    MemoryConflictError,
    MemoryOperation,
    MemoryOperationConflictError,
    MemoryStore,
    MetadataMemoryStore,
    SearchableMemoryStore,
)
from vecall.pydantic_ai.harness_store import VecallMemoryStore

WHO = tuple(ALICE.values())
PATHS = ["a", "a/b", "a/b/c", "ab/c", "a.b/c", "a-/c", "z/x.md", "z/y.md", "z/x.md.1"]
PREFIXES = ["", "a", "a/", "a/b", "a/b/", "ab/", "z/", "z/x", "none/"]
CONTENTS = ["", "\x00zebra", "Zebra zebra okapi", "okapi\n" * 30, "ä zebra " + "x" * 40]
OPERATIONS = [None, ("o1", "f1"), ("o1", "f2"), ("o2", "f1"), ("o3", "f3")]
BAD_PATHS = ["", "/", "a//b", "/a", "a/", "../a", "a/..", "a/./b", "a b", "a\x00", "ä"]
EXPECTED = st.sampled_from(["current", "none", "stale", "unknown"])
OPERATION = st.sampled_from(OPERATIONS)
PATH = st.sampled_from(PATHS)
METADATA = st.sampled_from([None, {}, {"by": "agent"}, {"b": "ä", "a": ""}])
STEP = st.one_of(
    st.tuples(
        st.just("write"), PATH, st.sampled_from(CONTENTS), EXPECTED, OPERATION, METADATA
    ),
    st.tuples(st.just("delete"), PATH, EXPECTED, OPERATION),
    st.tuples(st.just("read"), PATH, st.integers(1, 50)),
    st.tuples(st.just("operation"), OPERATION.filter(bool)),
    st.tuples(st.just("list"), st.sampled_from(PREFIXES), st.integers(1, 10)),
    st.tuples(
        st.just("search"),
        st.sampled_from(PREFIXES),
        st.sampled_from(["zebra", "OKAPI zebra", "x", "", " ", "none"]),
        st.integers(0, 4),
        st.integers(0, 4),
        st.integers(0, 60),
        st.integers(0, 40),
    ),
)


class Walk:
    """A store in use, whose answers do not show its versions."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.known: list[str] = []  # versions in the order of their writes
        self.oldest: dict[str, str] = {}

    def name(self, version: str | None) -> int | None:
        if version is None:
            return None
        if version not in self.known:
            self.known.append(version)
        return self.known.index(version)

    async def expected(self, path: str, which: str) -> str | None:
        if which == "none":
            return None
        if which == "unknown":
            return "no version"
        if which == "stale":
            return self.oldest.get(path)
        file = await self.store.read(path, max_chars=1)
        return file and file.version

    async def step(self, what: str, *given: Any) -> Any:
        try:
            return await getattr(self, what)(*given)
        except (MemoryConflictError, MemoryOperationConflictError, ValueError) as error:
            return [
                kind
                for kind in (MemoryConflictError, MemoryOperationConflictError)
                if isinstance(error, kind)
            ]

    def mutation(self, done: Any) -> Any:
        return done and (self.name(done.version), done.replayed, done.existed)

    async def write(self, path, content, which, operation, metadata) -> Any:
        done = await self.store.write_with_metadata(
            path,
            content,
            expected_version=await self.expected(path, which),
            metadata=metadata,
            operation=operation and MemoryOperation(*operation),
        )
        self.oldest.setdefault(path, done.version)
        return self.mutation(done)

    async def delete(self, path, which, operation) -> Any:
        done = await self.store.delete(
            path,
            expected_version=await self.expected(path, which),
            operation=operation and MemoryOperation(*operation),
        )
        return self.mutation(done)

    async def read(self, path, most) -> Any:
        file = await self.store.read(path, max_chars=most)
        if file is None:
            return None
        version = self.name(file.version)
        return file.content, version, file.operation_id, file.truncated, file.metadata

    async def operation(self, operation) -> Any:
        return self.mutation(
            await self.store.get_operation(MemoryOperation(*operation))
        )

    async def list(self, prefix, limit) -> Any:
        return await self.store.list_paths(prefix, limit=limit)

    async def search(self, prefix, query, limit, files, chars, file_chars) -> Any:
        return await self.store.search(
            prefix,
            query,
            limit=limit,
            max_files=files,
            max_chars=chars,
            max_file_chars=file_chars,
        )


def same_search(own: Any, reference: Any) -> None:
    """Snippets may differ in their place, so that others fit behind them."""
    for each in (own, reference):
        assert each.scanned == reference.scanned
    pairs = list(zip(own.matches, reference.matches, strict=False))
    assert bool(own.matches) == bool(reference.matches)
    for one, other in pairs:
        assert (one.path, one.score) == (other.path, other.score)
    if [one.snippet for one, _ in pairs] == [other.snippet for _, other in pairs]:
        assert own == reference


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(STEP, min_size=1, max_size=25))
def test_every_call_answers_as_in_the_harness_own_store(steps):
    with MemoryService(embedder=None) as memory:
        own = Walk(VecallMemoryStore(memory, *WHO))
        reference = Walk(InMemoryStore())

        async def walk() -> None:
            for step in steps:
                found, expected = await own.step(*step), await reference.step(*step)
                if step[0] == "search":
                    same_search(found, expected)
                else:
                    assert found == expected, step

        asyncio.run(walk())


def test_it_has_the_three_protocols(open_service):
    store = VecallMemoryStore(open_service(), *WHO)
    for protocol in (MemoryStore, MetadataMemoryStore, SearchableMemoryStore):
        assert isinstance(store, protocol)


def write(store: Any, path: str, content: str = "x", **options: Any) -> Any:
    options = {"expected_version": None, **options}
    return asyncio.run(store.write(path, content, **options))


def paths(store: Any, prefix: str = "") -> list[str]:
    return asyncio.run(store.list_paths(prefix, limit=100))


def test_files_and_receipts_survive_and_belong_to_one_user(open_service, tmp_path):
    path = tmp_path / "m.db"
    memory = open_service(path)
    operation = MemoryOperation("o", "f")
    store = VecallMemoryStore(memory, *WHO)
    first = write(store, "a/MEMORY.md", "zebra", operation=operation)
    memory.close()
    memory = open_service(path)
    store = VecallMemoryStore(memory, *WHO)
    again = write(store, "a/MEMORY.md", "zebra", operation=operation)
    assert (again.version, again.replayed) == (first.version, True)
    bob = VecallMemoryStore(memory, *BOB.values())
    assert paths(bob) == []
    assert asyncio.run(bob.get_operation(operation)) is None
    assert asyncio.run(bob.read("a/MEMORY.md", max_chars=9)) is None
    assert memory.sync.search_memory(**ALICE, query="zebra").memories == []
    memory.sync.delete_user(**ALICE)
    assert paths(store) == []


def test_a_prefix_is_no_wider_than_its_text(open_service):
    store = VecallMemoryStore(open_service(), *WHO)
    for path in PATHS:
        write(store, path, "zebra")
    for prefix in PREFIXES:
        expected = sorted(path for path in PATHS if path.startswith(prefix))
        assert paths(store, prefix) == expected
        options = {"limit": 99, "max_files": 99, "max_chars": 999, "max_file_chars": 9}
        found = asyncio.run(store.search(prefix, "zebra", **options))
        assert {each.path for each in found.matches} == {
            path for path in expected if "/" not in path.removeprefix(prefix)
        }


@pytest.mark.parametrize("path", BAD_PATHS)
def test_a_path_that_could_name_another_one_is_refused(open_service, path):
    store, reference = VecallMemoryStore(open_service(), *WHO), InMemoryStore()
    for each in (store, reference):
        with pytest.raises(ValueError):  # noqa: PT011
            write(each, path)
    with pytest.raises(InvalidArgumentError):
        asyncio.run(store.read(path, max_chars=1))
    with pytest.raises(InvalidArgumentError):
        asyncio.run(store.delete(path, expected_version=None))
    assert paths(store) == []


@pytest.mark.parametrize(
    ("content", "metadata", "error"),
    [
        ("x" * 2**25, None, LimitExceededError),
        ("x", {"a": "b" * 4_090}, LimitExceededError),
        ("x", {"a": 1}, TypeError),
        ("x", {1: "a"}, TypeError),
        ("x", {"a": "\x00"}, InvalidArgumentError),
        (7, None, TypeError),
    ],
)
def test_what_cannot_be_stored_is_refused(open_service, content, metadata, error):
    store = VecallMemoryStore(open_service(), *WHO)
    operation = MemoryOperation("o", "f")
    options = {"expected_version": None, "operation": operation, "metadata": metadata}
    with pytest.raises(error):
        asyncio.run(store.write_with_metadata("a", content, **options))
    assert paths(store) == []
    assert asyncio.run(store.get_operation(operation)) is None


def test_of_writers_at_once_each_loses_nothing_and_an_operation_is_done_once(
    open_service, tmp_path
):
    stores = [
        VecallMemoryStore(open_service(tmp_path / "m.db"), *WHO) for _ in range(2)
    ]

    async def add(number: int, word: str) -> Any:
        operation = MemoryOperation(f"o{word}", word)
        while True:
            file = await stores[number].read("a/n.md", max_chars=10_000)
            text = (file.content if file else "") + word + " "
            try:
                return await stores[number].write(
                    "a/n.md",
                    text,
                    expected_version=file.version if file else None,
                    operation=operation,
                )
            except ConflictError:
                continue

    async def both() -> list[Any]:
        calls = [add(number, f"w{word}") for word in range(20) for number in (0, 1)]
        return await asyncio.gather(*calls)

    done = asyncio.run(both())
    file = asyncio.run(stores[0].read("a/n.md", max_chars=10_000))
    assert sorted(file.content.split()) == sorted(f"w{word}" for word in range(20))
    for first, second in zip(done[::2], done[1::2], strict=True):
        assert {first.replayed, second.replayed} == {False, True}
        assert first.version == second.version


def test_the_newest_receipts_stay_and_old_ones_go(open_service):
    memory = open_service()
    store = VecallMemoryStore(memory, *WHO)
    operations = [MemoryOperation(f"o{number}", "f") for number in range(1_400)]

    async def do(operation: MemoryOperation) -> None:
        await store.delete("a", expected_version=None, operation=operation)

    async def work() -> list[bool]:
        for start in range(0, len(operations), 100):
            await asyncio.gather(*map(do, operations[start : start + 100]))
        found = await asyncio.gather(*map(store.get_operation, operations))
        return [each is not None for each in found]

    known = asyncio.run(work())
    assert all(known[-1_000:])  # the order in a batch is not fixed
    assert sum(known) < 1_024 + 300


class Notes:
    """A model that calls tools, then answers."""

    def __init__(self, *calls: Any) -> None:
        self.__name__ = "model"
        self.calls = list(calls)
        self.asked: list[str] = []

    def __call__(self, messages: Any, info: Any) -> ModelResponse:
        self.asked.append(str(messages))
        part = self.calls.pop(0)
        return ModelResponse([TextPart(part) if isinstance(part, str) else part])


def test_a_notebook_of_one_run_is_read_in_the_next_by_its_tenant_alone(open_service):
    memory = open_service()
    store = VecallMemoryStore(memory, *WHO)
    forged = {"content": "Alice keeps a zebra", "file": "../bob/MEMORY.md"}
    note = {"content": "Alice keeps a zebra", "file": "MEMORY.md"}
    model = Notes(
        ToolCallPart("write_memory", forged),
        ToolCallPart("write_memory", note),
        "noted",
        "a zebra",
        "nothing",
    )
    notebook = Memory(store, namespace=lambda ctx: ctx.deps)
    agent = Agent(FunctionModel(model), capabilities=[notebook], deps_type=str)
    agent.run_sync("I keep a zebra", deps="alice")
    agent.run_sync("what do I keep?", deps="alice")
    agent.run_sync("what do I keep?", deps="alic")
    assert "Alice keeps a zebra" in model.asked[3]
    assert "Alice keeps a zebra" not in model.asked[4]
    assert paths(store) == ["alice/main/MEMORY.md"]


def test_the_program_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/guide/pydantic-ai.md").read_text()
    (_, program) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(program.strip().splitlines()) <= 15
    note = {"content": "Alice keeps a zebra", "file": "MEMORY.md"}
    model = Notes(ToolCallPart("write_memory", note), "noted")
    program = program.replace('"openai:gpt-5"', "model").replace(
        '"memory.db"', '"memory.db", embedder=None'
    )
    names: dict[str, Any] = {"model": FunctionModel(model)}
    exec(program, names)
    with names["memory"] as memory:
        store = VecallMemoryStore(memory, "hotel", "alice")
        assert paths(store) == ["main/MEMORY.md"]
