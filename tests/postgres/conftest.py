"""A schema of a real server for each test."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec

import pytest
from helpers.postgres_server import MISSING, Schema, is_available

if find_spec("psycopg") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture
def schema():
    """A schema with vecall's tables, and the URL for servers."""
    if not is_available():
        pytest.skip(MISSING)
    made = Schema()
    yield made
    made.drop()


@pytest.fixture
def interrupt_once():
    """A function that interrupts the test as soon as a condition holds."""
    # A shell in the background ignores SIGINT.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    threads: list[threading.Thread] = []

    def interrupt_once(holds: Callable[[], bool]) -> None:
        def wait() -> None:
            while not holds():
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=wait, daemon=True)
        threads.append(thread)
        thread.start()

    yield interrupt_once
    for thread in threads:
        thread.join(5)
    signal.signal(signal.SIGINT, before)
