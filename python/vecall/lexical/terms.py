"""Words to the 64-bit term hashes that the engine indexes."""

from __future__ import annotations

import threading
from hashlib import blake2b

import Stemmer

from vecall.lexical.stop_words import STOP_WORDS
from vecall.lexical.tokenizer import words
from vecall.timestamps import to_datetime

ANALYSIS_VERSION = "1"
"""Changes whenever the same text may give other terms; stored in every file."""

_MONTHS = (
    "january february march april may june july august september october november "
    "december"
).split()

_STOPPED = 0  # a hash that stands for "no term"
_CACHE_WORDS = 100_000


class _TermCache(threading.local):
    """Word to hash, a thread at a time: a Snowball stemmer keeps state in a call."""

    def __init__(self) -> None:
        self.stemmer = Stemmer.Stemmer("english", 0)
        self.hashes: dict[str, int] = {}

    def __call__(self, word: str) -> int:
        known = self.hashes.get(word)
        if known is not None:
            return known
        if len(self.hashes) >= _CACHE_WORDS:
            self.hashes.clear()
        term = _STOPPED if word in STOP_WORDS else _hash(self.stemmer.stemWord(word))
        self.hashes[word] = term
        return term


_term = _TermCache()


def _hash(stem: str) -> int:
    digest = blake2b(stem.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") or 1


def query_terms(text: str, *, most: int = 256) -> list[int]:
    """Return the term hashes of a query, at most `most`, stop words left out."""
    found = [term for term in map(_term, words(text)) if term]
    return found[:most]


def memory_terms(text: str, author: str | None, timestamp: float | None) -> list[int]:
    """Return the term hashes under which a memory is found.

    Args:
        text: What was said.
        author: Who said it; "what did Nate say" should find Nate's turns.
        timestamp: When, in seconds; the day, the month's name and the year become
            terms, in UTC.

    Returns:
        64-bit hashes, repeats kept, stop words left out.
    """
    spoken = words(text)
    if author:
        spoken += words(author)
    found = [term for term in map(_term, spoken) if term]
    if timestamp is not None:
        day = to_datetime(timestamp)
        dated = (str(day.day), _MONTHS[day.month - 1], str(day.year))
        found += map(_term, dated)
    return found
