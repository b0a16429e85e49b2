"""Scores are kept out of what google-adk's own tools send to a model, on request."""

from __future__ import annotations

import asyncio
import json

import pytest

pytest.importorskip("google.adk")

from helpers.adk import ALICE, PARROT, a_trip, ingest
from vecall.adk import VecallMemoryService


@pytest.mark.parametrize(
    "options", [{"scores": False}, {"uri": "vecall://:memory:?scores=false"}], ids=str
)
def test_scores_and_ids_of_sessions_can_be_left_out(options):
    """S1.24: nothing is left of them; the user's own metadata stay."""
    service = VecallMemoryService(**{"embedder": None, **options})
    ingest(service, a_trip())
    asyncio.run(
        service.add_memory(
            **ALICE, memories=["Parrots are fine."], custom_metadata={"topic": "birds"}
        )
    )
    found = asyncio.run(service.search_memory(**ALICE, query="parrots"))
    service.close()
    metadata = {
        each.content.parts[0].text: each.custom_metadata for each in found.memories
    }
    assert metadata.pop("Parrots are fine.") == {"topic": "birds"}
    assert PARROT in metadata
    assert not any(metadata.values())
    assert "score" not in json.dumps(found.model_dump(mode="json"))
