"""Finds memories by the dates that a query names.

A memory is indexed under its date in UTC: the number of the day, the English name of
the month and the year are words; day, week and month are marks. A query such as "What
did we plan on 3 May", "in March 2024", "yesterday", "last week" or "2024-03-05" becomes
the same marks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import lru_cache

from vecall.lexical.features import mark

MONTHS = (
    "january february march april may june july august september october november "
    "december"
).split()

_MONTHS_OF = {
    "german": """
    januar februar marz april mai juni juli august september oktober november dezember
    """,
    "spanish": """
    enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre
    diciembre
    """,
    "french": """
    janvier fevrier mars avril mai juin juillet aout septembre octobre novembre decembre
    """,
    "italian": """
    gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre
    dicembre
    """,
    "portuguese": """
    janeiro fevereiro marco abril maio junho julho agosto setembro outubro novembro
    dezembro
    """,
    "russian": """
    января февраля марта апреля мая июня июля августа сентября октября ноября декабря
    январь февраль март апрель май июнь июль август сентябрь октябрь ноябрь декабрь
    январе феврале марте апреле мае июне июле августе сентябре октябре ноябре декабре
    """,
    "english": """
    jan feb mar apr may jun jul aug sept oct nov dec
    jan feb mar apr may jun jul aug sep oct nov dec
    """,
}

MONTH_NAMES: dict[str, dict[str, str]] = {
    language: {
        name: MONTHS[i % 12]
        for i, name in enumerate(names.split())
        if (language, name) not in (("english", "mar"), ("english", "jan"))
    }
    for language, names in _MONTHS_OF.items()
}
"""For each language: a month's name or abbreviation, and the English name under which
memories are indexed. A name counts in its own language only: in others Marco and Avril
are people."""

_NAMES = {
    **{
        name: i % 12 + 1
        for names in _MONTHS_OF.values()
        for i, name in enumerate(names.split())
    },
    **{name: i + 1 for i, name in enumerate(MONTHS)},
}
_MONTH = "|".join(sorted(_NAMES, key=len, reverse=True))
_IN_MONTHS = [
    name for name in _NAMES if not any(o in name for o in _NAMES if o != name)
]  # each month name contains at least one of these
_YEAR = r"(?:19|20)\d\d"
_DAY_MONTH = re.compile(
    rf"\b(\d{{1,2}})(?:st|nd|rd|th|er|\.|o)?\s?(?:of\s|de\s|do\s)?({_MONTH})\b"
    rf"(?:,?\s(?:de\s)?({_YEAR})\b)?"
)
_MONTH_DAY = re.compile(
    rf"\b({_MONTH})\s(\d{{1,2}})(?:st|nd|rd|th)?\b(?:,?\s({_YEAR})\b)?"
)
_MONTH_YEAR = re.compile(rf"\b({_MONTH})(?:\s(?:of\s|de\s|del\s)?({_YEAR}))\b")
_ISO = re.compile(rf"\b({_YEAR})[-/](\d{{1,2}})[-/](\d{{1,2}})(?:\b|t)")
_DOTTED = re.compile(rf"\b(\d{{1,2}})\.(\d{{1,2}})\.({_YEAR})?")
_NUMBER = r"\d{1,2}|[一二三四五六七八九十]{1,3}"
_EAST = re.compile(
    rf"(?:(\d{{4}})\s?[年년]\s?)?({_NUMBER})\s?[月월](?:\s?({_NUMBER})\s?[日号號일])?"
)
_DIGITS = "一二三四五六七八九"
_WEEKS = (
    "week", "woche", "semana", "semaine", "settimana", "неделе", "周", "星期", "週",
    "주",
)  # fmt: skip
_MONTHS = ("month", "monat", "mes", "mois", "месяце", "月", "달")
# (pattern, unit, offset, substrings). Each match of the pattern contains one of the
# substrings. A search for the substrings takes 1 % of the pattern's time.
_RELATIVE = (
    (
        re.compile(r"\byesterday\b|\bgestern\b|\bayer\b|\bieri\b|\bontem\b|"
                   r"\bвчера\b|昨天|昨日|어제"),
        "day", -1,
        ("yesterday", "gestern", "ayer", "ieri", "ontem", "вчера", "昨", "어제"),
    ),
    (
        re.compile(r"\btoday\b|\bheute\b|\bhoy\b|aujourd.?hui|\boggi\b|\bhoje\b|"
                   r"\bсегодня\b|今天|今日|오늘"),
        "day", 0,
        ("today", "heute", "hoy", "aujourd", "oggi", "hoje", "сегодня", "今", "오늘"),
    ),
    (
        re.compile(r"\blast week\b|\bletzten? woche\b|\bsemana pasada\b|"
                   r"\bsemaine derniere\b|\bsettimana scorsa\b|\bsemana passada\b|"
                   r"\bна прошлой неделе\b|上周|上星期|先週|지난\s?주"),
        "week", -1, _WEEKS,
    ),
    (
        re.compile(r"\bthis week\b|\bdiese[r]? woche\b|\besta semana\b|"
                   r"\bcette semaine\b|\bна этой неделе\b|这周|本周|今週|이번\s?주"),
        "week", 0, _WEEKS,
    ),
    (
        re.compile(r"\blast month\b|\bletzten monat\b|\bmes pasado\b|\bmois dernier\b|"
                   r"\bmese scorso\b|\bmes passado\b|\bв прошлом месяце\b|上个月|先月|"
                   r"지난\s?달"),
        "month", -1, _MONTHS,
    ),
    (
        re.compile(r"\bthis month\b|\bdiesen monat\b|\beste mes\b|\bce mois\b|"
                   r"\bв этом месяце\b|这个月|本月|今月|이번\s?달"),
        "month", 0, _MONTHS,
    ),
)  # fmt: skip


def _day(date: datetime) -> int:
    return mark(f"day {date:%Y-%m-%d}")


def _week(date: datetime) -> int:
    year, week, _ = date.isocalendar()
    return mark(f"week {year}-{week}")


def _month(year: int, month: int) -> int:
    return mark(f"month {year}-{month}")


def _day_of_year(month: int, day: int) -> int:
    return mark(f"day {month}-{day}")


def date_marks(date: datetime) -> list[int]:
    """Return the marks of a date: day, day of any year, week, month."""
    return list(_date_marks(date.year, date.month, date.day))


@lru_cache(maxsize=1_024)  # the turns of a session usually have the same date
def _date_marks(year: int, month: int, day: int) -> tuple[int, ...]:
    date = datetime(year, month, day)
    return (
        _day(date),
        _day_of_year(date.month, date.day),
        _week(date),
        _month(date.year, date.month),
    )


_DATE_WORDS = frozenset(_NAMES) | frozenset(
    "yesterday today week month gestern heute woche monat ayer hoy semana mes hier "
    "aujourdhui semaine mois ieri oggi settimana mese ontem hoje".split()
)
_HIER = re.compile(r"\bhier\b")
_DIGIT = re.compile("[0-9]")


_LOOKED_AT = 512  # characters at each end of a query


def _ends(folded: str) -> str:
    """Return the beginning and the end of a query, where dates are looked for."""
    if len(folded) <= 2 * _LOOKED_AT:
        return folded
    return f"{folded[:_LOOKED_AT]} {folded[-_LOOKED_AT:]}"


def may_name_dates(words: Sequence[str], folded: str) -> bool:
    """Return whether a normalised query may name a date.

    The check is much faster than `asked_dates`, and False for most queries.
    """
    if not folded.isascii() or not _DATE_WORDS.isdisjoint(words):
        return True
    return _DIGIT.search(folded) is not None


def asked_dates(folded: str, now: datetime, language: str | None = None) -> list[int]:
    """Return the marks of the days, weeks or months that a normalised query names.

    Args:
        folded: The query. Only the first and the last 512 characters are read.
        now: The date to which "yesterday" is relative.
        language: The query's language, or None if unknown. "3.5." is a day in German
            and a version in English. "hier" is "yesterday" in French and "here" in
            German.
    """
    folded = _ends(folded)
    found: list[int] = []
    # The three patterns with month names are slow, and most texts name no month.
    named = folded if any(map(folded.__contains__, _IN_MONTHS)) else ""
    for day, name, year in _DAY_MONTH.findall(named):
        _add(found, year, _NAMES[name], day)
    for name, day, year in _MONTH_DAY.findall(named):
        _add(found, year, _NAMES[name], day)
    for year, month, day in _ISO.findall(folded):
        _add(found, year, int(month), day)
    for day, month, year in _DOTTED.findall(folded):
        if year or language != "english":
            _add(found, year, int(month), day)
    if language in (None, "french") and _HIER.search(folded):
        found += _relative(now, "day", -1)
    for year, month, day in _eastern(folded):
        if day:
            _add(found, year, _number(month), str(_number(day)))
        elif year and 1 <= _number(month) <= 12:
            found.append(_month(int(year), _number(month)))
    for name, year in _MONTH_YEAR.findall(_DAY_MONTH.sub(" ", named)):
        found.append(_month(int(year), _NAMES[name]))
    for pattern, unit, offset, needed in _RELATIVE:
        if any(map(folded.__contains__, needed)) and pattern.search(folded):
            found += _relative(now, unit, offset)
    return list(dict.fromkeys(found))


def eastern_months(folded: str) -> list[str]:
    """Return the English names of the months written as a number and 月 or 월."""
    numbers = [_number(month) for _, month, _ in _eastern(_ends(folded))]
    return [MONTHS[number - 1] for number in numbers if 1 <= number <= 12]


def _eastern(folded: str) -> list[tuple[str, str, str]]:
    return _EAST.findall(folded) if "月" in folded or "월" in folded else []


def _number(text: str) -> int:
    """Read a number such as 7, 七, 十, 十二 or 三十一; return 0 for other text."""
    if text.isdecimal():
        return int(text)
    tens, ten, ones = text.rpartition("十")
    if len(tens) > 1 or len(ones) > 1:
        return 0
    count = _DIGITS.find(tens) + 1 if tens else len(ten)
    return 10 * count + (_DIGITS.find(ones) + 1 if ones else 0)


def _add(found: list[int], year: str, month: int, day: str) -> None:
    try:
        # Without a year, a leap year: 29 February is then valid.
        date = datetime(int(year or 2000), month, int(day))
    except ValueError:
        return  # no valid date
    found.append(_day(date) if year else _day_of_year(month, date.day))


def _relative(now: datetime, unit: str, offset: int) -> list[int]:
    try:
        if unit == "day":
            return [_day(now + timedelta(days=offset))]
        if unit == "week":
            return [_week(now + timedelta(weeks=offset))]
    except OverflowError:
        return []  # outside the range of `datetime`
    months = now.year * 12 + now.month - 1 + offset
    return [_month(months // 12, months % 12 + 1)]
