"""Arguments that no memory service can be opened with."""

from __future__ import annotations

import math
from functools import partial
from types import SimpleNamespace

import pytest
from helpers.embedders import Recorder
from helpers.memories import ALICE
from helpers.options import grouped
from vecall import (
    ConfigError,
    InMemoryMemoryService,
    Limits,
    MemoryService,
    VectorMemoryService,
)
from vecall.other_storage.vector_store import VectorStoreMemoryService
from vecall.vector_store import InMemoryVectorStore


@pytest.mark.parametrize("path", ["", 5, b"bytes.db", "a\0b", True, ["m.db"]])
def test_a_path_that_is_none_is_refused(path):
    with pytest.raises(ConfigError):
        MemoryService(path, embedder=None)


@pytest.mark.parametrize(
    "options",
    [
        {"durability": "never"},
        {"durability": None},
        {"embedder": "gpt"},
        {"embedder": 5},
        {"embedder": SimpleNamespace(embed=len, dimensions=0, model_id="m")},
        {"embedder": SimpleNamespace(embed=len, dimensions="3", model_id="m")},
        {"embedder": SimpleNamespace(embed=len, dimensions=3, model_id=None)},
        {"embedder": SimpleNamespace(embed=len, dimensions=10**9, model_id="m")},
        {"embedder": SimpleNamespace(embed=len, dimensions=True, model_id="m")},
        {"min_similarity": 0.5},
        {"cache_bytes": "lots"},
        {"cache_bytes": -1},
        {"cache_bytes": None},
        {"limits": 5},
    ],
)
def test_a_bad_constructor_argument_is_refused(tmp_path, options):
    """contracts.md, errors: ConfigError for constructor arguments, before any write."""
    path = tmp_path / "m.db"
    with pytest.raises(ConfigError):
        MemoryService(path, **grouped(**{"embedder": None, **options})).close()
    assert not path.exists()


@pytest.mark.parametrize("floor", [-1.01, 1.01, math.nan, math.inf, "0.5", True])
def test_a_floor_outside_the_cosine_is_refused(open_service, tmp_path, floor):
    """S0.28: outside [-1, 1] or NaN is a ValueError."""

    def embed(texts: list[str]) -> list[list[float]]:
        return [[1.0, 0.0] for _ in texts]

    with pytest.raises(ValueError, match="min_similarity"):
        open_service(tmp_path / "m.db", embedder=embed, min_similarity=floor)
    assert not (tmp_path / "m.db").exists()
    service = open_service(embedder=unknown_model)
    with pytest.raises(ValueError, match="min_similarity"):
        service.sync.search_memory(**ALICE, query="zebra", min_similarity=floor)


def unknown_model(texts):
    return [[1.0, 2.0, 3.0] for _ in texts]


def test_a_floor_on_the_confidence_needs_no_calibration_of_the_model(open_service):
    service = open_service(embedder=unknown_model, min_confidence=0.001)
    service.sync.add_memory(**ALICE, memories=["a zebra"])
    assert service.sync.search_memory(**ALICE, query="zebra").memories
    found = service.sync.search_memory(**ALICE, query="zebra", min_confidence=1.0)
    assert found.memories == []


@pytest.mark.parametrize("floor", [-0.1, 1.1, float("nan"), True, "0.5"])
def test_a_floor_on_the_confidence_outside_of_0_and_1_is_refused(open_service, floor):
    service = open_service()
    with pytest.raises(ValueError, match="min_confidence"):
        service.sync.search_memory(
            app_name="app", user_id="alice", query="zebra", min_confidence=floor
        )
    with pytest.raises(ValueError, match="min_confidence"):
        open_service(min_confidence=floor)


@pytest.mark.parametrize("value", ["x", -1, 0, None, 1.5, True])
def test_a_limit_that_is_no_number_is_refused(value):
    with pytest.raises(ConfigError, match="max_text_bytes"):
        Limits(max_text_bytes=value)


@pytest.mark.parametrize(
    "make",
    [
        MemoryService,
        InMemoryMemoryService,
        partial(VectorMemoryService, Recorder()),
        partial(VectorStoreMemoryService, InMemoryVectorStore(), Recorder()),
    ],
    ids=["file", "words", "vectors", "store"],
)
def test_an_unknown_option_is_named_with_those_that_there_are(make):
    """A misspelt option is a mistake of configuration, as a bad value is."""
    with pytest.raises(ConfigError, match=r"rankings: unknown .*top_k"):
        make(rankings=None)
