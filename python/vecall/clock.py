"""The time by which memories expire: it passes, and no clock that is set moves it.

A wall clock may be set, by hand or by the network, a year ahead or back. If memories
expired by it, those that should live would be gone, or those that are gone would be
back. So expiry counts seconds that really passed. They are counted from the wall clock
at the time when a file was first opened after the machine was started; the file keeps
how far the count has come, so that it never goes back and a restart of a process does
not begin it anew. Only how long a machine was off can nobody but the wall clock say.
"""

from __future__ import annotations

import logging
import time
import zlib
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from vecall.errors import ConfigError

_log = logging.getLogger("vecall")

DAY_S = 86_400.0
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# Linux's monotonic clock stands still while the machine sleeps, its boot clock does
# not. Elsewhere the monotonic clock is what there is.
_PASSING = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock:
    """What a service takes the time from; tests may hand in one of their own."""

    def __init__(self) -> None:
        """Find out by what name this start of the machine is known."""
        self._boot = ""
        with suppress(OSError):
            self._boot = _BOOT_ID.read_text("ascii").strip()

    def wall(self) -> float:
        """Return seconds since 1970, as the machine believes."""
        return time.time()

    def passing(self) -> float:
        """Return seconds from some moment on, which only ever pass."""
        return time.clock_gettime(_PASSING)

    def boot(self) -> str:
        """Return what names the moment that `passing` counts from; "" if unknown."""
        return self._boot


class Mark(NamedTuple):
    """How far the count has come, as a file keeps it.

    Attributes:
        now: Seconds since 1970.
        passing: What `Clock.passing` said then.
        boot: What `Clock.boot` said then.
    """

    now: float
    passing: float
    boot: str

    @classmethod
    def parse(cls, text: str | None) -> Mark | None:
        """Read what `__str__` wrote; None if it is not that to the letter.

        By a time with another digit all would expire, or nothing ever again.
        """
        told, _, crc = (text or "").rpartition("|")
        if crc != _checksum(told):
            return None
        now, passing, boot = told.split("|", 2)
        return cls(float(now), float(passing), boot)

    def __str__(self) -> str:
        """Return it as text, with a checksum."""
        told = f"{self.now!r}|{self.passing!r}|{self.boot}"
        return f"{told}|{_checksum(told)}"


def _checksum(told: str) -> str:
    return f"{zlib.crc32(told.encode()):08x}"


class LifeTime:
    """Seconds since 1970 that pass as time does. Thread-safe.

    `wall` beside it is the machine's own idea, for what people read.
    """

    def __init__(self, clock: Clock, kept: Mark | None = None) -> None:
        """Begin at the wall clock's time, or at what a file kept.

        Args:
            clock: Tells the time.
            kept: How far the count had come.
        """
        self._clock = clock
        self._ahead = clock.wall() - clock.passing()
        self._is_far_known = False
        self.meet(kept)

    def wall(self) -> float:
        """Return seconds since 1970, as the machine believes."""
        return self._clock.wall()

    def now(self) -> float:
        """Return seconds since 1970 by which memories expire."""
        return self._clock.passing() + self._ahead

    def mark(self) -> Mark:
        """Return how far the count has come."""
        passing = self._clock.passing()
        return Mark(passing + self._ahead, passing, self._clock.boot())

    def meet(self, kept: Mark | None) -> None:
        """Go on from what was kept, unless this count is further already.

        What was kept since the machine was started says exactly how late it is now;
        what is older says only that it is not earlier.
        """
        if kept is None:
            return
        passing = self._clock.passing()
        if kept.boot and kept.boot == self._clock.boot() and kept.passing <= passing:
            self._ahead = kept.now - kept.passing
        else:
            self._ahead = max(self._ahead, kept.now - passing)
        self._warn_if_far()

    def reset(self) -> float:
        """Go on from the wall clock's time.

        Returns:
            By how many seconds the count was ahead of it; negative if it was behind.
        """
        wall = self._clock.wall()
        ahead = self.now() - wall
        self._ahead = wall - self._clock.passing()
        return ahead

    def _warn_if_far(self) -> None:
        """Log, once, that the wall clock and the count are more than a day apart."""
        ahead = self.now() - self._clock.wall()
        if abs(ahead) > DAY_S and not self._is_far_known:
            self._is_far_known = True
            _log.warning(
                "the wall clock was set: the time by which memories expire is %.1f "
                "days %s it; `vecall doctor` says more",
                abs(ahead) / DAY_S,
                "ahead of" if ahead > 0 else "behind",
            )


def checked_clock(clock: object) -> Clock:
    """Return a clock that a caller handed in, or the machine's.

    Raises:
        ConfigError: Something else.
    """
    if clock is None:
        return Clock()
    if not isinstance(clock, Clock):
        msg = "clock: expected a vecall.Clock"
        raise ConfigError(msg)
    return clock
