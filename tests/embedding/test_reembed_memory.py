"""What served the model before is freed once no search uses it."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import pytest
from helpers.embedders import Recorder
from helpers.memories import ALICE, BOB, WAIT_S, texts
from vecall import ClosedError, MemoryService


class HeldQueries(Recorder):
    """An embedder whose queries wait until they are let go."""

    def __init__(self, dimensions: int, model_id: str) -> None:
        super().__init__(dimensions, model_id)
        self.entered = threading.Event()
        self.go_on = threading.Event()

    def embed_queries(self, texts: Sequence[str]) -> np.ndarray:
        self.entered.set()
        assert self.go_on.wait(WAIT_S)
        return self.embed(texts)


def until_one_serves(service: MemoryService) -> None:
    end = time.monotonic() + WAIT_S
    while len(service._memory.servings) > 1:
        assert time.monotonic() < end, "what was retired is still there"
        time.sleep(0.005)


@pytest.mark.parametrize("durable", [False, True])
def test_models_one_after_the_other_take_no_more_than_one(
    open_service, tmp_path, durable
):
    path = tmp_path / "m.db" if durable else None
    service = open_service(path, embedder=Recorder(8, "m0"))
    for who in (ALICE, BOB):
        service.sync.add_memory(**who, memories=[f"zebra {i}" for i in range(50)])
    assert len(texts(service)) == 50
    loaded = service.sync.admin.stats()["loaded_bytes"]
    retired = service._memory.search_index
    counts = []
    for number in range(1, 5):
        service.sync.admin.reembed(Recorder(8, f"m{number}"))
        for who in (ALICE, BOB):
            assert len(texts(service, **who)) == 50
        until_one_serves(service)
        counts.append(threading.active_count())
    assert counts[-1] == counts[0]
    assert service.sync.admin.stats()["loaded_bytes"] <= 2 * loaded
    assert len(retired.engine) == 0
    assert retired.cache.nbytes == retired.partitions.nbytes == 0


def test_a_search_that_began_before_the_change_of_models_ends_well(
    open_service, in_time
):
    first = HeldQueries(8, "m0")
    service = open_service(embedder=first)
    service.sync.add_memory(**ALICE, memories=["zebra"])
    found: list[list[str]] = []
    search = threading.Thread(target=lambda: found.append(texts(service)))
    search.start()
    assert first.entered.wait(WAIT_S)
    in_time(lambda: service.sync.admin.reembed(Recorder(8, "m1")))
    assert in_time(lambda: texts(service)) == ["zebra"]
    assert len(service._memory.servings) == 2
    assert service.sync.admin.stats()["loaded_bytes"] > 0
    first.go_on.set()
    search.join(WAIT_S)
    assert found == [["zebra"]]
    until_one_serves(service)


def test_closing_does_not_wait_for_searches_of_an_old_model(open_service, in_time):
    first = HeldQueries(8, "m0")
    service = open_service(embedder=first)
    service.sync.add_memory(**ALICE, memories=["zebra"])

    def search_until_closed() -> None:
        with suppress(ClosedError):
            texts(service)

    search = threading.Thread(target=search_until_closed)
    search.start()
    assert first.entered.wait(WAIT_S)
    in_time(lambda: service.sync.admin.reembed(Recorder(8, "m1")))
    threading.Timer(0.1, first.go_on.set).start()
    in_time(service.close)
    search.join(WAIT_S)
