"""Functions of one name are not one model."""

from __future__ import annotations

import numpy as np
import pytest
from vecall import EmbeddingMismatchError, FunctionEmbedder

ALICE = {"app_name": "app", "user_id": "alice"}


def embedder(seed, noise=0.0, **options):
    """Two of these are two lambdas of one name."""
    basis = np.random.default_rng(seed).standard_normal((256, 8))
    wobble = np.random.default_rng(seed + 1).standard_normal(8) * noise

    def embed(texts):
        return [
            sum(basis[ord(letter) % 256] for letter in text) + wobble for text in texts
        ]

    return FunctionEmbedder(embed, **options)


def test_another_function_of_the_same_name_is_refused(open_service, tmp_path):
    path = tmp_path / "m.db"
    first = embedder(1)
    second = embedder(2)
    assert first.model_id == second.model_id
    open_service(path, embedder=first).close()
    with pytest.raises(EmbeddingMismatchError, match="model_id"):
        open_service(path, embedder=second)


def test_the_same_function_is_known_again_though_its_last_bits_differ(
    open_service, tmp_path
):
    path = tmp_path / "m.db"
    service = open_service(path, embedder=embedder(1))
    service.sync.add_memory(**ALICE, memories=["zebra"])
    service.close()
    service = open_service(path, embedder=embedder(1, noise=1e-4))
    found = service.sync.search_memory(**ALICE, query="zebra").memories
    assert [memory.text for memory in found] == ["zebra"]


def test_a_name_that_is_given_is_believed(open_service, tmp_path):
    path = tmp_path / "m.db"
    named = {"model_id": "mine", "dimensions": 8}
    with open_service(path, embedder=embedder(1, **named)) as service:
        service.sync.add_memory(**ALICE, memories=["zebra"])
    service = open_service(path, embedder=embedder(2, **named))
    found = service.sync.search_memory(**ALICE, query="zebra").memories
    (similarity,) = [memory.similarity for memory in found]
    assert similarity < 0.9  # the vector of the first function is still there
