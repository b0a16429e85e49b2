"""The tables of the analysis in C++: what Latin letters and words in them are."""

from __future__ import annotations

import re
from typing import Any

from vecall.lexical import features, languages, periods, tokenizer
from vecall.lexical.period_patterns import MONTHS
from vecall.text import MARKS, RARE_MARKS, lazy_pattern, normalise

# Basic Latin to Latin Extended-B, and General Punctuation without what is invisible.
_LETTERS = (*range(0x250), *range(0x2010, 0x2028), *range(0x2030, 0x205F))
# What the C++ analysis has no rule for: marks, Vietnamese, other scripts, symbols.
_ELSEWHERE = lazy_pattern(
    rf"[{MARKS}{RARE_MARKS}\u02b0-\u02ff\u0370-\u1dff]"
    rf"|{languages.VIETNAMESE_LETTERS.pattern}"
)
_CLOSING = lazy_pattern(rf"[{features.CLOSING}]")


def _covered_latin_letters() -> dict[str, str]:
    """Return the normal forms of the letters whose forms need no other letter."""
    forms = {letter: normalise(letter) for letter in map(chr, _LETTERS)}
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
        "months": MONTHS,
        "user": features.USER,
        "question": features.QUESTION,
        "time": features.TIME,
        "dated": features.DATED,
    }
