"""A thread for periodic work, such as deleting expired memories."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable

from vecall.errors import ClosedError

_log = logging.getLogger("vecall")


class PeriodicWorker:
    """Calls a function periodically and on request, in a thread, until `close`.

    The thread also ends when the object is garbage-collected.
    """

    def __init__(
        self, work: Callable[[], float | None], interval: float | None
    ) -> None:
        """Start the thread. It waits before the first call.

        Args:
            work: Does the work that is due. Returns the seconds until more work is
                due, or None if that is unknown.
            interval: The longest pause between two calls in seconds. None starts no
                thread.
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
        """Finish the call in progress and end the thread. Idempotent."""
        self._closed.set()
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def work(self) -> float | None:
        """Do the work that is due.

        Any error but ClosedError is logged and not raised.

        Returns:
            The seconds until more work is due; None if unknown or after an error.

        Raises:
            ClosedError: The worker is closed, or the object that it works on.
        """
        if self._closed.is_set():
            msg = "the housekeeper is closed"
            raise ClosedError(msg)
        try:
            return self._work()
        except ClosedError:
            raise
        except Exception as error:
            # The work stays due: the disk or the embedder may recover meanwhile.
            _log.warning("what was due could not be done: %s", type(error).__name__)
            return None


def _run(
    keeper: weakref.ref[PeriodicWorker], wake: threading.Event, longest: float
) -> None:
    """Run the thread. It holds no reference to the worker while it waits."""
    pause: float | None = None
    longest = min(longest, threading.TIMEOUT_MAX / 2)  # a wait adds the time of now
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
