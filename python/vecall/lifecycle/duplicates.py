"""Memories that say the same as others: told by their words alone."""

from __future__ import annotations

from collections.abc import Iterable

from vecall.lexical.tokenizer import words
from vecall.slices import in_slices
from vecall.store import Row

# Words without which a sentence says what it said. Nothing that negates, counts, points
# or joins is among them: "to Paris from Rome" is not "from Paris to Rome".
_FILLERS = frozenset(
    "a an the um uh er oh well okay ok please really very just also".split()
)


def duplicates(rows: Iterable[Row]) -> list[tuple[str, list[str]]]:
    """Return groups of memories that say the same, word for word but for fillers.

    Letters' case, accents, punctuation and spaces do not count. Those of different
    authors, kinds or trust are never the same, and turns of a session stay as they are:
    what was said around them belongs to them.

    Returns:
        Of each group the id of the newest, and those of the others.
    """
    groups: dict[object, list[Row]] = {}
    for row in in_slices(list(rows)):
        if row.pos is not None:
            continue
        said = tuple(word for word in words(row.text) if word not in _FILLERS)
        if said:
            key = (said, row.author, row.kind, row.trust)
            groups.setdefault(key, []).append(row)
    found = []
    for group in groups.values():
        if len(group) > 1:
            newest, *others = sorted(group, key=lambda row: (-row.time, -row.rid))
            found.append((newest.id, [row.id for row in others]))
    return found
