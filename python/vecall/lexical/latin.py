"""The tables of the analysis in C++: what Latin letters and words in them are."""

from __future__ import annotations

import re
from typing import Any

from vecall.lexical import features, languages, period_patterns, periods, tokenizer
from vecall.text import MARKS, RARE_MARKS, lazy_pattern, normalise

# Basic Latin to Latin Extended-B, and General Punctuation without what is invisible.
_LETTERS = (*range(0x250), *range(0x2010, 0x2028), *range(0x2030, 0x205F))
# What the C++ analysis has no rule for: marks, Vietnamese, other scripts, symbols.
_ELSEWHERE = lazy_pattern(
    rf"[{MARKS}{RARE_MARKS}\u02b0-\u02ff\u0370-\u1dff]"
    rf"|{languages.VIETNAMESE_LETTERS.pattern}"
)
_APART = "\u4e00"  # combines with no letter
_READERS = (*("word", "unit", "ago", "recent"),
            *("weekday", "month", "season", "part_of_day"))  # fmt: skip
_UNITS = (*period_patterns.UNITS, *period_patterns.PARTS, "weekday", "season")
_CLOSING = lazy_pattern(rf"[{features.CLOSING}]")


def _covered_latin_letters() -> dict[str, str]:
    """Return the normal forms of the letters whose forms need no other letter."""
    letters = list(map(chr, _LETTERS))
    forms = dict(
        zip(letters, normalise(_APART.join(letters)).split(_APART), strict=True)
    )
    return {
        letter: form
        for letter, form in forms.items()
        if not _ELSEWHERE.search(letter + form)
        and all(forms.get(one) == one for one in form)
    }


def latin_folding_rules() -> dict[str, Any]:
    """Return the tables, as `vecall._core.TextAnalyzer` takes them."""
    forms = _covered_latin_letters()
    letters = "".join(forms)
    number_of = list(languages.STOP_WORDS).index
    return {
        "letters": forms,
        "word": "".join(filter(re.compile(r"\w").match, letters)),
        "alphabetic": "".join(filter(str.isalpha, letters)),
        "digits": "".join(filter(str.isdigit, letters)),
        "closing": "".join(filter(_CLOSING.match, letters)),
        "apostrophes": languages.APOSTROPHES,
        "vowels": languages.VOWELS,
        "turkish": "".join(filter(languages.TURKISH_LETTERS.match, letters)),
        "romanian": "".join(filter(languages.ROMANIAN_LETTERS.match, letters)),
        "stop_words": list(map(list, languages.STOP_WORDS.values())),
        "german": number_of(languages.GERMAN),
        "turk": number_of(languages.TURKISH),
        "telling": list(languages.TELLING),
        "time_words": list(features.TIME_WORDS),
        "opening": list(periods.OPENS),
        "elided": [
            (word, list(map(number_of, names)))
            for word, names in languages.ELIDING_LANGUAGES.items()
        ],
        "units": list(tokenizer.UNITS),
        "ordinals": list(tokenizer.ORDINALS),
        "endings": list(tokenizer.COMPOUND_ENDINGS),
        "months": period_patterns.MONTHS,
        "asks_time": "".join(features.ASKS_TIME.pattern.split()),
        "user": features.USER,
        "question": features.QUESTION,
        "time": features.TIME,
        "dated": features.DATED,
    }


def period_tables(number: int | None) -> dict[str, Any]:
    """Return the words and patterns of times of a language, or what all share."""
    return _tables_of_all() if number is None else _tables_of_language(number)


def _tables_of_all() -> dict[str, Any]:
    stop_words = list(languages.STOP_WORDS)
    number_of = dict(zip(stop_words, range(len(stop_words)), strict=True))
    return {
        "opening": list(periods.OPENING.items()),
        "of_an": periods.OF_AN,
        "languages": [
            number_of.get(table["name"], len(stop_words))
            for table in period_patterns.LATIN
        ],
        "only_in": [(word, number_of[of]) for word, of in periods.ONLY_IN.items()],
        "months": period_patterns.MONTH_NUMBERS,
        "dates": [pattern.pattern for pattern in period_patterns.DATES],
        "only_month": period_patterns.ONLY_MONTH.pattern,
        "year": period_patterns.year_pattern().pattern,
        "any_year": period_patterns.ANY_YEAR.pattern,
        "relative": periods.RELATIVE.pattern,
        "of_something": periods.OF_SOMETHING.pattern,
        "ends": periods.ENDS.pattern,
        "part_of": periods.PART_OF.pattern,
        "article": periods.LAST_ARTICLE.pattern,
    }


def _tables_of_language(number: int) -> dict[str, Any]:
    patterns = period_patterns.patterns_of_language(number)
    around = ("bounds", "counted", "before", "after", "joins", "part", "part_of")
    return {
        **{name: patterns.of[name] for name in period_patterns.VOCABULARIES},
        **{name: getattr(getattr(patterns, name), "pattern", "") for name in around},
        "readers": [
            [
                (pattern.pattern, _READERS.index(read.__name__.removeprefix("_read_")))
                for pattern, read in some
            ]
            for some in patterns.readers
        ],
        "words": {
            word: (_UNITS.index(unit), int(steps))
            for word, (unit, steps) in patterns.words.items()
        },
        "alone": list(patterns.alone),
    }
