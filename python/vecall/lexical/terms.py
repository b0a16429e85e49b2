"""Words to the 64-bit term hashes that the engine indexes."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from datetime import datetime, timezone
from hashlib import blake2b

import Stemmer

from vecall.lexical.compounds import SHORTEST_COMPOUND, compound_parts
from vecall.lexical.dates import (
    MONTH_NAMES,
    MONTHS,
    asked_dates,
    date_marks,
    eastern_months,
    may_name_dates,
)
from vecall.lexical.elision import joined_words
from vecall.lexical.identifiers import (
    identifier_parts,
    joined_numbers,
    joined_parts,
)
from vecall.lexical.irregular import PLAIN_FORMS
from vecall.lexical.languages import (
    ARABIC,
    ENGLISH,
    GERMAN,
    RUSSIAN,
    is_arabic,
    is_cyrillic,
    language_of,
    may_be_german,
)
from vecall.lexical.marks import TIME, QueryMarks, asks_time, author_mark, text_marks
from vecall.lexical.stop_words import ARABIC as ARABIC_STOP_WORDS
from vecall.lexical.stop_words import RUSSIAN as RUSSIAN_STOP_WORDS
from vecall.lexical.stop_words import STOP_WORDS
from vecall.lexical.tokenizer import normalise, split_words
from vecall.timestamps import to_datetime

ANALYSIS_VERSION = "5"
"""Changes whenever the same text may give other terms; stored in every file."""

_CACHE_WORDS = 100_000
_CACHE_COMPOUNDS = 10_000

_STOPPED = 0  # a hash that stands for "no term"

PART = 1 << 63
"""The bit of a term that is a part of a memory's words, or optional in a query. The
engine counts it in no length, and looks an optional term up with and without it."""

_MOST_OPTIONAL = 256

_ALL_STOP_WORDS = {
    **STOP_WORDS,
    ARABIC: ARABIC_STOP_WORDS,
    RUSSIAN: RUSSIAN_STOP_WORDS,
}


class _Language:
    """Stems of one language's words, a thread at a time: a stemmer keeps state."""

    def __init__(self, name: str) -> None:
        self._stemmer = Stemmer.Stemmer(name, 0)
        self._english = Stemmer.Stemmer(ENGLISH, 0)
        self._stop_words = _ALL_STOP_WORDS[name]
        self._plain = PLAIN_FORMS if name == ENGLISH else {}
        self._months = MONTH_NAMES.get(name, {})
        self.terms: dict[str, int] = {}
        """Hashes of the stems of words that were met."""
        self.parts: dict[str, tuple[int, ...]] = {}
        """Hashes of the parts of long words of queries."""

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


# wa- or fa- before al-, bi-l-, ka-l-, li-l-.
_ARABIC_CONJUNCTION = re.compile(
    "\\A[\u0648\u0641](?=(?:[\u0628\u0643]?\u0627\u0644|\u0644\u0644)..)"
)


class _Arabic(_Language):
    """Arabic words without article, conjunction and the ending of feminine nouns.

    Snowball's stemmer leaves "and the" (wa-l, fa-l) in place, and writes the feminine
    ending in two ways, before a pronoun and without one.
    """

    def stem(self, word: str) -> str:
        """Return the stem, or "" for a stop word."""
        bare = _ARABIC_CONJUNCTION.sub("", word)
        stem = super().stem(bare)
        return stem[:-1] if len(stem) > 3 and stem.endswith("\u062a") else stem


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

    def part_terms(self, words: Sequence[str], language: str) -> list[int]:
        """Return the hashes of all parts that the long words of a query may have."""
        known = self._language(language).parts
        found: list[int] = []
        for word in words:
            if len(word) < SHORTEST_COMPOUND:
                continue
            parts = known.get(word)
            if parts is None:
                parts = tuple(self.terms(compound_parts([word]), language))
                if len(known) >= _CACHE_COMPOUNDS:
                    known.clear()
                known[word] = parts
            found += parts
            if len(found) >= _MOST_OPTIONAL:
                break
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
        if is_cyrillic(word):
            return self._language(RUSSIAN)
        return self._language(ARABIC) if is_arabic(word) else latin

    def _language(self, name: str) -> _Language:
        language = self._languages.get(name)
        if language is None:
            made = _Arabic(name) if name == ARABIC else _Language(name)
            language = self._languages[name] = made
        return language


_analysis = _Analysis()

_CHARS_A_TERM = 32  # of a query: far more than a term and the stop words beside it have


def _hash(stem: str) -> int:
    digest = blake2b(stem.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") & ~PART or 1


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
        and what it also favours.
    """
    folded = normalise(text)
    read = _CHARS_A_TERM * most
    words = split_words(folded[:read])
    language = language_of(words, folded[:read])
    terms = _analysis.terms(words, language)
    optional = _optional_terms(words, terms, language)
    dates: list[int] = []
    if len(folded) > read or may_name_dates(words, folded):
        terms += _analysis.terms(eastern_months(folded), ENGLISH)
        at = datetime.now(timezone.utc) if now is None else to_datetime(now)
        dates = asked_dates(folded, at, language)
    marks = QueryMarks(
        TIME if asks_time(folded) else 0,
        _analysis.author_marks(words[:most]),
        tuple(optional),
    )
    return terms[:most] + dates, marks


def _optional_terms(
    words: Sequence[str], terms: Sequence[int], language: str
) -> list[int]:
    """Return what a query may also find: parts of its words, words as parts."""
    found = dict.fromkeys(terms)
    if may_be_german(words, language):
        found.update(dict.fromkeys(_analysis.part_terms(words, language)))
    return [term | PART for term in found][:_MOST_OPTIONAL]


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
    language = language_of(words, folded)
    terms = _analysis.terms(words, language)
    extra = identifier_parts(text, folded)
    if language != ENGLISH:
        known = set(terms)
        others = _analysis.terms(words, ENGLISH)
        terms += [term for term in others if term not in known]
    else:
        extra += joined_words(folded)  # of a name
    if extra:
        terms += _analysis.terms(extra, language)
    marks = text_marks(text, folded, words, author)
    together = [*joined_numbers(words), *joined_parts(text)]
    joined = _analysis.terms(together, language)
    marks += [term | PART for term in joined]
    if may_be_german(words, language):
        marks += _parts(words)
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


def _parts(words: Sequence[str]) -> list[int]:
    parts = compound_parts(words)
    if not parts:
        return []
    terms = _analysis.terms(parts, GERMAN) + _analysis.terms(parts, ENGLISH)
    return [term | PART for term in dict.fromkeys(terms)]


def content_words(text: str) -> list[int]:
    """Return the hashes of a text's words without stop words, dates and marks."""
    folded = normalise(text)
    words = split_words(folded)
    return _analysis.terms(words, language_of(words, folded))
