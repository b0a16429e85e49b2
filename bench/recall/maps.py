"""Maps on queries that have not seen the user whose queries they map."""

from __future__ import annotations

from collections.abc import Sequence

from vecall.embedders import QueryMap
from vecall.embedders.query_map import fit_query_map
from vecall.evaluation.runner import query_map_examples

from bench.recall.embedders import Remembered, Vectors
from bench.recall.sets import HELD_OUT, Set

FOLDS = 5


def maps_apart(
    sets: Sequence[Set], vectors: Vectors
) -> dict[tuple[str, str], QueryMap]:
    """Fit maps on the sets that are not held out.

    Returns:
        By set and user, a map that was fitted without the user; by ("", "") the map
        of all users, for those of held-out sets.
    """
    embedder = Remembered(vectors)
    users = [
        (one.name, each)
        for one in sets
        if one.name not in HELD_OUT and not one.reading
        for each in one.conversations
    ]
    examples = [query_map_examples([each], embedder) for _, each in users]
    found = {("", ""): fit_query_map([each for some in examples for each in some])}
    for fold in range(FOLDS):
        rest = [e for i, some in enumerate(examples) if i % FOLDS != fold for e in some]
        query_map = fit_query_map(rest)
        for name, each in users[fold::FOLDS]:
            found[name, each.user_id] = query_map
    return found
