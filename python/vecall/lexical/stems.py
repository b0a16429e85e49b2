"""Stems of words by language, and the hashes of stems."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from hashlib import blake2b
from importlib import import_module
from typing import Any

from vecall.lexical import languages
from vecall.lexical.period_patterns import MONTH_NAMES
from vecall.text import strip_combining_marks

# PyStemmer has no wheel for every Python, and would bring back the global lock of one
# without it. snowballstemmer imports it too, unless it is hidden.
_modules: dict[str, Any] = sys.modules
if not getattr(sys, "_is_gil_enabled", lambda: True)():
    _modules.setdefault("Stemmer", None)
Stemmer = None
with suppress(ImportError):
    Stemmer = import_module("Stemmer")
if Stemmer is None:
    import snowballstemmer
if _modules.get("Stemmer", True) is None:
    del _modules["Stemmer"]


def snowball_stemmer(name: str) -> Any:
    """Return Snowball's stemmer of a language, compiled if there is one."""
    if Stemmer is None:
        return snowballstemmer.stemmer(name)
    return Stemmer.Stemmer(name, 0)


# English words with irregular forms that no stemmer unites, such as go and went.
#
# A question often has the base form ("what did she buy") and its answer another form
# ("I bought"). The list contains forms that belong to one word only. The exceptions are
# "saw", "left", "found" and "felt": they are also words of their own, but improve
# searches more as forms.

_FORMS = """
begin began begun; bite bitten; blow blew blown; break broke broken; bring brought;
build built; burn burnt; buy bought; catch caught; choose chose chosen; come came;
deal dealt; dig dug; draw drew drawn; dream dreamt; drink drank drunk;
drive drove driven; eat ate eaten; fall fell fallen; feed fed; feel felt; fight fought;
find found; fly flew flown; forbid forbade forbidden; forget forgot forgotten;
forgive forgave forgiven; freeze froze frozen; get got gotten; give gave given;
go went gone goes; grow grew grown; hang hung; hear heard; hide hid hidden; hold held;
keep kept; kneel knelt; know knew known; lay laid; lead led; learn learnt; leave left;
lend lent; light lit; lose lost; make made; mean meant; meet met; pay paid;
ride rode ridden; ring rang rung; rise rose risen; run ran; say said; see saw seen;
seek sought; sell sold; send sent; shake shook shaken; shine shone; shoot shot;
show shown; shrink shrank shrunk; sing sang sung; sink sank sunk; sit sat; sleep slept;
slide slid; speak spoke spoken; spend spent; spill spilt; spin spun; stand stood;
steal stole stolen; stick stuck; strike struck; swear swore sworn; sweep swept;
swell swollen; swim swam swum; swing swung; take took taken; teach taught;
tear tore torn; tell told; think thought; throw threw thrown;
understand understood; wake woke woken; wear wore worn; weep wept; win won;
withdraw withdrew withdrawn; write wrote written;
child children; man men; woman women; foot feet; tooth teeth; mouse mice; goose geese;
person people; wife wives; knife knives; leaf leaves; half halves;
shelf shelves; wolf wolves; loaf loaves; thief thieves;
good better best; bad worse worst; far farther farthest
"""

PLAIN_FORMS: dict[str, str] = {
    form: plain
    for plain, *forms in (entry.split() for entry in _FORMS.split(";"))
    for form in forms
}
"""Maps an irregular form to the base form of its word."""


CACHE_WORDS = 100_000
"""The maximum number of words in the cache of a language."""

STOPPED = 0
"""The hash that means "no term"."""

PART = 1 << 63
"""The highest bit of a term. It marks a part of a memory's words, or an optional term
of a query. The engine does not count terms with this bit in the length of a memory. It
looks up an optional term with and without the bit."""


class Language:
    """Stems the words of one language. Not thread-safe: a stemmer has state."""

    def __init__(self, name: str) -> None:
        """Create the stemmer of a language, by Snowball's name."""
        self._stemmer = snowball_stemmer(name)
        self._english = snowball_stemmer(languages.ENGLISH)
        self._stop_words = languages.ALL_STOP_WORDS[name]
        self._plain = PLAIN_FORMS if name == languages.ENGLISH else {}
        self._months = MONTH_NAMES.get(name, {})
        self.terms: dict[str, int] = {}
        """Cache: a word to the hash of its stem, or STOPPED."""
        self.parts: dict[str, tuple[int, ...]] = {}
        """Cache: a long word of a query to the hashes of its parts."""

    def stem(self, word: str) -> str:
        """Return the stem, or "" for a stop word."""
        if word in self._stop_words:
            return ""
        month = self._months.get(word)
        if month:  # memories are indexed under the English names
            return str(self._english.stemWord(month))
        return str(self._stemmer.stemWord(self._plain.get(word, word)))

    def term_of_word(self, word: str) -> int:
        """Return the hash of the stem, or STOPPED for a stop word."""
        if len(self.terms) >= CACHE_WORDS:
            self.terms.clear()
        number = self.terms[word] = self.term_of_new_word(word)
        return number

    def term_of_new_word(self, word: str) -> int:
        """Return what `term_of_word` does, without the cache."""
        stem = self.stem(word)
        return hash_of_stem(stem) if stem else STOPPED


# The conjunctions wa- and fa- before al-, bi-l-, ka-l-, li-l-.
_ARABIC_CONJUNCTION = re.compile(
    "\\A[\u0648\u0641](?=(?:[\u0628\u0643]?\u0627\u0644|\u0644\u0644)..)"
)


class _Arabic(Language):
    """Stems Arabic words without article, conjunction and feminine ending.

    Snowball's stemmer does not remove "and the" (wa-l, fa-l). It returns two forms of
    the feminine ending: before a pronoun and without a pronoun.
    """

    def stem(self, word: str) -> str:
        """Return the stem, or "" for a stop word."""
        bare = _ARABIC_CONJUNCTION.sub("", word)
        stem = super().stem(bare)
        return stem[:-1] if len(stem) > 3 and stem.endswith("\u062a") else stem


class _Greek(Language):
    """Stems Greek words without accents: the forms of a word differ in the accent."""

    def stem(self, word: str) -> str:
        """Return the stem, or "" for a stop word."""
        stem = super().stem(strip_combining_marks(word))
        return stem[:-1] if len(stem) > 3 and stem.endswith("\u03b9") else stem


# Removes the nukta, which is often omitted; unites the two signs of a nasal vowel.
_HINDI_SPELLING = str.maketrans({"\u093c": None, "\u0901": "\u0902"})


class _Hindi(Language):
    """Stems Hindi words after their spelling was unified."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        spelled = [word.translate(_HINDI_SPELLING) for word in self._stop_words]
        self._stop_words = frozenset(spelled)

    def stem(self, word: str) -> str:
        """Return the stem, or "" for a stop word."""
        return super().stem(word.translate(_HINDI_SPELLING))


_TURKISH_STEM = 5


class _Turkish(Language):
    """Cuts Turkish words to their first five letters: Turkish has many suffixes.

    This finds as much as a stemmer (Can et al., "Information retrieval on Turkish
    texts", 2008).
    """

    def stem(self, word: str) -> str:
        """Return the first five letters, or "" for a stop word."""
        if word in self._stop_words:
            return ""
        return word[:_TURKISH_STEM] if word.isalpha() else word


class _Vietnamese(Language):
    """Returns Vietnamese words unchanged (they have no endings); stems ASCII words."""

    def __init__(self, name: str) -> None:
        super().__init__(languages.ENGLISH)
        self._stop_words = languages.ALL_STOP_WORDS[name]
        self._months = {}

    def stem(self, word: str) -> str:
        """Return the word, the English stem of an ASCII word, or "" for a stop word."""
        if word.isascii():
            return super().stem(word)
        return "" if word in self._stop_words else word


_MADE: dict[str, type[Language]] = {
    languages.ARABIC: _Arabic,
    languages.GREEK: _Greek,
    languages.HINDI: _Hindi,
    languages.TURKISH: _Turkish,
    languages.VIETNAMESE: _Vietnamese,
}


def language_stemmer(name: str) -> Language:
    """Create the stemmer of a language: Snowball's name, or VIETNAMESE."""
    return _MADE.get(name, Language)(name)


def hash_of_stem(stem: str) -> int:
    """Return the 63-bit hash of a stem, never 0."""
    digest = blake2b(stem.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") & ~PART or 1
