from __future__ import annotations

import asyncio
import inspect

import pytest
from vecall.mem0 import AsyncMemory, Memory


class Awaited:
    """An `AsyncMemory` whose methods block, so that one test serves both."""

    def __init__(self, *args, **named):
        self._memory = AsyncMemory(*args, **named)

    def __getattr__(self, name):
        found = getattr(self._memory, name)
        if not inspect.iscoroutinefunction(found):
            return found
        return lambda *args, **named: asyncio.run(found(*args, **named))


@pytest.fixture(params=[Memory, Awaited], ids=["blocking", "async"])
def make(request):
    return request.param


@pytest.fixture
def memory(make, tmp_path):
    made = make(tmp_path / "memory.db", embedder=None)
    yield made
    made.close()
