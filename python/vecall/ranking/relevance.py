"""How sure it is that a query asks for something that its user's memories hold.

A logistic regression over what the query's words ask, its first memories, and, for the
local embedder, over the query's vector. bench/recall/fit_relevance.py fits it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from vecall.embedders import Vectors
from vecall.lexical.small_talk import asking_of_message
from vecall.limits import IRRELEVANT

SHIPPED = Path(__file__).with_name("relevance.json")
_SUREST = 1e-4
_WHOLE = 0.999


@dataclass(slots=True, repr=False, eq=False)
class Asked:
    """A query and what was found for it; called, it returns the relevance."""

    query: str
    confidence: float  # the highest of the first memories; 0 without memories
    covered: float  # the largest share of the query's idf that one of them covers
    coverage: float  # the largest share that any memory covers
    vector: Vectors | None = None  # of the query; None for a search by words alone
    model_id: str | None = None  # the embedder's model

    def relevance_features(self) -> tuple[float, ...]:
        """Return the features of the regression, but for that of the vector."""
        nothing, telling, _ = asking_of_message(self.query)
        if telling and self.covered >= _WHOLE:
            telling = max(telling, 2)  # one word that a memory has
        sure = min(max(self.confidence, _SUREST), 1.0 - _SUREST)
        return (
            float(nothing),
            float(telling),
            math.log(sure / (1.0 - sure)),
            math.sqrt(self.covered),
            math.sqrt(self.coverage),
        )

    def __call__(self) -> float:
        """Return the probability, in (0, 1)."""
        laws, signals = _shipped_relevance_weights(), self.relevance_features()
        law = laws["words" if self.vector is None else "vectors"]
        own = laws["models"].get(self.model_id)
        if self.vector is not None and own is not None:
            law = own
            signals = (*signals, float(own["direction"] @ self.vector))
        odds: float = law["bias"] + sum(map(float.__mul__, law["weights"], signals))
        return 1.0 / (1.0 + math.exp(-min(max(odds, -40.0), 40.0)))

    def is_surely_irrelevant(self) -> bool:
        """Return whether all is surely irrelevant: no word, and no near meaning."""
        # Only a model with weights of its own can say so, and never of mere keywords.
        if self.coverage > 0.0 or self.vector is None:
            return False
        if self.model_id not in _shipped_relevance_weights()["models"]:
            return False
        nothing, _, keywords = asking_of_message(self.query)
        return (nothing or not keywords) and self() < IRRELEVANT


@cache
def _shipped_relevance_weights() -> dict[str, Any]:
    laws: dict[str, Any] = json.loads(SHIPPED.read_text(encoding="utf-8"))
    for model in laws["models"].values():
        model["direction"] = np.array(model["direction"], np.float32)
    return laws


def highest_relevance(asked: tuple[Callable[[], float], ...]) -> float:
    """Return the highest relevance of several searches for one query."""
    return max(each() for each in asked)
