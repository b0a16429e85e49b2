"""Searches at the moment at which a file moves to another embedding model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from helpers.embedders import Recorder
from helpers.memories import ALICE, WAIT_S
from vecall import MemoryService
from vecall.store import SwitchModels
from vecall.store.sqlite import Writer

KEY = (ALICE["app_name"], ALICE["user_id"])


class Named(Recorder):
    """An embedder whose vectors depend on its name, too."""

    def vector(self, text: str) -> np.ndarray:
        return super().vector(f"{self.model_id} {text}")


class Held(Named):
    """Embeds questions at once, and what is stored when it is let go."""

    def __init__(self, dimensions: int, model_id: str) -> None:
        super().__init__(dimensions, model_id)
        self.reached = threading.Event()
        self.go_on = threading.Event()

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        self.reached.set()
        assert self.go_on.wait(WAIT_S)
        return super().embed(texts)

    def embed_queries(self, texts: Sequence[str]) -> np.ndarray:
        return super().embed(texts)


def answer(service: MemoryService) -> list[Any]:
    found = service.sync.search_memory(**ALICE, query="zebra 3").memories
    return [(memory.id, memory.score, memory.similarity) for memory in found]


def filled(open_service: Callable[..., MemoryService], path: Any, model: Any) -> Any:
    service = open_service(path, embedder=model, maintenance_interval=None)
    memories = [{"id": f"m{n}", "content": f"zebra {n}"} for n in range(8)]
    service.sync.add_memory(**ALICE, memories=memories)
    return service


def evict(service: MemoryService) -> None:
    service._memory.search_index.partitions._drop_partition(KEY)


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("work", ["search", "warm"])
def test_a_load_between_the_commit_of_a_model_and_its_use_has_that_models_vectors(
    open_service, tmp_path, monkeypatch, durable, work
):
    """Bug class 12: an answer by words alone is none by the vectors of any model."""
    expected = answer(filled(open_service, tmp_path / "new.db", Named(5, "new")))
    path = tmp_path / "m.db" if durable else None
    service = filled(open_service, path, Named(4, "old"))
    committed, go_on = threading.Event(), threading.Event()
    storage = service._memory.storage
    acknowledge, submit = Writer._acknowledge_job, storage.submit

    def held(writer: Writer, pending: Any) -> None:
        if isinstance(pending.job, SwitchModels):
            committed.set()
            assert go_on.wait(WAIT_S)
        acknowledge(writer, pending)

    def noted(job: Any, *then: Any) -> Any:
        future = submit(job, *then)
        if committed.is_set():
            go_on.set()  # the load waits for the model
        return future

    monkeypatch.setattr(Writer, "_acknowledge_job", held)
    monkeypatch.setattr(storage, "submit", noted)
    with ThreadPoolExecutor(2) as threads:
        moving = threads.submit(service.sync.admin.reembed, Named(5, "new"))
        assert committed.wait(WAIT_S)
        evict(service)
        old = service._memory.search_index
        if work == "warm":
            looking = threads.submit(service.sync.admin.warm, **ALICE)
        else:
            looking = threads.submit(answer, service)
        looking.add_done_callback(lambda _: go_on.set())
        found = looking.result(WAIT_S)
        assert moving.result(WAIT_S) == 8
    assert service._memory.search_index is not old
    if work == "warm":
        assert service._memory.search_index.partitions._residents.get(KEY) is not None
        found = answer(service)
    assert found == expected


def test_a_change_read_at_that_moment_is_searched_by_the_new_models_vectors(
    open_service, tmp_path
):
    """Another process finishes the same move, and adds a memory, before this one."""
    path = tmp_path / "m.db"
    service = filled(open_service, path, Named(4, "old"))
    before = answer(service)
    model = Held(5, "new")
    other = open_service(path, embedder=Named(4, "old"), maintenance_interval=None)
    with ThreadPoolExecutor(1) as threads:
        moving = threads.submit(service.sync.admin.reembed, model)
        assert model.reached.wait(WAIT_S)
        assert answer(service) == before
        assert other.sync.admin.reembed(Named(5, "new")) == 8
        other.sync.add_memory(**ALICE, memories=[{"id": "x", "content": "zebra 3"}])
        expected = answer(other)
        assert answer(service) == expected
        model.go_on.set()
        moving.result(WAIT_S)
    assert answer(service) == expected


def test_a_move_that_fails_leaves_the_model_before_in_use(open_service, tmp_path):
    service = filled(open_service, tmp_path / "m.db", Named(4, "old"))
    before = answer(service)

    class Failing(Named):
        def embed(self, texts: Sequence[str]) -> np.ndarray:
            evict(service)
            assert answer(service) == before  # loaded while the file is being moved
            raise RuntimeError

    with pytest.raises(Exception, match="RuntimeError"):
        service.sync.admin.reembed(Failing(5, "new"))
    evict(service)
    assert answer(service) == before
