"""Options of ranking: the engine's weights, and steps that are off by default."""

from __future__ import annotations

import math
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Literal

from vecall import _core
from vecall.errors import ConfigError
from vecall.scalars import Shown, exact, make_fields_exact
from vecall.system import cached

Reranker = Callable[[str, list[str]], Sequence[float] | Awaitable[Sequence[float]]]
"""Takes the query and the texts of the results; returns one score per text, higher is
better. It may be a coroutine function. It may block: it never runs on your event
loop."""

Rewriter = Callable[[str], str | Awaitable[str]]
"""Takes a query; returns the text to search for instead. It may be a coroutine
function. It may block: it never runs on your event loop."""

DEFAULT_AUTHORS = ("user",)
"""The authors to favour if neither the service nor the search names any."""

DENSE = 0.4
"""The default of the weight "dense"."""

_OUTSIDE = 0.1  # the default of the weight "outside"

CONTEXT = ("next", "previous", "after_question", "second", "session")
"""The weights of what lies beside a memory."""

FACTORS = ("question", "time", "author", "favoured", "reply", "outside")
"""The weights that are factors; 1 changes nothing."""

COSINE_ALONE: dict[str, float] = {
    **dict.fromkeys(CONTEXT, 0.0),
    **dict.fromkeys(FACTORS, 1.0),
    "dense": 1.0,
    "coverage_power": 0.0,
}
"""The weights that, with fusion="vectors", rank by cosine similarity alone."""

WEIGHTS = frozenset(COSINE_ALONE)
"""The keys of `Ranking.weights`. docs/design/ranking.md explains each of them."""

_MOST_WEIGHT = 10.0
_MOST_DEPTH = 1_000
_MOST_AUTHORS = 64


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Ranking(Shown):
    """How a search ranks memories. bench/results/recall.md measures the defaults.

    The options process the engine's best `depth` memories in this order: fusion, decay,
    reranker, collapsing, diversity. The scores of a reranker replace the earlier ones.

    Attributes:
        authors: Names of authors whose memories rank higher, by the weight "favoured":
            a user's statement then comes before a reply that repeats it. () favours no
            author. None uses the authors of the service, by default ("user",).
        weights: Weights that replace the engine's defaults, by their names in
            `WEIGHTS`. The range is 0 to 10; for "dense" it is 0 to 1.
        fusion: How to combine the ranking by words and the ranking by vectors. "convex"
            adds the normalised scores. "rrf" adds the reciprocal ranks (Cormack et al.,
            2009); it ranks worse than "convex" on every data set we have. "words" and
            "vectors" use one of the two alone. Without a query vector, "vectors" finds
            nothing.
        half_life: The half-life of a score by the memory's age, in seconds or as a
            timedelta; None for no decay.
        rewriter: Returns a text to search for instead of the query, such as a question
            with its pronouns resolved. The search embeds the new text, unless you pass
            a vector. The reranker and the scorer also receive the new text. A search
            for memories to forget does not use the rewriter.
        reranker: Scores memories by their texts; the results are sorted by its scores.
        collapse: Share of common words, in (0, 1]. Of two memories with at least this
            share, only the better is returned. None returns both.
        diversity: The penalty, in [0, 1], for the similarity to a better memory
            (maximal marginal relevance; Carbonell and Goldstein, 1998). None and 0
            apply no penalty.
        depth: Number of memories that the options process, from 1 to 1,000; `top_k` if
            that is larger.
        engine_ranking: The weights in the form that `Engine.recall` takes; derived from
            `weights`.

    Raises:
        ConfigError: A value has the wrong type or is out of range.
    """

    authors: Sequence[str] | None = None
    weights: Mapping[str, float] = field(default_factory=dict, hash=False)
    fusion: Literal["convex", "rrf", "words", "vectors"] = "convex"
    half_life: float | timedelta | None = None
    rewriter: Rewriter | None = None
    reranker: Reranker | None = None
    collapse: float | None = None
    diversity: float | None = None
    depth: int = 50
    engine_ranking: _core.Ranking = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Validate the options and derive `engine_ranking`."""
        make_fields_exact(self)
        if self.authors is not None:
            authors = checked_favoured_authors(self.authors, "ranking.authors")
            object.__setattr__(self, "authors", authors)
        given: object = self.weights
        if not isinstance(given, Mapping):
            raise ConfigError("ranking.weights: expected a mapping of names to weights")
        weights = {exact(name): exact(value) for name, value in given.items()}
        for name, weight in weights.items():
            if name not in WEIGHTS:
                msg = f"ranking.weights: the names are {', '.join(sorted(WEIGHTS))}"
                raise ConfigError(msg)
            limit = 1.0 if name == "dense" else _MOST_WEIGHT
            _check_number(weight, f"ranking.weights[{name!r}]", limit)
        object.__setattr__(self, "weights", MappingProxyType(weights))
        object.__setattr__(self, "engine_ranking", _core.Ranking(**self.weights))
        fusion: object = self.fusion
        known = ("convex", "rrf", "words", "vectors")
        if type(fusion) is not str or fusion not in known:
            msg = 'ranking.fusion: must be "convex", "rrf", "words" or "vectors"'
            raise ConfigError(msg)
        if isinstance(self.half_life, timedelta):
            object.__setattr__(self, "half_life", self.half_life.total_seconds())
        if self.half_life is not None:
            _check_number(self.half_life, "ranking.half_life", math.inf, above=True)
        for name in ("rewriter", "reranker"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise ConfigError(f"ranking.{name}: expected a function")
        if self.collapse is not None:
            _check_number(self.collapse, "ranking.collapse", 1.0, above=True)
        if self.diversity is not None:
            _check_number(self.diversity, "ranking.diversity", 1.0)
        if type(self.depth) is not int or not 1 <= self.depth <= _MOST_DEPTH:
            msg = f"ranking.depth: must be an integer from 1 to {_MOST_DEPTH}"
            raise ConfigError(msg)

    @property
    def outside(self) -> float:
        """The factor on a memory outside of the period that the query names."""
        return self.weights.get("outside", _OUTSIDE)

    @property
    def compares_texts(self) -> bool:
        """Whether an option compares memories with each other."""
        return self.collapse is not None or bool(self.diversity)

    @cached
    def is_plain(self) -> bool:
        """Whether the results have the engine's order: no option reorders them."""
        return (
            self.fusion != "rrf"
            and self.half_life is None
            and self.reranker is None
            and self.collapse is None
            and not self.diversity
        )


def checked_favoured_authors(given: object, option: str) -> tuple[str, ...]:
    """Return the names of authors that an option gives, without repeats."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ConfigError(f"{option}: expected a sequence of authors' names")
    names = list(map(exact, given))
    if len(names) > _MOST_AUTHORS or not all(
        isinstance(name, str) and _is_author_name(name) for name in names
    ):
        msg = f"{option}: expected at most {_MOST_AUTHORS} names of authors"
        raise ConfigError(msg)
    return tuple(dict.fromkeys(names))


def _is_author_name(name: str) -> bool:
    try:
        return bool(name.encode())
    except UnicodeEncodeError:  # a lone surrogate
        return False


def _check_number(value: Any, name: str, limit: float, *, above: bool = False) -> None:
    number = isinstance(value, float | int) and not isinstance(value, bool)
    if number and isinstance(value, int):  # one of 400 digits is no float
        number = value <= sys.float_info.max
    if number and (value > 0.0 if above else value >= 0.0) and value <= limit:
        return
    minimum = "above 0" if above else "at least 0"
    maximum = "" if math.isinf(limit) else f" and at most {limit:g}"
    raise ConfigError(f"{name}: must be a number {minimum}{maximum}")


OF_STATEMENTS = Ranking(weights={**dict.fromkeys(CONTEXT, 0.0), "dense": 0.6})
"""The weights for a query that asks nothing, by a model that vecall knows. What it is
about was said in other words, beside other things: a neighbour is no sign of it."""

OF_MESSAGES = Ranking(weights={"question": 0.95, "favoured": 1.35})
"""The weights for a longer query that tells more than it asks. It goes on with what its
user said, and also with what the user asked then."""


# The importance of a memory: a function of its prior, its age and its use.

DEFAULT_PRIOR = 0.5
DAY = 86_400.0
"""The unit of age in seconds: age changes the importance once a day."""

_HALF_FADED = 90.0  # days, for half of _RECENCY_WEIGHT
_RECENCY_WEIGHT = 0.7  # the log-odds that a memory loses by age, at most
_USE_WEIGHT = 1.4  # the log-odds that a memory gains by use, at most
_HALF_USED = 4.0  # uses, for half of _USE_WEIGHT


def importance_weight(prior: float | None, uses: int | None, age: float) -> float:
    """Return the importance of a memory, in [0, 1].

    The log-odds of the prior decrease with age by up to 0.7 (half of that after 90
    days) and increase with use by up to 1.4 (half of that after four uses). Priors of 0
    and 1 therefore never change. Age is rounded down to whole days, so that a repeated
    search returns the same values.

    Age is in seconds; negative ages count as 0. None means no use, or a prior of 0.5.
    """
    prior = DEFAULT_PRIOR if prior is None else prior
    days = max(age, 0.0) // DAY
    faded = 1.0 - 0.5 ** (days / _HALF_FADED)
    used = 1.0 - 0.5 ** ((uses or 0) / _HALF_USED)
    change = _USE_WEIGHT * used - _RECENCY_WEIGHT * faded
    if change == 0.0 or not 0.0 < prior < 1.0:
        return prior
    odds = math.log(prior) - math.log1p(-prior) + change
    return 1.0 / (1.0 + math.exp(-min(max(odds, -700.0), 700.0)))
