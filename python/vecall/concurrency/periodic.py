"""A thread for periodic work, such as deleting expired memories."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable

from vecall.errors import ClosedError

_log = logging.getLogger("vecall")


class PeriodicWorker:
    """Calls a function at an interval, and on request, until it is closed.

    Its thread also ends when the object is garbage-collected.
    """

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
        self._wake = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        if interval is not None:
            wake = self._wake
            keeper = weakref.ref(self, lambda _: wake.set())
            self._thread = threading.Thread(
                target=_run,
                args=(keeper, wake, interval),
                name="vecall-housekeeper",
                daemon=True,
            )
            self._thread.start()

    def wake(self) -> None:
        """Make the thread run now."""
        self._wake.set()

    def close(self) -> None:
        """Finish what runs and end the thread."""
        self._closed.set()
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def work(self) -> float | None:
        """Run what is due, unless closed; return the next pause.

        Raises:
            ClosedError: It is closed, or what it works on.
        """
        if self._closed.is_set():
            msg = "the housekeeper is closed"
            raise ClosedError(msg)
        try:
            return self._work()
        except ClosedError:
            raise
        except Exception as error:
            # The work stays due; the disk or the embedder may work at the next run.
            _log.warning("what was due could not be done: %s", type(error).__name__)
            return None


def _run(
    keeper: weakref.ref[PeriodicWorker], wake: threading.Event, longest: float
) -> None:
    """Wait without a reference to the worker or to its service."""
    pause: float | None = None
    while True:
        wake.wait(longest if pause is None else min(max(pause, 0.0), longest))
        wake.clear()
        worker = keeper()
        if worker is None:
            return
        try:
            pause = worker.work()
        except ClosedError:
            return
        del worker
