"""The period that a query names: "yesterday", "im März 2024", "last week", "3天前".

Each language has a table of its words; patterns are made from a table when a query
first holds one of its words. Weeks begin on Monday. A day, month or season without a
year is the last one that has begun. "Two weeks ago" is the calendar week in which that
day lies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta, timezone, tzinfo
from typing import NamedTuple

from vecall.clock import Period
from vecall.lexical.period_patterns import (
    ARTICLES,
    DAY,
    EAST,
    LATIN,
    READ,
    UNITS,
    OfYear,
    Patterns,
    Range,
    Span,
    Table,
    eastern_spans,
    meaning_numbers,
    numeric_date_spans,
    part_of_day,
    pattern_of_any,
    patterns_of_language,
    query_ends,
    time_ago,
)
from vecall.lexical.tokenizer import split_words
from vecall.text import lazy_pattern


class Found(NamedTuple):
    """What a query names."""

    period: Period
    rest: str  # the normalised query without the words that name it
    earlier: tuple[Period, ...] = ()  # for a day without a year: the latest year first


def _period_opening_words(table: Table) -> Iterator[tuple[str, int]]:
    """Yield the words that open the gate, and the place of their readers.

    Each expression contains one of them.
    """
    for place, name in enumerate(READ):
        for word in meaning_numbers(table.get(name, "")):
            last = word.rpartition(" ")[2].rpartition("'")[2]
            yield last.partition("-")[0], place


_Opened = tuple[int, int]  # a language, and the place of some of its readers

OPENING: dict[str, tuple[_Opened, ...]] = {}
for _number_of, _table in enumerate(LATIN):
    for _word, _place in _period_opening_words(_table):
        OPENING[_word] = (*OPENING.get(_word, ()), (_number_of, _place))
OPENING["aujourdhui"] = OPENING["hui"]
OF_AN = OPENING["an"]
OPENING["an"] = ()  # an English article; see `may_name_period`
OPENS = frozenset(OPENING) - {"an"}
_NAMES = [table["name"] for table in LATIN]
_ENGLISH = _NAMES.index("english")
_IN_EAST = [
    lazy_pattern(pattern_of_any([word[-1:] for word, _ in _period_opening_words(one)]))
    for one in EAST
]
_EASTERN = lazy_pattern("|".join(pattern.pattern for pattern in _IN_EAST))
_DIGIT = lazy_pattern("[0-9]")
_WORD = lazy_pattern(r"\w+")


LAST_ARTICLE = lazy_pattern(rf"(?<!\w)(?:{ARTICLES})[ ']\Z")


def may_name_period(words: Sequence[str], folded: str) -> bool:
    """Return whether a normalised query may name a period; False for most queries."""
    if not OPENS.isdisjoint(words) or _DIGIT.search(folded):
        return True
    if folded.isascii():
        return "an" in words and ("y" in words or "l'an" in folded)
    return _EASTERN.search(folded) is not None


def _opened_time_readers(words: Sequence[str], folded: str) -> list[_Opened]:
    """Return the readers whose words of time a text holds, in order."""
    opened = {each for word in words for each in OPENING.get(word, ())}
    if "an" in words:
        opened.update(OF_AN)
    # "week-end" and "dec'22" are words, but two for the patterns of a language.
    own = dict(opened) or {_ENGLISH: 0}
    pieces = (each for word in _WORD.findall(folded) for each in OPENING.get(word, ()))
    opened.update(each for each in pieces if each[0] in own)
    if not folded.isascii():
        for number, pattern in enumerate(_IN_EAST, len(LATIN)):
            if pattern.search(folded):
                opened.update((number, place) for place in range(len(READ)))
    return sorted(opened)


def _find_named_times(
    folded: str, opened: Sequence[_Opened], now: datetime, language: str | None
) -> list[Span]:
    """Return the times that a text names, in order; of overlapping ones the longest."""
    found: list[Span | None] = []
    for number, place in opened:
        for pattern, reader in patterns_of_language(number).readers[place]:
            for match in pattern.finditer(folded):
                if language in (None, ONLY_IN.get(match[0], language)):
                    got = reader(match, now)
                    if got is not None and not _is_not_relative_to_now(folded, got):
                        found.append(got)
    if _DIGIT.search(folded):
        found += numeric_date_spans(folded, now, language)
    if "月" in folded or "월" in folded or "年" in folded or "년" in folded:
        found += eastern_spans(folded, now)
    spans = [span for span in found if span is not None]
    spans.sort(key=lambda span: (span.core - span.end, span.begin))
    taken: list[Span] = []
    for span in spans:
        if all(span.end <= one.core or one.end <= span.core for one in taken):
            taken.append(span)
        if len(taken) == _MOST_SPANS:
            break
    return sorted(taken, key=lambda span: span.core)


_MOST_SPANS = 8
ONLY_IN = {"hier": "french", "dun": "turkish"}  # here in German, a colour in English
_YEARS_BEFORE = 5
RELATIVE = lazy_pattern(r"(?:last|previous|past|next|following) \w+|\w+day")
OF_SOMETHING = lazy_pattern(
    r"(?:'s|(?<!\w)(?:my|our|his|her|its|their|your|whose|every|each|any|that|black|"
    r"good|ash|easter)|(?<!in )(?<!over )(?<!during )(?<!within )(?<!for )(?<!since )"
    r"(?<!\w)the) \Z"
)


def _is_not_relative_to_now(folded: str, span: Span) -> bool:
    """Return whether an English time is not relative to now: "the last week of it"."""
    begin = span.begin
    if span.table != 0 or not RELATIVE.fullmatch(folded, begin, span.end):
        return False
    return OF_SOMETHING.search(folded, max(0, begin - 14), begin) is not None


ENDS = lazy_pattern(r"[?？؟]|(?<=\w{3})[.!] |[。！\n]")
_ASKS = lazy_pattern("[?？؟]")


def _is_question_continued(text: str, end: int) -> bool:
    """Return whether a question, if the text has any, goes on at `end`.

    What else a message tells about is not what it asks for: "I ran yesterday. How long
    is a marathon?"
    """
    ends = ENDS.search(text, end)
    return ends is None or ends[0] in "?？؟"


PART_OF = lazy_pattern(rf"(?:of|in|de|im|von|van|di|do|av|i|en|em) ?(?:{ARTICLES})?")


class _Open(NamedTuple):
    begin: int
    end: int
    lo: datetime | None
    hi: datetime | None
    of_year: OfYear | None = None


def _with_connectors(
    folded: str, spans: Sequence[Span], numbers: Sequence[int]
) -> Iterator[_Open]:
    """Yield the spans with their connectors: since, before, between, in the evening."""
    index = 0
    while index < len(spans):
        span = spans[index]
        own = [one.table for one in spans[index : index + 2] if one.table is not None]
        tables = list(map(patterns_of_language, own or numbers))
        index += 1
        span = _with_part_of_day(folded, span, tables)
        is_joined = False
        while index < len(spans):
            other = spans[index]
            gap = folded[span.end : other.core].strip()
            if not PART_OF.fullmatch(gap):  # "the last week of May"
                if not any(each.joins.fullmatch(gap) for each in tables):
                    break
                other = _with_part_of_day(folded, other, tables)
                other = other._replace(range=_join_time_ranges(span, other))
                is_joined = True
            span = other._replace(begin=span.begin, core=span.core)
            index += 1
        if is_joined:
            yield _Open(span.begin, span.end, *span.range)
        else:
            yield _with_connector(folded, span, tables)


def _with_part_of_day(folded: str, span: Span, tables: Sequence[Patterns]) -> Span:
    if not span.is_day:
        return span
    for patterns in tables:
        after = patterns.part.match(folded, span.end)
        before = None
        if after is None and not patterns.in_east:
            before = patterns.part_of.search(folded, max(0, span.core - 40), span.core)
        match = after or before
        if match is not None:
            found = part_of_day(span.range[0], patterns.of["parts"][match["t"]])
            return span._replace(
                range=found,
                begin=min(span.begin, match.start()),
                end=max(span.end, match.end()),
            )
    return span


def _join_time_ranges(one: Span, other: Span) -> Range:
    lo, hi = one.range
    if one.of_year is not None and other.of_year is None:
        lo, hi = one.of_year(other.range[0].year)
    if lo > other.range[0]:
        if one.of_year is not None:
            lo, hi = one.of_year(other.range[0].year - 1)
        elif one.is_weekday and other.is_weekday:
            lo, hi = lo - 7 * DAY, hi - 7 * DAY
    return min(lo, other.range[0]), max(hi, other.range[1])


def _with_connector(folded: str, span: Span, tables: Sequence[Patterns]) -> _Open:
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
            unit = UNITS[patterns.of["units"][counted["u"]]] if counted["u"] else "week"
            unit = "week" if unit == "weekend" else unit
            count = patterns.count_of(counted)[1]
            if match.lastgroup == "before":
                lo = time_ago(lo, unit, count)
            else:
                hi = time_ago(hi, unit, -count)
            return _Open(counted.start(), end, lo, hi)
        return _Open(
            begin, end, *{
                "since": (lo, None),
                "before": (None, lo),
                "until": (None, hi),
                "after": (hi, None),
            }[match.lastgroup or "since"],
        )  # fmt: skip
    return _Open(span.begin, span.end, lo, hi, span.of_year if span.is_day else None)


def _period_in_zone(lo: datetime | None, hi: datetime | None, zone: tzinfo) -> Period:
    start, end = (
        None if at is None else at.replace(tzinfo=zone).timestamp() for at in (lo, hi)
    )
    return Period(start, end)


_LOCAL_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)


def local_micros(now: float, zone: tzinfo | None) -> int | None:
    """Return the time by a user's clock, in microseconds; None if it has no such."""
    # The core does not check whether a period leaves the years that Python knows.
    try:
        local = datetime.fromtimestamp(now, zone or timezone.utc).replace(tzinfo=None)
    except (ValueError, OverflowError, OSError):
        return None
    is_far = not 100 < local.year < 9_900
    return None if local.fold or is_far else (local - _LOCAL_EPOCH) // _MICROSECOND


def period_in_zone(lo: int | None, hi: int | None, zone: tzinfo | None) -> Period:
    """Return the period between two times by a user's clock, in microseconds."""
    if zone is None:
        start, end = (None if at is None else at / 1_000_000 for at in (lo, hi))
        return Period(start, end)
    begin, until = (
        None if at is None else _LOCAL_EPOCH + at * _MICROSECOND for at in (lo, hi)
    )
    return _period_in_zone(begin, until, zone)


def _period_in_earlier_years(named: _Open, zone: tzinfo) -> Iterator[Period]:
    if named.of_year is None or named.lo is None:
        return
    for year in range(named.lo.year - 1, named.lo.year - 1 - _YEARS_BEFORE, -1):
        with suppress(ValueError, OverflowError):  # 29 February, before the year 1
            yield _period_in_zone(*named.of_year(year), zone)


def find_period(
    folded: str,
    words: Sequence[str],
    now: float,
    zone: tzinfo = timezone.utc,
    language: str | None = None,
) -> Found | None:
    """Return the period that a normalised query names, and the other words.

    Only the first and the last 512 characters are read. The language, if it is known,
    decides: "3.5." is a day in German and a version in English, "hier" is yesterday in
    French and here in German.
    """
    text = " ".join(folded.split()).replace("\u2019", "'").replace("ё", "е")
    read, between = query_ends(text)
    if between:
        words = split_words(read)
    try:
        local = datetime.fromtimestamp(now, zone).replace(tzinfo=None)
        opened = _opened_time_readers(words, read)
        numbers = list(dict(opened))
        spans = _find_named_times(read, opened, local, language)
        if all(span.table is None for span in spans):  # dates in numbers
            numbers.append(_ENGLISH)
        if language in _NAMES:
            numbers.append(_NAMES.index(language))
        named = list(_with_connectors(read, spans, numbers))
        if _ASKS.search(read):
            named = [each for each in named if _is_question_continued(read, each.end)]
        for each in named:
            # What is to come holds no memories: another period is meant.
            if each.lo is None or each.lo <= local or len(named) == 1:
                break
        else:
            if not named:
                return None
            each = named[0]
        period = _period_in_zone(each.lo, each.hi, zone)
        earlier = tuple(_period_in_earlier_years(each, zone))
    except (ValueError, OverflowError, StopIteration, OSError):
        return None  # outside the years 1 to 9999
    begin = each.begin
    if article := LAST_ARTICLE.search(read, max(0, begin - 8), begin):
        begin = article.start()
    rest = f"{read[:begin]} {read[each.end :]}"
    return Found(period, f"{rest} {between}" if between else rest, earlier)
