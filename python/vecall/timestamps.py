"""Times as vecall keeps them: float seconds since 1970, UTC."""

from __future__ import annotations

import math
import re
from datetime import date, datetime, timedelta, timezone

from vecall.errors import InvalidArgumentError, InvalidTypeError
from vecall.scalars import exact

# What datetime can show: years 1 to 9999.
_EARLIEST = -62_135_596_800.0
_LATEST = 253_402_300_799.0
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_LONGEST_TTL = 100_000_000_000.0  # three thousand years are for ever

Time = float | int | str | datetime
"""What vecall takes as a time: seconds, aware datetime, ISO 8601 with offset."""


def to_seconds(value: Time, name: str) -> float:
    """Return `value` as float seconds since 1970.

    Args:
        value: Seconds, a datetime with a time zone, or an ISO 8601 string with an
            offset ("Z" is one).
        name: The argument, for the error message.

    Raises:
        InvalidArgumentError: NaN, infinite, outside the years 1 to 9999, or without a
            time zone.
        InvalidTypeError: Of another type.
    """
    value = exact(value)
    if isinstance(value, str):
        value = _parse(value, name)
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
    """Return a time as `to_seconds` does; without an offset it is UTC.

    It also takes dates, which mean their beginning, and texts as people and models
    write them: "2025-06-18", "2025-06", "2025", "20250618", "2025-06-18 10:00" and
    seconds of at least nine digits.

    Args:
        value: The time.
        name: The argument, for the error message.

    Raises:
        InvalidArgumentError: Not a time, or outside the years 1 to 9999.
        InvalidTypeError: Of another type.
    """
    value = exact(value)
    if isinstance(value, str):
        text = value.strip()
        if _NUMBER.fullmatch(text):
            return to_seconds(float(text), name)
        if parts := _SHORT_DATE.fullmatch(text):
            text = "-".join(part or "01" for part in parts.groups())
        value = _parse(text, name, "date, or date and time")
    elif isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if isinstance(value, datetime) and value.utcoffset() is None:
        value = value.replace(tzinfo=timezone.utc)
    return to_seconds(value, name)  # type: ignore[arg-type]


def _parse(
    text: str, name: str, form: str = "date and time with an offset"
) -> datetime:
    # Before Python 3.11 fromisoformat does not know "Z".
    given = text[:-1] + "+00:00" if text.endswith(("Z", "z")) else text
    try:
        return datetime.fromisoformat(given)
    except ValueError:
        msg = f"{name}: expected an ISO 8601 {form}"
        raise InvalidArgumentError(msg) from None


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
    """Return a time to live in seconds: a number, a timedelta, or "30d".

    The units of a string are s, m, h, d and w; without one it is seconds.

    Args:
        value: The time.
        name: The argument, for the error message.

    Raises:
        InvalidArgumentError: Not positive and finite, or another spelling.
        InvalidTypeError: Of another type.
    """
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
