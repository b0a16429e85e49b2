"""Parts of German compounds: `Zahnarzt` and `Termin` both find `Zahnarzttermin`.

The method needs no dictionary. A memory is indexed under each prefix and each suffix of
its long words. These parts have a separate space of hashes, in which the words of a
query are looked up too. A long word of a query is cut in the same way. A part of it
counts only if it is a word, or a part of a word, in the searched memories.
"""

from __future__ import annotations

from collections.abc import Sequence

_SHORTEST_PART = 4  # letters; shorter parts are affixes (ver-, -ung, -heit)
SHORTEST_COMPOUND = 2 * _SHORTEST_PART
"""The minimum length, in letters, of a word that is cut."""

_LONGEST = 40  # letters; a longer string is not a word
_MOST_WORDS = 64  # of a text, to limit the number of parts
_SUFFIXES = ("ungen", "keit", "heit", "schaft", "lich", "isch", "chen", "lein")


def may_be_compound(word: str) -> bool:
    """Return whether a normalised word has 8 to 40 letters, all of them Latin."""
    return (
        SHORTEST_COMPOUND <= len(word) <= _LONGEST
        and word.isalpha()
        and (word.isascii() or all(char <= "\u024f" for char in word))
    )


def compound_parts(words: Sequence[str]) -> list[str]:
    """Return the prefixes and suffixes of long words that may be words themselves.

    Args:
        words: Normalised words of a German text. Only the first 64 long words are cut.

    Returns:
        Parts of at least four letters, without repeats. The rest of the word also has
        at least four letters.
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
