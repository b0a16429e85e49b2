"""What a time zone may be: an IANA name, an offset, a tzinfo."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from vecall.errors import InvalidArgumentError, InvalidTypeError
from vecall.validation import check_time_zone

BERLIN = ZoneInfo("Europe/Berlin")


def hours(zone: tzinfo | None, month: int = 1) -> float:
    assert zone is not None
    offset = datetime(2026, month, 15, tzinfo=zone).utcoffset()
    assert offset is not None
    return offset / timedelta(hours=1)


@pytest.mark.parametrize(
    ("value", "winter", "summer"),
    [
        ("Europe/Berlin", 1, 2),
        (np.str_("America/Los_Angeles"), -8, -7),
        ("Asia/Kolkata", 5.5, 5.5),
        ("UTC", 0, 0),
        ("Z", 0, 0),
        ("+02:00", 2, 2),
        ("-0330", -3.5, -3.5),
        ("+00:00", 0, 0),
        (BERLIN, 1, 2),
        (timezone(timedelta(hours=14)), 14, 14),
    ],
    ids=str,
)
def test_a_zone_is_known_by_its_name_its_offset_or_itself(value, winter, summer):
    zone = check_time_zone(value)
    assert (hours(zone), hours(zone, 7)) == (winter, summer)


def test_no_zone_is_none():
    assert check_time_zone(None) is None


@pytest.mark.parametrize(
    "value",
    [
        "",
        "secret/Zone",
        "europe berlin",
        "../../etc/passwd",
        "/etc/passwd",
        "America",
        "+24:00",
        "+02:60",
        "+2",
        "\u0662:00",
        "a\0b",
        "\ud800",
        "x" * 10_000,
    ],
    ids=ascii,
)
def test_another_text_is_refused_without_being_repeated(value):
    with pytest.raises(
        InvalidArgumentError, match=r"^time_zone: expected an"
    ) as raised:
        check_time_zone(value)
    assert not value or value not in str(raised.value)
    assert raised.value.__cause__ is None


@pytest.mark.parametrize(
    "value", [2, 2.0, b"UTC", ["UTC"], timedelta(hours=2), object()]
)
def test_another_type_is_refused(value):
    with pytest.raises(InvalidTypeError, match=r"^zone: expected an IANA name"):
        check_time_zone(value, "zone")


class Broken(tzinfo):
    """A zone that knows nothing."""


def test_a_zone_that_knows_no_offset_is_refused():
    with pytest.raises(InvalidArgumentError, match=r"^time_zone: expected"):
        check_time_zone(Broken())
