"""A plugin of pytest: a test that does not end fails, whatever it waits for.

A wait for a database has no end of its own if a time limit of vecall is broken. The
signal ends it: Python's waits and those of psycopg let signals in. It comes again, in
case that an exception was suppressed.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import suppress
from types import FrameType

import pytest

from helpers.campaigns import SCALE

# Generous: a machine that does other work is slow.
TEST_S = 600.0
CAMPAIGN_S = 3_600.0 * max(1.0, SCALE)
_AGAIN_S = 10.0


def _stacks() -> str:
    """Where all threads are."""
    return "\n".join(
        "".join(traceback.format_stack(frame, limit=12))
        for frame in sys._current_frames().values()
    )


def _fail(signal_number: int, frame: FrameType | None) -> None:
    del signal_number, frame
    pytest.fail(f"the test does not end; its threads:\n{_stacks()}")


def _in_child() -> None:
    """A child has no timer; a signal that it sends itself ends it."""
    with suppress(ValueError):  # forked by another thread
        if signal.getsignal(signal.SIGALRM) is _fail:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Bound the time of a test and its fixtures."""
    longest = CAMPAIGN_S if item.get_closest_marker("campaign") else TEST_S
    try:
        before = signal.signal(signal.SIGALRM, _fail)
    except (ValueError, AttributeError):  # on another thread than the first; Windows
        return (yield)
    signal.setitimer(signal.ITIMER_REAL, longest, _AGAIN_S)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
