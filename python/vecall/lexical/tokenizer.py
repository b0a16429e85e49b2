"""Splits text into words: Unicode normalisation, word boundaries, unspaced scripts.

A word is a run of letters, digits and combining marks. The text is NFKC-normalised and
case-folded first (`vecall.text`). Latin letters lose their accents, so that "Café",
"CAFÉ" and "cafe" are the same word. `with_tones` keeps the accents for Vietnamese,
whose words differ in them.

Scripts without spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese) and Korean, which
attaches particles to words, become overlapping pairs of characters. Two texts then
share a pair wherever they share two neighbouring characters.
"""

from __future__ import annotations

import re

from vecall.lexical.elision import cut_elisions
from vecall.lexical.suffixes import cut_suffixes
from vecall.text import MARKS, normalise

# Scripts without spaces between words, and Hangul, which attaches particles to words.
_UNSPACED = (
    "\u0e00-\u0e7f\u0e80-\u0eff\u1000-\u109f\u1780-\u17d3\u3041-\u3096\u30a1-\u30fa"
    "\u30fc\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7a3"
    "\U00020000-\U0003ffff"
)
_WORD = re.compile(rf"(?:[^\W_]|[{MARKS}])+")
_ASCII_WORD = re.compile("[A-Za-z0-9]+")  # faster, for ASCII text
_UNSPACED_RUN = re.compile(
    rf"(?<![{MARKS}])[{MARKS}]*[{_UNSPACED}][{_UNSPACED}{MARKS}]*"
)
# The apostrophe comes first: a pattern with the lookbehind first is many times slower.
_APOSTROPHE = re.compile(r"['\u2018\u2019\u02bc](?<=\w.)(?=\w)")
_POSSESSIVE = re.compile(r"['\u2018\u2019\u02bc](?<=\w.)s\b")


def words(text: str) -> list[str]:
    """Split `text` into words, in order, with repeats.

    Args:
        text: Any string; lone surrogates and control characters separate words.

    Returns:
        The normalised words. "Nate's dog isn't" gives nate, dog, isnt; "l'école" gives
        ecole; "İstanbul'da" gives istanbul.
    """
    return split_words(normalise(text))


def split_words(folded: str) -> list[str]:
    """Split a normalised text into words, as `words` does."""
    is_ascii = folded.isascii()
    if ("'" in folded or not is_ascii) and _APOSTROPHE.search(folded):
        folded = cut_elisions(folded)
        folded = _POSSESSIVE.sub("", folded)
        folded = cut_suffixes(folded)
        folded = _APOSTROPHE.sub("", folded)
    if is_ascii:
        return _ASCII_WORD.findall(folded)
    found: list[str] = _WORD.findall(folded)
    split: list[str] = []
    for word in found:
        if word.isascii():
            split.append(word)
        else:
            split.extend(_split_scripts(word))
    return split


def _split_scripts(word: str) -> list[str]:
    """Split a word at borders of unspaced scripts, and their runs into pairs."""
    parts: list[str] = []
    end = 0
    for run in _UNSPACED_RUN.finditer(word):
        if run.start() > end:
            parts.append(word[end : run.start()])
        parts.extend(_pairs(run.group()))
        end = run.end()
    if end < len(word):
        parts.append(word[end:])
    return parts


def _pairs(run: str) -> list[str]:
    """Return the overlapping pairs of characters; a single character stays alone."""
    if len(run) < 2:
        return [run]
    return [run[i : i + 2] for i in range(len(run) - 1)]


def has_word(text: str) -> bool:
    """Return whether `text` has a word, and not only punctuation and symbols."""
    return text[:1].isalnum() or _WORD.search(text) is not None
