"""Splits identifiers into words: `OpenAIEmbedder`, `iPhone15`, `30min`.

An identifier is indexed as a whole and by its parts. The tokenizer already splits at
underscores and hyphens. This module splits where no separator is: at a capital inside a
word, and between letters and digits.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

# A capital after a small letter, or several capitals before two small letters.
_MAY_BE_CAMEL = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]{2}")
_WORD = re.compile(r"[^\W_]+")
_CAMEL_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_DIGIT = re.compile(r"\d")
_MIXED = re.compile(
    r"\b(?:([^\W\d_]{3,})(\d+)|(\d+)(?!(?:st|nd|rd|th|am|pm)\b)([^\W\d_]{2,}))\b"
)
_NO_DIGITS = {ord(digit): " " for digit in "0123456789"}
_MOST_PARTS = 6  # of one identifier, for `joined_parts`
_LONGEST = 100  # characters of an identifier; longer runs are ignored


def identifier_parts(text: str, folded: str) -> list[str]:
    """Return the parts of the identifiers in a text.

    Args:
        text: The original text, whose capitals mark the boundaries.
        folded: The normalised text.

    Returns:
        Normalised words, with repeats; empty for a text without identifiers.
    """
    parts: list[str] = []
    if _MAY_BE_CAMEL.search(text):
        for word in _WORD.findall(text):
            if len(word) <= _LONGEST and word.isascii() and _MAY_BE_CAMEL.search(word):
                found = _CAMEL_PART.findall(word)
                parts += [part.casefold() for part in found if len(part) > 1]
    if _DIGIT.search(folded):
        for match in _MIXED.finditer(folded):
            parts += [part for part in match.groups() if part]
    return parts


def joined_parts(text: str) -> list[str]:
    """Join neighbouring parts of identifiers: OpenAIEmbedder gives openai.

    Args:
        text: The original text, whose capitals mark the boundaries.
    """
    if not _MAY_BE_CAMEL.search(text):
        return []
    joined: dict[str, None] = {}
    for word in _WORD.findall(text):
        if len(word) > _LONGEST or not word.isascii() or not _MAY_BE_CAMEL.search(word):
            continue
        parts = _CAMEL_PART.findall(word.translate(_NO_DIGITS))[:_MOST_PARTS]
        for begin in range(len(parts)):
            for end in range(begin + 2, len(parts) + 1):
                joined["".join(parts[begin:end]).casefold()] = None
    return list(joined)


def joined_numbers(words: Sequence[str]) -> list[str]:
    """Join each word and the number next to it: "iphone 15" gives iphone15.

    Args:
        words: Normalised words, in the order of the text.
    """
    found = []
    for one, other in itertools.pairwise(words):
        if (one.isalpha() and other.isdigit()) or (one.isdigit() and other.isalpha()):
            found.append(one + other)
    return found
