"""The clock of the primary, which all servers of a database follow.

The clocks of machines differ. Times that memories have, and those at which they expire,
come from the primary's clock, so that servers agree. The distance between that clock
and this machine's steady one is measured when a database is opened and once a minute.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress

import psycopg

from vecall.clock import Clock, ExpiryClock
from vecall.errors import VecallError
from vecall.store.postgres.transaction import Connection

_log = logging.getLogger("vecall")

_EVERY_S = 60.0
_JUMP_S = 60.0
_SAMPLES = 3
_NOW = "SELECT CAST(extract(epoch FROM clock_timestamp()) AS float8)"


class ServerClock(Clock):
    """A clock whose wall time is the primary's. Thread-safe."""

    def __init__(self) -> None:
        """Begin with the time of this machine."""
        super().__init__()
        self._ahead = super().wall() - self.monotonic()

    def wall(self) -> float:
        """Return the primary's time, in seconds since 1970."""
        return self.monotonic() + self._ahead

    def measure(self, asked: Callable[[], float]) -> float:
        """Set the time to the primary's.

        Args:
            asked: Asks the primary for its time, in seconds since 1970. It is called
                several times; the fastest answer is the most exact one.

        Returns:
            By how many seconds the time was changed.
        """
        best = None
        for _ in range(_SAMPLES):
            before = self.monotonic()
            now = asked()
            took = self.monotonic() - before
            if best is None or took < best[0]:
                best = (took, now - before - took / 2)
        assert best is not None
        changed = best[1] - self._ahead
        self._ahead = best[1]
        return changed


class ServerExpiryClock(ExpiryClock):
    """An expiry clock that follows small corrections of the primary's clock."""

    def __init__(self, clock: Clock) -> None:
        """Begin at the clock's time."""
        super().__init__(clock)
        self._latest = float("-inf")

    def now(self) -> float:
        """Return seconds since 1970 by which memories expire. It never goes back."""
        self._latest = now = max(self._latest, super().now())
        return now

    def follow(self, seconds: float) -> None:
        """Follow a change of the primary's clock, unless somebody has set that clock.

        After a jump, as after setting the clock of a machine, elapsed time counts.

        Args:
            seconds: By how much the primary's clock has moved against this machine's.
        """
        if abs(seconds) > _JUMP_S:
            _log.warning(
                "the clock of the database was set %s by %.0f s; memories expire by "
                "elapsed time",
                "forward" if seconds > 0 else "back",
                abs(seconds),
            )
        else:
            self._ahead += seconds


def time_of(connection: Connection) -> Callable[[], float]:
    """Return a function that asks a connection for the primary's time."""

    def asked() -> float:
        row = connection.execute(_NOW, prepare=False).fetchone()
        assert row is not None
        now: float = row[0]
        return now

    return asked


class ClockFollower:
    """Follows the primary's clock on a thread of its own."""

    def __init__(
        self,
        reading: Callable[[], AbstractContextManager[Connection]],
        clock: ServerClock,
        expiry_clock: ServerExpiryClock,
        measured: Callable[[], None],
    ) -> None:
        """Start the thread.

        Args:
            reading: Begins a transaction of the database.
            clock: Gets the primary's time.
            expiry_clock: Follows it.
            measured: Called on the thread after each measurement.
        """
        self._reading = reading
        self._clock = clock
        self._expiry_clock = expiry_clock
        self._measured = measured
        self._ending = threading.Event()
        self._thread = threading.Thread(
            target=self._work, name="vecall-clock", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._ending.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def abandon(self) -> Callable[[], None]:
        """Return a function that ends the thread, not waiting."""
        return self._ending.set

    def check(self) -> None:
        """Measure the primary's time now. A database that is away is no error."""
        with suppress(psycopg.Error, VecallError):
            with self._reading() as connection:
                changed = self._clock.measure(time_of(connection))
            self._expiry_clock.follow(changed)
            self._measured()

    def _work(self) -> None:
        while not self._ending.wait(_EVERY_S):
            self.check()
