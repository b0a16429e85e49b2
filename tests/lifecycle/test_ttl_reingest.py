"""Memories with a lifetime: gone when it is over, alive again when told again."""

from __future__ import annotations

from datetime import timedelta

import pytest
from helpers.conversations import ALICE, texts
from vecall import NotFoundError


@pytest.mark.parametrize("ttl", [1e-6, timedelta(microseconds=1), "0.000001s"])
def test_an_expired_memory_is_not_found(open_service, ttl):
    """S1.21, S4.58: a ttl is filtered exactly at read."""
    service = open_service()
    service.sync.add_memory(
        **ALICE, memories=["zebra short"], custom_metadata={"ttl": ttl}
    )
    service.sync.add_memory(
        **ALICE, memories=["zebra long"], custom_metadata={"ttl": "3600s"}
    )
    assert texts(service, "zebra") == ["zebra long"]


def test_an_expired_memory_cannot_be_had_by_its_id(open_service):
    """S4.58: expiry holds for every way of reading."""
    service = open_service()
    (id_,) = service.sync.add_memory(
        **ALICE, memories=["zebra"], custom_metadata={"ttl": 1e-6}
    )
    with pytest.raises(NotFoundError):
        service.sync.get_memory(**ALICE, memory_id=id_)


def test_a_memory_told_again_with_a_new_ttl_lives_for_the_new_one(open_service):
    """S4.58: what was acknowledged with a ttl of an hour is found within the hour."""
    service = open_service()
    service.sync.add_memory(**ALICE, memories=["zebra"], custom_metadata={"ttl": 1e-6})
    service.sync.add_memory(**ALICE, memories=["zebra"], custom_metadata={"ttl": 3600})
    assert texts(service, "zebra") == ["zebra"]


def test_a_memory_told_again_with_a_short_ttl_expires(open_service):
    """S4.58: a later ttl also shortens a life."""
    service = open_service()
    service.sync.add_memory(**ALICE, memories=["zebra"])
    service.sync.add_memory(**ALICE, memories=["zebra"], custom_metadata={"ttl": 1e-6})
    assert texts(service, "zebra") == []
