"""Finds duplicate memories by their words."""

from __future__ import annotations

import re
from collections.abc import Iterable

from vecall.concurrency.time_slices import in_slices
from vecall.ingest.summaries import SUMMARY
from vecall.lexical.tokenizer import words
from vecall.store import Row
from vecall.text import nfc
from vecall.types import DuplicateGroup

# Words that do not change the meaning of a sentence. The set has no negations, numbers,
# demonstratives, prepositions or conjunctions: "to Paris from Rome" is not "from Paris
# to Rome". It has no ambiguous words either: "a few" is not "few", "not just" is not
# "not", and "oh" and "ok" can be Ohio and Oklahoma.
_FILLERS = frozenset("the um uh okay please really very also".split())
# Symbols, and punctuation that is part of a number or of code: C++, -5, 1.5, !=.
_SIGNS = re.compile(
    r"""([^\w\s.,;:!'"()\u2010-\u2015\u2018-\u201f\u2026\u3001\u3002\uff01\uff0c-]"""
    r"""|(?<=\d)[.,:](?=\d)|[-\u2010-\u2015](?=\d)|!(?=[=\w]))"""
)


def duplicates(rows: Iterable[Row]) -> list[DuplicateGroup]:
    """Return groups of memories with the same words, apart from fillers.

    The comparison ignores case, accents, punctuation and spaces. It respects symbols,
    question marks and the punctuation of numbers. Memories of different authors, kinds
    or trust are never duplicates. Turns of a session are never merged, because they
    depend on their context.

    Returns:
        The groups; the newest memory of each group is kept.
    """
    groups: dict[object, list[Row]] = {}
    for row in in_slices(list(rows)):
        if row.pos is not None:
            continue
        said = _said(row.text)
        if said:
            key = (said, *origin(row))
            groups.setdefault(key, []).append(row)
    found = []
    for group in groups.values():
        if len(group) > 1:
            newest, *others = sorted(group, key=lambda row: (-row.time, -row.rid))
            found.append(DuplicateGroup(newest.id, tuple(row.id for row in others)))
    return found


def origin(row: Row) -> tuple[str | None, ...]:
    """Return a key that memories must share to be merged.

    For a summary the key includes the session, because deleting the session deletes
    its summaries.
    """
    session = row.session if row.kind == SUMMARY else None
    return row.author, row.kind, row.trust, session


def _said(text: str) -> tuple[str, ...]:
    """Return the words of a text without fillers, and its symbols, in order."""
    said: list[str] = []
    pieces = _SIGNS.split(nfc(text))
    for place, piece in enumerate(pieces):
        if place % 2:
            said.append(piece)
        else:
            said += [word for word in words(piece) if word not in _FILLERS]
    return tuple(said)
