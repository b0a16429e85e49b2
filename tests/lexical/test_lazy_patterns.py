"""What is computed at its first use: patterns, and attributes of objects."""

from __future__ import annotations

import os
import re
import signal
import threading
import time

import pytest
from vecall.system import cached
from vecall.text import lazy_pattern


def test_a_late_pattern_finds_what_the_pattern_finds():
    late, plain = lazy_pattern(r"(\d+)-(\w)", re.A), re.compile(r"(\d+)-(\w)", re.A)
    for text in ("", "12-a 3-b", "nothing", "7-\u00e9"):
        assert late.findall(text) == plain.findall(text)
        assert late.sub(r"\2", text) == plain.sub(r"\2", text)
        assert (late.search(text) is None) == (plain.search(text) is None)
    assert late.pattern == plain.pattern


def test_an_attribute_is_computed_once():
    class Counts:
        times = 0

        @cached
        def value(self) -> list[int]:
            """A list."""
            self.times += 1
            return [self.times]

    first, second = Counts(), Counts()
    assert first.value is first.value
    assert (first.times, second.times) == (1, 0)
    assert second.value == [1]
    assert Counts.value.__doc__ == "A list."


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_fork_while_another_thread_computes_an_attribute_blocks_nothing():
    begun, go_on = threading.Event(), threading.Event()

    class Two:
        @cached
        def slow(self) -> int:
            begun.set()
            go_on.wait(30)
            return 1

        @cached
        def fast(self) -> int:
            return 2

    two = Two()
    thread = threading.Thread(target=lambda: two.slow)
    thread.start()
    begun.wait(30)
    child = os.fork()
    if child == 0:
        go_on.set()
        os._exit(two.fast + two.slow + Two().slow)
    deadline = time.monotonic() + 10
    done = 0
    while not done and time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        time.sleep(0.005)
    go_on.set()
    thread.join()
    if not done:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert done, "the child waits for a thread that it does not have"
    assert os.waitstatus_to_exitcode(status) == 4
