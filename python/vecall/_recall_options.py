"""How a service ranks and scores, whatever file it opens."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, cast

from vecall._scoring import Scorer, Scoring
from vecall.calibration import Calibration
from vecall.embedders import Embedder
from vecall.errors import ConfigError
from vecall.ranking import Ranking

NO_FLOOR = (
    "min_score: is a floor on the cosine similarity and needs an embedder; the floor "
    "that works without one is min_confidence"
)

FLOOR_OF_WORDS = (
    "min_score: is a floor on the cosine similarity, which a search by words alone "
    "(ranking.fusion) does not have; the floor that works there is min_confidence"
)

NOT_CALIBRATED = (
    "min_confidence: is a floor on the confidence, which matches of texts do not have; "
    "give a scorer, or use MemoryService"
)


class RecallOptions(NamedTuple):
    """How a service ranks and scores, whatever file it opens."""

    ranking: Ranking
    calibration: Calibration
    scorer: Scorer | None

    def scoring(self, embedder: Embedder | None) -> Scoring:
        """Return what scores hits of this embedder, or of words alone."""
        model_id = None if embedder is None else embedder.model_id
        return Scoring(self.calibration, model_id, self.scorer)


def recall_options(
    ranking: object, calibration: object, scorer: object
) -> RecallOptions:
    """Check what a service is to rank and score with; None is what ships.

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
    return RecallOptions(
        ranking or Ranking(),
        calibration or Calibration.shipped(),
        cast("Scorer | None", scorer),
    )
