"""The expiry clock: elapsed time, which setting the wall clock does not change.

A wall clock may be set a year ahead or back, by hand or by the network. Memories would
then expire too early or come back. So TTLs use elapsed seconds. The count begins at the
wall clock's time when a file is first opened after a boot. The file stores a checkpoint
of the count: it never goes back, and a restart of a process does not reset it. The time
during which a machine was off is known from the wall clock only.
"""

from __future__ import annotations

import logging
import math
import re
import time
import zlib
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from functools import lru_cache
from typing import Any, NamedTuple

from vecall import system
from vecall.errors import ConfigError, InvalidArgumentError, InvalidTypeError
from vecall.scalars import Shown, exact, stored_float

_log = logging.getLogger("vecall")

DAY_S = 86_400.0


class Clock:
    """The time source of a service; tests may replace it."""

    _boot: str | None = None  # read at the first use: a subclass may lack our __init__

    def wall(self) -> float:
        """Return the machine's wall clock time, in seconds since 1970."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds since an unspecified moment; they never go back."""
        return system.monotonic()

    def boot_id(self) -> str:
        """Return an id of the moment that `monotonic` counts from; "" if unknown."""
        if self._boot is None:
            self._boot = system.boot_id()
        return self._boot


class ClockCheckpoint(NamedTuple):
    """The state of an expiry clock and of its `Clock`, as a file stores it."""

    now: float
    monotonic: float
    boot_id: str

    @classmethod
    @lru_cache(64)  # most writes read the checkpoint of one shortly before
    def parse_checkpoint(cls, text: str | None) -> ClockCheckpoint | None:
        """Parse the text of `__str__`; None if the checksum does not match."""
        # A damaged time could expire every memory, or none.
        body, _, crc = (text or "").rpartition("|")
        if crc != _checkpoint_checksum(body):
            return None
        now, monotonic, boot_id = body.split("|", 2)
        return cls(stored_float(now), stored_float(monotonic), boot_id)

    def __str__(self) -> str:
        """Return it as text, with a checksum."""
        body = f"{self.now!r}|{self.monotonic!r}|{self.boot_id}"
        return f"{body}|{_checkpoint_checksum(body)}"


def _checkpoint_checksum(body: str) -> str:
    return f"{zlib.crc32(body.encode()):08x}"


class ExpiryClock:
    """Elapsed time as seconds since 1970. Thread-safe.

    `wall` is the machine's wall clock, for times that people read.
    """

    def __init__(self, clock: Clock, checkpoint: ClockCheckpoint | None = None) -> None:
        """Begin at the wall clock's time, or at a checkpoint."""
        self._clock = clock
        self._ahead = clock.wall() - clock.monotonic()
        self._is_far_known = False
        self.advance_to(checkpoint)

    @staticmethod
    def expiry_clock_of(transaction: Any) -> ExpiryClock:
        """Return the expiry clock of a transaction; the machine's if it has none."""
        known: ExpiryClock | None = getattr(transaction, "expiry_clock", None)
        return ExpiryClock(Clock()) if known is None else known

    def wall(self) -> float:
        """Return the machine's wall clock time, in seconds since 1970."""
        return float(self._clock.wall())

    def now(self) -> float:
        """Return seconds since 1970 by which memories expire."""
        return float(self._clock.monotonic() + self._ahead)

    def wall_and_expiry_times(self) -> tuple[float, float]:
        """Return what `wall` and `now` do."""
        return float(self._clock.wall()), float(self._clock.monotonic() + self._ahead)

    def make_checkpoint(self) -> ClockCheckpoint:
        """Return a checkpoint of the current time."""
        monotonic = float(self._clock.monotonic())
        return ClockCheckpoint(
            float(monotonic + self._ahead), monotonic, self._clock.boot_id()
        )

    def advance_to(self, checkpoint: ClockCheckpoint | None) -> float:
        """Continue from a checkpoint, unless this clock is ahead; return its age."""
        # A checkpoint of the same boot gives the exact time. An older one gives a lower
        # bound, and has an infinite age. It is logged once that this clock and the wall
        # clock differ by a day.
        age = math.inf
        if checkpoint is None:
            return age
        monotonic = self._clock.monotonic()
        same_boot = checkpoint.boot_id == self._clock.boot_id()
        if same_boot and checkpoint.monotonic <= monotonic:
            age = monotonic - checkpoint.monotonic
        if age < math.inf and checkpoint.boot_id:
            self._ahead = checkpoint.now - checkpoint.monotonic
        else:
            self._ahead = max(self._ahead, checkpoint.now - monotonic)
        ahead = monotonic + self._ahead - self._clock.wall()
        if abs(ahead) > DAY_S and not self._is_far_known:
            self._is_far_known = True
            _log.warning(
                "the wall clock was set: the time by which memories expire is %.1f "
                "days %s it; `vecall doctor` says more",
                abs(ahead) / DAY_S,
                "ahead of" if ahead > 0 else "behind",
            )
        return age

    def reset_to_wall_clock(self) -> float:
        """Continue from the wall clock's time; return by how much this was ahead."""
        wall = self._clock.wall()
        ahead = self.now() - wall
        self._ahead = wall - self._clock.monotonic()
        return ahead


def checked_clock(clock: object) -> Clock:
    """Return the caller's clock; for None, the machine's."""
    if clock is None:
        return Clock()
    if not isinstance(clock, Clock):
        raise ConfigError("clock: expected a vecall.Clock")
    for name in ("wall", "monotonic", "boot_id"):
        kind = str if name == "boot_id" else float | int
        try:
            value = getattr(clock, name)()
        except Exception as error:
            msg = f"clock: its method {name} failed with {type(error).__name__}"
            raise ConfigError(msg) from error
        if not isinstance(exact(value), kind):
            msg = f"clock: its method {name} returned a {type(value).__name__}"
            raise ConfigError(msg)
    return clock


# Times as vecall keeps them: float seconds since 1970, UTC.

# What datetime can show: years 1 to 9999.
_EARLIEST = -62_135_596_800.0
_LATEST = 253_402_300_799.0
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_LONGEST_TTL = 100_000_000_000.0  # three thousand years are for ever

Time = float | int | str | datetime
"""What vecall takes as a time: seconds, aware datetime, ISO 8601 with offset."""


def to_seconds(value: Time, name: str) -> float:
    """Return seconds, an aware datetime or ISO 8601 with an offset as float seconds."""
    # They count from 1970. `name` is the argument, for the error message.
    value = exact(value)
    if isinstance(value, str):
        value = _parsed_datetime(value, name)
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            msg = f"{name}: a date without a time zone is ambiguous; give an offset"
            raise InvalidArgumentError(msg)
        value = timedelta.total_seconds(datetime.__sub__(value, _EPOCH))
    if isinstance(value, bool) or not isinstance(value, float | int):
        msg = f"{name}: expected seconds, an aware datetime or an ISO 8601 string"
        raise InvalidTypeError(msg)
    if not _EARLIEST <= value <= _LATEST:  # false for NaN
        msg = f"{name}: must be finite seconds within the years 1 to 9999, in UTC"
        raise InvalidArgumentError(msg)
    return float(value) + 0.0  # SQLite gives -0.0 back as 0.0


_SHORT_DATE = re.compile(r"(\d{4})(?:-?(\d\d)(?:-?(\d\d))?)?", re.ASCII)
_NUMBER = re.compile(r"-?\d{9,12}(?:\.\d+)?", re.ASCII)


def utc_seconds(value: object, name: str) -> float:
    """Return a time as `to_seconds` does; without an offset it is UTC."""
    # It also takes dates, which mean their beginning, and texts as people and models
    # write them: "2025-06-18", "2025-06", "2025", "20250618", "2025-06-18 10:00" and
    # seconds of at least nine digits.
    value = exact(value)
    if isinstance(value, str):
        text = value.strip()
        if _NUMBER.fullmatch(text):
            return to_seconds(float(text), name)
        if parts := _SHORT_DATE.fullmatch(text):
            text = "-".join(part or "01" for part in parts.groups())
        value = _parsed_datetime(text, name, "date, or date and time")
    elif isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if isinstance(value, datetime) and value.utcoffset() is None:
        value = value.replace(tzinfo=timezone.utc)
    return to_seconds(value, name)  # type: ignore[arg-type]


def end_of_day_utc(day: object, name: str) -> float:
    """Return the end of a day in UTC, at most the last time that can be stored."""
    return min(utc_seconds(day, name) + DAY_S, _LATEST)


def _parsed_datetime(
    text: str, name: str, form: str = "date and time with an offset"
) -> datetime:
    given = text[:-1] + "+00:00" if text.endswith(("Z", "z")) else text  # also of a day
    try:
        return datetime.fromisoformat(given)
    except ValueError:
        raise InvalidArgumentError(f"{name}: expected an ISO 8601 {form}") from None


def to_micros(seconds: float) -> int:
    """Return seconds as the engine keeps them: whole microseconds, years 1 to 9999."""
    return round(min(max(seconds, _EARLIEST), _LATEST) * 1_000_000)


def to_datetime(seconds: float) -> datetime:
    """Return seconds as an aware UTC datetime."""
    return _EPOCH + timedelta(seconds=seconds)


def to_iso(seconds: float) -> str:
    """Return seconds as ISO 8601 in UTC with its offset."""
    return to_datetime(seconds).isoformat()


def ttl_seconds(value: object, name: str = "ttl") -> float:
    """Return a time to live in seconds: a number, a timedelta, or "30d"."""
    # The units of a string are s, m, h, d and w; without one it is seconds.
    rule = f'{name}: expected positive seconds, a timedelta, or a string such as "30d"'
    value = exact(value)
    if isinstance(value, timedelta):
        seconds = timedelta.total_seconds(value)
    elif isinstance(value, str):
        try:
            unit = _UNITS.get(value[-1:])
            seconds = float(value) if unit is None else float(value[:-1]) * unit
        except ValueError:
            raise InvalidArgumentError(rule) from None
    elif isinstance(value, float):
        seconds = value
    elif isinstance(value, int) and not isinstance(value, bool):
        seconds = float(max(0, min(value, _LONGEST_TTL)))
    else:
        raise InvalidTypeError(rule)
    if not 0 < seconds < math.inf:
        raise InvalidArgumentError(rule)
    return min(seconds, _LONGEST_TTL)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Period(Shown):
    """A period that a query names, such as "yesterday": start <= time < end.

    Attributes:
        start: In seconds since 1970; None is open.
        end: In seconds since 1970; None is open.
    """

    start: float | None = None
    end: float | None = None
