"""Scores to probabilities: how likely a memory is relevant to a query.

A logistic regression over what the engine knows of a hit (Platt, "Probabilistic outputs
for support vector machines", 1999, with more features than the one score). Words alone
and each embedding model have weights of their own, since a cosine of 0.3 means another
thing from another model. A model without weights has those of any model, which do not
look at the cosine.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vecall.errors import ConfigError, InvalidMemoryError
from vecall.types import MemoryEntry

_SHIPPED = Path(__file__).with_name("calibrated.json")
_SINGLE = ("other", "matches", "cosine")  # fields with the weights of one search
_RIDGE = 1.0
_STEPS = 50
LEAST_FACTOR = 0.01
"""A smaller factor on a score counts as this one: a weight may be 0."""


class Signals(NamedTuple):
    """The signals of a hit's confidence: few, and comparable between users.

    Attributes:
        covered_root: Square root of the share of the query's idf that the memory's
            words hold. The root was chosen by the error on sets of eight languages.
        place: log(1 + place in the answer), from 0.
        relative: The score's share of the best one.
        seen: 1 if the memory holds a word of the query, else 0.
        factor: log of the factor on the score: of the author, of questions, and of
            texts that name a time.
        vectors: The vectors' part of the score; 0 without a query vector.
        unsaid: The cosine where the memory holds no word of the query, else 0.
    """

    covered_root: float
    place: float
    relative: float
    seen: float = 0.0
    factor: float = 0.0
    vectors: float = 0.0
    unsaid: float = 0.0

    @staticmethod
    def of(memory: MemoryEntry) -> Signals:
        """Return the signals of a memory that a search explained.

        Raises:
            InvalidMemoryError: The search ran without explain=True.
        """
        explanation = memory.explanation
        if explanation is None:
            msg = "signals: search with explain=True"
            raise InvalidMemoryError(msg)
        covered = explanation["query_coverage"]
        seen = covered > 0.0
        return Signals(
            math.sqrt(covered),
            math.log1p(explanation["rank"]),
            explanation["relative"],
            float(seen),
            math.log(max(explanation["factor"], LEAST_FACTOR)),
            explanation["vectors"],
            0.0 if seen else memory.similarity or 0.0,
        )


def cosine_signals(similarity: float, best: float, place: int) -> Signals:
    """Return the signals of a memory that was found by its cosine alone.

    Args:
        similarity: The cosine of the memory's vector and the query's, in [-1, 1].
        best: The highest cosine of the answer.
        place: Place in the answer, from 0.
    """
    relative = similarity / best if best > 0.0 else 0.0
    return Signals(0.0, math.log1p(place), relative)


WORD_SIGNALS = 5
"""How many of the signals there are without vectors; the first ones."""


@dataclass(frozen=True, slots=True)
class Weights:
    """A logistic regression: one weight a signal, and the bias.

    Attributes:
        bias: Log-odds where all signals are 0.
        weights: As many as there are signals, in the order of `Signals`.
    """

    bias: float
    weights: tuple[float, ...]

    def probability(self, signals: Sequence[float]) -> float:
        """Return the chance that the memory is relevant, in (0, 1)."""
        odds = self.bias
        for weight, value in zip(self.weights, signals, strict=False):
            odds += weight * value
        if not -60.0 <= odds <= 60.0:
            odds = min(max(odds, -60.0), 60.0)
        return 1.0 / (1.0 + math.exp(-odds))


@dataclass(frozen=True)
class Calibration:
    """The weights of words alone and of embedding models.

    Attributes:
        words: For searches without vectors.
        models: By `model_id`, for searches with vectors.
        other: For models that are not among these; None is what comes with vecall.
        matches: For texts that are matched without ranking, by `InMemoryMemoryService`;
            None is what comes with vecall.
        cosine: For searches by the cosine alone, by `VectorStoreMemoryService`; None is
            what comes with vecall. They use the place and `relative`, not the cosine's
            value, which means something else for each model and kind of text.
    """

    words: Weights
    models: Mapping[str, Weights]
    other: Weights | None = None
    matches: Weights | None = None
    cosine: Weights | None = None

    @staticmethod
    def shipped() -> Calibration:
        """Return what comes with vecall, for each field."""
        return _shipped()

    def of_model(self, model_id: str) -> Weights:
        """Return the weights for searches with a model's vectors."""
        known = self.models.get(model_id, self.other)
        if known is not None:
            return known
        shipped = _shipped().other
        assert shipped is not None
        return shipped

    def of_matches(self) -> Weights:
        """Return the weights for texts that are matched without ranking."""
        if self.matches is not None:
            return self.matches
        shipped = _shipped().matches
        assert shipped is not None
        return shipped

    def of_cosine(self) -> Weights:
        """Return the weights for searches by the cosine alone."""
        if self.cosine is not None:
            return self.cosine
        shipped = _shipped().cosine
        assert shipped is not None
        return shipped

    @staticmethod
    def load(path: str | Path) -> Calibration:
        """Read a file that `save` wrote.

        Raises:
            ConfigError: It cannot be read, has another shape, or has the weights of
                other signals than this version's.
        """
        try:
            file = json.loads(Path(path).read_text(encoding="utf-8"))
            models = {
                str(name): _read(weights) for name, weights in file["models"].items()
            }
            single = {
                name: _read(file[name])
                for name in _SINGLE
                if file.get(name) is not None
            }
            return Calibration(_read(file["words"]), models, **single)
        except ConfigError:  # which is a ValueError
            raise
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            msg = "calibration: expected a JSON file written by `Calibration.save`"
            raise ConfigError(msg) from None

    def save(self, path: str | Path) -> None:
        """Write the weights as JSON."""
        file: dict[str, object] = {
            "words": _named(self.words),
            "models": {name: _named(one) for name, one in self.models.items()},
        }
        for name in _SINGLE:
            weights: Weights | None = getattr(self, name)
            if weights is not None:
                file[name] = _named(weights)
        text = json.dumps(file, indent=1) + "\n"
        Path(path).write_text(text, encoding="utf-8")

    def with_model(self, model_id: str, weights: Weights) -> Calibration:
        """Return a copy that also knows another model."""
        return replace(self, models={**self.models, model_id: weights})


def fit(
    signals: NDArray[np.float64] | Sequence[Sequence[float]],
    relevant: NDArray[np.float64] | Sequence[float],
    *,
    vectors: bool,
    importance: NDArray[np.float64] | Sequence[float] | None = None,
) -> Weights:
    """Fit weights on hits whose relevance is known.

    Newton's method on the ridge-regularised likelihood of standardised signals.

    Args:
        signals: (n, 7), rows of `Signals`.
        relevant: (n,), 1 where the memory was relevant and 0 where it was not.
        vectors: Whether the searches had vectors.
        importance: (n,), how much each hit counts, above 0; None counts all alike. A
            mean of 1 leaves the ridge what it is.

    Raises:
        ConfigError: Fewer than 100 hits, or all of one kind, or not numbers.
    """
    y = np.asarray(relevant, float)
    x = np.asarray(signals, float)
    count = len(Signals._fields)
    shapes = x.ndim == 2 and y.ndim == 1 and x.shape == (len(y), count)
    if not shapes or not np.isfinite(x).all() or not np.isin(y, (0.0, 1.0)).all():
        msg = f"calibration: expected finite signals (n, {count}) and n times 0 or 1"
        raise ConfigError(msg)
    if len(y) < 100 or len(set(y.tolist())) != 2:
        msg = "calibration: needs at least 100 hits, relevant ones and others"
        raise ConfigError(msg)
    if not vectors:
        x = x[:, :WORD_SIGNALS]
    share = np.ones(len(y)) if importance is None else np.asarray(importance, float)
    if share.shape != y.shape or not np.isfinite(share).all() or share.min() <= 0.0:
        msg = "calibration: expected n numbers above 0 as importance"
        raise ConfigError(msg)
    mean = np.average(x, axis=0, weights=share)
    deviation = np.sqrt(np.average((x - mean) ** 2, axis=0, weights=share))
    deviation[deviation < 1e-9] = np.inf  # a signal that never changes says nothing
    z = np.column_stack([(x - mean) / deviation, np.ones(len(x))])
    ridge = np.full(z.shape[1], _RIDGE)
    ridge[-1] = 0.0
    weights = np.zeros(z.shape[1])
    for _ in range(_STEPS):
        p = 1.0 / (1.0 + np.exp(-z @ weights))
        gradient = z.T @ (share * (y - p)) - ridge * weights
        hessian = (z * (share * p * (1 - p))[:, None]).T @ z + np.diag(ridge + 1e-9)
        step = np.linalg.solve(hessian, gradient)
        weights += step
        if np.abs(step).max() < 1e-9:
            break
    raw = weights[:-1] / deviation
    bias = weights[-1] - float(raw @ np.nan_to_num(mean))
    return Weights(float(bias), tuple(float(weight) for weight in raw))


@cache
def _shipped() -> Calibration:
    return Calibration.load(_SHIPPED)


def _named(weights: Weights) -> dict[str, float]:
    names = Signals._fields
    return {
        "bias": round(weights.bias, 6),
        **{
            name: round(weight, 6)
            for name, weight in zip(names, weights.weights, strict=False)
        },
    }


def _read(named: Mapping[str, float]) -> Weights:
    bias = float(named["bias"])
    count = WORD_SIGNALS if len(named) - 1 <= WORD_SIGNALS else len(Signals._fields)
    names = Signals._fields[:count]
    lacking = [name for name in names if name not in named]
    if lacking or len(named) - 1 != count:  # the names of a file are not for a message
        difference = f"lacks {', '.join(lacking)}" if lacking else "has signals besides"
        msg = (
            f"calibration: the file's weights are for other signals ({difference}), "
            f"such as those of another version of vecall; fit them again with "
            f"`vecall eval jsonl FILE --calibrate OUT.json`"
        )
        raise ConfigError(msg)
    weights = tuple(float(named[name]) for name in names)
    if not all(map(math.isfinite, (bias, *weights))):
        raise ValueError
    return Weights(bias, weights)
