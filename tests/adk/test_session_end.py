"""The end of a session, which google-adk does not tell a memory of."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

pytest.importorskip("google.adk")

import vecall
from google.adk.events import Event, EventActions
from helpers.adk import (
    ALICE,
    PARROT,
    ROOM,
    a_runner,
    a_session,
    an_event,
    entries,
    say,
    stored,
)
from vecall.adk import VecallMemoryPlugin, VecallMemoryService


@pytest.mark.parametrize("by_names", [True, False])
def test_a_session_can_be_ended(by_names: bool) -> None:
    """S4.10: what waits is remembered, but for what a rewind took back."""
    service = VecallMemoryService(trigger="session_end", embedder=None)
    back = EventActions(rewind_before_invocation_id="i2")
    said = [
        an_event(ROOM, id="e1", invocation_id="i1"),
        an_event(PARROT, id="e2", invocation_id="i2"),
    ]
    rewound = Event(author="user", id="e3", invocation_id="i3", actions=back)
    asyncio.run(service.observe_session(a_session(*said)))
    assert stored(service) == 0
    if by_names:
        asyncio.run(service.observe_session(a_session(*said, rewound)))
        asyncio.run(service.end_session(**ALICE, session_id="trip-1"))
    else:
        asyncio.run(service.end_session(a_session(*said, rewound)))
    assert list(entries(service, "quiet room parrots")) == [ROOM]
    service.close()


@pytest.mark.parametrize(
    ("ingest", "trigger", "warns"),
    [
        (None, "session_end", True),
        ("trigger", "session_end", True),
        ("delta", "session_end", False),
        (None, vecall.MessageCount(6), False),
        (None, None, False),
    ],
)
def test_a_trigger_that_nothing_sets_off_is_said_once(
    ingest: Any, trigger: Any, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """S4.10, S4.17: google-adk tells of no end of a session."""
    memory = VecallMemoryService(trigger=trigger, embedder=None)
    runner, _ = a_runner(memory, plugins=(VecallMemoryPlugin(ingest),))
    with caplog.at_level(logging.WARNING, logger="vecall"):
        asyncio.run(say(runner, ROOM, PARROT))
    told = [each.getMessage() for each in caplog.records if each.name == "vecall"]
    assert len(told) == warns
    assert all("end_session" in each for each in told)
    asyncio.run(runner.close())
    memory.close()
