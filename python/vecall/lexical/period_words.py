"""The words by which each language names a period, for `vecall.lexical.periods`.

They are in period_words.ini, normalised. In a vocabulary "/" separates meanings, a
space separates words of one meaning, "_" stands for a space, and "+" marks a month or
season that stands without a preposition. Other values are regular expressions; in `ago`
and `recent`, {n} is a number and {u} a unit; "||" separates two patterns.

Meanings, in their order: `units` are minute, hour, day, week, weekend, month and year;
`numbers` 1 to 12; `adjectives` last, this and next; `weekdays` Monday to Sunday;
`seasons` winter to autumn; `parts` those of `PARTS`. `specs` has the meaning of each
word of `words`: a unit or a part of the day, and how many lie between it and now.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from configparser import ConfigParser
from pathlib import Path

Table = dict[str, str]

PARTS = ("morning", "afternoon", "evening", "night")


def _tables() -> list[Table]:
    words = ConfigParser(delimiters="=", interpolation=None)
    path = Path(__file__).with_suffix(".ini")
    words.read_string(path.read_text(encoding="utf-8"))
    return [
        {"name": name, **{key: text.replace("\n", " ") for key, text in table.items()}}
        for name, table in words.items()
        if name != words.default_section
    ]


TABLES = _tables()

EAST = TABLES[-3:]
"""Languages with months by number, and words without spaces or with particles."""

LATIN = TABLES[:-3]
"""Languages whose words are separated by spaces."""

EAST_YEARS = {"去年": -1, "昨年": -1, "작년": -1, "지난해": -1, "今年": 0, "올해": 0}
"""Words for years that stand before a month or season, and how far the year is."""


def alternatives(text: str) -> list[list[str]]:
    """Return the words of each meaning."""
    return [each.split() for each in text.split("/")]


def meanings(text: str) -> dict[str, int]:
    """Return the number of its place for each word."""
    return {
        word.rstrip("+").replace("_", " "): place
        for place, words in enumerate(alternatives(text))
        for word in words
    }


def any_of(words: Iterable[str]) -> str:
    """Return a pattern that matches any of the words, the longest one first."""
    ordered = sorted(words, key=len, reverse=True)
    return "|".join(map(re.escape, ordered)) or r"(?!)"


def shortest(words: Iterable[str]) -> list[str]:
    """Return the words that contain no other one; a text with any word has one."""
    all_of = list(words)
    return [
        word
        for word in all_of
        if not any(other in word for other in all_of if other != word)
    ]


MONTHS = (
    "january february march april may june july august september october november "
    "december"
).split()

_ALSO_NAMES = ("jan", "mar")

MONTH_NAMES: dict[str, dict[str, str]] = {
    table["name"]: {
        name: MONTHS[number]
        for name, number in meanings(table["months"]).items()
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
    for name, number in meanings(table["months"]).items()
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
