"""Turkish suffixes after an apostrophe: `İstanbul'da` holds the name `İstanbul`.

Turkish sets the suffixes of a name apart by an apostrophe. They are cut off in any
language: no other one that has apostrophes has these endings after them. A suffix that
begins with a vowel follows a consonant, and one that begins with a buffer consonant
follows a vowel, so that Hawai'i is left alone. Memories also keep such words whole.
"""

from __future__ import annotations

import re

_APOSTROPHES = "'\u2018\u2019\u02bc"
_CASES = "[dt][ae](?:n|ki)?|[dt][iu]r|l[ae](?:r(?:[iu]n?|[ae]|[dt][ae]n?)?)?"
_AFTER_CONSONANT = (
    rf"(?<=\w[b-df-hj-np-tv-z0-9])[{_APOSTROPHES}](?:{_CASES}|[aeiu]|[iu]n)"
)
_AFTER_VOWEL = (
    rf"(?<=\w[aeiou0-9])[{_APOSTROPHES}]"
    rf"(?:{_CASES}|y[aeiu]|yl[ae]|n[iu]n?|nd[ae]n?|n[ae]|s[iu](?:n[iuae]|n[dt][ae]n?)?)"
)
_SUFFIX = re.compile(rf"(?:{_AFTER_CONSONANT}|{_AFTER_VOWEL})(?!\w)")
_ONE_APOSTROPHE = re.compile(rf"[{_APOSTROPHES}]")
_WORD_END = re.compile(r"\w+\Z")
_LONGEST = 40  # letters; what is longer is no name


def cut_suffixes(folded: str) -> str:
    """Return a normalised text without the suffixes after its apostrophes."""
    return _SUFFIX.sub("", folded)


def suffixed_words(folded: str) -> list[str]:
    """Return the words of a normalised text that have such a suffix, whole.

    Returns:
        "İstanbul'da" gives istanbulda; empty for a text without such words.
    """
    if not _ONE_APOSTROPHE.search(folded):
        return []  # most texts are like that
    found = []
    for match in _SUFFIX.finditer(folded):
        before = folded[max(match.start() - _LONGEST, 0) : match.start()]
        name = _WORD_END.search(before)
        if name:
            found.append(name.group() + match.group()[1:])
    return found
