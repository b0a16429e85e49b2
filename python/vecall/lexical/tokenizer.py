"""Splits text into words: Unicode normalisation, word boundaries, unspaced scripts.

A word is a run of letters, digits and combining marks. The text is NFKC-normalised and
case-folded first (`vecall.text`). Latin letters lose their accents, so that "Café",
"CAFÉ" and "cafe" are the same word. `with_tones` keeps the accents for Vietnamese,
whose words differ in them. A single letter keeps the signs after it: C++, C#, A+.

Scripts without spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese) and Korean, which
attaches particles to words, become overlapping pairs of characters. Two texts then
share a pair wherever they share two neighbouring characters. `symbols` returns
what is no word and is found nevertheless: single characters and emoji.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

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
# A letter alone with its signs; a possessive s after them belongs to no word.
_SIGNED = re.compile(
    rf"(?<![^\W_{_UNSPACED}])([a-z](?:\+\+|[+#](?!\+|[^\W_{_UNSPACED}])))"
    r"(?:['\u2018\u2019\u02bc]s\b)?"
)
# Without skin tones, which would find every emoji that has the same.
_PICTURES = (
    "\u2194-\u21aa\u231a-\u23ff\u25aa-\u27bf\u2934-\u2b55\u3030\u303d"
    "\U0001f000-\U0001f1e5\U0001f200-\U0001f3fa\U0001f400-\U0001faff"
)
_FLAG_LETTERS = "\U0001f1e6-\U0001f1ff"  # a flag is two of them
_EMOJI = re.compile(rf"[{_PICTURES}]|[{_FLAG_LETTERS}]{{2}}")
_SYMBOL = re.compile(rf"[{_UNSPACED}{_PICTURES}]|[{_FLAG_LETTERS}]{{2}}")
# One class is faster than the choice above: most texts with accents have none of these.
_MAY_HAVE_SYMBOLS = re.compile("[\u0e00-\u1dff\u2194-\U0003ffff]")
_WORD_OR_EMOJI = re.compile(rf"[^\W_]|[{MARKS}{_PICTURES}{_FLAG_LETTERS}]")
# The apostrophe comes first: a pattern with the lookbehind first is many times slower.
_APOSTROPHE = re.compile(r"['\u2018\u2019\u02bc](?<=\w.)(?=\w)")
_POSSESSIVE = re.compile(r"['\u2018\u2019\u02bc](?<=\w.)s\b")


def words(text: str) -> list[str]:
    """Split `text` into words, in order, with repeats.

    Args:
        text: Any string; lone surrogates and control characters separate words.

    Returns:
        The normalised words. "Nate's dog isn't" gives nate, dog, isnt; "l'école" gives
        ecole; "İstanbul'da" gives istanbul; "C++" stays c++.
    """
    return split_words(normalise(text))


def split_words(folded: str) -> list[str]:
    """Split a normalised text into words, as `words` does."""
    if "+" in folded or "#" in folded:
        return _split_signed(folded)
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


def base_letters(words: Sequence[str]) -> list[str]:
    """Return the letters of the words with signs: C++ gives c."""
    return [word[0] for word in words if word[-1] in "+#"]


def symbols(folded: str) -> set[str]:
    """Return the emoji and the characters of unspaced scripts in a normalised text."""
    if not _MAY_HAVE_SYMBOLS.search(folded):
        return set()
    return set(_SYMBOL.findall(folded))


def emoji(folded: str) -> list[str]:
    """Return the emoji of a normalised text, once each.

    An emoji of several characters, such as a family or a thumb with a skin tone, gives
    its parts without the skin tone.
    """
    if not _MAY_HAVE_SYMBOLS.search(folded):
        return []
    return list(dict.fromkeys(_EMOJI.findall(folded)))


def _split_signed(folded: str) -> list[str]:
    """Split a text that may have words with signs."""
    found: list[str] = []
    for place, piece in enumerate(_SIGNED.split(folded)):
        if place % 2:
            found.append(piece)
        else:
            found += split_words(piece.replace("+", " ").replace("#", " "))
    return found


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
    """Return whether `text` has a word or an emoji, and not only punctuation."""
    return text[:1].isalnum() or _WORD_OR_EMOJI.search(text) is not None
