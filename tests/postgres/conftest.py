"""A schema of a real server for each test."""

from __future__ import annotations

import signal

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


@pytest.fixture
def interruptible():
    """Let SIGINT interrupt the test; a shell in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
