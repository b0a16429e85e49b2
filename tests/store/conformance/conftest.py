"""A storage of each kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.storage_places import PLACES, Place
from vecall.store import Storage


@pytest.fixture(params=PLACES)
def kind(request: pytest.FixtureRequest) -> str:
    """The name of a kind of storage."""
    return str(request.param)


@pytest.fixture
def place(kind: str, tmp_path: Path) -> Iterator[Place]:
    """Where a storage is, or can be made; what is open at the end is closed."""
    made: Place = PLACES[kind](tmp_path)
    yield made
    made.close()


@pytest.fixture
def storage(place: Place) -> Storage:
    """An open storage without memories."""
    return place.open()


@pytest.fixture
def shared(place: Place) -> Place:
    """A place that can be opened several times."""
    if not place.is_shared:
        pytest.skip("only one can have this storage open")
    return place
