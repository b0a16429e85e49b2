"""The period that a query names, in thirteen languages and any time zone."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from helpers.campaigns import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from vecall.clock import Period
from vecall.lexical import memory_terms, query_terms, words
from vecall.lexical.period_patterns import LATIN, MONTHS, READ, TABLES, meaning_numbers
from vecall.lexical.periods import find_period, may_name_period
from vecall.lexical.tokenizer import split_words
from vecall.text import normalise

BERLIN = ZoneInfo("Europe/Berlin")
ANGELES = ZoneInfo("America/Los_Angeles")
# A Thursday, 04:30 in Berlin; in Los Angeles it is still Wednesday, 19:30.
NOW = datetime(2026, 11, 26, 3, 30, tzinfo=timezone.utc).timestamp()


def period_of(
    query: str, now: float, zone: tzinfo = timezone.utc, language: str | None = None
) -> Period | None:
    folded = normalise(query)
    said = split_words(folded)
    if not may_name_period(said, folded):
        return None
    found = find_period(folded, said, now, zone, language)
    return None if found is None else found.period


def local(seconds: float | None, zone: tzinfo) -> str:
    if seconds is None:
        return "-"
    at = datetime.fromtimestamp(seconds, zone)
    return f"{at:%Y-%m-%d}" if f"{at:%H%M}" == "0000" else f"{at:%Y-%m-%dT%H:%M}"


def named(query: str, zone: tzinfo = timezone.utc, now: float = NOW) -> str:
    period = period_of(query, now, zone)
    if period is None:
        return ""
    return f"{local(period.start, zone)} {local(period.end, zone)}"


# Text; what it means in Berlin; in Los Angeles, if that differs.
EXPRESSIONS = """
yesterday | 2026-11-25 2026-11-26 | 2026-11-24 2026-11-25
the day before yesterday | 2026-11-24 2026-11-25 | 2026-11-23 2026-11-24
today | 2026-11-26 2026-11-27 | 2026-11-25 2026-11-26
last week | 2026-11-16 2026-11-23
two weeks ago | 2026-11-09 2026-11-16
this month | 2026-11-01 2026-12-01
last Wednesday | 2026-11-25 2026-11-26 | 2026-11-18 2026-11-19
on Monday morning | 2026-11-23T05:00 2026-11-23T12:00
last night | 2026-11-25T18:00 2026-11-26T06:00 | 2026-11-24T18:00 2026-11-25T06:00
last weekend | 2026-11-21 2026-11-23
in the last 3 days | 2026-11-23 2026-11-26T04:30 | 2026-11-22 2026-11-25T19:30
a few days ago | 2026-11-20 2026-11-25 | 2026-11-19 2026-11-24
on November 24th, 2025 | 2025-11-24 2025-11-25
in May 2024 | 2024-05-01 2024-06-01
last summer | 2026-06-01 2026-09-01
in 2024 | 2024-01-01 2025-01-01
since March | 2026-03-01 -
before May 2024 | - 2024-05-01
between 3 and 5 May 2024 | 2024-05-03 2024-05-06
from Monday to Wednesday | 2026-11-23 2026-11-26 | 2026-11-16 2026-11-19
the week before 3 May 2024 | 2024-04-26 2024-05-04
gestern Abend | 2026-11-25T17:00 2026-11-26 | 2026-11-24T17:00 2026-11-25
vorgestern | 2026-11-24 2026-11-25 | 2026-11-23 2026-11-24
letzte Woche | 2026-11-16 2026-11-23
vor drei Tagen | 2026-11-23 2026-11-24 | 2026-11-22 2026-11-23
am 3. Mai | 2026-05-03 2026-05-04
im März 2023 | 2023-03-01 2023-04-01
zwischen März und Mai | 2026-03-01 2026-06-01
seit letztem Montag | 2026-11-23 -
hier soir | 2026-11-25T17:00 2026-11-26 | 2026-11-24T17:00 2026-11-25
la semaine dernière | 2026-11-16 2026-11-23
il y a trois jours | 2026-11-23 2026-11-24 | 2026-11-22 2026-11-23
il y a un an | 2025-01-01 2026-01-01
depuis le 3 mai 2024 | 2024-05-03 -
l'été dernier | 2026-06-01 2026-09-01
avant-hier | 2026-11-24 2026-11-25 | 2026-11-23 2026-11-24
le week-end dernier | 2026-11-21 2026-11-23
cet après-midi|2026-11-26T12:00 2026-11-26T18:00|2026-11-25T12:00 2026-11-25T18:00
ayer por la tarde|2026-11-25T12:00 2026-11-25T18:00|2026-11-24T12:00 2026-11-24T18:00
la semana pasada | 2026-11-16 2026-11-23
hace dos semanas | 2026-11-09 2026-11-16
entre marzo y mayo de 2024 | 2024-03-01 2024-06-01
el lunes pasado | 2026-11-23 2026-11-24
ieri sera | 2026-11-25T17:00 2026-11-26 | 2026-11-24T17:00 2026-11-25
il mese scorso | 2026-10-01 2026-11-01
tre giorni fa | 2026-11-23 2026-11-24 | 2026-11-22 2026-11-23
nel 2024 | 2024-01-01 2025-01-01
prima di maggio | - 2026-05-01
anteontem | 2026-11-24 2026-11-25 | 2026-11-23 2026-11-24
na semana passada | 2026-11-16 2026-11-23
há três dias | 2026-11-23 2026-11-24 | 2026-11-22 2026-11-23
na segunda-feira | 2026-11-23 2026-11-24
no verão de 2024 | 2024-06-01 2024-09-01
eergisteren | 2026-11-24 2026-11-25 | 2026-11-23 2026-11-24
vorige week | 2026-11-16 2026-11-23
drie dagen geleden | 2026-11-23 2026-11-24 | 2026-11-22 2026-11-23
sinds maart | 2026-03-01 -
i går kväll | 2026-11-25T17:00 2026-11-26 | 2026-11-24T17:00 2026-11-25
förra veckan | 2026-11-16 2026-11-23
för tre dagar sedan | 2026-11-23 2026-11-24 | 2026-11-22 2026-11-23
i somras | 2026-06-01 2026-09-01
вчера вечером | 2026-11-25T17:00 2026-11-26 | 2026-11-24T17:00 2026-11-25
на прошлой неделе | 2026-11-16 2026-11-23
три дня назад | 2026-11-23 2026-11-24 | 2026-11-22 2026-11-23
в мае 2023 года | 2023-05-01 2023-06-01
между мартом и маем | 2026-03-01 2026-06-01
dün akşam | 2026-11-25T17:00 2026-11-26 | 2026-11-24T17:00 2026-11-25
geçen hafta | 2026-11-16 2026-11-23
üç gün önce | 2026-11-23 2026-11-24 | 2026-11-22 2026-11-23
mart'tan beri | 2026-03-01 -
24 Kasım 2025'te | 2025-11-24 2025-11-25
昨天晚上 | 2026-11-25T17:00 2026-11-26 | 2026-11-24T17:00 2026-11-25
上周三 | 2026-11-18 2026-11-19
三天前 | 2026-11-23 2026-11-24 | 2026-11-22 2026-11-23
去年夏天 | 2025-06-01 2025-09-01
从三月以来 | 2026-03-01 -
2024年五月三号 | 2024-05-03 2024-05-04
昨日 | 2026-11-25 2026-11-26 | 2026-11-24 2026-11-25
先週の月曜日 | 2026-11-16 2026-11-17
3日前 | 2026-11-23 2026-11-24 | 2026-11-22 2026-11-23
2024年5月 | 2024-05-01 2024-06-01
어제 | 2026-11-25 2026-11-26 | 2026-11-24 2026-11-25
지난주 | 2026-11-16 2026-11-23
3일 전 | 2026-11-23 2026-11-24 | 2026-11-22 2026-11-23
5월 3일 | 2026-05-03 2026-05-04
"""  # noqa: RUF001
TABLE = [
    [part.strip() for part in line.split("|")]
    for line in EXPRESSIONS.strip().splitlines()
]


def test_a_word_with_a_sign_in_it_is_read_in_its_pieces():
    assert named("what did we decide in dec'22") == named("in dec") != ""
    assert named("après-ski parties since 2023") == "2023-01-01 -"


def test_each_word_of_time_opens_the_search_for_a_period():
    """As the whole of a text, and as a query's analysis splits it into words."""
    words = {
        word
        for table in TABLES
        for name in READ
        for word in meaning_numbers(table.get(name, ""))
    }
    assert len(words) > 700
    closed = [
        word
        for word in words - {"an"}  # an English article
        if not may_name_period(split_words(normalise(word)), normalise(word))
    ]
    assert closed == []


@pytest.mark.parametrize("row", TABLE, ids=[ascii(row[0]) for row in TABLE])
def test_a_period_is_understood_in_the_zone_of_the_user(row):
    text, in_berlin, in_angeles = row[0], row[1], row[-1]
    for form in (text, text.upper(), f"{text}?"):
        if form == text.upper() and "\u0131" in text:
            continue  # Turkish capitals fold to other letters
        assert named(form, BERLIN) == in_berlin
        assert named(form, ANGELES) == in_angeles


@pytest.mark.parametrize("row", TABLE, ids=[ascii(row[0]) for row in TABLE])
def test_the_words_of_a_period_are_no_content(row):
    if row[0] in ("hier soir", "dün akşam"):
        return  # without other words the language is not known
    asked, marks = query_terms(f"zebra {row[0]} zebra", now=NOW, zone=BERLIN)
    assert len(set(asked)) == 1
    assert marks.period == period_of(row[0], NOW, BERLIN)
    plain, marks = query_terms(f"zebra {row[0]}", now=NOW, by_period=False)
    assert marks.period is None
    assert set(asked) < set(plain)


@pytest.mark.parametrize(
    "query",
    [
        "30 February",
        "February 30th",
        "31.04.2024",
        "31 June 2020",
        "2023-02-29",
        "0 May",
        "32 May",
        "2024-13-01",
        "2024-00-10",
        "13月32日",
        "0月0日",
        "三三月1日",
        "99.99.",
        "May",
        "2024",
        "I may go",
        "Why may this be?",
        "at 10:30",
        "3.5 kilometres",
        "half of it",
        "yesterdays news, todayish",
        "the ayers rock",
        "v1.2.3",
        "192.168.1.1",
        "a second opinion for me",
        "the last word, the next step",
        "Jasper's last night in the flat",
        "on the last day of our trip",
        "the last week of it, my last year",
        "every Monday, that Friday, Black Friday",
        "close the cabin before winter",
        "Was ist hier los?",
        "the dun horse",
        "",
    ],
    ids=ascii,
)
def test_what_is_no_period_names_none(query):
    folded = normalise(query)
    assert find_period(folded, words(query), NOW, language="english") is None


@pytest.mark.parametrize(
    ("day", "hours"),
    [("2026-03-29", 23), ("2026-10-25", 25), ("2026-11-25", 24)],
)
def test_a_day_has_the_hours_that_it_has_in_its_zone(day, hours):
    noon_after = datetime.fromisoformat(f"{day}T12:00").replace(tzinfo=BERLIN)
    now = noon_after.timestamp() + 86_400
    period = period_of("yesterday", now, BERLIN)
    assert period is not None
    assert period.start is not None
    assert period.end is not None
    assert period.end - period.start == hours * 3_600
    assert local(period.start, BERLIN) == day


def test_an_offset_is_a_zone_too():
    zone = timezone(timedelta(hours=5, minutes=30))
    period = period_of("today", NOW, zone)
    assert period is not None
    assert period.start == NOW - 9 * 3_600  # 03:30 in UTC is 09:00 there


def test_a_day_that_begins_at_one_o_clock_is_whole():
    """In São Paulo there was no midnight on 4 November 2018."""
    zone = ZoneInfo("America/Sao_Paulo")
    period = period_of("2018-11-04", NOW, zone)
    assert period is not None
    start = datetime(2018, 11, 4, 3, tzinfo=timezone.utc).timestamp()
    assert (period.start, period.end) == (start, start + 23 * 3_600)


@pytest.mark.parametrize(
    ("query", "meant"),
    [
        ("on 24 November", "2026-11-24 2026-11-25"),
        ("on 27 November", "2026-11-27 2026-11-28"),  # tomorrow
        ("on 24 May", "2026-05-24 2026-05-25"),
        ("on 31 December", "2025-12-31 2026-01-01"),
        ("29 February", "2024-02-29 2024-03-01"),
        ("in November", "2026-11-01 2026-12-01"),
        ("in December", "2025-12-01 2026-01-01"),
        ("last November", "2025-11-01 2025-12-01"),
        ("next March", "2027-03-01 2027-04-01"),
        ("last winter", "2025-12-01 2026-03-01"),
        ("this winter", "2026-12-01 2027-03-01"),
        ("next Thursday", "2026-12-03 2026-12-04"),
        ("on Thursday", "2026-11-19 2026-11-20"),
    ],
)
def test_a_time_without_a_year_is_the_last_one_or_a_near_one(query, meant):
    assert named(query) == meant


@pytest.mark.parametrize(
    ("query", "meant"),
    [
        ("between August 11 and August 15 2023", "2023-08-11 2023-08-16"),
        ("between 2024-05-03 and 2024-06-01", "2024-05-03 2024-06-02"),
        ("between November and February", "2025-11-01 2026-03-01"),
        ("on Monday and Tuesday", "2026-11-23 2026-11-25"),
        ("in May or June 2024", "2024-05-01 2024-07-01"),
        ("today and yesterday evening", "2026-11-25T17:00 2026-11-27"),
        ("on Monday, Tuesday and Wednesday", "2026-11-23 2026-11-26"),
        ("seit drei Tagen", "2026-11-23 2026-11-26T03:30"),
        ("since the last week of May 2024", "2024-05-01 -"),
        ("in early March", "2026-03-01 2026-04-01"),
        ("in the last week of August 2023", "2023-08-01 2023-09-01"),
        ("What did I say yesterday about next week?", "2026-11-25 2026-11-26"),
        ("What did I say about next week yesterday?", "2026-11-25 2026-11-26"),
        ("two weeks before August 11, 2023", "2023-07-28 2023-08-12"),
        ("on the Sunday before 3 May 2024", "2024-04-26 2024-05-04"),
        ("until 3 May 2024", "- 2024-05-04"),
        ("after 3 May 2024", "2024-05-04 -"),
    ],
)
def test_several_times_are_one_period(query, meant):
    assert named(query) == meant


def test_a_message_is_asked_for_the_period_of_its_question():
    told = "I ran yesterday. "
    assert named(told) == named("What about yesterday?") == "2026-11-25 2026-11-26"
    assert named(f"{told}How long is a marathon?") == ""
    assert named(f"{told}How far did I run last week?") == "2026-11-16 2026-11-23"
    assert named("What did Mr. Jones say yesterday about Dr. Who?") == named(told)
    assert named("我昨天跑了步。马拉松有多长\uff1f") == ""


def test_a_day_without_a_year_may_be_that_of_a_year_before():
    marks = query_terms("on 24 November", now=NOW)[1]
    days = [local(period.start, timezone.utc) for period in marks.earlier]
    assert days == [f"{year}-11-24" for year in range(2025, 2020, -1)]
    for query in ("in November", "24 November 2026", "since 24 November", "yesterday"):
        assert query_terms(query, now=NOW)[1].earlier == ()
    leap = query_terms("29 February", now=NOW)[1].earlier
    assert [local(period.start, timezone.utc) for period in leap] == ["2020-02-29"]


def test_slashes_and_dots_are_read_as_the_language_has_it():
    day = {
        (text, language): period_of(text, NOW, language=language)
        for text in ("5/3/2024", "2024-05-03", "2024-03-05", "3.5.", "3 May")
        for language in ("english", "german")
    }
    assert day["5/3/2024", "english"] == day["2024-05-03", "english"]
    assert day["5/3/2024", "german"] == day["2024-03-05", "german"]
    assert day["3.5.", "german"] == day["3 May", "german"]
    assert day["3.5.", "english"] is None
    assert period_of("25/3/2024", NOW, language="english") is not None


@pytest.mark.parametrize("now", [-62_130_000_000.0, 0.0, 253_402_300_799.0])
def test_the_ends_of_time_do_not_raise(now):
    for row in TABLE:
        for zone in (timezone.utc, ANGELES):
            period_of(row[0], now, zone)
        assert all(0 < term < 2**64 for term in query_terms(row[0], now=now)[0])


@pytest.mark.campaign
@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(st.dates(datetime(1901, 1, 1).date(), datetime(2099, 12, 30).date()))
def test_every_day_is_named_by_its_date(date):
    meant = f"{date} {date + timedelta(days=1)}"
    name = MONTHS[date.month - 1]
    for asked in (
        f"{date:%Y-%m-%d}",
        f"{date.day}.{date.month}.{date.year}",
        f"{date.day} {name} {date.year}",
        f"{name} {date.day}, {date.year}",
        f"{date.year}年{date.month}月{date.day}日",
        f"{date.year}년 {date.month}월 {date.day}일",
    ):
        assert named(asked) == meant


@pytest.mark.parametrize("month", range(1, 13))
def test_an_eastern_month_is_found_under_its_english_name(month):
    numerals = "一 二 三 四 五 六 七 八 九 十 十一 十二".split()
    at = datetime(2024, month, 9, tzinfo=timezone.utc).timestamp()
    told = set(memory_terms("x", None, at))
    for asked in (f"{month}月", f"{numerals[month - 1]}月", f"{month}월"):
        assert told & set(query_terms(asked, by_period=False)[0])


@pytest.mark.parametrize("asked", ["yesterday", "on 3 may 2024", "2024-03-05", "昨天"])
def test_a_long_query_is_asked_for_periods_at_its_ends(asked):
    """Pages that somebody pastes are not read for days, the question beside them is."""
    pages = "lorem ipsum dolor " * 2_000
    period = period_of(asked, NOW)
    assert period is not None
    for long in (f"{asked} {pages}", f"{pages} {asked}"):
        assert query_terms(long, now=NOW)[1].period == period
    assert query_terms(f"{pages} {asked} {pages}", now=NOW)[1].period is None


SOME_WORDS = (
    "may 3 3rd last this week month day before yesterday hier , . - / de tea woche mes "
    "aujourd'hui monat letzten 2024 semana pasada 五 月 是 мая since between and ago"
).split()


@pytest.mark.campaign
@settings(max_examples=examples(500), deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(SOME_WORDS), max_size=9), st.booleans())
def test_any_words_give_a_period_in_order_or_none(parts, spaced):
    text = (" " if spaced else "").join(parts)
    folded = normalise(text)
    found = find_period(folded, words(text), NOW, BERLIN)
    if not may_name_period(words(text), folded):
        assert found is None
    if found is not None:
        start, end = found.period.start, found.period.end
        assert start is not None or end is not None
        assert start is None or end is None or start < end


def test_a_year_is_found_behind_each_word_that_may_stand_before_it():
    """However much stands before that word; the longest ones have eleven letters."""
    names = ("year", "since", "before", "until", "after_", "and")
    told = {
        word
        for table in LATIN
        for name in names
        for word in table.get(name, "in").split("|")
    }
    plain = [word for word in told if word.replace(" ", "").isalpha()]
    assert len(plain) > 50
    for word in plain:
        for article in ("", "the ", "det "):
            alone = normalise(f"{word} {article}2023")
            behind = f"{'words ' * 9}{alone}"
            expected, found = (
                find_period(text, split_words(text), 1.7e9) for text in (alone, behind)
            )
            assert expected is not None
            assert found is not None
            assert found.period == expected.period
            assert found.rest.split() == ["words"] * 9 + expected.rest.split()
