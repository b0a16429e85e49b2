"""The period that a query names: "yesterday", "im März 2024", "last week", "3天前".

Each language has a table of its words; patterns are made from a table when a query
first holds one of its words. Weeks begin on Monday. A day, month or season without a
year is the last one that has begun. "Two weeks ago" is the calendar week in which that
day lies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import NamedTuple

from vecall.lexical.period_words import EAST, LATIN, PARTS, Table
from vecall.lexical.tokenizer import split_words
from vecall.text import normalise
from vecall.types import Period

_LOOKED_AT = 512  # characters at each end of a query
_DAY = timedelta(days=1)
_UNITS = ("minute", "hour", "day", "week", "weekend", "month", "year")
_YEAR = r"(?:19|20)\d\d"
_SOON = 31  # a day without a year may be so many days ahead
_FEW = (2, 6)

Range = tuple[datetime, datetime]


class Found(NamedTuple):
    """What a query names.

    Attributes:
        period: The period.
        rest: The normalised query without the words that name it.
    """

    period: Period
    rest: str


class _Span(NamedTuple):
    """A named time, and where it stands: `core` is what connectors stand before."""

    begin: int
    core: int
    end: int
    range: Range
    table: int | None = None  # its language; None for numbers
    of_year: Callable[[int], Range] | None = None  # if the text has no year
    is_day: bool = False


# Vocabulary. "/" separates meanings, a space separates words, "_" stands for a space.


def _split(text: str) -> list[list[str]]:
    return [each.split() for each in text.split("/")]


def _meanings(text: str) -> dict[str, int]:
    """Return the number of its place for each word."""
    return {
        word.rstrip("+").replace("_", " "): place
        for place, words in enumerate(_split(text))
        for word in words
    }


def _any_of(words: Sequence[str] | dict[str, int]) -> str:
    ordered = sorted(words, key=len, reverse=True)
    return "|".join(map(re.escape, ordered)) or r"(?!)"


def _last_words(table: Table) -> Iterator[str]:
    """Yield the words that open the gate: each expression contains one of them."""
    for name in ("words", "units", "weekdays", "months", "seasons", "parts"):
        for word in _meanings(table.get(name, "")):
            yield word.rpartition(" ")[2].rpartition("'")[2]


_OPENING: dict[str, tuple[int, ...]] = {}
for _number_of, _table in enumerate(LATIN):
    for _word in _last_words(_table):
        _OPENING[_word] = (*_OPENING.get(_word, ()), _number_of)
_OPENING["aujourdhui"] = _OPENING["hui"]
_OPENING["an"] = ()  # an English article; see `may_name_period`
_OPENS = frozenset(_OPENING) - {"an"}
_NAMES = [table["name"] for table in LATIN]
_FRENCH = _NAMES.index("french")
_IN_EAST = [
    re.compile(_any_of([word[-1:] for word in _last_words(table)])) for table in EAST
]
_EASTERN = re.compile("|".join(pattern.pattern for pattern in _IN_EAST))
_DIGIT = re.compile("[0-9]")


def may_name_period(words: Sequence[str], folded: str) -> bool:
    """Return whether a normalised query may name a period; False for most queries."""
    if not _OPENS.isdisjoint(words) or _DIGIT.search(folded):
        return True
    if folded.isascii():
        return "an" in words and ("y" in words or "l'an" in folded)
    return _EASTERN.search(folded) is not None


def _count_and_unit(table: Table) -> tuple[str, str]:
    number = _any_of(_meanings(table.get("numbers", "")))
    few = _any_of(_meanings(table.get("few", "")))
    unit = f"(?P<u>{_any_of(_meanings(table['units']))})"
    return rf"(?:(?P<n>\d{{1,3}}|{number})|(?P<f>{few}))", unit


class _Connectors:
    """The words of a language around a named time: since, before, in the evening."""

    def __init__(self, number: int) -> None:
        self.table = table = _TABLES[number]
        self.in_east = number >= len(LATIN)
        self.parts = _meanings(table["parts"])
        self.units = _meanings(table["units"])
        self.number = _meanings(table.get("numbers", ""))
        count, unit = _count_and_unit(table)
        self.counted = re.compile(rf"(?<!\w)(?:{count} )?{unit} \Z")
        part = f"(?P<t>{_any_of(self.parts)})"
        articles = f"(?:(?:{_ARTICLES}) ?)"
        self.before = self._connectors("", f" ?{articles}{{0,2}}\\Z")
        self.after = self._connectors("_post", "")
        until = table.get("until", "(?!)")
        self.joins = re.compile(f"(?:{table['and']}|{until}|-|–|/) ?{articles}?")
        fill = table.get("fill", "")
        self.part = re.compile(rf",? ?(?:(?:{fill}) ?)?{part}")
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


class _Patterns:
    """The compiled patterns of a language."""

    def __init__(self, number: int) -> None:
        table = _TABLES[number]
        self.table = number
        self.in_east = number >= len(LATIN)
        self.number = _meanings(table.get("numbers", ""))
        self.words = {
            word.replace("_", " "): spec.split()
            for spec, words in zip(
                table["specs"].split("/"), _split(table["words"]), strict=True
            )
            for word in words
        }
        self.units = _meanings(table["units"])
        self.adjectives = _meanings(table["adjectives"])
        self.of_weekday = _meanings(table.get("weekday_adjectives", ""))
        self.weekdays = _meanings(table["weekdays"])
        self.months = _meanings(table["months"])
        self.seasons = _meanings(table["seasons"])
        self.parts = _meanings(table["parts"])
        self.alone = {
            word.rstrip("+")
            for word in f"{table['months']} {table['seasons']}".replace("/", " ").split()
            if word.endswith("+")
        }
        self.readers = self._readers(table)

    def _readers(self, table: Table) -> list[tuple[re.Pattern[str], _Reader]]:
        adjective = _any_of(self.adjectives)
        after = adjective if table.get("after") else "(?!)"
        count, unit = _count_and_unit(table)
        prefix = "|".join(table[name] for name in _PREFIXES if table.get(name))
        suffix = table.get("suffix", "(?!)")
        named = (
            rf"(?:(?P<p>{prefix}) (?:(?:{_ARTICLES}) ?)?)?(?P<c>(?:(?P<a>{adjective}) )?"
            rf"(?P<k>@)(?P<x>{suffix})?(?:,? ?(?:of |de |del |do |di |van )?"
            rf"(?P<y>{_YEAR})(?: года| г\.)?)?(?: (?P<b>{after}))?)"
        )
        if self.in_east:
            years = "|".join(_EAST_YEARS)
            named = (
                rf"(?P<c>(?:(?P<a>{adjective}) |(?:(?P<z>{years})|(?P<y>{_YEAR}) [年년])"
                rf"(?: の)? )(?P<k>@))"
            )

        def made(text: str) -> re.Pattern[str]:
            text = text.replace("{n}", count).replace("{u}", unit)
            if self.in_east:
                return re.compile(text.replace("\\ ", " ").replace(" ", " ?"))
            return re.compile(rf"(?<!\w)(?:{text})(?!\w)")

        of_weekday = _any_of(self.of_weekday or self.adjectives)
        weekday = f"(?:(?P<a>{of_weekday}) )?(?P<k>{_any_of(self.weekdays)})"
        return [
            (made(_any_of(self.words)), _of_word),
            (made(f"(?P<a>{adjective}) {unit}"), _of_unit),
            (made(f"{unit} (?P<b>{after})"), _of_unit),
            *((made(each), _of_ago) for each in table["ago"].split("||")),
            *((made(each), _of_recent) for each in table["recent"].split("||")),
            (made(f"{weekday}(?: (?P<b>{after}))?"), _of_weekday),
            (made(named.replace("@", _any_of(self.months))), _of_month),
            (made(named.replace("@", _any_of(self.seasons))), _of_season),
            (made(f"(?P<a>{adjective}) (?P<t>{_any_of(self.parts)})"), _of_part),
        ]


_Reader = Callable[["_Patterns", "re.Match[str]", datetime], "Range | _Span | None"]

_ARTICLES = (
    "the|on|le|la|les|l'|el|los|las|il|lo|gli|i|o|os|a|as|den|dem|der|des|das|det|am|im|"
    "het|in|en|em|no|na|pa"
)
_LAST_ARTICLE = re.compile(rf"(?<!\w)(?:{_ARTICLES})[ ']\Z")
_CONNECTED = ("since", "before", "until", "after_")
_PREFIXES = ("in", *_CONNECTED, "and")
_EAST_YEARS = {"去年": -1, "昨年": -1, "작년": -1, "지난해": -1, "今年": 0, "올해": 0}
_TABLES = (*LATIN, *EAST)


@lru_cache(maxsize=32)
def _patterns_of(number: int) -> _Patterns:
    return _Patterns(number)


@lru_cache(maxsize=32)
def _connectors_of(number: int) -> _Connectors:
    return _Connectors(number)


# Ranges of local time, without a zone.


def _midnight(at: datetime) -> datetime:
    return at.replace(hour=0, minute=0, second=0, microsecond=0)


def _days(at: datetime, count: int = 1) -> Range:
    begin = _midnight(at)
    return begin, begin + count * _DAY


def _month(months: int, count: int = 1) -> Range:
    """Return a number of months; `months` counts from the year 0."""
    end = months + count
    return (
        datetime(months // 12, months % 12 + 1, 1),
        datetime(end // 12, end % 12 + 1, 1),
    )


def _months(at: datetime) -> int:
    return at.year * 12 + at.month - 1


def _unit_range(now: datetime, unit: str, offset: int) -> Range:
    if unit == "year":
        return datetime(now.year + offset, 1, 1), datetime(now.year + offset + 1, 1, 1)
    if unit == "month":
        return _month(_months(now) + offset)
    monday = _midnight(now) - now.weekday() * _DAY + 7 * offset * _DAY
    if unit == "week":
        return _days(monday, 7)
    if unit == "weekend":
        return _days(monday + 5 * _DAY, 2)
    if unit == "day":
        return _days(now + offset * _DAY)
    step = timedelta(hours=1) if unit == "hour" else timedelta(minutes=1)
    return now + (offset - 1) * step, now + (offset + 1) * step


def _back(now: datetime, unit: str, count: int) -> datetime:
    """Return the time so many units ago, to the day for days and more."""
    if unit in ("hour", "minute"):
        return now - count * timedelta(**{f"{unit}s": 1})
    if unit == "year":
        count, unit = 12 * count, "month"
    if unit == "month":
        begin, end = _month(_months(now) - count)
        return begin + min(now.day - 1, (end - begin).days - 1) * _DAY
    return _midnight(now) - count * (1 if unit == "day" else 7) * _DAY


def _nearest(now: datetime, of_year: Callable[[int], Range], adjective: int) -> Range:
    """Return the range of the year that an adjective means: last, this, next, none."""
    if adjective == _THIS:
        return of_year(now.year)
    ranges = [of_year(year) for year in range(now.year - 2, now.year + 3)]
    if adjective == _NEXT:
        return next(each for each in ranges if each[0] > now)
    if adjective == _LAST:
        return next(each for each in reversed(ranges) if each[1] <= now)
    return next(each for each in reversed(ranges) if each[0] <= now)


_LAST, _THIS, _NEXT, _NONE = range(4)


def _adjective_of(patterns: _Patterns, match: re.Match[str]) -> int:
    groups = match.groupdict()
    word = groups.get("a") or groups.get("b")
    return _NONE if word is None else patterns.adjectives.get(word, _NONE)


# Readers of patterns.


def _of_word(
    patterns: _Patterns, match: re.Match[str], now: datetime
) -> Range | _Span | None:
    unit, number = patterns.words[match[0]]
    offset = int(number)
    if unit in PARTS:
        return _part_of_day(_midnight(now) + offset * _DAY, PARTS.index(unit))
    if unit == "weekday":  # sv "i fredags"
        return _weekday(now, offset, _LAST)
    if unit == "season":  # sv "i somras"
        return _nearest(now, _season_of(offset), _LAST)
    found = _unit_range(now, unit, offset)
    return _span(match, found, patterns, is_day=unit == "day")


def _of_unit(patterns: _Patterns, match: re.Match[str], now: datetime) -> Range | None:
    unit = _UNITS[patterns.units[match["u"]]]
    if unit in ("minute", "hour"):
        return None
    return _unit_range(now, unit, _adjective_of(patterns, match) - 1)


def _count(
    patterns: _Patterns | _Connectors, match: re.Match[str]
) -> tuple[int, int]:
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
    patterns: _Patterns, match: re.Match[str], now: datetime
) -> Range | _Span | None:
    unit = _UNITS[patterns.units[match["u"]]]
    least, most = _count(patterns, match)
    found = _unit_range(now, unit, -most)[0], _unit_range(now, unit, -least)[1]
    return _span(match, found, patterns, is_day=unit == "day")


def _of_recent(
    patterns: _Patterns, match: re.Match[str], now: datetime
) -> Range | None:
    unit = _UNITS[patterns.units[match["u"]]]
    return _back(now, unit, _count(patterns, match)[1]), now


def _weekday(now: datetime, day: int, adjective: int) -> Range:
    today = now.weekday()
    if adjective == _THIS:
        return _days(now + (day - today) * _DAY)
    if adjective == _NEXT:
        return _days(now + ((day - today - 1) % 7 + 1) * _DAY)
    return _days(now - ((today - day - 1) % 7 + 1) * _DAY)


def _of_weekday(
    patterns: _Patterns, match: re.Match[str], now: datetime
) -> Range | _Span | None:
    day = patterns.weekdays[match["k"]]
    adjective = match["a"]
    if patterns.of_weekday and adjective:
        week = _unit_range(now, "week", patterns.of_weekday[adjective] - 1)[0]
        found = _days(week + day * _DAY)
    else:
        found = _weekday(now, day, _adjective_of(patterns, match))
    return _span(match, found, patterns, is_day=True)


def _month_of(month: int) -> Callable[[int], Range]:
    return lambda year: _month(year * 12 + month)


def _season_of(season: int) -> Callable[[int], Range]:
    first = (11, 2, 5, 8)[season]
    return lambda year: _month(year * 12 + first, 3)


def _of_month(
    patterns: _Patterns, match: re.Match[str], now: datetime
) -> _Span | None:
    if match["k"] == "may" and match["a"] == "this":
        return None
    begin = match.start("c")
    if match.string[max(0, begin - 2) : begin].strip().isdecimal():
        return None  # "31 June 2024" is no day
    return _of_named(patterns, match, now, _month_of(patterns.months[match["k"]]))


def _of_season(
    patterns: _Patterns, match: re.Match[str], now: datetime
) -> _Span | None:
    return _of_named(patterns, match, now, _season_of(patterns.seasons[match["k"]]))


def _of_named(
    patterns: _Patterns,
    match: re.Match[str],
    now: datetime,
    of_year: Callable[[int], Range],
) -> _Span | None:
    groups = match.groupdict()
    year, adjective = groups.get("y"), _adjective_of(patterns, match)
    if groups.get("z"):
        year = now.year + _EAST_YEARS[match["z"]]
    if year:
        return _span(match, of_year(int(year)), patterns)
    is_marked = groups.get("p") or groups.get("x") or match["k"] in patterns.alone
    if adjective == _NONE and not is_marked:
        return None
    found = _nearest(now, of_year, adjective)
    return _span(match, found, patterns, of_year if adjective == _NONE else None)


def _part_of_day(midnight: datetime, part: int) -> Range:
    begin, end = ((5, 12), (12, 18), (17, 24), (18, 30))[part]
    return midnight + timedelta(hours=begin), midnight + timedelta(hours=end)


def _of_part(patterns: _Patterns, match: re.Match[str], now: datetime) -> Range:
    offset = _adjective_of(patterns, match) - 1
    return _part_of_day(_midnight(now) + offset * _DAY, patterns.parts[match["t"]])


def _span(
    match: re.Match[str],
    found: Range,
    patterns: _Patterns | None = None,
    of_year: Callable[[int], Range] | None = None,
    *,
    is_day: bool = False,
) -> _Span:
    core = match.start("c") if "c" in match.re.groupindex else match.start()
    if core < 0:
        core = match.start()
    table = None if patterns is None else patterns.table
    return _Span(match.start(), core, match.end(), found, table, of_year, is_day)


# Dates in full and in numbers, alike in all languages.


MONTHS = (
    "january february march april may june july august september october november "
    "december"
).split()

_ALSO_NAMES = ("jan", "mar")

MONTH_NAMES: dict[str, dict[str, str]] = {
    table["name"]: {
        name: MONTHS[number]
        for name, number in _meanings(table["months"]).items()
        if name not in _ALSO_NAMES
    }
    for table in LATIN
}
"""For each language: a month's name or abbreviation, and the English name under which
memories are indexed. A name counts in its own language only: in others Marco and Avril
are people."""

_MONTH_NUMBERS = {
    name: number
    for table in LATIN
    for name, number in _meanings(table["months"]).items()
}
_MONTH = _any_of(_MONTH_NUMBERS)
_OF = "(?:of |de |del |do |di |van |den )?"
_OPTIONAL_YEAR = rf"(?:[,.]? ?(?:of |de |del |do )?(?P<y>{_YEAR})(?!\d)(?:'[td][ae]n?)?)?"
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
    rf"(?<!\w)(?P<y>{_YEAR})[-/.](?P<m>\d{{1,2}})[-/.](?P<d>\d{{1,2}})(?![\d-])",
    rf"(?<![\w.])(?P<d>\d{{1,2}})\.(?P<m>\d{{1,2}})\.(?P<y>{_YEAR})(?!\w)",
    r"(?<![\w.])(?P<d>\d{1,2})\.(?P<m>\d{1,2})\.(?P<y>)(?![\w.])",
    rf"(?<![\w/])(?P<d>\d{{1,2}})/(?P<m>\d{{1,2}})/(?P<y>{_YEAR})(?![\w/])",
)
_SHORT, _SLASHED = 4, 5  # places above: "3.5.", "3/5/2024"
_EAST_NUMBER = r"\d{1,2}|[一二三四五六七八九十]{1,3}"
_EAST_DATE = re.compile(
    rf"(?:(?P<y>\d{{4}}) ?[年년] ?|(?P<a>{'|'.join(_EAST_YEARS)}) ?(?:の ?)?)?"
    rf"(?P<m>{_EAST_NUMBER}) ?[月월](?![曜間间요])(?: ?(?P<d>{_EAST_NUMBER}) ?[日号號일])?"
)
_EAST_YEAR = re.compile(rf"(?<!\d)(?P<c>(?P<y>{_YEAR}) ?[年년])(?! ?[\d前전])")
_ONLY_MONTH = re.compile(rf"(?<!\w)(?P<y>{_YEAR})-(?P<m>0[1-9]|1[0-2])(?![\w-])")


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
        rf"(?<!\w)(?:{before}) (?:(?:{_ARTICLES}) )?(?P<c>{_YEAR})(?:'?[td][ae]n?)?"
        rf"(?: году| года| г\.| yilinda)?(?![\w/:-])"
        rf"|(?<!\w)(?:(?:v|el|al|no) )?(?P<d>{_YEAR})(?:'[td][ae]n?| yilinda| yili| году| года)"
        rf"(?!\w)"
    )


def _day_of(month: int, day: int) -> Callable[[int], Range]:
    return lambda year: _days(datetime(year, month, day))


def _last_day(now: datetime, of_year: Callable[[int], Range]) -> Range | None:
    """Return the last day that has begun, or one that is near."""
    for year in range(now.year + 1, now.year - 9, -1):
        try:
            found = of_year(year)
        except ValueError:
            continue  # 29 February
        if found[0] <= now + _SOON * _DAY:
            return found
    return None


def _dated(
    match: re.Match[str],
    now: datetime,
    month: int,
    day: int,
    last: int | None = None,
) -> _Span | None:
    """Return the span of a day, or of the days to `last`."""
    if not 1 <= month <= 12:
        return None
    year = match["y"]
    of_year = _day_of(month, day)
    found = of_year(int(year)) if year else _last_day(now, of_year)
    if found is None:
        return None
    if last is not None:
        end = _days(found[0].replace(day=last))
        found = min(found[0], end[0]), max(found[1], end[1])
    return _span(match, found, None, None if year else of_year, is_day=last is None)


def _number_spans(
    folded: str, now: datetime, language: str | None
) -> Iterator[_Span | None]:
    has_month = any(map(folded.__contains__, _IN_MONTHS))
    for place, pattern in enumerate(_of_numbers()):
        if place < 2 and not has_month or place == _SHORT and language == "english":
            continue
        for match in pattern.finditer(folded):
            groups = match.groupdict()
            name, day = match["m"], int(match["d"])
            month = _MONTH_NUMBERS[name] + 1 if place < 2 else int(name)
            if place == _SLASHED and (month > 12 or language == "english" and day <= 12):
                day, month = month, day
            other = groups.get("d0") or groups.get("d1")
            try:
                yield _dated(match, now, month, day, int(other) if other else None)
            except ValueError:
                continue  # no valid date
    for match in _ONLY_MONTH.finditer(folded):
        yield _span(match, _month(int(match["y"]) * 12 + int(match["m"]) - 1))
    for match in _of_years().finditer(folded):
        year = int(match["c"] or match["d"])
        found = datetime(year, 1, 1), datetime(year + 1, 1, 1)
        core = match.start("c") if match["c"] else match.start("d")
        yield _Span(match.start(), core, match.end(), found)


_IN_MONTHS = [
    name
    for name in _MONTH_NUMBERS
    if not any(other in name for other in _MONTH_NUMBERS if other != name)
]  # each month name contains at least one of these


def _eastern_spans(folded: str, now: datetime) -> Iterator[_Span | None]:
    for match in _EAST_DATE.finditer(folded):
        month, year = eastern_number(match["m"]), match["y"]
        if match["a"]:
            year = str(now.year + _EAST_YEARS[match["a"]])
        if not 1 <= month <= 12:
            continue
        try:
            if match["d"]:
                of_year = _day_of(month, eastern_number(match["d"]))
                found = of_year(int(year)) if year else _last_day(now, of_year)
            else:
                of_year = _month_of(month - 1)
                found = of_year(int(year)) if year else _nearest(now, of_year, _NONE)
        except ValueError:
            continue  # no valid date
        if found is not None:
            yield _span(
                match, found, None, None if year else of_year, is_day=bool(match["d"])
            )
    for match in _EAST_YEAR.finditer(folded):
        year = match["y"]
        yield _span(match, (datetime(int(year), 1, 1), datetime(int(year) + 1, 1, 1)))


def eastern_months(folded: str) -> list[str]:
    """Return the English names of the months written as a number and 月 or 월."""
    if "月" not in folded and "월" not in folded:
        return []
    found = _EAST_DATE.finditer(_query_ends(folded)[0])
    numbers = [eastern_number(match["m"]) for match in found]
    return [MONTHS[number - 1] for number in numbers if 1 <= number <= 12]


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


_DIGITS = "一二三四五六七八九"


# From spans to one period.


def _languages(words: Sequence[str], folded: str) -> list[int]:
    """Return the languages whose words of time a text holds."""
    numbers = {n for word in words for n in _OPENING.get(word, ())}
    if "an" in words:
        numbers.add(_FRENCH)
    if not folded.isascii():
        for number, pattern in enumerate(_IN_EAST, len(LATIN)):
            if pattern.search(folded):
                numbers.add(number)
    return sorted(numbers)


def _spans(
    folded: str, numbers: Sequence[int], now: datetime, language: str | None
) -> list[_Span]:
    """Return the times that a text names, in order; of overlapping ones the longest."""
    found: list[_Span | None] = []
    for number in numbers:
        patterns = _patterns_of(number)
        for pattern, reader in patterns.readers:
            for match in pattern.finditer(folded):
                if match[0] == "hier" and language not in (None, "french"):
                    continue
                got = reader(patterns, match, now)
                if got is not None and not isinstance(got, _Span):
                    got = _span(match, got, patterns)
                found.append(got)
    if _DIGIT.search(folded):
        found += _number_spans(folded, now, language)
    if "月" in folded or "월" in folded or "年" in folded or "년" in folded:
        found += _eastern_spans(folded, now)
    spans = [span for span in found if span is not None]
    spans.sort(key=lambda span: (span.core - span.end, span.begin))
    taken: list[_Span] = []
    for span in spans:
        if all(span.end <= one.core or one.end <= span.core for one in taken):
            taken.append(span)
        if len(taken) == _MOST_SPANS:
            break
    return sorted(taken, key=lambda span: span.core)


_MOST_SPANS = 8


_PART_OF = re.compile(rf"(?:of|in|de|im|von|van|di|do|av|i|en|em) ?(?:{_ARTICLES})?")


class _Open(NamedTuple):
    begin: int
    end: int
    lo: datetime | None
    hi: datetime | None


def _connected(
    folded: str, spans: Sequence[_Span], numbers: Sequence[int]
) -> Iterator[_Open]:
    """Yield the spans with their connectors: since, before, between, in the evening."""
    index = 0
    while index < len(spans):
        span = spans[index]
        own = [one.table for one in spans[index : index + 2] if one.table is not None]
        tables = list(map(_connectors_of, own or numbers))
        index += 1
        span = _with_part(folded, span, tables)
        lo, hi, begin, end = *span.range, span.begin, span.end
        is_joined = False
        while index < len(spans):
            other = spans[index]
            gap = folded[end : other.core].strip()
            if _PART_OF.fullmatch(gap):  # "the last week of May"
                span, end = other, other.end
                lo, hi = other.range
                index += 1
                continue
            if not any(each.joins.fullmatch(gap) for each in tables):
                break
            lo, hi = _hull(span, other)
            span, end, is_joined = other, other.end, True
            index += 1
        if is_joined:
            yield _Open(begin, end, lo, hi)
            continue
        yield _with_connector(folded, span, tables)


def _with_part(folded: str, span: _Span, tables: Sequence[_Connectors]) -> _Span:
    if not span.is_day:
        return span
    for patterns in tables:
        after = patterns.part.match(folded, span.end)
        before = None
        if after is None and not patterns.in_east:
            before = patterns.part_of.search(folded, max(0, span.core - 40), span.core)
        match = after or before
        if match is not None:
            found = _part_of_day(span.range[0], patterns.parts[match["t"]])
            return span._replace(
                range=found,
                begin=min(span.begin, match.start()),
                end=max(span.end, match.end()),
            )
    return span


def _hull(one: _Span, other: _Span) -> Range:
    lo, hi = one.range
    if one.of_year is not None and other.of_year is None:
        lo, hi = one.of_year(other.range[0].year)
    if lo > other.range[0]:
        if one.of_year is not None:
            lo, hi = one.of_year(other.range[0].year - 1)
        elif (lo - other.range[0]).days < 7:
            lo, hi = lo - 7 * _DAY, hi - 7 * _DAY
    return min(lo, other.range[0]), max(hi, other.range[1])


def _with_connector(
    folded: str, span: _Span, tables: Sequence[_Connectors]
) -> _Open:
    lo, hi = span.range
    for patterns in tables:
        before = after = None
        if patterns.before is not None:
            before = patterns.before.search(folded, max(0, span.core - 30), span.core)
        if patterns.after is not None:
            after = patterns.after.match(folded, span.end)
        match = before or after
        if match is None:
            continue
        begin = span.begin if before is None else min(span.begin, before.start())
        end = span.end if after is None else after.end()
        counted = patterns.counted.search(folded, max(0, begin - 30), begin)
        if counted is not None and match.lastgroup in ("before", "after"):
            unit = _UNITS[patterns.units[counted["u"]]]
            count = _count(patterns, counted)[1]
            unit = "week" if unit == "weekend" else unit
            if match.lastgroup == "before":
                lo = _back(lo, unit, count)
            else:
                hi = _back(hi, unit, -count)
            return _Open(counted.start(), end, lo, hi)
        return _Open(
            begin, end, *{
                "since": (lo, None),
                "before": (None, lo),
                "until": (None, hi),
                "after": (hi, None),
            }[match.lastgroup or "since"],
        )  # fmt: skip
    return _Open(span.begin, span.end, lo, hi)


def _seconds(at: datetime | None, zone: tzinfo) -> float | None:
    return None if at is None else at.replace(tzinfo=zone).timestamp()


def find_period(
    folded: str,
    words: Sequence[str],
    now: float,
    zone: tzinfo = timezone.utc,
    language: str | None = None,
) -> Found | None:
    """Return the period that a normalised query names, and the other words.

    Args:
        folded: The query. Only the first and the last 512 characters are read.
        words: Its words.
        now: The time to which "yesterday" is relative, in seconds since 1970.
        zone: The time zone of the days.
        language: The query's language, or None if unknown. "3.5." is a day in German
            and a version in English, "hier" is yesterday in French and here in German.
    """
    text = " ".join(folded.split()).replace("\u2019", "'").replace("ё", "е")
    read, between = _query_ends(text)
    if between:
        words = split_words(read)
    try:
        local = datetime.fromtimestamp(now, zone).replace(tzinfo=None)
        numbers = _languages(words, read) or [_NAMES.index("english")]
        spans = _spans(read, numbers, local, language)
        if language in _NAMES:
            numbers.append(_NAMES.index(language))
        named = list(_connected(read, spans, numbers))
        for each in named:
            # What is to come holds no memories: another period is meant.
            if each.lo is None or each.lo <= local or len(named) == 1:
                break
        else:
            if not named:
                return None
            each = named[0]
        period = Period(_seconds(each.lo, zone), _seconds(each.hi, zone))
    except (ValueError, OverflowError, StopIteration, OSError):
        return None  # outside the years 1 to 9999
    begin = each.begin
    if article := _LAST_ARTICLE.search(read, max(0, begin - 8), begin):
        begin = article.start()
    rest = f"{read[:begin]} {read[each.end :]}"
    return Found(period, f"{rest} {between}" if between else rest)


def _query_ends(text: str) -> tuple[str, str]:
    """Return the ends of a query, where periods are looked for, and what is between."""
    if len(text) <= 2 * _LOOKED_AT:
        return text, ""
    ends = f"{text[:_LOOKED_AT]} | {text[-_LOOKED_AT:]}"
    return ends, text[_LOOKED_AT:-_LOOKED_AT]


def period_of(
    query: str, now: float, zone: tzinfo = timezone.utc, language: str | None = None
) -> Period | None:
    """Return the period that a query names, or None; arguments as in `find_period`."""
    folded = normalise(query)
    words = split_words(folded)
    if not may_name_period(words, folded):
        return None
    found = find_period(folded, words, now, zone, language)
    return None if found is None else found.period
