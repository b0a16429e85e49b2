"""Measures how long no Python code of the process could run.

One thread at a time runs Python code. A function that does not let others run for long,
such as a regular expression over a long text, holds up every request of the server.
"""

from __future__ import annotations

import threading
import time
import weakref

_TICK_S = 0.02  # a tick costs some 30 us
_WINDOW_S = 60.0


class Pauses:
    """The longest pauses of the interpreter. Thread-safe.

    A thread sleeps 20 ms at a time; how much later it wakes is the pause. The thread
    ends with this object.

    Attributes:
        longest: The longest pause since the first call of `begin`, in seconds.
    """

    def __init__(self) -> None:
        """Create the object; `begin` starts its thread."""
        self.longest = 0.0
        self._now = self._before = 0.0  # in this window, and in the last one
        self._window = time.monotonic()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def recent(self) -> float:
        """The longest pause of the last one to two minutes, in seconds."""
        return max(self._now, self._before)

    def begin(self) -> None:
        """Measure from now on; idempotent."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():  # as after a fork
                self._thread = threading.Thread(
                    target=_tick,
                    args=(weakref.ref(self),),
                    name="vecall-pauses",
                    daemon=True,
                )
                self._thread.start()

    def note(self, seconds: float) -> None:
        """Count a pause."""
        now = time.monotonic()
        if now - self._window > _WINDOW_S:
            self._before, self._now, self._window = self._now, 0.0, now
        self._now = max(self._now, seconds)
        self.longest = max(self.longest, seconds)


def _tick(of: weakref.ref[Pauses]) -> None:
    while True:
        begin = time.perf_counter()
        time.sleep(_TICK_S)
        late = time.perf_counter() - begin - _TICK_S
        pauses = of()
        if pauses is None:
            return
        pauses.note(max(0.0, late))
        del pauses
