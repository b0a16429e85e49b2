"""The patterns of each language by which a query names a period, and their meaning."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from vecall.lexical.period_ranges import (
    DAY,
    LAST,
    NONE,
    UNITS,
    OfYear,
    Range,
    day_range,
    midnight_of,
    month_of,
    nearest_range,
    part_of_day,
    season_of,
    time_ago,
    unit_range,
    weekday_range,
)
from vecall.lexical.period_words import (
    EAST_YEARS,
    LATIN,
    PARTS,
    TABLES,
    Table,
    alternatives,
    any_of,
    eastern_number,
    meanings,
)

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
        self.joins = re.compile(f"(?:{table['and']}|{until}|-|–|/) ?{articles}?")
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

    def _readers(self, table: Table) -> list[tuple[re.Pattern[str], _Reader]]:
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
        return [
            (made(any_of(self.words)), _of_word),
            (made(f"(?P<a>{adjective}) {unit}"), _of_unit),
            (made(f"{unit} (?P<b>{after})"), _of_unit),
            *((made(each), _of_ago) for each in table["ago"].split("||")),
            *((made(each), _of_recent) for each in table["recent"].split("||")),
            (made(f"{weekday}(?: (?P<b>{after}))?"), _of_weekday),
            (made(named.replace("@", any_of(self.months))), _of_month),
            (made(named.replace("@", any_of(self.seasons))), _of_season),
            (made(f"(?P<a>{adjective}) (?P<t>{any_of(self.parts)})"), _of_part),
        ]


_Reader = Callable[["Patterns", "re.Match[str]", datetime], "Range | Span | None"]


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
    offset = int(number)
    if unit in PARTS:
        return part_of_day(midnight_of(now) + offset * DAY, PARTS.index(unit))
    if unit == "weekday":  # sv "i fredags"
        return weekday_range(now, offset, LAST)
    if unit == "season":  # sv "i somras"
        return nearest_range(now, season_of(offset), LAST)
    found = unit_range(now, unit, offset)
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
    return span_of(match, found, patterns, is_day=True)


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
    offset = _adjective_of(patterns, match) - 1
    return part_of_day(midnight_of(now) + offset * DAY, patterns.parts[match["t"]])


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
