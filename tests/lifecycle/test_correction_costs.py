"""What a correction costs does not grow with the corrections before it."""

from __future__ import annotations

import importlib

import pytest
from helpers.memories import ALICE
from vecall import MemoryService, NotFoundError


def test_a_correction_reads_none_of_the_texts_that_were_overwritten(
    open_service, monkeypatch
):
    service: MemoryService = open_service()
    service.sync.add_memory(**ALICE, memories=[{"content": "zebra", "id": "1"}])
    for number in range(20):
        service.sync.update_memory(**ALICE, memory_id="1", content=f"okapi {number}")
    past = importlib.import_module("vecall.store.queries.listing")
    read = []
    real = past.parse_stored_object
    monkeypatch.setattr(
        past, "parse_stored_object", lambda text: read.append(1) or real(text)
    )
    made = service.sync.update_memory(**ALICE, memory_id="1", content="tapir")
    assert made.text == "tapir"
    assert made == service.sync.get_memory(**ALICE, memory_id="1")
    assert read == []
    assert len(service.sync.memory_history(**ALICE, memory_id="1")) == 22
    assert len(read) == 21


def test_a_memory_that_is_valid_no_more_is_returned_once_more(open_service):
    """It was corrected, so its new state is told, though it is not found by its id."""
    service: MemoryService = open_service(maintenance_interval=None)
    service.sync.add_memory(**ALICE, memories=[{"content": "zebra", "id": "1"}])
    made = service.sync.update_memory(**ALICE, memory_id="1", valid_until=1.0)
    assert (made.id, made.valid_until) == ("1", 1.0)
    with pytest.raises(NotFoundError):
        service.sync.get_memory(**ALICE, memory_id="1")
