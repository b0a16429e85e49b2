"""The default search options of a service: floor, ranking, scoring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from vecall.embedders import Embedder
from vecall.errors import ConfigError, InvalidArgumentError
from vecall.ranking.calibration import Calibration
from vecall.ranking.options import DEFAULT_AUTHORS, Ranking, checked_authors
from vecall.reprs import short_repr
from vecall.scalars import make_exact
from vecall.search.confidence import Scorer, Scoring
from vecall.validation import check_min_similarity

NO_FLOOR = (
    "min_similarity: is a floor on the cosine similarity and needs an embedder; the "
    "floor that works without one is min_confidence"
)

FLOOR_OF_WORDS = (
    "min_similarity: is a floor on the cosine similarity, which a search by words "
    "alone (ranking.fusion) does not have; the floor that works there is min_confidence"
)

_NO_FACTOR = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """How a service searches, unless a search says otherwise.

    Attributes:
        min_similarity: Floor on the cosine similarity in [-1, 1], inclusive; needs an
            embedder. None is no floor.
        ranking: How memories are ranked; None is the default `Ranking`.
        authors: At most 64 authors whose memories rank first among equal ones; ()
            favours none. None takes the ranking's authors, or else ("user",).
        calibration: Converts scores to confidence: a `Calibration`, or the path of a
            file that `Calibration.save` wrote. None is the built-in one. It covers
            searches by words, the local embedder, and, without their cosines, other
            embedders.
        scorer: Post-processes the confidence and importance of a memory.

    Raises:
        ConfigError: A value is not allowed, or `authors` is set although the ranking
            sets authors or favours none.
    """

    min_similarity: float | None = None
    ranking: Ranking | None = None
    authors: Sequence[str] | None = None
    calibration: Calibration | str | Path | None = None
    scorer: Scorer | None = None

    __repr__ = short_repr

    def __post_init__(self) -> None:
        """Validate all values, and load the calibration if it is a path."""
        make_exact(self)
        if self.min_similarity is not None:
            try:
                floor = check_min_similarity(self.min_similarity)
            except InvalidArgumentError as error:
                msg = f"search.{error}"
                raise ConfigError(msg) from None
            object.__setattr__(self, "min_similarity", floor)
        ranking: object = self.ranking
        if not isinstance(ranking, Ranking | None):
            msg = "search.ranking: expected a vecall.Ranking"
            raise ConfigError(msg)
        if self.authors is not None:
            authors = _checked_favoured(ranking or Ranking(), self.authors)
            object.__setattr__(self, "authors", authors)
        if isinstance(self.calibration, str | Path):
            loaded = Calibration.load(self.calibration)
            object.__setattr__(self, "calibration", loaded)
        calibration: object = self.calibration
        if not isinstance(calibration, Calibration | None):
            msg = (
                "search.calibration: expected a vecall.Calibration or the name of its "
                "file"
            )
            raise ConfigError(msg)
        scorer: object = self.scorer
        if scorer is not None and not callable(scorer):
            msg = "search.scorer: expected a function"
            raise ConfigError(msg)


def favoured_authors(options: SearchOptions) -> Sequence[str]:
    """Return the authors that a service favours."""
    if options.authors is not None:
        return options.authors
    own = None if options.ranking is None else options.ranking.authors
    return DEFAULT_AUTHORS if own is None else own


def scoring_of(options: SearchOptions, embedder: Embedder | None) -> Scoring:
    """Return the scoring for an embedder; None is searches by words only."""
    calibration = cast("Calibration | None", options.calibration)
    model_id = None if embedder is None else embedder.model_id
    return Scoring(calibration or Calibration.shipped(), model_id, options.scorer)


def _checked_favoured(ranking: Ranking, authors: object) -> tuple[str, ...]:
    if ranking.authors is not None:
        msg = "search.authors: the ranking has authors already; give them once"
        raise ConfigError(msg)
    if all(ranking.weights.get(name) == _NO_FACTOR for name in ("favoured", "reply")):
        msg = (
            'search.authors: the ranking favours none; its weights "favoured" and '
            '"reply" are 1'
        )
        raise ConfigError(msg)
    return checked_authors(authors, "search.authors")
