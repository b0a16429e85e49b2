"""The whole of search_memory, warm: words, cached vector, engine, texts, entries.

    python -m pytest bench/micro/test_search_memory.py \\
        --benchmark-columns=median,stddev,rounds
"""

from __future__ import annotations

import itertools
import zlib

import numpy as np
import pytest
from vecall import FunctionEmbedder, MemoryService

APP = "bench"


def _random_vectors(texts):
    random = np.random.default_rng(zlib.crc32("".join(texts).encode()))
    return random.standard_normal((len(texts), 512)).astype(np.float32)


@pytest.fixture(params=["words", "words and vectors"])
def memory(request, tmp_path, conversation):
    embedder = None
    if request.param != "words":
        embedder = FunctionEmbedder(_random_vectors, dimensions=512)
    path = tmp_path / "bench.db"
    with MemoryService(path, embedder=embedder) as service:
        for session in conversation.sessions:
            service.sync.add_session_to_memory(session)
        yield service


def test_search_of_one_user_with_about_600_memories(benchmark, memory, conversation):
    queries = itertools.cycle([question.text for question in conversation.questions])

    def search():
        return memory.sync.search_memory(
            app_name=APP, user_id=conversation.user_id, query=next(queries)
        )

    for _ in conversation.questions:
        search()
    found = benchmark(search)
    assert len(found.memories) <= 5
