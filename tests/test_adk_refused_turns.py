"""A turn that the memory does not take, and what becomes of the others."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from helpers.adk import PARROT, ROOM, a_runner, adk_service, entries, say, stored
from vecall.adk import VecallMemoryPlugin, VecallMemoryService

service = pytest.fixture(adk_service)


@pytest.mark.parametrize("ingest", ["delta", "session"])
def test_a_turn_that_is_too_long_does_not_keep_the_others_out(
    service: VecallMemoryService, ingest: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """S1.46: it is refused each time, so it is left out and the log says so."""
    plugin = VecallMemoryPlugin(ingest)

    async def scenario() -> None:
        runner, _ = a_runner(service, plugins=(plugin,))
        for text in (PARROT, "zebra " * 50_000, ROOM):
            await say(runner, text)
            await plugin.flush()
        await runner.close()

    with caplog.at_level(logging.WARNING, logger="vecall"):
        asyncio.run(scenario())
    assert stored(service) == 5
    assert {PARROT, ROOM} <= set(entries(service, "parrots quiet room"))
    told = [each.getMessage() for each in caplog.records if each.name == "vecall"]
    assert told == ["1 turns cannot be remembered and are left out"]
