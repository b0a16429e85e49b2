"""A thread that does what is due: clears away what expired, makes memories."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from vecall.errors import ClosedError

_log = logging.getLogger("vecall")


class Housekeeper:
    """Calls a function every so often, and when it is told to, until it is closed."""

    def __init__(
        self, work: Callable[[], float | None], interval: float | None
    ) -> None:
        """Start the thread, which first waits.

        Args:
            work: Does what is due; returns in how many seconds more is, None if that is
                not known.
            interval: The longest pause in seconds; None starts no thread.
        """
        self._work = work
        self._interval = interval
        self._wake = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        if interval is not None:
            self._thread = threading.Thread(
                target=self._run, name="vecall-housekeeper", daemon=True
            )
            self._thread.start()

    def wake(self) -> None:
        """Let the thread look at once."""
        self._wake.set()

    def close(self) -> None:
        """Finish what runs and end the thread."""
        self._closed.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        assert self._interval is not None
        pause: float | None = self._interval
        while not self._closed.is_set():
            longest = self._interval
            self._wake.wait(longest if pause is None else min(max(pause, 0.0), longest))
            self._wake.clear()
            try:
                pause = None if self._closed.is_set() else self._work()
            except ClosedError:
                return
            except Exception as error:
                # What is due stays due; the disk or the embedder may be back by then.
                _log.warning("what was due could not be done: %s", type(error).__name__)
                pause = None
