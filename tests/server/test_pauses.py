"""The metrics show for how long no Python code could run."""

from __future__ import annotations

import gc
import threading
import time

import pytest

pytest.importorskip("starlette")

from helpers.http import bearing, door_to
from vecall import MemoryService
from vecall.server import Tokens, create_app, mint
from vecall.server import limits as _pauses
from vecall.server.limits import Pauses

pytestmark = pytest.mark.xdist_group("timing")


def hold_the_interpreter(seconds: float) -> float:
    """Compute in C without letting other threads run; return for how long."""
    count, took = 1_000_000, 0.0
    while took < seconds:
        begin = time.perf_counter()
        sum(range(count))
        took = time.perf_counter() - begin
        count *= 2
    return took


def until(found) -> None:
    end = time.monotonic() + 10
    while not found():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_pause_is_measured():
    pauses = Pauses()
    pauses.begin_measuring()
    time.sleep(0.05)
    took = hold_the_interpreter(0.2)
    until(lambda: pauses.longest > took / 2)
    assert pauses.recent_pause == pauses.longest


def test_a_pause_is_recent_for_a_minute_or_two(monkeypatch):
    now = [1_000.0]
    monkeypatch.setattr(_pauses.time, "monotonic", lambda: now[0])
    pauses = Pauses()
    pauses.note_pause(0.5)
    for passed, recent in ((59, 0.5), (2, 0.5), (59, 0.5), (2, 0.1), (61, 0.1)):
        now[0] += passed
        pauses.note_pause(0.1)
        assert pauses.recent_pause == recent, passed
    assert pauses.longest == 0.5


def test_the_thread_ends_with_the_object():
    def running() -> set[threading.Thread]:
        return {each for each in threading.enumerate() if each.name == "vecall-pauses"}

    others = running()  # of apps that other tests hold
    pauses = Pauses()
    pauses.begin_measuring()
    pauses.begin_measuring()
    (own,) = running() - others
    del pauses
    gc.collect()
    until(lambda: not own.is_alive())


def test_the_metrics_have_the_pauses():
    bearer, token = mint(admin=True)
    with MemoryService(embedder=None) as memory:
        door = door_to(memory)._replace(
            app=create_app(memory, tokens=Tokens([token])), bearer=None
        )
        asked = {"headers": bearing(bearer)}
        lines = door.ask("GET", "/metrics", **asked).text.splitlines()
    begin = "vecall_interpreter_"
    found = dict(line.split() for line in lines if line.startswith(begin))
    assert set(found) == {
        "vecall_interpreter_pause_seconds_max",
        "vecall_interpreter_pause_seconds_recent_max",
    }
    assert all(0 <= float(value) < 60 for value in found.values())
    assert "vecall_loaded_item_bytes 0" in lines
