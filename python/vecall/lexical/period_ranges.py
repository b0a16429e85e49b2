"""Ranges of local time: days, weeks, months, seasons and years around a moment.

Weeks begin on Monday. All times are naive: those of the zone in which a query is read.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

DAY = timedelta(days=1)
UNITS = ("minute", "hour", "day", "week", "weekend", "month", "year")
LAST, THIS, NEXT, NONE = range(4)
_SOON = 31  # a day without a year may be so many days ahead

Range = tuple[datetime, datetime]
OfYear = Callable[[int], Range]


def midnight_of(at: datetime) -> datetime:
    """Return the beginning of a day."""
    return at.replace(hour=0, minute=0, second=0, microsecond=0)


def day_range(at: datetime, count: int = 1) -> Range:
    """Return a number of days, the first that of a moment."""
    begin = midnight_of(at)
    return begin, begin + count * DAY


def month_range(months: int, count: int = 1) -> Range:
    """Return a number of months; `months` counts from the year 0."""
    end = months + count
    return (
        datetime(months // 12, months % 12 + 1, 1),
        datetime(end // 12, end % 12 + 1, 1),
    )


def months_of(at: datetime) -> int:
    """Return the number of a month, counted from the year 0."""
    return at.year * 12 + at.month - 1


def unit_range(now: datetime, unit: str, offset: int) -> Range:
    """Return the unit that lies `offset` units from now, in full."""
    if unit == "year":
        return datetime(now.year + offset, 1, 1), datetime(now.year + offset + 1, 1, 1)
    if unit == "month":
        return month_range(months_of(now) + offset)
    monday = midnight_of(now) - now.weekday() * DAY + 7 * offset * DAY
    if unit == "week":
        return day_range(monday, 7)
    if unit == "weekend":
        return day_range(monday + 5 * DAY, 2)
    if unit == "day":
        return day_range(now + offset * DAY)
    step = timedelta(hours=1) if unit == "hour" else timedelta(minutes=1)
    return now + (offset - 1) * step, now + (offset + 1) * step


def time_ago(now: datetime, unit: str, count: int) -> datetime:
    """Return the time so many units ago, to the day for days and more."""
    if unit in ("hour", "minute"):
        return now - count * timedelta(**{f"{unit}s": 1})
    if unit == "year":
        count, unit = 12 * count, "month"
    if unit == "month":
        begin, end = month_range(months_of(now) - count)
        return begin + min(now.day - 1, (end - begin).days - 1) * DAY
    return midnight_of(now) - count * (1 if unit == "day" else 7) * DAY


def nearest_range(now: datetime, of_year: OfYear, adjective: int) -> Range:
    """Return the range of the year that an adjective means: last, this, next, none."""
    if adjective == THIS:
        return of_year(now.year)
    ranges = [of_year(year) for year in range(now.year - 2, now.year + 3)]
    if adjective == NEXT:
        return next(each for each in ranges if each[0] > now)
    if adjective == LAST:
        return next(each for each in reversed(ranges) if each[1] <= now)
    return next(each for each in reversed(ranges) if each[0] <= now)


def weekday_range(now: datetime, day: int, adjective: int) -> Range:
    """Return the last, this or the next weekday; 0 is Monday."""
    today = now.weekday()
    if adjective == THIS:
        return day_range(now + (day - today) * DAY)
    if adjective == NEXT:
        return day_range(now + ((day - today - 1) % 7 + 1) * DAY)
    return day_range(now - ((today - day - 1) % 7 + 1) * DAY)


def month_of(month: int) -> OfYear:
    """Return the month of each year; 0 is January."""
    return lambda year: month_range(year * 12 + month)


def season_of(season: int) -> OfYear:
    """Return the season of each year; 0 is the winter that begins in it."""
    first = (11, 2, 5, 8)[season]
    return lambda year: month_range(year * 12 + first, 3)


def day_of(month: int, day: int) -> OfYear:
    """Return the day of each year."""
    return lambda year: day_range(datetime(year, month, day))


def last_day(now: datetime, of_year: OfYear) -> Range | None:
    """Return the last day that has begun, or one that is near."""
    for year in range(now.year + 1, now.year - 9, -1):
        try:
            found = of_year(year)
        except ValueError:
            continue  # 29 February
        if found[0] <= now + _SOON * DAY:
            return found
    return None


def part_of_day(midnight: datetime, part: int) -> Range:
    """Return the morning, afternoon, evening or night of a day."""
    begin, end = ((5, 12), (12, 18), (17, 24), (18, 30))[part]
    return midnight + timedelta(hours=begin), midnight + timedelta(hours=end)
