"""Finds duplicate memories by their words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from vecall.concurrency.time_slices import in_slices
from vecall.ingest.summaries import SUMMARY
from vecall.lexical.tokenizer import stream_safe, words
from vecall.store import Row
from vecall.types import DuplicateGroup

# Words without which a sentence says what it said. Nothing that negates, counts, points
# or joins is among them: "to Paris from Rome" is not "from Paris to Rome". Nor is what
# can be more than a filler: "a few" and "few", "not just" and "not", Ohio and Oklahoma.
_FILLERS = frozenset("the um uh okay please really very also".split())
# Symbols, and punctuation that is part of a number: C++, -5, 1.5, 100 %.
_SIGNS = re.compile(
    r"""([^\w\s.,;:!'"()\u2010-\u2015\u2018-\u201f\u2026\u3001\u3002\uff01\uff0c-]"""
    r"""|(?<=\d)[.,:](?=\d)|[-\u2010-\u2015](?=\d))"""
)


def duplicates(rows: Iterable[Row]) -> list[DuplicateGroup]:
    """Return groups of memories with the same words, apart from fillers.

    Letters' case, accents, punctuation and spaces do not count, but symbols, question
    marks and what belongs to a number do. Those of different authors, kinds or trust
    are never the same, and turns of a session stay as they are: what was said around
    them belongs to them.

    Returns:
        The groups; the newest of each stays.
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

    A summary belongs to its session, and goes with it.
    """
    session = row.session if row.kind == SUMMARY else None
    return row.author, row.kind, row.trust, session


def _said(text: str) -> tuple[str, ...]:
    """Return the words of a text without fillers, and its signs, in order."""
    said: list[str] = []
    pieces = _SIGNS.split(unicodedata.normalize("NFC", stream_safe(text)))
    for place, piece in enumerate(pieces):
        if place % 2:
            said.append(piece)
        else:
            said += [word for word in words(piece) if word not in _FILLERS]
    return tuple(said)
