"""Days that a query names find the memories of exactly those days."""

from __future__ import annotations

import calendar
from datetime import datetime, timedelta, timezone

import pytest
from helpers.campaigns import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from vecall.lexical import memory_terms, query_terms, words
from vecall.lexical.features import MONTHS, asked_dates, date_marks, may_name_dates
from vecall.text import normalise

NOW = datetime(2024, 5, 15, 12, tzinfo=timezone.utc)
DAYS = [
    datetime(2018, 12, 1, 23, 59, 59, tzinfo=timezone.utc) + timedelta(days=n)
    for n in range(2600)
]
MARKS = {day: frozenset(date_marks(day)) for day in DAYS}


def found(query: str, now: datetime = NOW) -> list[str]:
    """The days, from December 2018 to January 2026, whose memories a query favours."""
    folded = normalise(query)
    asked = set(asked_dates(folded, now))
    assert may_name_dates(words(query), folded) or not asked
    return [f"{day:%Y-%m-%d}" for day in DAYS if asked & MARKS[day]]


def every_year(month: int, day: int) -> list[str]:
    return [f"{d:%Y-%m-%d}" for d in DAYS if (d.month, d.day) == (month, day)]


def whole_month(year: int, month: int) -> list[str]:
    return [f"{d:%Y-%m-%d}" for d in DAYS if (d.year, d.month) == (year, month)]


@pytest.mark.parametrize(
    "query",
    [
        "What did we plan on 3 May?",
        "3rd of May",
        "the 3rd may",
        "May 3",
        "May 3rd,",
        "MAY 3RD",
        "am 3. Mai",
        "am 03.05. um zehn",
        "am 3.5.",
        "el 3 de mayo",
        "le 3 mai",
        "il 3 maggio",
        "3 de maio",
        "3\u00ba de maio",
        "3 \u043c\u0430\u044f",
        "5\u67083\u65e5",
        "\uff15\u6708\uff13\u65e5",
        "5 \u6708 3 \u65e5",
        "5\u67083\u53f7\u6211\u4eec\u53bb\u54ea\u91cc",
        "\u4e94\u6708\u4e09\u53f7",
        "\u4e94\u6708\u4e09\u65e5",
        "5\uc6d4 3\uc77c",
        "5\uc6d43\uc77c\uc5d0",
    ],
    ids=ascii,
)
def test_a_day_without_a_year_is_that_day_of_every_year(query):
    """S2.23: 3 May, however it is written."""
    assert found(query) == every_year(5, 3)


@pytest.mark.parametrize(
    "query",
    [
        "3 May 2024",
        "3rd of May, 2024",
        "May 3rd 2024",
        "May 3, 2024",
        "2024-05-03",
        "2024-5-3",
        "2024/05/03",
        "2024-05-03T10:00:00Z",
        "03.05.2024",
        "3.5.2024",
        "2024\u5e745\u67083\u65e5",
        "2024\ub144 5\uc6d4 3\uc77c",
        "2024\u5e74\u4e94\u6708\u4e09\u53f7",
    ],
    ids=ascii,
)
def test_a_day_with_its_year_is_that_day_alone(query):
    assert found(query) == ["2024-05-03"]


@pytest.mark.parametrize(
    ("query", "year", "month"),
    [
        ("in May 2024", 2024, 5),
        ("March 2019", 2019, 3),
        ("im M\u00e4rz 2023", 2023, 3),
        ("en enero de 2022", 2022, 1),
        ("en f\u00e9vrier 2022", 2022, 2),
        ("a dicembre 2021", 2021, 12),
        ("em dezembro de 2021", 2021, 12),
        ("\u0432 \u044f\u043d\u0432\u0430\u0440\u0435 2020", 2020, 1),
        ("Sept 2020", 2020, 9),
        ("Sep 2020", 2020, 9),
        ("2024\u5e745\u6708", 2024, 5),
        ("2024\ub144 5\uc6d4", 2024, 5),
        ("2024\u5e74\u5341\u4e8c\u6708", 2024, 12),
    ],
    ids=ascii,
)
def test_a_month_with_its_year_is_all_of_its_days(query, year, month):
    assert found(query) == whole_month(year, month)


@pytest.mark.parametrize(
    "query",
    [
        "30 February",
        "February 30th",
        "31.04.2024",
        "31 June 2020",
        "2023-02-29",
        "29.02.2023",
        "0 May",
        "May 0",
        "32 May",
        "2024-13-01",
        "2024-00-10",
        "2024-05-00",
        "13\u670832\u65e5",
        "0\u67080\u65e5",
        "\u5341\u4e09\u67081\u65e5",
        "\u4e09\u4e09\u67081\u65e5",
        "99.99.",
        "13\uc6d4 1\uc77c",
        "2024\u5e7413\u6708",
        "May",
        "2024",
        "I may go",
        "at 10:30",
        "3.5 kilometres",
        "1.5 million",
        "half of it",
        "yesterdays news, todayish",
        "the ayers rock",
        "v1.2.3",
        "192.168.1.1",
        "",
    ],
    ids=ascii,
)
def test_what_is_no_day_names_none(query):
    assert found(query) == []


def test_the_leap_day_is_a_day_of_leap_years():
    assert found("29 February") == ["2020-02-29", "2024-02-29"]
    assert found("29.02.2024") == found("Feb 29th 2024") == ["2024-02-29"]
    assert found("2\u670829\u65e5") == ["2020-02-29", "2024-02-29"]


@pytest.mark.parametrize(
    ("words_of_day", "offset"),
    [
        (
            "yesterday|gestern|ayer|hier|ieri|ontem|\u0432\u0447\u0435\u0440\u0430|"
            "\u6628\u5929|\u6628\u65e5|\uc5b4\uc81c",
            -1,
        ),
        (
            "today|heute|hoy|aujourd'hui|aujourd\u2019hui|oggi|hoje|"
            "\u0441\u0435\u0433\u043e\u0434\u043d\u044f|\u4eca\u5929|\u4eca\u65e5|"
            "\uc624\ub298",
            0,
        ),
    ],
)
@pytest.mark.parametrize(
    "now", ["2024-03-01", "2024-01-01", "2023-03-01", "2020-12-31"]
)
def test_yesterday_and_today_are_days_in_every_language(words_of_day, offset, now):
    at = datetime.fromisoformat(now).replace(tzinfo=timezone.utc)
    wanted = [f"{at + timedelta(days=offset):%Y-%m-%d}"]
    for word in words_of_day.split("|"):
        assert found(f"{word} ...", at) == wanted, ascii(word)
        assert found(word.upper(), at) == wanted, ascii(word)


@pytest.mark.parametrize(
    "now", ["2024-05-15", "2024-01-01", "2024-01-07", "2021-01-03", "2021-01-04"]
)
def test_last_week_is_from_monday_to_sunday_over_the_end_of_a_year_too(now):
    at = datetime.fromisoformat(now).replace(tzinfo=timezone.utc)
    monday = at - timedelta(days=at.weekday() + 7)
    wanted = [f"{monday + timedelta(days=n):%Y-%m-%d}" for n in range(7)]
    for asked in (
        "last week",
        "letzte Woche",
        "la semana pasada",
        "la semaine derni\u00e8re",
        "la settimana scorsa",
        "na semana passada",
        "\u043d\u0430 \u043f\u0440\u043e\u0448\u043b\u043e\u0439 "
        "\u043d\u0435\u0434\u0435\u043b\u0435",
        "\u4e0a\u5468",
        "\u4e0a\u661f\u671f",
        "\u5148\u9031",
        "\uc9c0\ub09c\uc8fc",
        "\uc9c0\ub09c \uc8fc",
    ):
        assert found(asked, at) == wanted, ascii(asked)
    this = [f"{monday + timedelta(days=7 + n):%Y-%m-%d}" for n in range(7)]
    assert found("this week", at) == found("\u672c\u5468", at) == this


@pytest.mark.parametrize(
    ("now", "year", "month"),
    [
        ("2024-05-31", 2024, 4),
        ("2024-03-31", 2024, 2),
        ("2024-01-31", 2023, 12),
        ("2024-01-01", 2023, 12),
        ("2023-12-31", 2023, 11),
    ],
)
def test_last_month_is_a_calendar_month_over_the_end_of_a_year_too(now, year, month):
    at = datetime.fromisoformat(now).replace(tzinfo=timezone.utc)
    for asked in (
        "last month",
        "letzten Monat",
        "el mes pasado",
        "le mois dernier",
        "il mese scorso",
        "no m\u00eas passado",
        "\u0432 \u043f\u0440\u043e\u0448\u043b\u043e\u043c "
        "\u043c\u0435\u0441\u044f\u0446\u0435",
        "\u4e0a\u4e2a\u6708",
        "\u5148\u6708",
        "\uc9c0\ub09c\ub2ec",
    ):
        assert found(asked, at) == whole_month(year, month), ascii(asked)
    assert found("this month", at) == whole_month(at.year, at.month)


def test_a_query_may_name_several_days():
    assert found("2024-05-03 or 04.06.2024") == ["2024-05-03", "2024-06-04"]
    assert found("3 May 2024, 3 May 2024 and May 3rd 2024") == ["2024-05-03"]
    assert len(asked_dates("3 may, may 3 and 3.5.", NOW)) == 1


def test_now_is_what_yesterday_is_relative_to():
    at = datetime(2024, 1, 1, tzinfo=timezone.utc).timestamp()
    told = memory_terms("tea", None, at - 1)
    asked = query_terms("what about yesterday", now=at)[0]
    assert set(asked) & set(told[-4:])
    assert not set(asked) & set(memory_terms("tea", None, at)[-4:])
    today = datetime.now(timezone.utc)
    memory = memory_terms("tea", None, today.timestamp())
    later = query_terms("today")[0]
    assert set(later) & set(memory) or datetime.now(timezone.utc).day != today.day


@pytest.mark.parametrize("month", range(1, 13))
def test_an_eastern_month_is_found_under_its_english_name(month):
    numerals = "\u4e00 \u4e8c \u4e09 \u56db \u4e94 \u516d \u4e03 \u516b \u4e5d \u5341 "
    numerals += "\u5341\u4e00 \u5341\u4e8c"
    at = datetime(2024, month, 9, tzinfo=timezone.utc).timestamp()
    name = query_terms(MONTHS[month - 1])[0]
    for asked in (
        f"{month}\u6708",
        f"{numerals.split()[month - 1]}\u6708",
        f"{month}\uc6d4",
    ):
        assert set(name) & set(query_terms(asked)[0]) & set(memory_terms("x", None, at))


@pytest.mark.campaign
@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(st.dates(datetime(1900, 1, 1).date(), datetime(2099, 12, 31).date()))
def test_every_day_is_found_by_its_own_date_and_by_no_other(date):
    day = datetime(date.year, date.month, date.day, 7, tzinfo=timezone.utc)
    other = day + timedelta(days=1)
    name = MONTHS[date.month - 1]
    for asked in (
        f"{date:%Y-%m-%d}",
        f"{date.day}.{date.month}.{date.year}",
        f"{date.day} {name} {date.year}",
        f"{name} {date.day}, {date.year}",
        f"{date.year}\u5e74{date.month}\u6708{date.day}\u65e5",
        f"{date.year}\ub144 {date.month}\uc6d4 {date.day}\uc77c",
    ):
        marks = set(asked_dates(normalise(asked), NOW))
        assert marks & set(date_marks(day)), asked
        assert not marks & set(date_marks(other)), asked
    without = set(asked_dates(f"{date.day} {name}", NOW))
    assert without & set(date_marks(day))
    assert not without & set(date_marks(other))


@pytest.mark.parametrize("year", [1970, 1999, 2000, 2038, 2100, 9999])
def test_every_day_of_a_year_has_four_marks_of_its_own(year):
    days = 366 if calendar.isleap(year) else 365
    first = datetime(year, 1, 1, tzinfo=timezone.utc)
    marks = [date_marks(first + timedelta(days=n)) for n in range(days)]
    assert all(len(set(each)) == 4 for each in marks)
    assert len({each[0] for each in marks}) == days
    assert len({each[1] for each in marks}) == days
    assert len({each[3] for each in marks}) == 12


@pytest.mark.parametrize("now", [-62_130_000_000.0, 0.0, 253_402_300_799.0])
def test_relative_days_at_the_ends_of_time_do_not_raise(now):
    for asked in ("yesterday", "today", "last week", "last month", "this month"):
        terms, _ = query_terms(asked, now=now)
        assert all(0 < term < 2**64 for term in terms)
        assert words(asked)


SOME_WORDS = (
    "may 3 3rd last this week month day before yesterday hier , . - / de tea woche mes "
    "aujourd'hui monat letzten 2024 semana pasada \u4e94 \u6708 "
    "\u662f \u043c\u0430\u044f"
).split()


@pytest.mark.campaign
@settings(max_examples=examples(300), deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(SOME_WORDS), max_size=7))
def test_a_query_that_is_not_asked_for_its_dates_has_none(parts):
    text = " ".join(parts)
    if not may_name_dates(words(text), normalise(text)):
        assert asked_dates(normalise(text), NOW) == []
        assert len(query_terms(text)[0]) <= len(parts)


@pytest.mark.parametrize("asked", ["yesterday", "on 3 may", "2024-03-05", "5月3日"])
def test_a_long_query_is_asked_for_days_at_its_ends(asked):
    """Pages that somebody pastes are not read for days, the question beside them is."""
    pages = "lorem ipsum dolor " * 2_000
    days = asked_dates(normalise(asked), NOW)
    assert days
    for long in (f"{asked} {pages}", f"{pages} {asked}"):
        assert query_terms(long, now=NOW.timestamp())[0][-len(days) :] == days
    assert asked_dates(normalise(f"{pages} {asked} {pages}"), NOW) == []
