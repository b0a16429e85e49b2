"""Cuts long texts to the part most relevant to a query, to limit an answer's size."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from vecall.lexical import words
from vecall.text import strip_invisible
from vecall.types import MemoryEntry

DEFAULT_MAX_TOKENS = 2_000
"""The default limit on the tokens of an answer."""

MARK = "\N{HORIZONTAL ELLIPSIS}"
"""Marks omitted text."""

_MIN_TEXT = 48  # tokens; shorter parts are not useful
_MOST_TERMS = 32
_EDGE = 24  # characters within which a cut looks for a space
_TRIES = 24


class Cut(NamedTuple):
    """The part of a text that is shown.

    Attributes:
        begin: The index of its first character, from 0.
        end: The index after its last character.
        length: The number of characters of the whole text.
    """

    begin: int
    end: int
    length: int


class Piece(NamedTuple):
    """A memory to show: whole, or cut.

    Attributes:
        memory: The memory; its content is the cleaned text to show.
        cut: The part of the whole text that is shown; None for all of it.
    """

    memory: MemoryEntry
    cut: Cut | None = None


Cost = Callable[[Piece], int]
"""Returns the tokens of a piece as shown."""


def bounded(
    memories: Sequence[MemoryEntry], query: str, most: int, cost: Cost
) -> list[Piece]:
    """Cut the longest texts until all memories together fit a number of tokens.

    All texts longer than some length are cut to it, around the query's words. Shorter
    texts stay whole. No text is cut below about 48 tokens, so the pieces may need more
    than `most` tokens; the caller drops those that do not fit.

    Args:
        memories: The memories that a search found.
        query: The query of the search.
        most: The number of tokens for all pieces.
        cost: Returns the number of tokens of a piece.
    """
    pieces = [
        Piece(replace(each, content=strip_invisible(each.text))) for each in memories
    ]
    costs = [cost(piece) for piece in pieces]
    if sum(costs) <= most:
        return pieces
    frames = [cost(Piece(replace(piece.memory, content=""))) for piece in pieces]
    texts = [max(all_ - frame, 0) for all_, frame in zip(costs, frames, strict=True)]
    level = max(_level(texts, most - sum(frames)), _MIN_TEXT)
    terms = _terms(query)
    return [
        piece if text <= level else _shortened(piece, terms, frame + level, cost)
        for piece, text, frame in zip(pieces, texts, frames, strict=True)
    ]


def from_character(piece: Piece, begin: int, most: int, cost: Cost) -> Piece:
    """Return the part of a text from `begin` on that fits `most` tokens."""
    text = piece.memory.text
    begin = min(max(begin, 0), len(text))

    def part(size: int) -> Piece:
        return _part(piece, begin, begin + size)

    return _largest(part, len(text) - begin, most, cost)


def marked(piece: Piece) -> MemoryEntry:
    """Return a memory; if cut, its text has a note with the shown part and the id."""
    memory, cut = piece
    if cut is None:
        return memory
    note = f"[characters {cut.begin} to {cut.end} of {cut.length}"
    note += f" of memory {memory.id}]" if memory.id else "]"
    return replace(memory, content=f"{memory.text} {note}")


def _level(texts: Sequence[int], most: int) -> int:
    """Return the largest size such that all texts cut to it fit the limit together."""
    left = most
    for at, text in enumerate(sorted(texts)):
        share = left // (len(texts) - at)
        if text > share:
            return share
        left -= text
    return max(texts, default=0)


def _shortened(
    piece: Piece, terms: re.Pattern[str] | None, most: int, cost: Cost
) -> Piece:
    text = piece.memory.text
    found = (
        [] if terms is None else [(m.start(), m.group()) for m in terms.finditer(text)]
    )

    def part(size: int) -> Piece:
        begin = _best_window(found, len(text), size)
        return _part(piece, begin, begin + size)

    return _largest(part, len(text), most, cost)


def _largest(part: Callable[[int], Piece], size: int, most: int, cost: Cost) -> Piece:
    """Return approximately the largest part that fits a number of tokens."""
    piece = part(size)
    for _ in range(_TRIES):
        taken = cost(piece)
        if taken <= most or size <= 1:
            break
        size = max(min(size - 1, int(size * 0.95 * most / taken)), 1)
        piece = part(size)
    return piece


def _part(piece: Piece, begin: int, end: int) -> Piece:
    text = piece.memory.text
    end = min(end, len(text))
    if end - begin > 4 * _EDGE:
        if begin > 0 and (space := text.find(" ", begin, begin + _EDGE)) >= 0:
            begin = space + 1
        if end < len(text) and (space := text.rfind(" ", end - _EDGE, end)) >= 0:
            end = space
    if begin == 0 and end == len(text):
        return piece
    shown = text[begin:end]
    shown = f"{MARK} {shown}" if begin > 0 else shown
    shown = f"{shown} {MARK}" if end < len(text) else shown
    return Piece(replace(piece.memory, content=shown), Cut(begin, end, len(text)))


def _best_window(found: Sequence[tuple[int, str]], length: int, size: int) -> int:
    """Return the begin of the part of this size with the most words of the query.

    Words that are frequent in the text weigh less. The matched words are in the middle
    of the part, with some context on both sides.
    """
    if not found:
        return 0
    core = max(size * 3 // 5, 1)
    names = [name.casefold() for _, name in found]
    places = [place for place, _ in found]
    often = Counter(names)
    there: Counter[str] = Counter()
    weight = best = 0.0
    best_at = 0
    last = 0
    for at, place in enumerate(places):
        end = bisect_left(places, place + core)
        while last < end:
            if not there[names[last]]:
                weight += 1.0 / often[names[last]]
            there[names[last]] += 1
            last += 1
        if weight > best + 1e-9:
            best, best_at = weight, at
        there[names[at]] -= 1
        if not there[names[at]]:
            weight -= 1.0 / often[names[at]]
    final = bisect_left(places, places[best_at] + core) - 1
    middle = (places[best_at] + places[final]) // 2
    return max(min(middle - size // 2, length - size), 0)


def _terms(query: str) -> re.Pattern[str] | None:
    """Return a pattern that finds the words of a query by their prefixes."""
    stems = []
    for word in list(dict.fromkeys(words(query)))[:_MOST_TERMS]:
        stem = word[: max(3, (3 * len(word) + 3) // 4)]
        if not word.isascii():
            stems.append(re.escape(stem))
        elif len(word) > 2:
            stems.append(rf"(?<![^\W_]){re.escape(stem)}")
    return re.compile("|".join(stems), re.IGNORECASE) if stems else None
