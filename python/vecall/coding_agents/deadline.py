"""Ends a hook successfully when its time is over, whatever it is doing."""

from __future__ import annotations

import os
import time
from pathlib import Path

from vecall._core import ProcessEnd
from vecall.coding_agents.log import log_path

SECONDS = {"recall": 2.0, "start": 2.0, "retain": 8.0}
"""The most that the hook of each verb takes, from the start of its process to its end.

An agent waits for the first two, before a prompt. `vecall install` gives the third ten
seconds, and Claude Code does not wait for it.
"""

_MARGIN = 0.1
_PRINTING_S = 0.05


class Deadline:
    """Ends the process with status 0 after `SECONDS`, unless `cancel` comes first.

    The time counts from the start of the process. If starting Python and importing took
    all of it, the process ends at once.

    The end does not wait for the interpreter, and has a line in the log. A write that
    is interrupted is rolled back by the next process that opens the file.

    Args:
        verb: The verb of the hook.
    """

    def __init__(self, verb: str) -> None:
        """Start to wait."""
        seconds = SECONDS[verb] - _MARGIN - _process_age()
        self._at = time.monotonic() + seconds
        line = f"{verb}: ended at its deadline"
        try:
            log = log_path()
        except RuntimeError:  # no home folder
            log = Path()
        self._end = ProcessEnd(seconds, log, line)

    def left(self) -> float:
        """Return the seconds until the end; negative after it."""
        return self._at - time.monotonic()

    def print_now(self) -> None:
        """Give an answer that is printed now the time to be whole, and no more.

        A reader that stops reading must not hold the process.
        """
        self._end.put_off(_PRINTING_S)

    def cancel(self) -> None:
        """Let the process end by itself."""
        self._end.cancel()


def _process_age() -> float:
    """Return how long the process exists, in seconds.

    Without Linux's /proc it is the time that it computed.
    """
    try:
        stat = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace")
        started = int(stat.rpartition(")")[2].split()[19])
        return time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf(
            "SC_CLK_TCK"
        )
    except (OSError, ValueError, IndexError, AttributeError):
        return time.process_time()
