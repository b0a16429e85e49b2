"""Converts words to the 64-bit term hashes that the engine indexes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import timezone, tzinfo
from functools import cache
from time import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vecall._core import TextAnalyzer
from vecall.clock import Period, to_datetime
from vecall.lexical import features, languages, tokenizer
from vecall.lexical.latin import latin_folding_rules, period_tables
from vecall.lexical.period_patterns import MONTHS, eastern_months
from vecall.lexical.periods import (
    find_period,
    local_micros,
    may_name_period,
    period_in_zone,
)
from vecall.lexical.stems import CACHE_WORDS, PART, STOPPED, Language, language_stemmer
from vecall.text import normalise, with_tones

ANALYSIS_VERSION = "8"
"""The version of the text analysis, stored in every file. It changes if a text of any
language may get other terms."""

_CACHE_COMPOUNDS = 10_000

_MOST_OPTIONAL = 256


class _Languages(dict[str, Language]):
    """Stemmers by language, made when they are needed."""

    def __missing__(self, name: str) -> Language:
        self[name] = language = language_stemmer(name)
        return language


class _Analysis(threading.local):
    """One thread's stemmers and its cache of author marks."""

    def __init__(self) -> None:
        self._languages = _Languages()
        self._authors: dict[str, int] = {}

    def terms(self, words: Sequence[str], language: str) -> list[int]:
        """Return the hashes of the stems of words, in order, without stop words."""
        own = self._languages[language]
        known = own.terms
        found = list(map(known.get, words))
        if None in found:
            for place, word in enumerate(words):
                if found[place] is None:
                    its = own if word.isascii() else self._language_of_word(word, own)
                    found[place] = known[word] = its.term_of_word(word)
        return list(filter(None, found))

    def terms_of_compounds(self, words: Sequence[str], language: str) -> list[int]:
        """Return the hashes of the possible parts of the long words of a query."""
        known = self._languages[language].parts
        found: list[int] = []
        for word in words:
            if len(word) < tokenizer.SHORTEST_COMPOUND:
                continue
            parts = known.get(word)
            if parts is None:
                parts = tuple(self.terms(tokenizer.compound_parts([word]), language))
                if len(known) >= _CACHE_COMPOUNDS:
                    known.clear()
                known[word] = parts
            found += parts
            if len(found) >= _MOST_OPTIONAL:
                break
        return found

    def terms_of_new_words(self, words: Sequence[str], language: str) -> list[int]:
        """Return the hash or STOPPED of words in Latin letters; not cached."""
        return list(map(self._languages[language].term_of_new_word, words))

    def marks_of_new_author_words(self, words: Sequence[str]) -> list[int]:
        """Return the mark of each word of a name, or STOPPED."""
        stems = map(self._languages[languages.ENGLISH].stem, words)
        return [features.author_mark(stem) if stem else STOPPED for stem in stems]

    def author_marks(self, words: Sequence[str]) -> tuple[int, ...]:
        """Return the marks of authors with these words in their names, without repeats.

        The marks of names use English stems, whatever the language of the text.
        """
        known = self._authors
        marks = list(map(known.get, words))
        if None in marks:
            for place, word in enumerate(words):
                if marks[place] is None:
                    if len(known) >= CACHE_WORDS:
                        known.clear()
                    stem = self._language_of_word(
                        word, self._languages[languages.ENGLISH]
                    ).stem(word)
                    marks[place] = known[word] = (
                        features.author_mark(stem) if stem else STOPPED
                    )
        return tuple(dict.fromkeys(filter(None, marks)))

    def _language_of_word(self, word: str, latin: Language) -> Language:
        own = languages.language_of_script(word)
        return latin if own is None else self._languages[own]


_analysis = _Analysis()

_MOST = 256  # terms of a query
_CHARS_A_TERM = 32  # of a query: a generous bound for a term and its stop words


def query_terms(
    text: str,
    *,
    now: float | None = None,
    zone: tzinfo | None = None,
    most: int = _MOST,
    by_period: bool = True,
) -> tuple[list[int], features.QueryMarks]:
    """Return the hashes of at most so many words of a query, and what else it asks for.

    Stop words are left out, and the words that name a period, if one is looked for.
    "Yesterday" is relative to `now`, in seconds since 1970, or else to the current
    time, in the time zone of the user, or else in UTC.
    """
    at = time() if now is None else now
    found = _analyzer().query_terms(
        text, _new_terms_of_words, by_period, period_tables, at, zone, local_micros
    )
    if found is None or most != _MOST:
        return query_terms_in_python(text, at, zone, most, by_period)
    terms, optional, authors, query_asks_time, periods = found
    period: Period | None = None
    earlier: list[Period] = []
    if periods is not None:
        try:
            period, *earlier = (period_in_zone(*each, zone) for each in periods)
        except (ValueError, OverflowError, OSError):
            return query_terms_in_python(text, at, zone, most, by_period)
    asked = features.TIME if query_asks_time else 0
    made: Any = (asked, tuple(authors), tuple(optional), period, tuple(earlier))
    return terms, tuple.__new__(features.QueryMarks, made)  # without a call of Python


def query_terms_in_python(
    text: str, now: float | None, zone: tzinfo | None, most: int, by_period: bool
) -> tuple[list[int], features.QueryMarks]:
    """Return what `query_terms` does: the reference of the analysis in C++."""
    folded = normalise(text)
    read = _CHARS_A_TERM * most
    words = tokenizer.split_words(folded[:read])
    toned = toned_words(text[:read])
    language = languages.language_of(words, folded[:read], text[:read], toned)
    asked = features.TIME if features.query_asks_time(folded) else 0
    period: Period | None = None
    earlier: tuple[Period, ...] = ()
    if by_period and (len(folded) > read or may_name_period(words, folded)):
        at = time() if now is None else now
        found = find_period(folded, words, at, zone or timezone.utc, language)
        if found is not None:
            period, folded, earlier = found
            words = tokenizer.split_words(folded[:read])
            toned = [word for word in toned if word in found.rest]
    terms = _analysis.terms(
        toned if language == languages.VIETNAMESE else words, language
    )
    if folded.isascii():
        optional = _optional_query_terms(words, terms, language)
    else:
        pictures = _analysis.terms(tokenizer.emoji_words(folded[:read]), language)
        terms = terms or pictures  # beside words an emoji is optional
        optional = _optional_query_terms(words, [*terms, *pictures], language)
        if period is None:
            terms += _analysis.terms(eastern_months(folded), languages.ENGLISH)
    marks = features.QueryMarks(
        asked, _analysis.author_marks(words[:most]), tuple(optional), period, earlier
    )
    return terms[:most], marks


def _optional_query_terms(
    words: Sequence[str], terms: Sequence[int], language: str
) -> list[int]:
    """Return the optional terms of a query: parts of its words, its words as parts."""
    found = dict.fromkeys(terms)
    if languages.may_be_german(words, language):
        found.update(dict.fromkeys(_analysis.terms_of_compounds(words, language)))
    elif language == languages.TURKISH:  # an English query may hold a Turkish name
        found.update(dict.fromkeys(_analysis.terms(words, languages.ENGLISH)))
    return list(map(PART.__or__, found))[:_MOST_OPTIONAL]


def memory_terms(text: str, author: str | None, timestamp: float | None) -> list[int]:
    """Return the hashes under which a memory is indexed, with repeats, marks last.

    The author's name becomes terms: "what did Nate say" should find Nate's turns. So do
    the day, the month's name and the year of the time, in UTC. A text in a language
    other than English gets the stems of its language and the English stems, so that a
    query in any language finds a name.
    """
    folded, words, toned, language, terms = _analysed_words(text)
    extra = tokenizer.identifier_parts(text, folded)
    if language != languages.ENGLISH:
        known = set(terms)
        others = _analysis.terms(words, languages.ENGLISH)
        terms += [term for term in others if term not in known]
    else:
        extra += languages.joined_words(folded)  # names such as D'Angelo
    if extra:
        terms += _analysis.terms(extra, language)
    if suffixed := tokenizer.suffixed_words(folded):
        terms += _analysis.terms(suffixed, languages.ENGLISH)
    if toned and language != languages.VIETNAMESE:
        terms += _vietnamese_terms(toned)
    marks = features.text_marks(text, folded, words, author)
    parts = [*tokenizer.joined_numbers(words), *tokenizer.joined_identifier_parts(text)]
    if "+" in folded or "#" in folded:
        parts += tokenizer.base_letters(words)
    if not folded.isascii():
        parts += tokenizer.symbol_words(folded).difference(words)
    marks += map(PART.__or__, _analysis.terms(parts, language))
    if languages.may_be_german(words, language):
        marks += _compound_part_terms(words)
    if author:
        name = tokenizer.split_words(normalise(author))
        terms += _analysis.terms(name, languages.ENGLISH)
        terms += _vietnamese_terms(toned_words(author))
        marks += _analysis.author_marks(name)
    if timestamp is not None:
        day = to_datetime(timestamp)
        dated = [str(day.day), MONTHS[day.month - 1], str(day.year)]
        terms += _analysis.terms(dated, languages.ENGLISH)
        marks.append(features.DATED)
    return terms + marks


def toned_words(text: str) -> list[str]:
    """Return the words of a text with their tones; [] without Vietnamese letters."""
    if text.isascii() or not languages.VIETNAMESE_LETTERS.search(text):
        return []
    return tokenizer.split_words(with_tones(text))


def _vietnamese_terms(toned: Sequence[str]) -> list[int]:
    """Return the terms under which a Vietnamese query finds non-ASCII names."""
    names = [word for word in toned if not word.isascii()]
    return _analysis.terms(names, languages.VIETNAMESE)


def _compound_part_terms(words: Sequence[str]) -> list[int]:
    parts = tokenizer.compound_parts(words)
    if not parts:
        return []
    terms = _analysis.terms(parts, languages.GERMAN) + _analysis.terms(
        parts, languages.ENGLISH
    )
    return [term | PART for term in dict.fromkeys(terms)]


def content_words(text: str) -> list[int]:
    """Return the hashes of a text's words, without stop words, dates and marks."""
    return _analysed_words(text)[-1]


def _analysed_words(text: str) -> tuple[str, list[str], list[str], str, list[int]]:
    """Return a text's normal form, words, words with tones, language and terms."""
    folded = normalise(text)
    words = tokenizer.split_words(folded)
    toned = toned_words(text)
    language = languages.language_of(words, folded, text, toned)
    own = toned if language == languages.VIETNAMESE else words
    return folded, words, toned, language, _analysis.terms(own, language)


def terms_of_two_texts(one: str, other: str) -> tuple[list[int], list[int]]:
    """Return the hashes of the words of two short texts, read as one language."""
    # Numbers and stop words are left out.
    both = f"{one}\n{other}"
    folded, toned = normalise(both), toned_words(both)
    language = languages.language_of(tokenizer.split_words(folded), folded, both, toned)
    first, second = (
        _analysis.terms(
            [
                word
                for word in tokenizer.split_words(normalise(text))
                if not any(map(str.isdigit, word))
            ],
            language,
        )
        for text in (one, other)
    )
    return first, second


def terms_of_memories(
    memories: list[tuple[str, str | None, float | None]],
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return what `memory_terms` does for many: all terms, and the offsets of each.

    Texts in Latin letters are read in C++, by the tables of this package.
    """
    return _analyzer().memory_terms(memories, _new_terms_of_words, memory_terms)


def _new_terms_of_words(language: int, words: list[str]) -> list[int]:
    if language < len(_LATIN):
        return _analysis.terms_of_new_words(words, _LATIN[language])
    return _analysis.marks_of_new_author_words(words)


_LATIN = tuple(languages.STOP_WORDS)
_analyzer = cache(lambda: TextAnalyzer(latin_folding_rules()))
