"""How a search ranks: the engine's weights, and options that are off by default."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Literal

from vecall import _core
from vecall.errors import ConfigError

Reranker = Callable[[str, list[str]], Sequence[float] | Awaitable[Sequence[float]]]
"""Takes the query and the texts that were found; returns one number for each, higher is
better. It may be a coroutine function, and may be slow: it never runs on your event
loop."""

Rewriter = Callable[[str], str | Awaitable[str]]
"""Takes a query; returns the text to search for. It may be a coroutine function, and
may be slow: it never runs on your event loop."""

WEIGHTS = frozenset(
    "dense coverage_power next previous after_question second session question time "
    "author favoured".split()
)
"""The keys of `Ranking.weights`; docs/design/ranking.md explains each."""

DEFAULT_AUTHORS = ("user",)
"""The default authors to favour, if neither service nor search names any."""

DENSE = 0.4
"""The weight of the vectors' side where none is given."""

COSINE_ALONE: dict[str, float] = {
    "dense": 1.0,
    "coverage_power": 0.0,
    "next": 0.0,
    "previous": 0.0,
    "after_question": 0.0,
    "second": 0.0,
    "session": 0.0,
    "question": 1.0,
    "time": 1.0,
    "author": 1.0,
    "favoured": 1.0,
}
"""With fusion="vectors", the weights that rank by cosine similarity alone."""

_MOST_WEIGHT = 10.0
_MOST_DEPTH = 1_000
_MOST_AUTHORS = 64


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """How memories are ranked. docs/results/recall.md measures the defaults.

    The options look at the best `depth` memories that the engine found, in this order:
    fusion, decay, reranker, collapsing, diversity. A reranker's numbers take the place
    of the scores before them.

    Attributes:
        authors: Names of authors whose memories are favoured by the weight "favoured":
            what a user said comes before a reply that repeats it. () favours none; None
            favours those of the service, which are ("user",) unless it has others.
        weights: Other weights than the engine's own, by the names in `WEIGHTS`. All are
            from 0 to 10, "dense" from 0 to 1.
        fusion: "convex" adds the two sides' normalised scores, "rrf" their reciprocal
            ranks (Cormack et al., 2009), which loses to it on every data set we have.
            "words" and "vectors" ask one side alone; without a vector, "vectors" finds
            nothing.
        half_life: Seconds (or a timedelta) in which a score halves with age; None
            never.
        rewriter: Gives the text that is searched for in place of the query: a question
            that names what "it" and "there" mean, say. The vector is the new text's,
            unless the search has one of its own; the reranker and the scorer see the
            new text, too. Memories that are to be forgotten are never looked for by it.
        reranker: Reorders the memories by their texts.
        collapse: Share of common words, in (0, 1], from which of two memories only the
            better is returned; None returns both.
        diversity: Maximal marginal relevance (Carbonell and Goldstein, 1998): share in
            [0, 1] by which likeness to a better memory counts against a memory; None
            and 0 do not count it.
        depth: How many memories the options choose from, at least top_k.
        engine_ranking: The weights as `Engine.recall` takes them; made of `weights`.

    Raises:
        ConfigError: A value outside what is allowed.
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
        """Check every value."""
        if self.authors is not None:
            authors = checked_authors(self.authors, "ranking.authors")
            object.__setattr__(self, "authors", authors)
        given: object = self.weights
        if not isinstance(given, Mapping):
            msg = "ranking.weights: expected a mapping of names to weights"
            raise ConfigError(msg)
        for name, weight in self.weights.items():
            if name not in WEIGHTS:
                msg = f"ranking.weights: the names are {', '.join(sorted(WEIGHTS))}"
                raise ConfigError(msg)
            _check(weight, f"ranking.weights[{name!r}]", _limit_of(name))
        object.__setattr__(self, "weights", MappingProxyType(dict(self.weights)))
        object.__setattr__(self, "engine_ranking", _core.Ranking(**self.weights))
        fusion: object = self.fusion
        if fusion not in ("convex", "rrf", "words", "vectors"):
            msg = 'ranking.fusion: must be "convex", "rrf", "words" or "vectors"'
            raise ConfigError(msg)
        if isinstance(self.half_life, timedelta):
            object.__setattr__(self, "half_life", self.half_life.total_seconds())
        if self.half_life is not None:
            _check(self.half_life, "ranking.half_life", math.inf, above=True)
        for name in ("rewriter", "reranker"):
            _check_function(getattr(self, name), f"ranking.{name}")
        if self.collapse is not None:
            _check(self.collapse, "ranking.collapse", 1.0, above=True)
        if self.diversity is not None:
            _check(self.diversity, "ranking.diversity", 1.0)
        if type(self.depth) is not int or not 1 <= self.depth <= _MOST_DEPTH:
            msg = f"ranking.depth: must be an integer from 1 to {_MOST_DEPTH}"
            raise ConfigError(msg)

    @property
    def seconds_to_half(self) -> float:
        """The half-life in seconds; infinite where there is none."""
        half_life = self.half_life
        if isinstance(half_life, timedelta):
            return half_life.total_seconds()
        return math.inf if half_life is None else float(half_life)

    @property
    def compares_texts(self) -> bool:
        """Whether memories are compared with each other."""
        return self.collapse is not None or bool(self.diversity)

    @property
    def is_plain(self) -> bool:
        """Whether the engine's order is the answer."""
        return (
            self.fusion != "rrf"
            and self.half_life is None
            and self.reranker is None
            and self.collapse is None
            and not self.diversity
        )


def checked_authors(given: object, option: str) -> tuple[str, ...]:
    """Return names of authors, each once.

    Args:
        given: What the caller gave.
        option: The option's name, for the message.

    Raises:
        ConfigError: Not a sequence of at most 64 names.
    """
    if isinstance(given, str) or not isinstance(given, Sequence):
        msg = f"{option}: expected a sequence of authors' names"
        raise ConfigError(msg)
    if len(given) > _MOST_AUTHORS or not all(
        isinstance(name, str) and _is_name(name) for name in given
    ):
        msg = f"{option}: expected at most {_MOST_AUTHORS} names of authors"
        raise ConfigError(msg)
    return tuple(dict.fromkeys(given))


def _is_name(name: str) -> bool:
    try:
        return bool(name.encode())
    except UnicodeEncodeError:  # a lone surrogate
        return False


def _check_function(given: object, name: str) -> None:
    if given is not None and not callable(given):
        msg = f"{name}: expected a function"
        raise ConfigError(msg)


def _limit_of(name: str) -> float:
    return 1.0 if name == "dense" else _MOST_WEIGHT


def _check(value: Any, name: str, limit: float, *, above: bool = False) -> None:
    number = isinstance(value, float | int) and not isinstance(value, bool)
    if number and (value > 0.0 if above else value >= 0.0) and value <= limit:
        return
    minimum = "above 0" if above else "at least 0"
    maximum = "" if math.isinf(limit) else f" and at most {limit:g}"
    msg = f"{name}: must be a number {minimum}{maximum}"
    raise ConfigError(msg)
