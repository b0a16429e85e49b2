"""Which language a text is written in, as far as stop words and stems depend on it.

Latin letters: the language whose stop words the text holds most of, English where
nothing speaks for another. Cyrillic letters: Russian, whose stemmer is nearer to its
neighbours than none. Arabic letters: Arabic. Scripts without spaces need neither (see
the tokenizer).
"""

from __future__ import annotations

from collections.abc import Sequence

from vecall.lexical.elision import elided_words
from vecall.lexical.stop_words import STOP_WORDS

ARABIC = "arabic"
ENGLISH = "english"
GERMAN = "german"
RUSSIAN = "russian"

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
"""Stop words that make a text another language's by themselves. The others may stand in
an English text: the car, a hat, AI, the OS, Los Angeles, a todo."""


_ELSEWHERE = frozenset(word for word, numbers in _OF_WORD.items() if 0 not in numbers)
"""Stop words of other languages that are none in English."""


def language_of(words: Sequence[str], folded: str = "") -> str:
    """Return the language, by Snowball's name, of a text in Latin letters.

    Args:
        words: Its normalised words.
        folded: The normalised text, whose elided words (l', dell') count as well.
    """
    elided = elided_words(folded) if folded else []
    if not elided and _ELSEWHERE.isdisjoint(words):
        return ENGLISH  # which wins ties
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
    best = counts.index(max(counts))
    if is_telling[best] or counts[best] > 1:
        return _LANGUAGES[best]
    return ENGLISH


_NOT_GERMAN = frozenset(
    word
    for word, numbers in _OF_WORD.items()
    if _LANGUAGES.index(GERMAN) not in numbers
)
"""Stop words of other languages that are none in German."""


def may_be_german(words: Sequence[str], language: str) -> bool:
    """Whether a text is German, or too short to say: no stop word speaks against it."""
    if language != ENGLISH:
        return language == GERMAN
    return _NOT_GERMAN.isdisjoint(words)


def is_cyrillic(word: str) -> bool:
    """Whether a word begins with a Cyrillic letter."""
    return "\u0400" <= word[0] <= "\u052f"


def is_arabic(word: str) -> bool:
    """Whether a word begins with an Arabic letter."""
    return "\u0620" <= word[0] <= "\u06d3" or "\u0750" <= word[0] <= "\u077f"
