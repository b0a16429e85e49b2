"""Turkish suffixes after an apostrophe: `İstanbul'da` contains the name `İstanbul`.

Turkish separates a name from its suffixes by an apostrophe. The suffixes are removed in
texts of any language: no other language has these endings after an apostrophe. A suffix
that begins with a vowel must follow a consonant. A suffix that begins with a buffer
consonant must follow a vowel. So Hawai'i does not change. Memories are also indexed
under the whole word.
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
_LONGEST = 40  # letters of a name; longer ones are truncated


def cut_suffixes(folded: str) -> str:
    """Return a normalised text without the suffixes after its apostrophes."""
    return _SUFFIX.sub("", folded)


def suffixed_words(folded: str) -> list[str]:
    """Return the words with such a suffix, joined with the suffix.

    Returns:
        The words of a normalised text: "İstanbul'da" gives istanbulda. Empty if the
        text has no such words.
    """
    if not _ONE_APOSTROPHE.search(folded):
        return []  # a fast path for most texts
    found = []
    for match in _SUFFIX.finditer(folded):
        before = folded[max(match.start() - _LONGEST, 0) : match.start()]
        name = _WORD_END.search(before)
        if name:
            found.append(name.group() + match.group()[1:])
    return found
