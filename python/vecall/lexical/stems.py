"""Stems of each language's words, and their hashes."""

from __future__ import annotations

import re
import unicodedata
from hashlib import blake2b

import Stemmer

from vecall.lexical.dates import MONTH_NAMES
from vecall.lexical.irregular_forms import PLAIN_FORMS
from vecall.lexical.languages import (
    ARABIC,
    ENGLISH,
    GREEK,
    HINDI,
    RUSSIAN,
    TURKISH,
    VIETNAMESE,
)
from vecall.lexical.stop_words import ARABIC as ARABIC_STOP_WORDS
from vecall.lexical.stop_words import GREEK as GREEK_STOP_WORDS
from vecall.lexical.stop_words import HINDI as HINDI_STOP_WORDS
from vecall.lexical.stop_words import RUSSIAN as RUSSIAN_STOP_WORDS
from vecall.lexical.stop_words import STOP_WORDS
from vecall.lexical.stop_words import VIETNAMESE as VIETNAMESE_STOP_WORDS

CACHE_WORDS = 100_000
"""Words of a language whose hashes are remembered."""

STOPPED = 0
"""The hash that means "no term"."""

PART = 1 << 63
"""The bit of a term that is a part of a memory's words, or optional in a query. The
engine counts it in no length, and looks an optional term up with and without it."""


_ALL_STOP_WORDS = {
    **STOP_WORDS,
    ARABIC: ARABIC_STOP_WORDS,
    GREEK: GREEK_STOP_WORDS,
    HINDI: HINDI_STOP_WORDS,
    RUSSIAN: RUSSIAN_STOP_WORDS,
    VIETNAMESE: VIETNAMESE_STOP_WORDS,
}


class Language:
    """Stems of one language's words, one thread at a time: a stemmer has state."""

    def __init__(self, name: str) -> None:
        """Take a language by Snowball's name."""
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
        """Return the hash of the stem, or STOPPED for a stop word."""
        if len(self.terms) >= CACHE_WORDS:
            self.terms.clear()
        stem = self.stem(word)
        number = self.terms[word] = term_hash(stem) if stem else STOPPED
        return number


# wa- or fa- before al-, bi-l-, ka-l-, li-l-.
_ARABIC_CONJUNCTION = re.compile(
    "\\A[\u0648\u0641](?=(?:[\u0628\u0643]?\u0627\u0644|\u0644\u0644)..)"
)


class _Arabic(Language):
    """Arabic words without article, conjunction and the ending of feminine nouns.

    Snowball's stemmer leaves "and the" (wa-l, fa-l) in place, and writes the feminine
    ending in two ways, before a pronoun and without one.
    """

    def stem(self, word: str) -> str:
        """Return the stem, or "" for a stop word."""
        bare = _ARABIC_CONJUNCTION.sub("", word)
        stem = super().stem(bare)
        return stem[:-1] if len(stem) > 3 and stem.endswith("\u062a") else stem


class _Greek(Language):
    """Greek words without accents, which move between the forms of a word."""

    def stem(self, word: str) -> str:
        """Return the stem, or "" for a stop word."""
        stem = super().stem(_without_marks(word))
        return stem[:-1] if len(stem) > 3 and stem.endswith("\u03b9") else stem


# The nukta, which is often left out, and the two signs of a nasal vowel.
_HINDI_SPELLING = str.maketrans({"\u093c": None, "\u0901": "\u0902"})


class _Hindi(Language):
    """Hindi words in one of the ways in which they are spelled."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        spelled = [word.translate(_HINDI_SPELLING) for word in self._stop_words]
        self._stop_words = frozenset(spelled)

    def stem(self, word: str) -> str:
        """Return the stem, or "" for a stop word."""
        return super().stem(word.translate(_HINDI_SPELLING))


_TURKISH_STEM = 5


class _Turkish(Language):
    """The first five letters of Turkish words, whose endings are many.

    They find as much as a stemmer does (Can et al., "Information retrieval on Turkish
    texts", 2008).
    """

    def stem(self, word: str) -> str:
        """Return the beginning, or "" for a stop word."""
        if word in self._stop_words:
            return ""
        return word[:_TURKISH_STEM] if word.isalpha() else word


class _Vietnamese(Language):
    """Vietnamese words, which have no endings, and the stems of English ones."""

    def __init__(self, name: str) -> None:
        super().__init__(ENGLISH)
        self._stop_words = _ALL_STOP_WORDS[name]
        self._months = {}

    def stem(self, word: str) -> str:
        """Return the word, its English stem if it is ASCII, or "" for a stop word."""
        if word.isascii():
            return super().stem(word)
        return "" if word in self._stop_words else word


_MADE: dict[str, type[Language]] = {
    ARABIC: _Arabic,
    GREEK: _Greek,
    HINDI: _Hindi,
    TURKISH: _Turkish,
    VIETNAMESE: _Vietnamese,
}


def made_language(name: str) -> Language:
    """Return a language by Snowball's name, or VIETNAMESE; for one thread."""
    return _MADE.get(name, Language)(name)


def _without_marks(word: str) -> str:
    split = unicodedata.normalize("NFD", word)
    return "".join(char for char in split if not unicodedata.combining(char))


def term_hash(stem: str) -> int:
    """Return the 63-bit hash of a stem; no stem has 0."""
    digest = blake2b(stem.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") & ~PART or 1
