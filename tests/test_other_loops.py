"""What happens where another library than asyncio runs the coroutines."""

from __future__ import annotations

import pytest
from helpers.memories import ALICE
from vecall import ConfigError, MemoryService


def test_a_coroutine_that_has_to_wait_outside_of_asyncio_says_what_to_do(tmp_path):
    path = tmp_path / "memory.db"
    with MemoryService(path, embedder=None) as service:
        service.sync.add_memory(**ALICE, memories=["likes tea"])
    with MemoryService(path, embedder=None) as service:
        cold = service.search_memory(**ALICE, query="tea")
        with pytest.raises(ConfigError, match="asyncio"):
            cold.send(None)
        assert len(service.sync.search_memory(**ALICE, query="tea").memories) == 1


def test_a_warm_search_needs_no_event_loop():
    with MemoryService(embedder=None) as service:
        service.sync.add_memory(**ALICE, memories=["likes tea"])
        service.sync.search_memory(**ALICE, query="tea")
        warm = service.search_memory(**ALICE, query="tea")
        with pytest.raises(StopIteration) as done:
            warm.send(None)
        assert [entry.text for entry in done.value.value.memories] == ["likes tea"]
