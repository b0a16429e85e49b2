"""Text to words: Unicode normalisation, word boundaries, scripts without spaces.

A word is a run of letters, digits and combining marks. Text is NFKC-normalised and
case-folded first, and Latin letters lose their accents, so that "Café", "CAFÉ" and
"cafe" are one word. A script that is written without spaces (Chinese, Japanese, Thai,
Lao, Khmer, Burmese) and Korean, which glues particles to its words, become overlapping
pairs of characters: two texts then share a pair wherever they share two neighbouring
characters.
"""

from __future__ import annotations

import re
import unicodedata

# Combining marks inside words. `\\w` leaves them out, which would cut Hindi or Arabic
# words in pieces; punctuation of the same blocks is left out here.
_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0670"
    "\u0900-\u0963\u0971-\u0df3\u0e31-\u0e3a\u0e47-\u0e4e\u0eb1-\u0ebc\u0ec8-\u0ece"
    "\u0f71-\u0f84\u102b-\u103e\u1056-\u1059\u17b4-\u17d3"
)
# Written without spaces between words, or (Hangul) with particles glued on.
_UNSPACED = (
    "\u0e00-\u0e7f\u0e80-\u0eff\u1000-\u109f\u1780-\u17d3\u3041-\u3096\u30a1-\u30fa"
    "\u30fc\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7a3"
    "\U00020000-\U0003ffff"
)
_WORD = re.compile(rf"(?:[^\W_]|[{_MARKS}])+")
_UNSPACED_RUN = re.compile(
    rf"[{_UNSPACED}{_MARKS}]*[{_UNSPACED}][{_UNSPACED}{_MARKS}]*"
)
_APOSTROPHE = re.compile(r"(?<=\w)['\u2019\u02bc](?=\w)")
_POSSESSIVE = re.compile(r"(?<=\w)['\u2019\u02bc]s\b")
_LATIN_ACCENT = re.compile("([a-z])[\u0300-\u036f]+")


def normalise(text: str) -> str:
    """Return `text` in the one form in which words are compared."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    if folded.isascii():
        return folded
    folded = unicodedata.normalize("NFD", folded)
    folded = _LATIN_ACCENT.sub(r"\1", folded)
    return unicodedata.normalize("NFC", folded)


def words(text: str) -> list[str]:
    """Split `text` into words, in order, repeats kept.

    Args:
        text: Any string; lone surrogates and control characters separate words.

    Returns:
        Normalised words. "Nate's dog isn't" gives nate, dog, isnt.
    """
    folded = normalise(text)
    folded = _POSSESSIVE.sub("", folded)
    folded = _APOSTROPHE.sub("", folded)
    found: list[str] = _WORD.findall(folded)
    if folded.isascii():
        return found
    split: list[str] = []
    for word in found:
        if word.isascii():
            split.append(word)
        else:
            split.extend(_split_scripts(word))
    return split


def _split_scripts(word: str) -> list[str]:
    """Cut a word where it changes to or from an unspaced script; pair the latter."""
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
    """Overlapping pairs of characters; a single character stands for itself."""
    if len(run) < 2:
        return [run]
    return [run[i : i + 2] for i in range(len(run) - 1)]


def has_word(text: str) -> bool:
    """Whether `text` has any word at all; punctuation and symbols are none."""
    return _WORD.search(text) is not None
