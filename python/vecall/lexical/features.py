"""Features of a text other than its words: it is a question, it names a time.

Each feature is a mark: a term that differs from every word's. The engine indexes the
marks of a row like its words. A query lists the marks that it favours.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

_WHOLE = (1 << 63) - 1  # the highest bit is `stems.PART`


def mark(name: str) -> int:
    """Return the 63-bit hash of a mark; the hash function is not that of words."""
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8, person=b"m")
    return int.from_bytes(digest.digest(), "little") & _WHOLE or 1


QUESTION = mark("question")
TIME = mark("time")

_CLOSING = (
    "\"'\u2018-\u201f\u00ab\u00bb\u2039\u203a\u300d\u300f)\\]\u3002.!\u2026\\s"
    "\u200d\u2600-\u27bf\U0001f1e6-\U0001faff\ufe0f"
)
_QUESTION_SIGNS = ("?", "\uff1f", "\u061f", "\u304b\u3002")
_ASKS = re.compile(rf"(?:[?\uff1f\u061f]|\u304b\u3002)[{_CLOSING}]*\Z")

# Expressions of time. Three lists: words in Latin letters (English, German, Spanish,
# French, Italian, Portuguese), as `split_words` returns them; numbers; and Russian,
# Chinese, Japanese and Korean.
_TIME_WORDS = frozenset(
    """
    yesterday today tomorrow tonight last next ago since recently morning
    week weeks month months year years day days weekend weekends
    monday tuesday wednesday thursday friday saturday sunday
    january february march april june july august september october november december
    gestern heute morgen letzte letzten letzter letztes nachste nachsten nachster
    nachstes seit woche wochen monat monate monats monaten jahr jahre jahren tag tage
    tagen wochenende montag dienstag mittwoch donnerstag freitag samstag sonntag
    januar februar marz mai juni juli oktober dezember
    ayer hoy manana semana semanas mes meses ano anos dia dias lunes martes miercoles
    jueves viernes sabado domingo enero febrero marzo abril mayo junio julio agosto
    septiembre octubre noviembre diciembre
    hier demain semaine semaines mois annee annees an ans jour jours lundi mardi
    mercredi jeudi vendredi samedi dimanche janvier fevrier mars avril juin juillet aout
    septembre octobre novembre decembre
    ieri oggi domani settimana settimane mese mesi anno anni giorno giorni
    ontem hoje amanha segunda terca quarta quinta sexta
    """.split()
) - {"an"}
_TIME_NUMBERS = re.compile(
    r"\b(?:(?:19|20)\d\d|\d{1,2}(?:st|nd|rd|th))\b"
    r"|\d{1,2}[./]\d{1,2}(?:[./]|\b)|\d{1,2}:\d\d"
)
# Letters of which each of the expressions below has one.
_ELSEWHERE = re.compile("[\u0400-\u04ff\u4e00-\u9fff\uac00-\ud7a3]")
_TIME_ELSEWHERE = re.compile(
    r"""\b(?:
    вчера|сегодня|завтра|назад|недел[яюие]|неделю|месяц\w*|год\w*|лет|дн[яей]|день|
    понедельник\w*|вторник\w*|сред[ауы]|четверг\w*|пятниц\w*|суббот\w*|воскресень\w*|
    январ\w*|феврал\w*|март\w*|апрел\w*|ма[йяе]|июн\w*|июл\w*|август\w*|сентябр\w*|
    октябр\w*|ноябр\w*|декабр\w*
    )\b
    |[0-9]\s?[月日号點点時时年]|\d\s?[월일년시]
    |昨天|今天|明天|前天|后天|上周|下周|上个月|下个月|去年|明年|星期|周[一二三四五六日末]
    |昨日|今日|明日|先週|来週|先月|来月|去年|来年|曜日|週末
    |어제|오늘|내일|모레|지난|다음\s?[주달]|작년|내년|요일|주말
    """,
    re.VERBOSE,
)
_LONGEST_QUESTION = 40  # words
_LONGEST_REQUEST = 20  # words, if the author is "user"
_USER = "user"
_DIGIT = re.compile(r"\d")

# Questions that ask for a time.
_ASKS_TIME = re.compile(
    r"""[\W_]*(?:and\s|so\s|do\s(?:you|i)\s(?:know|remember)\s)?(?:
    (?:since\s)?when\b|how\slong\b|(?:(?:on|in|at)\s)?(?:what|which)\s(?:exact\s)?
    (?:date|day|weekday|week|month|year|time)\b|
    (?:seit|bis|ab)?\s?wann\b|wie\slange\b|an\swelchem\s(?:tag|datum)\b|welches\sdatum\b|
    in\swelche[mr]\s(?:monat|jahr|woche)\b|um\swie\s?viel\suhr\b|
    (?:desde\s|hasta\s|para\s)?cuando\b|a\sque\shora\b|(?:en\s|el\s)?que\s
    (?:dia|fecha|mes|ano)\b|cuanto\stiempo\b|
    (?:depuis\s)?quand\b|(?:(?:a|en)\s)?quelle\s(?:date|heure|annee)\b|
    quel\s(?:jour|mois)\b|combien\sde\stemps\b|
    (?:da\s)?quando\b|(?:(?:in|a)\s)?che\s(?:giorno|mese|anno|ora)\b|
    (?:desde\s)?quando\b|(?:em\s)?que\s(?:dia|mes|ano)\b|a\sque\shoras\b|quanto\stempo\b|
    (?:с\sкаких\sпор|когда|как\sдолго|во\sсколько|(?:в|на)\sкако[мйе]\w*\s
    (?:месяц|год|ден|недел)|какого\sчисла|сколько\sвремени)
    )
    """,
    re.VERBOSE,
)
_ASKS_TIME_EAST = re.compile(
    r"""什么时候|什麼時候|何时|何時|哪天|哪一天|哪[年月]|哪个月|几[号月点]|幾[號月點]|多久|星期几
    |いつ|何[日月年]|何曜日|どのくらいの期間
    |언제|며칠|몇\s?[시월년]|무슨\s?요일|얼마나\s?오래|얼마\s?동안
    """,
    re.VERBOSE,
)


class QueryMarks(NamedTuple):
    """The marks and optional terms that a query favours.

    Attributes:
        time: The mark of rows that name a time, if the query asks for a time, else 0.
        authors: Marks of the authors that the query's words may name.
        optional: Terms that raise a score if found and never lower it: parts of
            identifiers and German compounds, and words of the query as such parts.
    """

    time: int = 0
    authors: tuple[int, ...] = ()
    optional: tuple[int, ...] = ()


def text_marks(
    text: str, folded: str, words: Sequence[str], author: str | None
) -> list[int]:
    """Return the marks of a memory's text.

    A question contains less information than its answer. A long text that ends with a
    question does not count as a question: it states facts before. The limit is 40
    words. For a user's request to an assistant ("… can you help?") it is 20 words.

    Args:
        text: The original text.
        folded: The normalised text.
        words: The words of the normalised text.
        author: The author's name; "user" for a user of an assistant.
    """
    found = []
    if (
        len(words) <= (_LONGEST_REQUEST if author == _USER else _LONGEST_QUESTION)
        and any(map(text.__contains__, _QUESTION_SIGNS))
        and _ASKS.search(text)
    ):
        found.append(QUESTION)
    if _tells_time(folded, words):
        found.append(TIME)
    return found


def _tells_time(folded: str, words: Sequence[str]) -> bool:
    if not _TIME_WORDS.isdisjoint(words):
        return True
    if _DIGIT.search(folded) and _TIME_NUMBERS.search(folded):
        return True
    if folded.isascii() or not _ELSEWHERE.search(folded):
        return False
    return _TIME_ELSEWHERE.search(folded) is not None


def asks_time(folded: str) -> bool:
    """Return whether a normalised query asks for a time."""
    if _ASKS_TIME.match(folded):
        return True
    return not folded.isascii() and _ASKS_TIME_EAST.search(folded) is not None


def author_mark(stem: str) -> int:
    """Return the mark of the authors whose names contain this stem."""
    return mark(f"author {stem}")


# Finds memories by the dates that a query names.
#
# A memory is indexed under its date in UTC: the number of the day, the English name of
# the month and the year are words; day, week and month are marks. A query such as "What
# did we plan on 3 May", "in March 2024", "yesterday", "last week" or "2024-03-05"
# becomes the same marks.


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


def _day_mark(date: datetime) -> int:
    return mark(f"day {date:%Y-%m-%d}")


def _week_mark(date: datetime) -> int:
    year, week, _ = date.isocalendar()
    return mark(f"week {year}-{week}")


def _month_mark(year: int, month: int) -> int:
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
        _day_mark(date),
        _day_of_year(date.month, date.day),
        _week_mark(date),
        _month_mark(date.year, date.month),
    )


_DATE_WORDS = frozenset(_NAMES) | frozenset(
    "yesterday today week month gestern heute woche monat ayer hoy semana mes hier "
    "aujourdhui semaine mois ieri oggi settimana mese ontem hoje".split()
)
_HIER = re.compile(r"\bhier\b")
_DATE_DIGIT = re.compile("[0-9]")


_LOOKED_AT = 512  # characters at each end of a query


def _query_ends(folded: str) -> str:
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
    return _DATE_DIGIT.search(folded) is not None


def asked_dates(folded: str, now: datetime, language: str | None = None) -> list[int]:
    """Return the marks of the days, weeks or months that a normalised query names.

    Args:
        folded: The query. Only the first and the last 512 characters are read.
        now: The date to which "yesterday" is relative.
        language: The query's language, or None if unknown. "3.5." is a day in German
            and a version in English. "hier" is "yesterday" in French and "here" in
            German.
    """
    folded = _query_ends(folded)
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
        found += _relative_date_marks(now, "day", -1)
    for year, month, day in _eastern_dates(folded):
        if day:
            _add(found, year, _number(month), str(_number(day)))
        elif year and 1 <= _number(month) <= 12:
            found.append(_month_mark(int(year), _number(month)))
    for name, year in _MONTH_YEAR.findall(_DAY_MONTH.sub(" ", named)):
        found.append(_month_mark(int(year), _NAMES[name]))
    for pattern, unit, offset, needed in _RELATIVE:
        if any(map(folded.__contains__, needed)) and pattern.search(folded):
            found += _relative_date_marks(now, unit, offset)
    return list(dict.fromkeys(found))


def eastern_months(folded: str) -> list[str]:
    """Return the English names of the months written as a number and 月 or 월."""
    numbers = [_number(month) for _, month, _ in _eastern_dates(_query_ends(folded))]
    return [MONTHS[number - 1] for number in numbers if 1 <= number <= 12]


def _eastern_dates(folded: str) -> list[tuple[str, str, str]]:
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
    found.append(_day_mark(date) if year else _day_of_year(month, date.day))


def _relative_date_marks(now: datetime, unit: str, offset: int) -> list[int]:
    try:
        if unit == "day":
            return [_day_mark(now + timedelta(days=offset))]
        if unit == "week":
            return [_week_mark(now + timedelta(weeks=offset))]
    except OverflowError:
        return []  # outside the range of `datetime`
    months = now.year * 12 + now.month - 1 + offset
    return [_month_mark(months // 12, months % 12 + 1)]
