"""Words to the 64-bit term hashes that the engine indexes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import datetime, timezone
from hashlib import blake2b

import Stemmer

from vecall.lexical.dates import (
    MONTH_NAMES,
    MONTHS,
    asked_dates,
    date_marks,
    eastern_months,
    may_name_dates,
)
from vecall.lexical.irregular import PLAIN_FORMS
from vecall.lexical.languages import ENGLISH, RUSSIAN, is_cyrillic, language_of
from vecall.lexical.marks import TIME, QueryMarks, asks_time, author_mark, text_marks
from vecall.lexical.stop_words import RUSSIAN as RUSSIAN_STOP_WORDS
from vecall.lexical.stop_words import STOP_WORDS
from vecall.lexical.tokenizer import normalise, split_words
from vecall.timestamps import to_datetime

ANALYSIS_VERSION = "3"
"""Changes whenever the same text may give other terms; stored in every file."""

_CACHE_WORDS = 100_000


_STOPPED = 0  # a hash that stands for "no term"


class _Language:
    """Stems of one language's words, a thread at a time: a stemmer keeps state."""

    def __init__(self, name: str) -> None:
        self._stemmer = Stemmer.Stemmer(name, 0)
        self._english = Stemmer.Stemmer(ENGLISH, 0)
        self._stop_words = STOP_WORDS.get(name, RUSSIAN_STOP_WORDS)
        self._plain = PLAIN_FORMS if name == ENGLISH else {}
        self._months = MONTH_NAMES[name]
        self.terms: dict[str, int] = {}
        """Hashes of the stems of words that were met."""

    def stem(self, word: str) -> str:
        """Return the stem, or "" for a stop word."""
        if word in self._stop_words:
            return ""
        month = self._months.get(word)
        if month:  # memories carry the English names
            return str(self._english.stemWord(month))
        return str(self._stemmer.stemWord(self._plain.get(word, word)))

    def term(self, word: str) -> int:
        """Return the hash of the stem, or _STOPPED for a stop word."""
        if len(self.terms) >= _CACHE_WORDS:
            self.terms.clear()
        stem = self.stem(word)
        number = self.terms[word] = _hash(stem) if stem else _STOPPED
        return number


class _Analysis(threading.local):
    """The languages met so far, and the marks of authors."""

    def __init__(self) -> None:
        self._languages: dict[str, _Language] = {}
        self._authors: dict[str, int] = {}

    def terms(self, words: Sequence[str], language: str) -> list[int]:
        """Return the hashes of the stems of all words but stop words, in order."""
        own = self._language(language)
        known = own.terms
        found = []
        for word in words:
            term = known.get(word)
            if term is None:
                term = self._of_script(word, own).term(word)
                known[word] = term
            if term:
                found.append(term)
        return found

    def author_marks(self, words: Sequence[str]) -> tuple[int, ...]:
        """Return the marks of authors with these words in their names, each once.

        Names are known by their English stems, whatever language is spoken of them.
        """
        known = self._authors
        marks: dict[int, None] = {}
        for word in words:
            mark = known.get(word)
            if mark is None:
                if len(known) >= _CACHE_WORDS:
                    known.clear()
                stem = self._of_script(word, self._language(ENGLISH)).stem(word)
                mark = known[word] = author_mark(stem) if stem else _STOPPED
            if mark:
                marks[mark] = None
        return tuple(marks)

    def _of_script(self, word: str, latin: _Language) -> _Language:
        return self._language(RUSSIAN) if is_cyrillic(word) else latin

    def _language(self, name: str) -> _Language:
        language = self._languages.get(name)
        if language is None:
            language = self._languages[name] = _Language(name)
        return language


_analysis = _Analysis()

_CHARS_A_TERM = 32  # of a query: far more than a term and the stop words beside it have


def _hash(stem: str) -> int:
    digest = blake2b(stem.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") or 1


def query_terms(
    text: str, *, now: float | None = None, most: int = 256
) -> tuple[list[int], QueryMarks]:
    """Return the term hashes of a query, and what else it favours.

    Args:
        text: The query.
        now: Seconds since 1970; the day that "yesterday" is relative to. None is today.
        most: At most so many terms are returned.

    Returns:
        Hashes in the order of the words, stop words left out, days that it names last;
        and the marks of rows that it favours.
    """
    folded = normalise(text)
    read = _CHARS_A_TERM * most
    words = split_words(folded[:read])
    language = language_of(words)
    terms = _analysis.terms(words, language)
    dates: list[int] = []
    if len(folded) > read or may_name_dates(words, folded):
        terms += _analysis.terms(eastern_months(folded), ENGLISH)
        at = datetime.now(timezone.utc) if now is None else to_datetime(now)
        dates = asked_dates(folded, at, language)
    marks = QueryMarks(
        TIME if asks_time(folded) else 0, _analysis.author_marks(words[:most])
    )
    return terms[:most] + dates, marks


def memory_terms(text: str, author: str | None, timestamp: float | None) -> list[int]:
    """Return the term hashes under which a memory is found.

    Args:
        text: What was said.
        author: Who said it; "what did Nate say" should find Nate's turns.
        timestamp: When, in seconds; the day, the month's name and the year become
            terms, in UTC.

    Returns:
        64-bit hashes, repeats kept, stop words left out, marks last. A text in another
        language is found under the stems of that language and under the English ones,
        so that a name is found whatever language asks for it.
    """
    folded = normalise(text)
    words = split_words(folded)
    language = language_of(words)
    terms = _analysis.terms(words, language)
    if language != ENGLISH:
        known = set(terms)
        others = _analysis.terms(words, ENGLISH)
        terms += [term for term in others if term not in known]
    marks = text_marks(text, folded, words)
    if author:
        name = split_words(normalise(author))
        terms += _analysis.terms(name, ENGLISH)
        marks += _analysis.author_marks(name)
    if timestamp is not None:
        day = to_datetime(timestamp)
        dated = [str(day.day), MONTHS[day.month - 1], str(day.year)]
        terms += _analysis.terms(dated, ENGLISH)
        marks += date_marks(day)
    return terms + marks


def content_words(text: str) -> list[int]:
    """Return the hashes of a text's words without stop words, dates and marks."""
    words = split_words(normalise(text))
    return _analysis.terms(words, language_of(words))
