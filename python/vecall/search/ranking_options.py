"""Ranking and scoring options of a service, independent of its file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, cast

from vecall.embedders import Embedder
from vecall.errors import ConfigError
from vecall.ranking.calibration import Calibration
from vecall.ranking.options import DEFAULT_AUTHORS, Ranking, checked_authors
from vecall.search.confidence import Scorer, Scoring

NO_FLOOR = (
    "min_similarity: is a floor on the cosine similarity and needs an embedder; the "
    "floor that works without one is min_confidence"
)

FLOOR_OF_WORDS = (
    "min_similarity: is a floor on the cosine similarity, which a search by words "
    "alone (ranking.fusion) does not have; the floor that works there is min_confidence"
)

_NO_FACTOR = 1.0


class RankingOptions(NamedTuple):
    """Ranking and scoring options of a service, independent of its file."""

    ranking: Ranking
    calibration: Calibration
    scorer: Scorer | None
    authors: Sequence[str]

    def scoring(self, embedder: Embedder | None) -> Scoring:
        """Return what scores hits of this embedder, or of words alone."""
        model_id = None if embedder is None else embedder.model_id
        return Scoring(self.calibration, model_id, self.scorer)


def recall_options(
    ranking: object, calibration: object, scorer: object, authors: object
) -> RankingOptions:
    """Check what a service is to rank and score with; None is what ships.

    Returns:
        The options; the ranking names the authors that are favoured.

    Raises:
        ConfigError: Something else than these.
    """
    if not isinstance(ranking, Ranking | None):
        msg = "ranking: expected a vecall.Ranking"
        raise ConfigError(msg)
    if isinstance(calibration, str | Path):
        calibration = Calibration.load(calibration)
    if not isinstance(calibration, Calibration | None):
        msg = "calibration: expected a vecall.Calibration or the name of its file"
        raise ConfigError(msg)
    if scorer is not None and not callable(scorer):
        msg = "scorer: expected a function"
        raise ConfigError(msg)
    ranking = ranking or Ranking()
    return RankingOptions(
        ranking,
        calibration or Calibration.shipped(),
        cast("Scorer | None", scorer),
        _favoured(ranking, authors),
    )


def _favoured(ranking: Ranking, authors: object) -> Sequence[str]:
    """Return the authors that a service favours."""
    own = ranking.authors
    if authors is None:
        return DEFAULT_AUTHORS if own is None else own
    if own is not None:
        msg = "authors: the ranking has authors already; give them once"
        raise ConfigError(msg)
    if ranking.weights.get("favoured") == _NO_FACTOR:
        msg = 'authors: the ranking favours none; its weight "favoured" is 1'
        raise ConfigError(msg)
    return checked_authors(authors, "authors")
