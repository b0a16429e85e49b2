"""A schema of a real server for each test."""

from __future__ import annotations

import pytest
from helpers.postgres_server import MISSING, Schema, is_available


@pytest.fixture
def schema():
    """A schema with vecall's tables, and the URL for servers."""
    if not is_available():
        pytest.skip(MISSING)
    made = Schema()
    yield made
    made.drop()
