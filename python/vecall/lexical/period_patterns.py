"""The times that a query names: words and patterns of each language, dates in numbers.

The words are in period_words.ini, normalised. In a vocabulary "/" separates meanings, a
space separates words of one meaning, "_" stands for a space, and "+" marks a month or
season that stands without a preposition. Other values are regular expressions; in `ago`
and `recent`, {n} is a number and {u} a unit; "||" separates two patterns.

Meanings, in their order: `units` are minute, hour, day, week, weekend, month and year;
`numbers` 1 to 12; `adjectives` last, this and next; `weekdays` Monday to Sunday;
`seasons` winter to autumn; `parts` those of `PARTS`. `specs` has the meaning of each
word of `words`: a unit or a part of the day, and how many lie between it and now.

Ranges of time are naive: those of the zone in which a query is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from vecall.system import cached
from vecall.text import lazy_pattern

Table = dict[str, str]

PARTS = ("morning", "afternoon", "evening", "night")


def _read_tables() -> list[Table]:
    """Read them; configparser takes some milliseconds of each process."""
    tables: list[Table] = []
    text = Path(__file__).with_name("period_words.ini").read_text(encoding="utf-8")
    for line in filter(None, text.replace("\n  ", " ").split("\n")):
        if line.startswith("["):
            tables.append({"name": line[1:-1]})
        else:
            key, _, words = line.partition(" =")
            tables[-1][key] = words.strip()
    return tables


TABLES = _read_tables()

EAST = TABLES[-3:]
"""Languages with months by number, and words without spaces or with particles."""

LATIN = TABLES[:-3]
"""Languages whose words are separated by spaces."""

EAST_YEARS = {"去年": -1, "昨年": -1, "작년": -1, "지난해": -1, "今年": 0, "올해": 0}
"""Words for years that stand before a month or season, and how far the year is."""


def words_of_meaning(text: str) -> list[list[str]]:
    """Return the words of each meaning."""
    return [each.split() for each in text.split("/")]


def meaning_numbers(text: str) -> dict[str, int]:
    """Return the number of its place for each word."""
    return {
        word.rstrip("+").replace("_", " "): place
        for place, words in enumerate(words_of_meaning(text))
        for word in words
    }


def pattern_of_any(words: Iterable[str]) -> str:
    """Return a pattern that matches any of the words, the longest one first."""
    ordered = sorted(words, key=len, reverse=True)
    return "|".join(map(re.escape, ordered)) or r"(?!)"


def shortest_words(words: Iterable[str]) -> list[str]:
    """Return the words that contain no other one; a text with any word has one."""
    known = set(words)
    return [
        word for word in known if not any(other in word for other in known - {word})
    ]


MONTHS = [names[0] for names in words_of_meaning(TABLES[0]["months"])]
"""In English, January first."""

_ALSO_NAMES = ("jan", "mar")

MONTH_NAMES: dict[str, dict[str, str]] = {
    table["name"]: {
        name: MONTHS[number]
        for name, number in meaning_numbers(table["months"]).items()
        if name not in _ALSO_NAMES
    }
    for table in LATIN
}
"""For each language: a month's name or abbreviation, and the English name under which
memories are indexed. A name counts in its own language only: in others Marco and Avril
are people."""

MONTH_NUMBERS: dict[str, int] = {
    name: number
    for table in LATIN
    for name, number in meaning_numbers(table["months"]).items()
}
_DIGITS = "一二三四五六七八九"


def eastern_number(text: str) -> int:
    """Read a number such as 7, 七, 十, 十二 or 三十一; return 0 for other text."""
    if text.isdecimal():
        return int(text)
    text = text.replace("两", "二").replace("兩", "二")
    tens, ten, ones = text.rpartition("十")
    if len(tens) > 1 or len(ones) > 1:
        return 0
    count = _DIGITS.find(tens) + 1 if tens else len(ten)
    return 10 * count + (_DIGITS.find(ones) + 1 if ones else 0)


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


def range_of_days(at: datetime, count: int = 1) -> Range:
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


def month_number_of(at: datetime) -> int:
    """Return the number of a month, counted from the year 0."""
    return at.year * 12 + at.month - 1


def range_of_unit(now: datetime, unit: str, steps: int) -> Range:
    """Return the unit that lies `steps` units from now, in full."""
    if unit == "year":
        return datetime(now.year + steps, 1, 1), datetime(now.year + steps + 1, 1, 1)
    if unit == "month":
        return month_range(month_number_of(now) + steps)
    monday = midnight_of(now) - now.weekday() * DAY + 7 * steps * DAY
    if unit == "week":
        return range_of_days(monday, 7)
    if unit == "weekend":
        return range_of_days(monday + 5 * DAY, 2)
    if unit == "day":
        return range_of_days(now + steps * DAY)
    step = timedelta(hours=1) if unit == "hour" else timedelta(minutes=1)
    return now + (steps - 1) * step, now + (steps + 1) * step


def time_ago(now: datetime, unit: str, count: int) -> datetime:
    """Return the time so many units ago, to the day for days and more."""
    if unit in ("hour", "minute"):
        return now - count * timedelta(**{f"{unit}s": 1})
    if unit == "year":
        count, unit = 12 * count, "month"
    if unit == "month":
        begin, end = month_range(month_number_of(now) - count)
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


def range_of_weekday(now: datetime, day: int, adjective: int) -> Range:
    """Return the last, this or the next weekday; 0 is Monday."""
    ahead = day - now.weekday()
    if adjective == NEXT:
        ahead = (ahead - 1) % 7 + 1
    elif adjective != THIS:
        ahead = ahead % 7 - 7
    return range_of_days(now + ahead * DAY)


def yearly_month(month: int) -> OfYear:
    """Return the month of each year; 0 is January."""
    return lambda year: month_range(year * 12 + month)


def yearly_season(season: int) -> OfYear:
    """Return the season of each year; 0 is the winter that begins in it."""
    first = (11, 2, 5, 8)[season]
    return lambda year: month_range(year * 12 + first, 3)


def yearly_day(month: int, day: int) -> OfYear:
    """Return the day of each year."""
    return lambda year: range_of_days(datetime(year, month, day))


def nearest_yearly_day(now: datetime, of_year: OfYear) -> Range | None:
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
_NEVER = "(?!)"
_CONNECTED = ("since", "before", "until", "after_")
_PREFIXES = ("in", *_CONNECTED, "and")
READ = ("words", "units", "weekdays", "months", "seasons", "parts")
"""The vocabularies whose words open the readers of their place."""
VOCABULARIES = ("units", "numbers", "few", "adjectives", "weekday_adjectives",
                 "weekdays", "months", "seasons", "parts")  # fmt: skip


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


_Reader = Callable[["re.Match[str]", datetime], Span | None]
_Readers = list[tuple[re.Pattern[str], _Reader]]


class Patterns:
    """The patterns of a language, and what their matches mean."""

    def __init__(self, number: int) -> None:
        """Make the patterns of a language; `number` is its place in `TABLES`."""
        self.number = number
        self.table = table = TABLES[number]
        self.in_east = number >= len(LATIN)
        self.of = {name: meaning_numbers(table.get(name, "")) for name in VOCABULARIES}
        self.words = {
            word.replace("_", " "): spec.split()
            for spec, words in zip(
                table["specs"].split("/"), words_of_meaning(table["words"]), strict=True
            )
            for word in words
        }
        self.alone = {
            word.rstrip("+")
            for name in ("months", "seasons")
            for words in words_of_meaning(table[name])
            for word in words
            if word.endswith("+")
        }
        bounds = [table.get(name, _NEVER) for name in ("before", "until", "after_")]
        self.bounds = lazy_pattern("|".join(bounds))
        number_of = rf"(?P<n>\d{{1,3}}|{self._any_word('numbers')})"
        self._count = f"(?:{number_of}|(?P<f>{self._any_word('few')}))"
        self._unit = f"(?P<u>{self._any_word('units')})"
        self.readers = self._compiled_readers()

    def _any_word(self, name: str) -> str:
        return pattern_of_any(self.of[name])

    def _compiled(self, text: str, names: Iterable[str]) -> re.Pattern[str]:
        """Return a pattern; in its text, @ stands for the names."""
        text = text.replace("{n}", self._count).replace("{u}", self._unit)
        text = text.replace("@", pattern_of_any(names))
        if self.in_east:
            return lazy_pattern(text.replace("\\ ", " ").replace(" ", " ?"))
        return lazy_pattern(rf"(?<!\w)(?:{text})(?!\w)")

    def _compiled_readers(self) -> list[_Readers]:
        table = self.table
        adjective = self._any_word("adjectives")
        after = adjective if table.get("after") else _NEVER
        prefix = "|".join(table[name] for name in _PREFIXES if table.get(name))
        suffix = table.get("suffix", _NEVER)
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
        of_day = pattern_of_any(self.of["weekday_adjectives"] or self.of["adjectives"])
        weekday = f"(?:(?P<a>{of_day}) )?(?P<k>@)(?: (?P<b>{after}))?"
        of_units: list[tuple[str, _Reader]] = [
            (f"(?P<a>{adjective}) (?P<u>@)", self._read_unit),
            (f"(?P<u>@) (?P<b>{after})", self._read_unit),
            *((each, self._read_ago) for each in table["ago"].split("||")),
            *((each, self._read_recent) for each in table["recent"].split("||")),
        ]
        readers: list[tuple[Iterable[str], list[tuple[str, _Reader]]]] = [  # as READ
            (self.words, [("@", self._read_word)]),
            (self.of["units"], of_units),
            (self.of["weekdays"], [(weekday, self._read_weekday)]),
            (self.of["months"], [(named, self._read_month)]),
            (self.of["seasons"], [(named, self._read_season)]),
            (
                self.of["parts"],
                [(f"(?P<a>{adjective}) (?P<t>@)", self._read_part_of_day)],
            ),
        ]
        return [
            [(self._compiled(text, names), reader) for text, reader in some]
            for names, some in readers
        ]

    # What stands around a time: since, before, in the evening.

    @cached
    def counted(self) -> re.Pattern[str]:
        """What may stand before a connector: "two weeks" before May."""
        weekday = f"(?P<k>{self._any_word('weekdays')})"
        return lazy_pattern(rf"(?<!\w)(?:(?:{self._count} )?{self._unit}|{weekday}) \Z")

    @cached
    def before(self) -> re.Pattern[str] | None:
        """A connector before a time."""
        begin = "" if self.in_east else r"(?<!\w)"
        return self._connectors(begin, "", rf" ?(?:(?:{ARTICLES}) ?){{0,2}}\Z")

    @cached
    def after(self) -> re.Pattern[str] | None:
        """A connector after a time."""
        return self._connectors(" ?", "_post", "")

    def _connectors(self, begin: str, kind: str, end: str) -> re.Pattern[str] | None:
        found = [
            f"(?P<{name.rstrip('_')}>{self.table[name + kind]})"
            for name in _CONNECTED
            if self.table.get(name + kind)
        ]
        return lazy_pattern(f"{begin}(?:{'|'.join(found)}){end}") if found else None

    @cached
    def joins(self) -> re.Pattern[str]:
        """What stands between two times that are the ends of one."""
        joins = f"{self.table['and']}|{self.table.get('until', _NEVER)}|-|–|/|,"
        return lazy_pattern(f"(?:{joins}) ?(?:(?:{ARTICLES}) ?)?")

    @cached
    def part(self) -> re.Pattern[str]:
        """A part of the day, after the day."""
        end = "" if self.in_east else r"(?!\w)"
        part = f"(?P<t>{self._any_word('parts')})"
        return lazy_pattern(rf",? ?(?:(?:{self.table.get('fill', '')}) ?)?{part}{end}")

    @cached
    def part_of(self) -> re.Pattern[str]:
        """A part of the day, before the day."""
        part = f"(?<!\\w)(?P<t>{self._any_word('parts')})"
        return lazy_pattern(
            rf"{part} (?:of|de|del|di|do|da|du|des|van|av) "
            rf"(?:(?:{ARTICLES}) ?)?\Z"
        )

    def count_of(self, match: re.Match[str]) -> tuple[int, int]:
        """Return the least and the greatest number."""
        groups = match.groupdict()
        if groups.get("f"):
            return _FEW
        text = groups.get("n")
        if not text:
            return 1, 1
        count = self.of["numbers"].get(text)
        count = eastern_number(text) if count is None else count + 1
        return count, count

    # The readers of patterns.

    def _unit_of(self, match: re.Match[str]) -> str:
        return UNITS[self.of["units"][match["u"]]]

    def _adjective_of(self, match: re.Match[str]) -> int:
        groups = match.groupdict()
        return self.of["adjectives"].get(groups.get("a") or groups.get("b") or "", NONE)

    def _read_word(self, match: re.Match[str], now: datetime) -> Span:
        unit, number = self.words[match[0]]
        steps = int(number)
        if unit in PARTS:
            found = part_of_day(midnight_of(now) + steps * DAY, PARTS.index(unit))
        elif unit == "weekday":  # sv "i fredags"
            found = range_of_weekday(now, steps, LAST)
        elif unit == "season":  # sv "i somras"
            found = nearest_range(now, yearly_season(steps), LAST)
        else:
            found = range_of_unit(now, unit, steps)
        return span_of(match, found, self.number, is_day=unit == "day")

    def _read_unit(self, match: re.Match[str], now: datetime) -> Span | None:
        unit = self._unit_of(match)
        if unit in ("minute", "hour", "day"):
            return None  # "the last day of our trip"
        found = range_of_unit(now, unit, self._adjective_of(match) - 1)
        return span_of(match, found, self.number)

    def _read_ago(self, match: re.Match[str], now: datetime) -> Span:
        unit = self._unit_of(match)
        least, most = self.count_of(match)
        found = range_of_unit(now, unit, -most)[0], range_of_unit(now, unit, -least)[1]
        return span_of(match, found, self.number, is_day=unit == "day")

    def _read_recent(self, match: re.Match[str], now: datetime) -> Span:
        begin = time_ago(now, self._unit_of(match), self.count_of(match)[1])
        return span_of(match, (begin, now), self.number)

    def _read_weekday(self, match: re.Match[str], now: datetime) -> Span:
        day = self.of["weekdays"][match["k"]]
        own = self.of["weekday_adjectives"]
        if own and match["a"]:
            week = range_of_unit(now, "week", own[match["a"]] - 1)[0]
            found = range_of_days(week + day * DAY)
        else:
            found = range_of_weekday(now, day, self._adjective_of(match))
        span = span_of(match, found, self.number, is_day=True)
        return span._replace(is_weekday=True)

    def _read_month(self, match: re.Match[str], now: datetime) -> Span | None:
        if match["k"] == "may" and match["a"] == "this":
            return None
        begin = match.start("c")
        if match.string[max(0, begin - 2) : begin].strip().isdecimal():
            return None  # "31 June 2024" is no day
        return self._read_named(match, now, yearly_month(self.of["months"][match["k"]]))

    def _read_season(self, match: re.Match[str], now: datetime) -> Span | None:
        of_year = yearly_season(self.of["seasons"][match["k"]])
        found = self._read_named(match, now, of_year)
        prefix = match.groupdict().get("p")
        if found is not None and found.of_year and self.bounds.fullmatch(prefix or ""):
            return None  # "before winter": the next one
        return found

    def _read_named(
        self, match: re.Match[str], now: datetime, of_year: OfYear
    ) -> Span | None:
        groups = match.groupdict()
        year, adjective = groups.get("y"), self._adjective_of(match)
        if groups.get("z"):
            year = now.year + EAST_YEARS[match["z"]]
        if year:
            return span_of(match, of_year(int(year)), self.number)
        is_marked = groups.get("p") or groups.get("x") or match["k"] in self.alone
        if adjective == NONE and not is_marked:
            return None
        found = nearest_range(now, of_year, adjective)
        return span_of(
            match, found, self.number, of_year if adjective == NONE else None
        )

    def _read_part_of_day(self, match: re.Match[str], now: datetime) -> Span:
        midnight = midnight_of(now) + (self._adjective_of(match) - 1) * DAY
        found = part_of_day(midnight, self.of["parts"][match["t"]])
        return span_of(match, found, self.number)


@lru_cache(maxsize=32)
def patterns_of_language(number: int) -> Patterns:
    """Return the patterns of a language, made when it is first needed."""
    return Patterns(number)


def span_of(
    match: re.Match[str],
    found: Range,
    table: int | None = None,
    of_year: OfYear | None = None,
    *,
    is_day: bool = False,
) -> Span:
    """Return the span of a match."""
    has_core = match.groupdict().get("c") is not None
    core = match.start("c") if has_core else match.start()
    return Span(match.start(), core, match.end(), found, table, of_year, is_day)


# Dates in full and in numbers, alike in all languages.

_LOOKED_AT = 512  # characters at each end of a query
_MONTH = pattern_of_any(MONTH_NUMBERS)
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
_DIGIT, _SIGNED, ANY_YEAR = map(lazy_pattern, (r"\d", r"\d[-/.]", YEAR))
_MOST_BEFORE = 20  # characters of a date or a year before its first digit
_EAST_NUMBER = r"\d{1,2}|[一二三四五六七八九十]{1,3}"
_EAST_DATE = lazy_pattern(
    rf"(?:(?P<y>\d{{4}}) ?[年년] ?|(?P<a>{'|'.join(EAST_YEARS)}) ?(?:の ?)?)?"
    rf"(?P<m>{_EAST_NUMBER}) ?[月월](?![曜間间요])"
    rf"(?: ?(?P<d>{_EAST_NUMBER}) ?[日号號일])?"
)
_EAST_YEAR = lazy_pattern(rf"(?<!\d)(?P<c>(?P<y>{YEAR}) ?[年년])(?! ?[\d前전])")
ONLY_MONTH = lazy_pattern(rf"(?<!\w)(?P<y>{YEAR})-(?P<m>0[1-9]|1[0-2])(?![\w-])")


DATES = list(map(lazy_pattern, _NUMBERED))


@lru_cache(maxsize=1)
def year_pattern() -> re.Pattern[str]:
    """A year after a preposition, or before a word such as "году"."""
    before = "|".join(
        table[name]
        for table in LATIN
        for name in ("year", "since", "before", "until", "after_", "and")
        if table.get(name)
    )
    return lazy_pattern(
        rf"(?<!\w)(?:{before}) (?:(?:{ARTICLES}) )?(?P<c>{YEAR})(?:'?[td][ae]n?)?"
        rf"(?: году| года| г\.| yilinda)?(?![\w/:-])"
        rf"|(?<!\w)(?:(?:v|el|al|no) )?(?P<d>{YEAR})"
        rf"(?:'[td][ae]n?| yilinda| yili| году| года)(?!\w)"
    )


def _date_span(
    match: re.Match[str],
    now: datetime,
    year: str | int | None,
    month: int,
    day: int,
    last: int | None = None,
) -> Span | None:
    """Return the span of a day, or of the days to `last`; None if there is none."""
    of_year = yearly_day(month, day)
    try:
        found = of_year(int(year)) if year else nearest_yearly_day(now, of_year)
        if found is None:
            return None
        if last is not None:
            end = range_of_days(found[0].replace(day=last))
            found = min(found[0], end[0]), max(found[1], end[1])
    except ValueError:
        return None
    return span_of(match, found, None, None if year else of_year, is_day=last is None)


_IN_MONTHS = shortest_words(MONTH_NUMBERS)


def numeric_date_spans(
    folded: str, now: datetime, language: str | None
) -> Iterator[Span | None]:
    """Yield the dates in Latin and Cyrillic letters or in numbers."""
    digit = _DIGIT.search(folded)
    if digit is None:
        return
    # No match begins further before the first digit, or the first year.
    first, before = digit.start(), max(0, digit.start() - _MOST_BEFORE)
    year_at = ANY_YEAR.search(folded, first)
    has_month = any(map(folded.__contains__, _IN_MONTHS))
    has_sign = _SIGNED.search(folded, first) is not None
    for place, pattern in enumerate(DATES):
        if place == _SHORT and language == "english":
            continue
        if not (has_month if place < 2 else has_sign):
            continue
        for match in pattern.finditer(folded, before if place == 1 else first):
            groups = match.groupdict()
            name, day = match["m"], int(match["d"])
            month = MONTH_NUMBERS[name] + 1 if place < 2 else int(name)
            if place == _SLASHED and (
                month > 12 or (language == "english" and day <= 12)
            ):
                day, month = month, day
            other = groups.get("d0") or groups.get("d1")
            last = int(other) if other else None
            yield _date_span(match, now, match["y"], month, day, last)
    for match in ONLY_MONTH.finditer(folded, first) if has_sign else ():
        yield span_of(match, month_range(int(match["y"]) * 12 + int(match["m"]) - 1))
    if year_at is None:
        return
    for match in year_pattern().finditer(
        folded, max(0, year_at.start() - _MOST_BEFORE)
    ):
        name = "c" if match["c"] else "d"
        found = range_of_unit(datetime(int(match[name]), 1, 1), "year", 0)
        yield Span(match.start(), match.start(name), match.end(), found)


def eastern_spans(folded: str, now: datetime) -> Iterator[Span | None]:
    """Yield the dates of Chinese, Japanese and Korean."""
    for match in _EAST_DATE.finditer(folded):
        month, year = eastern_number(match["m"]), match["y"]
        if match["a"]:
            year = str(now.year + EAST_YEARS[match["a"]])
        if match["d"]:
            yield _date_span(match, now, year, month, eastern_number(match["d"]))
        elif 1 <= month <= 12:
            of_year = yearly_month(month - 1)
            with suppress(ValueError):  # the year 0
                found = (
                    of_year(int(year)) if year else nearest_range(now, of_year, NONE)
                )
                yield span_of(match, found, None, None if year else of_year)
    for match in _EAST_YEAR.finditer(folded):
        yield span_of(match, range_of_unit(datetime(int(match["y"]), 1, 1), "year", 0))


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
