"""Splits text into words: Unicode normalisation, word boundaries, unspaced scripts.

A word is a run of letters, digits and combining marks. The text is NFKC-normalised and
case-folded first. Latin letters lose their accents, so that "Café", "CAFÉ" and "cafe"
are the same word. `with_tones` keeps the accents for Vietnamese, whose words differ in
them.

Scripts without spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese) and Korean, which
attaches particles to words, become overlapping pairs of characters. Two texts then
share a pair wherever they share two neighbouring characters.
"""

from __future__ import annotations

import re
import unicodedata

from vecall.lexical.elision import cut_elisions
from vecall.lexical.suffixes import cut_suffixes

# Combining marks inside words. `\\w` excludes them, which would split Hindi and Arabic
# words. The punctuation of the same blocks is excluded here.
_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0670"
    "\u0900-\u0963\u0971-\u0df3\u0e31-\u0e3a\u0e47-\u0e4e\u0eb1-\u0ebc\u0ec8-\u0ece"
    "\u0f71-\u0f84\u102b-\u103e\u1056-\u1059\u17b4-\u17d3"
)
# Scripts without spaces between words, and Hangul, which attaches particles to words.
_UNSPACED = (
    "\u0e00-\u0e7f\u0e80-\u0eff\u1000-\u109f\u1780-\u17d3\u3041-\u3096\u30a1-\u30fa"
    "\u30fc\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7a3"
    "\U00020000-\U0003ffff"
)
_WORD = re.compile(rf"(?:[^\W_]|[{_MARKS}])+")
_ASCII_WORD = re.compile("[A-Za-z0-9]+")  # faster, for ASCII text
_UNSPACED_RUN = re.compile(
    rf"(?<![{_MARKS}])[{_MARKS}]*[{_UNSPACED}][{_UNSPACED}{_MARKS}]*"
)
_MOST_MARKS = 30
_RARE_MARKS = (
    "\u05bf-\u05c7\u06d6-\u06ed\u0711\u0730-\u074a\u07eb-\u07fd\u0816-\u082d\u0859-\u085b\u0898-\u08ff"
    "\u0f18-\u0fc6\u108d\u135d-\u135f\u1712-\u1734\u17dd\u18a9\u1939-\u193b\u1a17-\u1a7f\u1ab0-\u1aff"
    "\u1b34-\u1bf3\u1c37\u1cd0-\u1cf9\u1dc0-\u1dff\u20d0-\u20ff\u2cef-\u2cf1"
    "\u2d7f-\u2dff\u302a-\u302f\u3099\u309a\ua66f-\uabed\ufb1e\ufe20-\ufe2f"
    "\U000101fd-\U00011d97\U00016af0-\U00016ff1\U0001bc9e\U0001d165-\U0001d244"
    "\U0001e000-\U0001e94a"
)
_MANY_MARKS = re.compile(rf"[{_MARKS}{_RARE_MARKS}]{{31,}}")
# The apostrophe comes first: a pattern with the lookbehind first is many times slower.
_APOSTROPHE = re.compile(r"['\u2018\u2019\u02bc](?<=\w.)(?=\w)")
_POSSESSIVE = re.compile(r"['\u2018\u2019\u02bc](?<=\w.)s\b")
_LATIN_ACCENT = re.compile("([a-z])[\u0300-\u036f]+")


def normalise(text: str) -> str:
    """Return `text` in the normal form in which words are compared."""
    if text.isascii():
        return text.lower()
    folded = unicodedata.normalize("NFKC", stream_safe(text)).casefold()
    if folded.isascii():
        return folded
    folded = unicodedata.normalize("NFD", folded)
    folded = _LATIN_ACCENT.sub(r"\1", folded).replace("\u0131", "i")  # as I becomes i
    return unicodedata.normalize("NFC", folded)


def with_tones(text: str) -> str:
    """Return `text` normalised, with the accents of Latin letters."""
    folded = unicodedata.normalize("NFKC", stream_safe(text)).casefold()
    return unicodedata.normalize("NFC", folded)


def stream_safe(text: str) -> str:
    """Limit runs of combining marks to 30, so that normalisation takes linear time.

    No language uses more than 30 combining marks in a row (UAX #15, stream-safe text
    format). The time to normalise a run is quadratic in its length.
    """
    return text if text.isascii() else _MANY_MARKS.sub(_first_marks, text)


def _first_marks(run: re.Match[str]) -> str:
    """Drop marks after 30 in a row. The run may contain letters of some scripts."""
    chars = []
    marks = 0
    for char in run.group():
        marks = marks + 1 if unicodedata.combining(char) else 0
        if marks <= _MOST_MARKS:
            chars.append(char)
    return "".join(chars)


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
