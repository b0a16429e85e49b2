"""Detects the language of a text, for stop words and stemming.

- Latin letters: the language with the most stop words in the text, by default English.
  A word with a letter that only Vietnamese or Turkish has counts as a stop word of it.
- Cyrillic letters: Russian. For related languages, its stemmer is better than none.
- Arabic, Greek and Devanagari letters: Arabic, Greek and Hindi.
- Scripts without spaces need no stop words and no stems; see the tokenizer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from vecall.lexical.elision import elided_words
from vecall.lexical.stop_words import STOP_WORDS

ARABIC = "arabic"
ENGLISH = "english"
GERMAN = "german"
GREEK = "greek"
HINDI = "hindi"
RUSSIAN = "russian"
TURKISH = "turkish"
VIETNAMESE = "vietnamese"

_LANGUAGES = tuple(STOP_WORDS)
_OF_WORD: dict[str, tuple[int, ...]] = {
    word: tuple(i for i, name in enumerate(_LANGUAGES) if word in STOP_WORDS[name])
    for words in STOP_WORDS.values()
    for word in words
}
_ALSO_ENGLISH = frozenset(
    "alla avant cause cela come comment cosa damit dann dice dove elle entre eras esse "
    "este fino fora fois hier mais mine nach pour sans sera sole solo sono sous toda "
    "todo todos".split()
)
_SHORT_AND_TELLING = frozenset("ich und wer wie que".split())
_TELLING = frozenset(
    word
    for word in _OF_WORD
    if word in _SHORT_AND_TELLING or (len(word) > 3 and word not in _ALSO_ENGLISH)
)
"""Stop words that identify a language other than English. Stop words outside this set
also occur in English texts: the car, a hat, AI, the OS, Los Angeles, a todo."""


_ELSEWHERE = frozenset(word for word, numbers in _OF_WORD.items() if 0 not in numbers)
"""Words that are stop words of another language but not of English."""


# Letters with a horn, with two marks, with a dot below or with a hook above.
_VIETNAMESE = re.compile("[\u01a0\u01a1\u01af\u01b0\u0309\u031b\u0323\u1ea0-\u1ef9]")
_TURKISH = re.compile("[\u011e\u011f\u0130\u0131\u015e\u015f]")
_ROMANIAN = re.compile("[\u0102\u0103\u0162\u0163\u0218-\u021b]")
_RUN = re.compile(r"\w+")


def has_vietnamese_letters(text: str) -> bool:
    """Return whether a text, not normalised, has letters that only Vietnamese uses."""
    return not text.isascii() and _VIETNAMESE.search(text) is not None


def language_of(
    words: Sequence[str],
    folded: str = "",
    text: str = "",
    toned: Sequence[str] = (),
) -> str:
    """Return the language of a text in Latin letters.

    Args:
        words: The normalised words of the text.
        folded: The normalised text; its elided words (l', dell') count as stop words.
        text: The original text; its words with Turkish letters count as stop words.
        toned: If the text has Vietnamese letters, its words with their tones.

    Returns:
        Snowball's name of the language, or VIETNAMESE.
    """
    if toned:
        return _with_vietnamese(words, toned)
    elided = elided_words(folded) if folded else []
    letters = _turkish_words(text) if text and not text.isascii() else 0
    if not elided and not letters and _ELSEWHERE.isdisjoint(words):
        return ENGLISH  # English wins ties
    counts = [0] * len(_LANGUAGES)
    is_telling = [False] * len(_LANGUAGES)
    for word in words:
        for number in _OF_WORD.get(word, ()):
            counts[number] += 1
            if word in _TELLING:
                is_telling[number] = True
    for prefix, languages in elided:
        for language in languages:
            number = _LANGUAGES.index(language)
            counts[number] += 1
            is_telling[number] |= len(prefix) > 1
    if letters:
        number = _LANGUAGES.index(TURKISH)
        counts[number] += letters
        is_telling[number] = True
    best = counts.index(max(counts))
    if is_telling[best] or counts[best] > 1:
        return _LANGUAGES[best]
    return ENGLISH


def _with_vietnamese(words: Sequence[str], toned: Sequence[str]) -> str:
    """Return VIETNAMESE, unless more words are stop words of another language.

    Vietnamese words with their tones are not stop words of other languages.
    """
    telling = sum(has_vietnamese_letters(word) for word in toned)
    other = language_of(toned)
    against = sum(word in STOP_WORDS[other] for word in toned)
    return VIETNAMESE if telling >= against else language_of(words)


def _turkish_words(text: str) -> int:
    """Return the number of words with Turkish letters; 0 with Romanian letters."""
    if not _TURKISH.search(text) or _ROMANIAN.search(text):
        return 0
    return sum(_TURKISH.search(word) is not None for word in _RUN.findall(text))


_NOT_GERMAN = frozenset(
    word
    for word, numbers in _OF_WORD.items()
    if _LANGUAGES.index(GERMAN) not in numbers
)
"""Words that are stop words of another language but not of German."""


def may_be_german(words: Sequence[str], language: str) -> bool:
    """Return whether a text may be German.

    True for a German text, and for a text that is too short to tell: it has no stop
    word of another language.

    Args:
        words: The normalised words of the text.
        language: The result of `language_of`.
    """
    if language != ENGLISH:
        return language == GERMAN
    return _NOT_GERMAN.isdisjoint(words)


_SCRIPTS = (
    ("\u0370", "\u03ff", GREEK),
    ("\u0400", "\u052f", RUSSIAN),
    ("\u0620", "\u06d3", ARABIC),
    ("\u0750", "\u077f", ARABIC),
    ("\u0900", "\u097f", HINDI),
    ("\u1f00", "\u1fff", GREEK),
)


def language_of_script(word: str) -> str | None:
    """Return the language of the script of a word's first letter, or None."""
    for first, last, language in _SCRIPTS:
        if first <= word[0] <= last:
            return language
    return None
