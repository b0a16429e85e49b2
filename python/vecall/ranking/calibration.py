"""Converts scores to probabilities that a memory is relevant to a query.

The method is a logistic regression over the engine's signals of a hit (Platt,
"Probabilistic outputs for support vector machines", 1999, with several features instead
of one score). Searches by words alone and each embedding model have separate weights,
because a cosine of 0.3 means something different for each model. A model without its
own weights uses the weights for any model, which ignore the cosine.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vecall._core import Confidence
from vecall.errors import ConfigError, InvalidMemoryError
from vecall.scalars import Shown
from vecall.types import MemoryEntry

_SHIPPED = Path(__file__).with_name("calibrated.json")
_SINGLE = ("other", "matches", "cosine")  # the optional fields of `Calibration`
_RIDGE = 1.0
_STEPS = 50


class Signals(NamedTuple):
    """The features of a hit, comparable between users.

    Attributes:
        covered_root: Square root of the query coverage: the share in [0, 1] of the
            query's idf whose words are in the memory. The root was chosen by its error
            on data sets in eight languages.
        place: log(1 + the hit's place); see `Confidence.places`.
        relative: The score divided by the best score.
        seen: 1 if the memory has a word of the query, else 0.
        factor: Log of the factor on the score for authors, questions and texts that
            name a time.
        size: `covered_root` times log(1 + characters / 500) of the memory's text, of
            which at most 4,000 count. A long text has words of a query by chance.
        vectors: The part of the score from vectors, at the default ranking's scale; 0
            without a query vector.
        unsaid: The cosine if the memory has no word of the query, else 0.
    """

    covered_root: float
    place: float
    relative: float
    seen: float = 0.0
    factor: float = 0.0
    size: float = 0.0
    vectors: float = 0.0
    unsaid: float = 0.0

    @staticmethod
    def signals_of_memory(memory: MemoryEntry) -> Signals:
        """Return the signals of a memory of a search with `explain=True`.

        Raises:
            InvalidMemoryError: The search ran without `explain=True`.
        """
        explanation = memory.explanation
        if explanation is None:
            raise InvalidMemoryError("signals: search with explain=True")
        return Signals(
            *Confidence.signals(
                explanation["query_coverage"],
                explanation["place"],
                explanation["relative"],
                explanation["factor"],
                len(memory.text),
                explanation["vectors"] * explanation["vector_scale"],
                memory.similarity or 0.0,
            )
        )


WORD_SIGNALS = 6
"""The number of signals in searches without vectors: the first fields of `Signals`."""


@dataclass(frozen=True, slots=True)
class Weights:
    """The coefficients of a logistic regression."""

    bias: float  # the log-odds if all signals are 0
    weights: tuple[
        float, ...
    ]  # one per signal, in the order of `Signals`: six or eight

    def engine_law(self, added: float = 0.0) -> Confidence:
        """Return the engine's object with these weights, and more log-odds if given."""
        return Confidence(self.bias + added, self.weights)

    def probability(self, signals: Iterable[float]) -> float:
        """Return the probability, in (0, 1), that the memory is relevant."""
        return self.engine_law().probability(list(signals))


@dataclass(frozen=True, repr=False, eq=False)
class Calibration(Shown):
    """The weights for searches by words alone and for each embedding model.

    Attributes:
        words: For searches without vectors.
        models: For searches with vectors, by `model_id`, or by the model's own name
            in lower case: "all-minilm-l6-v2" stands for
            "sentence-transformers:all-MiniLM-L6-v2" and for
            "fastembed:sentence-transformers/all-MiniLM-L6-v2".
        other: For models that are not in `models`; None for the shipped weights.
        matches: For texts matched without ranking, by `InMemoryMemoryService`; None for
            the shipped weights.
        cosine: For searches by the cosine alone, by `VectorStoreMemoryService`; None
            for the shipped weights. These use `place` and `relative`. They ignore the
            value of the cosine, which depends on the model and the kind of text.
        full_weight: The `model_id` of models whose vectors count in full in the
            ranking, besides those of the shipped calibration. The vectors of other
            models count as far as they agree with the words.
        messages: What is added to the log-odds for a query that tells more than it
            asks: it matches by chance more often.
    """

    words: Weights
    models: Mapping[str, Weights]
    other: Weights | None = None
    matches: Weights | None = None
    cosine: Weights | None = None
    full_weight: frozenset[str] = frozenset()
    messages: float = 0.0

    @staticmethod
    def shipped() -> Calibration:
        """Return the calibration that comes with vecall."""
        return _shipped_calibration()

    def of_model(self, model_id: str) -> Weights:
        """Return the weights for searches with a model's vectors."""
        known = self.models.get(model_id) or self.models.get(_bare_model_name(model_id))
        return known or self._weights_or_shipped("other")

    def counts_in_full(self, model_id: str) -> bool:
        """Return whether the vectors of a model count in full in the ranking."""
        return (
            model_id in self.full_weight
            or model_id in _shipped_calibration().full_weight
        )

    def of_matches(self) -> Weights:
        """Return the weights for texts matched without ranking."""
        return self._weights_or_shipped("matches")

    def of_cosine(self) -> Weights:
        """Return the weights for searches by the cosine alone."""
        return self._weights_or_shipped("cosine")

    def _weights_or_shipped(self, name: str) -> Weights:
        found: Weights = getattr(self, name) or getattr(_shipped_calibration(), name)
        return found

    @staticmethod
    def load(path: str | Path) -> Calibration:
        """Read a file that `save` wrote.

        Raises:
            ConfigError: The file cannot be read, is not a calibration, or its weights
                are for other signals than those of this version.
        """
        try:
            file = json.loads(Path(path).read_text(encoding="utf-8"))
            models = {
                str(name): _weights_from_names(weights)
                for name, weights in file["models"].items()
            }
            single = {
                name: _weights_from_names(file[name])
                for name in _SINGLE
                if file.get(name) is not None
            }
            full = file.get("full_weight", [])
            if not isinstance(full, list):
                raise TypeError
            return Calibration(
                _weights_from_names(file["words"]),
                models,
                **single,
                full_weight=frozenset(map(str, full)),
                messages=_finite_weight(file.get("messages", 0.0)),
            )
        except ConfigError:  # which is a ValueError
            raise
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            msg = "calibration: expected a JSON file written by `Calibration.save`"
            raise ConfigError(msg) from None

    def save(self, path: str | Path) -> None:
        """Write the weights to a file, as JSON."""
        file: dict[str, object] = {
            "words": _weights_by_name(self.words),
            "models": {
                name: _weights_by_name(one) for name, one in self.models.items()
            },
        }
        for name in _SINGLE:
            weights: Weights | None = getattr(self, name)
            if weights is not None:
                file[name] = _weights_by_name(weights)
        if self.full_weight:
            file["full_weight"] = sorted(self.full_weight)
        if self.messages:
            file["messages"] = self.messages
        text = json.dumps(file, indent=1) + "\n"
        Path(path).write_text(text, encoding="utf-8", newline="\n")

    def with_model(self, model_id: str, weights: Weights) -> Calibration:
        """Return a copy with the weights of one more model."""
        return replace(self, models={**self.models, model_id: weights})


def fit_weights(
    signals: NDArray[np.float64] | Sequence[Sequence[float]],  # (n, 8)
    relevant: NDArray[np.float64] | Sequence[float],  # (n,): 1 or 0
    *,
    vectors: bool,  # whether the searches had vectors
    importance: NDArray[np.float64] | Sequence[float] | None = None,  # (n,), above 0
    added: NDArray[np.float64] | Sequence[float] | None = None,  # (n,), log-odds
) -> Weights:
    """Fit weights on hits whose relevance is known."""
    # Newton's method maximises the likelihood of standardised signals with a ridge
    # penalty. A mean of 1 of `importance` keeps its strength. ConfigError: fewer than
    # 100 hits, all of them relevant or irrelevant, or an array with another shape or
    # invalid values.
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
        raise ConfigError("calibration: expected n numbers above 0 as importance")
    shift = np.zeros(len(y)) if added is None else np.asarray(added, float)
    if shift.shape != y.shape or not np.isfinite(shift).all():
        raise ConfigError("calibration: expected n finite numbers as added")
    mean = np.average(x, axis=0, weights=share)
    deviation = np.sqrt(np.average((x - mean) ** 2, axis=0, weights=share))
    deviation[deviation < 1e-9] = np.inf  # a constant signal gets the weight 0
    z = np.column_stack([(x - mean) / deviation, np.ones(len(x))])
    ridge = np.full(z.shape[1], _RIDGE)
    ridge[-1] = 0.0
    weights = np.zeros(z.shape[1])
    for _ in range(_STEPS):
        p = 1.0 / (1.0 + np.exp(-z @ weights - shift))
        gradient = z.T @ (share * (y - p)) - ridge * weights
        hessian = (z * (share * p * (1 - p))[:, None]).T @ z + np.diag(ridge + 1e-9)
        step = np.linalg.solve(hessian, gradient)
        weights += step
        if np.abs(step).max() < 1e-9:
            break
    raw = weights[:-1] / deviation
    bias = weights[-1] - float(raw @ np.nan_to_num(mean))
    return Weights(float(bias), tuple(float(weight) for weight in raw))


def _bare_model_name(model_id: str) -> str:
    """Return a model's name without the package that runs it and without its owner."""
    name = model_id.partition(":")[2] or model_id
    return name.replace("\\", "/").rstrip("/").rpartition("/")[2].lower()


@cache
def _shipped_calibration() -> Calibration:
    return Calibration.load(_SHIPPED)


def _weights_by_name(weights: Weights) -> dict[str, float]:
    names = Signals._fields
    return {
        "bias": round(weights.bias, 6),
        **{
            name: round(weight, 6)
            for name, weight in zip(names, weights.weights, strict=False)
        },
    }


def _weights_from_names(named: Mapping[str, float]) -> Weights:
    bias = float(named["bias"])
    count = WORD_SIGNALS if len(named) - 1 <= WORD_SIGNALS else len(Signals._fields)
    names = Signals._fields[:count]
    lacking = [name for name in names if name not in named]
    if lacking or len(named) - 1 != count:  # a message must not quote names from a file
        difference = f"lacks {', '.join(lacking)}" if lacking else "has signals besides"
        raise ConfigError(
            f"calibration: the file's weights are for other signals ({difference}), "
            f"such as those of another version of vecall; fit them again with "
            f"`vecall eval jsonl FILE --calibrate OUT.json`"
        )
    return Weights(
        _finite_weight(bias), tuple(_finite_weight(named[name]) for name in names)
    )


def _finite_weight(number: float) -> float:
    if not math.isfinite(number := float(number)):
        raise ValueError
    return number
