"""Scores documents by the words that they share with a query."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from vecall.lexical import words

_K1, _B, _DELTA = 1.5, 0.75, 0.5  # the defaults of Haystack's own store


def bm25_scores(query: str, texts: Sequence[str]) -> list[float]:
    """Return the BM25L score of each text; 0 for a text without a word of the query."""
    asked = dict.fromkeys(words(query))
    counts = [Counter(words(text)) for text in texts]
    sizes = [each.total() for each in counts]
    mean = sum(sizes) / len(sizes) if any(sizes) else 1.0
    weights = {
        word: math.log((len(texts) + 1.0) / (having + 0.5))
        for word in asked
        if (having := sum(word in each for each in counts))
    }

    def score(count: Counter[str], size: int) -> float:
        norm = 1.0 - _B + _B * size / mean
        shares = (
            (weight, count[word] / norm + _DELTA)
            for word, weight in weights.items()
            if word in count
        )
        return sum(
            weight * (1.0 + _K1) * share / (_K1 + share) for weight, share in shares
        )

    return list(map(score, counts, sizes))
