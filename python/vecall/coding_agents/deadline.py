"""Ends a process successfully when its time is over, whatever it is doing."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

SECONDS = 2.0
"""The most that a hook takes, from the start of its process to its end."""

_MARGIN = 0.1


class Deadline:
    """Ends the process with status 0 after `SECONDS`, unless `cancel` comes first.

    A write that is interrupted is rolled back by the next process that opens the file.

    Args:
        on_end: Called before the process ends.
    """

    def __init__(self, on_end: Callable[[], None]) -> None:
        """Start to wait."""
        self._on_end = on_end
        self._cancelled = threading.Event()
        self._at = time.monotonic() + max(SECONDS - _MARGIN - _process_age(), 0.1)
        threading.Thread(target=self._wait, daemon=True, name="vecall hook").start()

    def left(self) -> float:
        """Return the seconds until the end; negative after it."""
        return self._at - time.monotonic()

    def cancel(self) -> None:
        """Let the process end by itself."""
        self._cancelled.set()

    def _wait(self) -> None:
        if not self._cancelled.wait(self.left()):
            try:
                self._on_end()
            finally:
                os._exit(0)


def _process_age() -> float:
    """Return how long the process exists, in seconds; 0 where Linux's /proc lacks."""
    try:
        stat = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace")
        started = int(stat.rpartition(")")[2].split()[19])
        return time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf(
            "SC_CLK_TCK"
        )
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0
