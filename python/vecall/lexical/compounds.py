"""Parts of German compounds: `Zahnarzttermin` is found by `Zahnarzt` and by `Termin`.

There is no dictionary. A memory is indexed under each beginning and each end of its
long words, in a space of hashes of its own, and the words of a query look there too. A
long word of a query is cut in the same way; of its parts only those count that are
words, or parts of words, of the memories that are searched.
"""

from __future__ import annotations

from collections.abc import Sequence

_SHORTEST_PART = 4  # letters; shorter ones are prefixes and endings (ver-, -ung, -heit)
SHORTEST_COMPOUND = 2 * _SHORTEST_PART
"""Letters of the shortest word that is cut."""

_LONGEST = 40  # letters; what is longer is no word
_MOST_WORDS = 64  # of a text: parts are many, and a text is found by a few words
_SUFFIXES = ("ungen", "keit", "heit", "schaft", "lich", "isch", "chen", "lein")


def may_be_compound(word: str) -> bool:
    """Whether a normalised word is long enough, and has letters of German only."""
    return (
        SHORTEST_COMPOUND <= len(word) <= _LONGEST
        and word.isalpha()
        and (word.isascii() or all(char <= "\u024f" for char in word))
    )


def compound_parts(words: Sequence[str]) -> list[str]:
    """Return each beginning and each end of the long words that may be a word.

    Args:
        words: Normalised words of a German text.

    Returns:
        Parts of at least four letters whose rest has four letters or more, each once.
    """
    found: dict[str, None] = {}
    long_words = [word for word in dict.fromkeys(words) if may_be_compound(word)]
    for word in long_words[:_MOST_WORDS]:
        for cut in range(_SHORTEST_PART, len(word) - _SHORTEST_PART + 1):
            found[word[:cut]] = None
            end = word[cut:]
            if end not in _SUFFIXES:
                found[end] = None
    return list(found)
