"""The times that a query names: patterns of each language, dates in numbers.

Ranges of time are naive: those of the zone in which a query is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from vecall.lexical.period_words import (
    EAST_YEARS,
    LATIN,
    MONTH_NUMBERS,
    MONTHS,
    PARTS,
    TABLES,
    Table,
    alternatives,
    any_of,
    eastern_number,
    meanings,
    shortest,
)
from vecall.text import lazy_pattern

# Ranges of local time.

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


def unit_range(now: datetime, unit: str, steps: int) -> Range:
    """Return the unit that lies `steps` units from now, in full."""
    if unit == "year":
        return datetime(now.year + steps, 1, 1), datetime(now.year + steps + 1, 1, 1)
    if unit == "month":
        return month_range(months_of(now) + steps)
    monday = midnight_of(now) - now.weekday() * DAY + 7 * steps * DAY
    if unit == "week":
        return day_range(monday, 7)
    if unit == "weekend":
        return day_range(monday + 5 * DAY, 2)
    if unit == "day":
        return day_range(now + steps * DAY)
    step = timedelta(hours=1) if unit == "hour" else timedelta(minutes=1)
    return now + (steps - 1) * step, now + (steps + 1) * step


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


# The patterns of each language, and their meaning.

YEAR = r"(?:19|20)\d\d"
_FEW = (2, 6)
ARTICLES = (
    "the|on|le|la|les|l'|el|los|las|il|lo|gli|i|o|os|a|as|den|dem|der|des|das|det|am|im|"
    "het|in|en|em|no|na|pa"
)
_CONNECTED = ("since", "before", "until", "after_")
_PREFIXES = ("in", *_CONNECTED, "and")


class Span(NamedTuple):
    """A named time, and where it stands: `core` is what connectors stand before."""

    begin: int
    core: int
    end: int
    range: Range
    table: int | None = None  # its language; None for numbers
    of_year: OfYear | None = None  # if the text has no year
    is_day: bool = False
    is_weekday: bool = False


def _count_and_unit(table: Table) -> tuple[str, str]:
    number = any_of(meanings(table.get("numbers", "")))
    few = any_of(meanings(table.get("few", "")))
    unit = f"(?P<u>{any_of(meanings(table['units']))})"
    return rf"(?:(?P<n>\d{{1,3}}|{number})|(?P<f>{few}))", unit


class Connectors:
    """The words of a language around a named time: since, before, in the evening."""

    def __init__(self, number: int) -> None:
        """Make the patterns of a language; `number` is its place in `TABLES`."""
        self.table = table = TABLES[number]
        self.in_east = number >= len(LATIN)
        self.parts = meanings(table["parts"])
        self.units = meanings(table["units"])
        self.number = meanings(table.get("numbers", ""))
        count, unit = _count_and_unit(table)
        weekday = f"(?P<k>{any_of(meanings(table['weekdays']))})"
        self.counted = re.compile(rf"(?<!\w)(?:(?:{count} )?{unit}|{weekday}) \Z")
        part = f"(?P<t>{any_of(self.parts)})"
        articles = f"(?:(?:{ARTICLES}) ?)"
        self.before = self._connectors("", f" ?{articles}{{0,2}}\\Z")
        self.after = self._connectors("_post", "")
        until = table.get("until", "(?!)")
        self.joins = re.compile(f"(?:{table['and']}|{until}|-|–|/|,) ?{articles}?")
        fill = table.get("fill", "")
        end = "" if self.in_east else r"(?!\w)"
        self.part = re.compile(rf",? ?(?:(?:{fill}) ?)?{part}{end}")
        self.part_of = re.compile(
            rf"(?<!\w){part} (?:of|de|del|di|do|da|du|des|van|av) {articles}?\Z"
        )

    def _connectors(self, kind: str, end: str) -> re.Pattern[str] | None:
        found = [
            f"(?P<{name.rstrip('_')}>{self.table[name + kind]})"
            for name in _CONNECTED
            if self.table.get(name + kind)
        ]
        if not found:
            return None
        begin = " ?" if kind else "" if self.in_east else r"(?<!\w)"
        return re.compile(f"{begin}(?:{'|'.join(found)}){end}")


class Patterns:
    """The compiled patterns of a language."""

    def __init__(self, number: int) -> None:
        """Make the patterns of a language; `number` is its place in `TABLES`."""
        table = TABLES[number]
        self.table = number
        self.in_east = number >= len(LATIN)
        self.number = meanings(table.get("numbers", ""))
        self.words = {
            word.replace("_", " "): spec.split()
            for spec, words in zip(
                table["specs"].split("/"), alternatives(table["words"]), strict=True
            )
            for word in words
        }
        self.units = meanings(table["units"])
        self.adjectives = meanings(table["adjectives"])
        self.of_weekday = meanings(table.get("weekday_adjectives", ""))
        self.weekdays = meanings(table["weekdays"])
        self.months = meanings(table["months"])
        self.seasons = meanings(table["seasons"])
        self.parts = meanings(table["parts"])
        self.alone = {
            word.rstrip("+")
            for name in ("months", "seasons")
            for words in alternatives(table[name])
            for word in words
            if word.endswith("+")
        }
        bounds = [table.get(name, "(?!)") for name in ("before", "until", "after_")]
        self.bounds = re.compile("|".join(bounds))
        self.readers = self._readers(table)

    def _readers(self, table: Table) -> list[_Readers]:
        adjective = any_of(self.adjectives)
        after = adjective if table.get("after") else "(?!)"
        count, unit = _count_and_unit(table)
        prefix = "|".join(table[name] for name in _PREFIXES if table.get(name))
        suffix = table.get("suffix", "(?!)")
        named = (
            rf"(?:(?P<p>{prefix}) (?:(?:{ARTICLES}) ?)?)?"
            rf"(?P<c>(?:(?P<a>{adjective}) )?(?P<k>@)(?P<x>{suffix})?"
            rf"(?:,? ?(?:of |de |del |do |di |van )?"
            rf"(?P<y>{YEAR})(?: года| г\.)?)?(?: (?P<b>{after}))?)"
        )
        if self.in_east:
            years = "|".join(EAST_YEARS)
            named = (
                rf"(?P<c>(?:(?P<a>{adjective}) |"
                rf"(?:(?P<z>{years})|(?P<y>{YEAR}) [年년])(?: の)? )(?P<k>@))"
            )

        def made(text: str) -> re.Pattern[str]:
            text = text.replace("{n}", count).replace("{u}", unit)
            if self.in_east:
                return re.compile(text.replace("\\ ", " ").replace(" ", " ?"))
            return re.compile(rf"(?<!\w)(?:{text})(?!\w)")

        of_weekday = any_of(self.of_weekday or self.adjectives)
        weekday = f"(?:(?P<a>{of_weekday}) )?(?P<k>{any_of(self.weekdays)})"
        of_part = f"(?P<a>{adjective}) (?P<t>{any_of(self.parts)})"
        of_unit: list[tuple[re.Pattern[str], _Reader]] = [
            (made(f"(?P<a>{adjective}) {unit}"), _of_unit),
            (made(f"{unit} (?P<b>{after})"), _of_unit),
            *((made(each), _of_ago) for each in table["ago"].split("||")),
            *((made(each), _of_recent) for each in table["recent"].split("||")),
        ]
        of_month = (made(named.replace("@", any_of(self.months))), _of_month)
        of_season = (made(named.replace("@", any_of(self.seasons))), _of_season)
        needed = _all_texts if self.in_east else shortest  # spaces are optional there
        return [
            (needed(self.words), [(made(any_of(self.words)), _of_word)]),
            (needed(self.units), of_unit),
            (
                needed(self.weekdays),
                [(made(f"{weekday}(?: (?P<b>{after}))?"), _of_weekday)],
            ),
            (needed(self.months), [of_month]),
            (needed(self.seasons), [of_season]),
            (needed(self.parts), [(made(of_part), _of_part)]),
        ]


def _all_texts(_: Iterable[str]) -> list[str]:
    return [""]


_Reader = Callable[["Patterns", "re.Match[str]", datetime], "Range | Span | None"]
# Patterns, and texts of which a text that they match contains one.
_Readers = tuple[list[str], list[tuple[re.Pattern[str], _Reader]]]


@lru_cache(maxsize=32)
def patterns_of(number: int) -> Patterns:
    """Return the patterns of a language, made when it is first needed."""
    return Patterns(number)


@lru_cache(maxsize=32)
def connectors_of(number: int) -> Connectors:
    """Return the connectors of a language, made when it is first needed."""
    return Connectors(number)


def _adjective_of(patterns: Patterns, match: re.Match[str]) -> int:
    groups = match.groupdict()
    word = groups.get("a") or groups.get("b")
    return NONE if word is None else patterns.adjectives.get(word, NONE)


# Readers of patterns.


def _of_word(
    patterns: Patterns, match: re.Match[str], now: datetime
) -> Range | Span | None:
    unit, number = patterns.words[match[0]]
    steps = int(number)
    if unit in PARTS:
        return part_of_day(midnight_of(now) + steps * DAY, PARTS.index(unit))
    if unit == "weekday":  # sv "i fredags"
        return weekday_range(now, steps, LAST)
    if unit == "season":  # sv "i somras"
        return nearest_range(now, season_of(steps), LAST)
    found = unit_range(now, unit, steps)
    return span_of(match, found, patterns, is_day=unit == "day")


def _of_unit(patterns: Patterns, match: re.Match[str], now: datetime) -> Range | None:
    unit = UNITS[patterns.units[match["u"]]]
    if unit in ("minute", "hour", "day"):
        return None  # "the last day of our trip"
    return unit_range(now, unit, _adjective_of(patterns, match) - 1)


def count_of(patterns: Patterns | Connectors, match: re.Match[str]) -> tuple[int, int]:
    """Return the least and the greatest number."""
    groups = match.groupdict()
    if groups.get("f"):
        return _FEW
    text = groups.get("n")
    if not text:
        return 1, 1
    count = patterns.number.get(text)
    count = eastern_number(text) if count is None else count + 1
    return count, count


def _of_ago(
    patterns: Patterns, match: re.Match[str], now: datetime
) -> Range | Span | None:
    unit = UNITS[patterns.units[match["u"]]]
    least, most = count_of(patterns, match)
    found = unit_range(now, unit, -most)[0], unit_range(now, unit, -least)[1]
    return span_of(match, found, patterns, is_day=unit == "day")


def _of_recent(patterns: Patterns, match: re.Match[str], now: datetime) -> Range | None:
    unit = UNITS[patterns.units[match["u"]]]
    return time_ago(now, unit, count_of(patterns, match)[1]), now


def _of_weekday(
    patterns: Patterns, match: re.Match[str], now: datetime
) -> Range | Span | None:
    day = patterns.weekdays[match["k"]]
    adjective = match["a"]
    if patterns.of_weekday and adjective:
        week = unit_range(now, "week", patterns.of_weekday[adjective] - 1)[0]
        found = day_range(week + day * DAY)
    else:
        found = weekday_range(now, day, _adjective_of(patterns, match))
    return span_of(match, found, patterns, is_day=True)._replace(is_weekday=True)


def _of_month(patterns: Patterns, match: re.Match[str], now: datetime) -> Span | None:
    if match["k"] == "may" and match["a"] == "this":
        return None
    begin = match.start("c")
    if match.string[max(0, begin - 2) : begin].strip().isdecimal():
        return None  # "31 June 2024" is no day
    return _of_named(patterns, match, now, month_of(patterns.months[match["k"]]))


def _of_season(patterns: Patterns, match: re.Match[str], now: datetime) -> Span | None:
    found = _of_named(patterns, match, now, season_of(patterns.seasons[match["k"]]))
    prefix = match.groupdict().get("p")
    if found is not None and found.of_year and patterns.bounds.fullmatch(prefix or ""):
        return None  # "before winter": the next one
    return found


def _of_named(
    patterns: Patterns,
    match: re.Match[str],
    now: datetime,
    of_year: OfYear,
) -> Span | None:
    groups = match.groupdict()
    year, adjective = groups.get("y"), _adjective_of(patterns, match)
    if groups.get("z"):
        year = now.year + EAST_YEARS[match["z"]]
    if year:
        return span_of(match, of_year(int(year)), patterns)
    is_marked = groups.get("p") or groups.get("x") or match["k"] in patterns.alone
    if adjective == NONE and not is_marked:
        return None
    found = nearest_range(now, of_year, adjective)
    return span_of(match, found, patterns, of_year if adjective == NONE else None)


def _of_part(patterns: Patterns, match: re.Match[str], now: datetime) -> Range:
    steps = _adjective_of(patterns, match) - 1
    return part_of_day(midnight_of(now) + steps * DAY, patterns.parts[match["t"]])


def span_of(
    match: re.Match[str],
    found: Range,
    patterns: Patterns | None = None,
    of_year: OfYear | None = None,
    *,
    is_day: bool = False,
) -> Span:
    """Return the span of a match."""
    core = match.start("c") if "c" in match.re.groupindex else match.start()
    if core < 0:
        core = match.start()
    table = None if patterns is None else patterns.table
    return Span(match.start(), core, match.end(), found, table, of_year, is_day)


# Dates in full and in numbers, alike in all languages.

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
_EAST_DATE = lazy_pattern(
    rf"(?:(?P<y>\d{{4}}) ?[年년] ?|(?P<a>{'|'.join(EAST_YEARS)}) ?(?:の ?)?)?"
    rf"(?P<m>{_EAST_NUMBER}) ?[月월](?![曜間间요])"
    rf"(?: ?(?P<d>{_EAST_NUMBER}) ?[日号號일])?"
)
_EAST_YEAR = lazy_pattern(rf"(?<!\d)(?P<c>(?P<y>{YEAR}) ?[年년])(?! ?[\d前전])")
_ONLY_MONTH = lazy_pattern(rf"(?<!\w)(?P<y>{YEAR})-(?P<m>0[1-9]|1[0-2])(?![\w-])")


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


_IN_MONTHS = shortest(MONTH_NUMBERS)


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
