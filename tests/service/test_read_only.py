"""A corpus that one job writes and many services only read."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.all_methods import READING, WRITING, corpus_in, with_paths
from helpers.memories import ALICE, BOB, refuses
from helpers.methods import blocking_functions, coroutines, method_of
from helpers.summaries import Recording
from helpers.write_hooks import dump, found
from vecall import (
    Clock,
    ConfigError,
    Inactivity,
    MemoryEntry,
    MemoryService,
    ReadOnlyError,
    Scopes,
    VectorMemoryService,
)


class Later(Clock):
    """A clock for which everything is due."""

    def wall(self) -> float:
        return super().wall() + 1e8

    def monotonic(self) -> float:
        return super().monotonic() + 1e8


@pytest.fixture
def corpus(open_service, tmp_path) -> Path:
    return corpus_in(tmp_path, open_service)


@pytest.mark.parametrize("kind", [MemoryService, VectorMemoryService])
def test_every_method_is_known_to_write_or_to_read(kind):
    """S1.50: a new method fails this until it stands in a table of `every_call`."""
    assert not WRITING.keys() & READING.keys()
    assert coroutines(kind).keys() == WRITING.keys() | READING.keys()
    assert coroutines().keys() == blocking_functions().keys()


def test_each_writing_method_writes_where_that_is_allowed(
    open_service, corpus, tmp_path
):
    """So that the refusals of the next test refuse something."""
    before = dump(corpus)
    (tmp_path / "corpus").write_bytes(corpus.read_bytes())
    idle = {"admin.purge"}  # changes where things stand in the file, not what
    for name in WRITING.keys() - idle:
        path = tmp_path / f"{name}.db"
        path.write_bytes((tmp_path / "corpus").read_bytes())
        due = {"clock": Later()} if name == "admin.run_due" else {}
        if name == "admin.import_jsonl":
            with open_service(path, maintenance_interval=None) as service:
                service.sync.delete_user(**ALICE, forget=True)
        same = dump(path) if name == "admin.import_jsonl" else before
        with open_service(path, maintenance_interval=None, **due) as service:
            method_of(service.sync, name)(**with_paths(WRITING[name], tmp_path))
        assert dump(path) != same, name


def test_a_service_that_only_reads_refuses_every_write(open_service, corpus, tmp_path):
    """S1.50: and after all of them the file says what it said."""
    before = dump(corpus)
    service = open_service(corpus, read_only=True, clock=Later())
    for name, options in WRITING.items():
        given = with_paths(options, tmp_path)

        async def call(name: str = name, given: dict[str, Any] = given) -> None:
            await method_of(service, name)(**given)

        refuses(ReadOnlyError, lambda c=call: asyncio.run(c()))
        refuses(ReadOnlyError, lambda n=name, g=given: method_of(service.sync, n)(**g))
    service.close()
    assert dump(corpus) == before


def test_a_service_that_only_reads_answers(open_service, corpus, tmp_path):
    """S1.50: with what a service that may write answers, and writes nothing."""
    answers = []
    before = dump(corpus)
    for read_only in (True, False):
        service = open_service(corpus, read_only=read_only, maintenance_interval=None)
        told = {}
        for name, options in READING.items():
            if read_only or "path" not in options:
                given = with_paths(options, tmp_path)
                told[name] = method_of(service.sync, name)(**given)
        answers.append(told)
        service.close()
        if read_only:
            assert dump(corpus) == before
    for name in ("search_memory", "get_memory", "memory_history", "list_memories"):
        assert answers[0][name] == answers[1][name]
    assert answers[0]["search_memory"].memories
    assert (tmp_path / "another").read_bytes() == (tmp_path / "export").read_bytes()
    with open_service(tmp_path / "copy") as copy:
        assert found(copy) == found(open_service(corpus))


def test_names_and_arguments_do_not_hide_that_it_only_reads(open_service, corpus):
    """S1.50: whoever asks, and wherever to."""
    scopes = Scopes(read={"app"}, write={"app"})
    service = open_service(corpus, read_only=True, scopes=scopes)
    for who in (ALICE, BOB, {"app_name": "none", "user_id": "new"}):
        for scope in ("user", "app"):
            refuses(
                ReadOnlyError,
                lambda w=who, s=scope: service.sync.add_memory(
                    **w, memories=["zebra"], scope=s
                ),
            )
        refuses(ReadOnlyError, lambda w=who: service.sync.delete_memory(**w))
        refuses(ReadOnlyError, lambda w=who: service.sync.mark_used(**w, memory_ids=[]))
    refuses(ReadOnlyError, lambda: service.sync.admin.delete_app(app_name="none"))


def test_nothing_writes_in_the_background(open_service, corpus):
    """S1.50: what is due stays due, and no thread waits to do it."""
    before = dump(corpus)
    provider = Recording()
    already = {thread.name for thread in threading.enumerate()}
    service = open_service(
        corpus,
        read_only=True,
        clock=Later(),
        summarizer=provider,
        maintenance_interval=0.001,
        trigger=Inactivity(1),
    )
    for _ in range(20):
        found(service)
    names = {thread.name for thread in threading.enumerate()} - already
    assert "vecall-housekeeper" not in names
    service.close()
    assert provider.sessions == []
    assert dump(corpus) == before


def test_what_expired_is_not_found_although_nobody_may_clear_it_away(
    open_service, corpus
):
    """S1.50: a reader's clock decides, not the job that wrote."""
    reader = open_service(corpus, read_only=True, clock=Later())
    assert "zebra passing" not in found(reader)
    assert "zebra fact" in found(reader)


def test_a_job_writes_a_corpus_that_all_users_of_an_app_read(open_service, tmp_path):
    """S1.50, S4.61: pattern 5, from the import to an answer."""
    path = tmp_path / "m.db"
    job = {"app_name": "app", "user_id": "job"}
    with open_service(path, scopes=Scopes(write={"app"})) as writer:
        for part in range(10):
            pages = [
                MemoryEntry(f"page {part}.{n} of the zebra handbook", source="handbook")
                for n in range(50)
            ]
            assert len(writer.sync.add_memory(**job, memories=pages, scope="app")) == 50
        assert found(writer, **job) == []
        reader = open_service(path, scopes=Scopes(read={"app"}), read_only=True)
        for who in (job, ALICE, BOB):
            answer = reader.sync.search_memory(
                **who, query="page 7.3 handbook", top_k=3
            )
            assert answer.memories[0].text == "page 7.3 of the zebra handbook"
            assert {memory.scope for memory in answer.memories} == {"app"}
            assert len(found(reader, **who)) == 500
        assert found(reader, app_name="app2", user_id="alice") == []
        # What the job adds later is found without a restart.
        writer.sync.add_memory(**job, memories=["a late zebra page"], scope="app")
        assert "a late zebra page" in found(reader, **ALICE)


def test_two_readers_share_a_file_with_one_writer(open_service, corpus):
    """S1.50: a reader sees what another service writes."""
    readers = [open_service(corpus, read_only=True) for _ in range(2)]
    with open_service(corpus) as writer:
        writer.sync.add_memory(**ALICE, memories=["zebra of the writer"])
        for reader in readers:
            assert "zebra of the writer" in found(reader)


@pytest.mark.parametrize("wrong", [None, 0, 1, "yes", "False", []])
def test_read_only_is_yes_or_no(
    open_service: Callable[..., MemoryService], wrong: object
):
    """S1.50: nothing that is merely true."""
    with pytest.raises(ConfigError, match="read_only"):
        open_service(read_only=wrong)
