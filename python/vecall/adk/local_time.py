"""Reads google-adk's times: a time without an offset is local."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from vecall.errors import InvalidArgumentError
from vecall.timestamps import to_seconds


def local_seconds(value: Any, name: str) -> Any:
    """Return a time as seconds since 1970; one without an offset is local time.

    A value of another type than str or datetime is returned unchanged; the memory
    service checks it.

    Raises:
        InvalidArgumentError: A text is not ISO 8601, or the time is out of range.
    """
    if isinstance(value, str):
        if not value.strip():
            return None
        # Before Python 3.11 fromisoformat does not accept "Z".
        given = value[:-1] + "+00:00" if value.endswith(("Z", "z")) else value
        try:
            value = datetime.fromisoformat(given)
        except ValueError:
            msg = f"{name}: expected an ISO 8601 date and time"
            raise InvalidArgumentError(msg) from None
    if not isinstance(value, datetime):
        return value
    if value.tzinfo is None:
        try:
            value = value.astimezone()
        except (OverflowError, OSError, ValueError):
            msg = f"{name}: too far from today to be a local time; give an offset"
            raise InvalidArgumentError(msg) from None
    return to_seconds(value, name)
