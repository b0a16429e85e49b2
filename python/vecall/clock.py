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

    def monotonic(self) -> float:
        """Return seconds from some moment on, which only ever pass."""
        return time.clock_gettime(_PASSING)

    def boot_id(self) -> str:
        """Return what names the moment that `monotonic` counts from; "" if unknown."""
        return self._boot


class ClockCheckpoint(NamedTuple):
    """How far the count has come, as a file keeps it.

    Attributes:
        now: Seconds since 1970.
        passing: What `Clock.monotonic` said then.
        boot: What `Clock.boot_id` said then.
    """

    now: float
    monotonic: float
    boot_id: str

    @classmethod
    def parse(cls, text: str | None) -> ClockCheckpoint | None:
        """Read what `__str__` wrote; None if it is not that to the letter.

        By a time with another digit all would expire, or nothing ever again.
        """
        told, _, crc = (text or "").rpartition("|")
        if crc != _checksum(told):
            return None
        now, monotonic, boot_id = told.split("|", 2)
        return cls(float(now), float(monotonic), boot_id)

    def __str__(self) -> str:
        """Return it as text, with a checksum."""
        told = f"{self.now!r}|{self.monotonic!r}|{self.boot_id}"
        return f"{told}|{_checksum(told)}"


def _checksum(told: str) -> str:
    return f"{zlib.crc32(told.encode()):08x}"


class ExpiryClock:
    """Seconds since 1970 that pass as time does. Thread-safe.

    `wall` beside it is the machine's own idea, for what people read.
    """

    def __init__(self, clock: Clock, kept: ClockCheckpoint | None = None) -> None:
        """Begin at the wall clock's time, or at what a file kept.

        Args:
            clock: Tells the time.
            kept: How far the count had come.
        """
        self._clock = clock
        self._ahead = clock.wall() - clock.monotonic()
        self._is_far_known = False
        self.advance_to(kept)

    def wall(self) -> float:
        """Return seconds since 1970, as the machine believes."""
        return self._clock.wall()

    def now(self) -> float:
        """Return seconds since 1970 by which memories expire."""
        return self._clock.monotonic() + self._ahead

    def mark(self) -> ClockCheckpoint:
        """Return how far the count has come."""
        monotonic = self._clock.monotonic()
        return ClockCheckpoint(
            monotonic + self._ahead, monotonic, self._clock.boot_id()
        )

    def advance_to(self, kept: ClockCheckpoint | None) -> None:
        """Go on from what was kept, unless this count is further already.

        What was kept since the machine was started says exactly how late it is now;
        what is older says only that it is not earlier.
        """
        if kept is None:
            return
        monotonic = self._clock.monotonic()
        if (
            kept.boot_id
            and kept.boot_id == self._clock.boot_id()
            and kept.monotonic <= monotonic
        ):
            self._ahead = kept.now - kept.monotonic
        else:
            self._ahead = max(self._ahead, kept.now - monotonic)
        self._warn_if_far()

    def reset(self) -> float:
        """Go on from the wall clock's time.

        Returns:
            By how many seconds the count was ahead of it; negative if it was behind.
        """
        wall = self._clock.wall()
        ahead = self.now() - wall
        self._ahead = wall - self._clock.monotonic()
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
