"""Dates in full and in numbers, alike in all languages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache

from vecall.lexical.period_patterns import (
    ARTICLES,
    YEAR,
    Span,
    span_of,
)
from vecall.lexical.period_ranges import (
    NONE,
    day_of,
    day_range,
    last_day,
    month_of,
    month_range,
    nearest_range,
)
from vecall.lexical.period_words import (
    EAST_YEARS,
    LATIN,
    MONTH_NUMBERS,
    MONTHS,
    any_of,
    eastern_number,
)

_LOOKED_AT = 512  # characters at each end of a query
_MONTH = any_of(MONTH_NUMBERS)
_OF = "(?:of |de |del |do |di |van |den )?"
_OPTIONAL_YEAR = (
    rf"(?:[,.]? ?(?:of |de |del |do )?(?P<y>{YEAR})(?!\d)(?:'[td][ae]n?)?)?"
)
_TO = r" ?(?:-|–|to|and|bis|und|y|a|al|et|au|e|ao|en|tot|och|till|и|по|ve) ?"
_SIGN = r"(?:st|nd|rd|th|er|e|o|a|\.|:e|-?го|-?е)?"
_NUMBERED = (
    (
        rf"(?<![\w.])(?:(?P<d0>\d{{1,2}}){_SIGN}{_TO})?(?P<d>\d{{1,2}}){_SIGN} ?{_OF}"
        rf"(?P<m>{_MONTH})(?!\w){_OPTIONAL_YEAR}"
    ),
    (
        rf"(?<!\w)(?P<m>{_MONTH}) (?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?![\w:])"
        rf"(?:{_TO}(?P<d1>\d{{1,2}})(?:st|nd|rd|th)?(?![\w:]))?{_OPTIONAL_YEAR}"
    ),
    rf"(?<!\w)(?P<y>{YEAR})[-/.](?P<m>\d{{1,2}})[-/.](?P<d>\d{{1,2}})(?![\d-])",
    rf"(?<![\w.])(?P<d>\d{{1,2}})\.(?P<m>\d{{1,2}})\.(?P<y>{YEAR})(?!\w)",
    r"(?<![\w.])(?P<d>\d{1,2})\.(?P<m>\d{1,2})\.(?P<y>)(?![\w.])",
    rf"(?<![\w/])(?P<d>\d{{1,2}})/(?P<m>\d{{1,2}})/(?P<y>{YEAR})(?![\w/])",
)
_SHORT, _SLASHED = 4, 5  # places above: "3.5.", "3/5/2024"
_EAST_NUMBER = r"\d{1,2}|[一二三四五六七八九十]{1,3}"
_EAST_DATE = re.compile(
    rf"(?:(?P<y>\d{{4}}) ?[年년] ?|(?P<a>{'|'.join(EAST_YEARS)}) ?(?:の ?)?)?"
    rf"(?P<m>{_EAST_NUMBER}) ?[月월](?![曜間间요])"
    rf"(?: ?(?P<d>{_EAST_NUMBER}) ?[日号號일])?"
)
_EAST_YEAR = re.compile(rf"(?<!\d)(?P<c>(?P<y>{YEAR}) ?[年년])(?! ?[\d前전])")
_ONLY_MONTH = re.compile(rf"(?<!\w)(?P<y>{YEAR})-(?P<m>0[1-9]|1[0-2])(?![\w-])")


@lru_cache(maxsize=1)
def _of_numbers() -> list[re.Pattern[str]]:
    return [re.compile(pattern) for pattern in _NUMBERED]


@lru_cache(maxsize=1)
def _of_years() -> re.Pattern[str]:
    """A year after a preposition, or before a word such as "году"."""
    before = "|".join(
        table[name]
        for table in LATIN
        for name in ("year", "since", "before", "until", "after_", "and")
        if table.get(name)
    )
    return re.compile(
        rf"(?<!\w)(?:{before}) (?:(?:{ARTICLES}) )?(?P<c>{YEAR})(?:'?[td][ae]n?)?"
        rf"(?: году| года| г\.| yilinda)?(?![\w/:-])"
        rf"|(?<!\w)(?:(?:v|el|al|no) )?(?P<d>{YEAR})"
        rf"(?:'[td][ae]n?| yilinda| yili| году| года)(?!\w)"
    )


def _dated(
    match: re.Match[str],
    now: datetime,
    month: int,
    day: int,
    last: int | None = None,
) -> Span | None:
    """Return the span of a day, or of the days to `last`."""
    if not 1 <= month <= 12:
        return None
    year = match["y"]
    of_year = day_of(month, day)
    found = of_year(int(year)) if year else last_day(now, of_year)
    if found is None:
        return None
    if last is not None:
        end = day_range(found[0].replace(day=last))
        found = min(found[0], end[0]), max(found[1], end[1])
    return span_of(match, found, None, None if year else of_year, is_day=last is None)


def number_spans(
    folded: str, now: datetime, language: str | None
) -> Iterator[Span | None]:
    """Yield the dates in Latin and Cyrillic letters or in numbers."""
    has_month = any(map(folded.__contains__, _IN_MONTHS))
    for place, pattern in enumerate(_of_numbers()):
        if (place < 2 and not has_month) or (place == _SHORT and language == "english"):
            continue
        for match in pattern.finditer(folded):
            groups = match.groupdict()
            name, day = match["m"], int(match["d"])
            month = MONTH_NUMBERS[name] + 1 if place < 2 else int(name)
            if place == _SLASHED and (
                month > 12 or (language == "english" and day <= 12)
            ):
                day, month = month, day
            other = groups.get("d0") or groups.get("d1")
            try:
                yield _dated(match, now, month, day, int(other) if other else None)
            except ValueError:
                continue  # no valid date
    for match in _ONLY_MONTH.finditer(folded):
        yield span_of(match, month_range(int(match["y"]) * 12 + int(match["m"]) - 1))
    for match in _of_years().finditer(folded):
        year = int(match["c"] or match["d"])
        found = datetime(year, 1, 1), datetime(year + 1, 1, 1)
        core = match.start("c") if match["c"] else match.start("d")
        yield Span(match.start(), core, match.end(), found)


_IN_MONTHS = [
    name
    for name in MONTH_NUMBERS
    if not any(other in name for other in MONTH_NUMBERS if other != name)
]  # each month name contains at least one of these


def eastern_spans(folded: str, now: datetime) -> Iterator[Span | None]:
    """Yield the dates of Chinese, Japanese and Korean."""
    for match in _EAST_DATE.finditer(folded):
        month, year = eastern_number(match["m"]), match["y"]
        if match["a"]:
            year = str(now.year + EAST_YEARS[match["a"]])
        if not 1 <= month <= 12:
            continue
        try:
            if match["d"]:
                of_year = day_of(month, eastern_number(match["d"]))
                found = of_year(int(year)) if year else last_day(now, of_year)
            else:
                of_year = month_of(month - 1)
                found = (
                    of_year(int(year)) if year else nearest_range(now, of_year, NONE)
                )
        except ValueError:
            continue  # no valid date
        if found is not None:
            yield span_of(
                match, found, None, None if year else of_year, is_day=bool(match["d"])
            )
    for match in _EAST_YEAR.finditer(folded):
        year = match["y"]
        yield span_of(match, (datetime(int(year), 1, 1), datetime(int(year) + 1, 1, 1)))


def eastern_months(folded: str) -> list[str]:
    """Return the English names of the months written as a number and 月 or 월."""
    if "月" not in folded and "월" not in folded:
        return []
    found = _EAST_DATE.finditer(query_ends(folded)[0])
    numbers = [eastern_number(match["m"]) for match in found]
    return [MONTHS[number - 1] for number in numbers if 1 <= number <= 12]


def query_ends(text: str) -> tuple[str, str]:
    """Return the ends of a query, where periods are looked for, and what is between."""
    if len(text) <= 2 * _LOOKED_AT:
        return text, ""
    ends = f"{text[:_LOOKED_AT]} | {text[-_LOOKED_AT:]}"
    return ends, text[_LOOKED_AT:-_LOOKED_AT]
