"""The settings that `vecall eval` compares: each disables one part of ranking."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import NamedTuple

from vecall.ranking.options import Ranking

NO_NEIGHBOURS = {"next": 0.0, "previous": 0.0, "after_question": 0.0, "second": 0.0}
NO_MARKS = {"question": 1.0, "time": 1.0, "author": 1.0, "favoured": 1.0, "reply": 1.0}
PREVIOUS = 0.4
"""The default weight of the previous turn; see docs/results/recall.md."""

FIRST = {
    **NO_MARKS,
    "next": 0.5,
    "previous": 0.5,
    "after_question": 0.5,
    "second": 0.0,
    "session": 0.0,
    "coverage_power": 0.0,
}
"""The ranking of vecall's first version: words, vectors and a hit's neighbours."""


class Setting(NamedTuple):
    """One row of the ablation table.

    Attributes:
        name: The name of the row.
        ranking: The ranking options of its searches.
    """

    name: str
    ranking: Ranking


DEFAULT = Setting("default", Ranking())


def settings(*, vectors: bool) -> list[Setting]:
    """Return the default, then the settings that differ from it in one option.

    Args:
        vectors: Whether searches use vectors; without them the weight of vectors and
            the fusion do not vary.
    """
    found = [
        DEFAULT,
        _weighed("no covered share", {"coverage_power": 0.0}),
        _weighed("no neighbours", NO_NEIGHBOURS),
        _weighed("no answer after question", {"after_question": PREVIOUS}),
        _weighed("no second neighbour", {"second": 0.0}),
        _weighed("no session", {"session": 0.0}),
        _weighed("no question factor", {"question": 1.0}),
        _weighed("no time factor", {"time": 1.0}),
        _weighed("no author factor", {"author": 1.0}),
        _weighed("no author favoured", {"favoured": 1.0}),
        _weighed("no reply factor", {"reply": 1.0}),
        _weighed("first table: none but 0.5 beside", FIRST),
    ]
    if vectors:
        found += [
            _weighed("vectors weigh 0.2, not 0.4", {"dense": 0.2}),
            _weighed("vectors weigh 0.6, not 0.4", {"dense": 0.6}),
            Setting("with RRF", Ranking(fusion="rrf")),
        ]
    found += [
        Setting("with half-life 30 days", Ranking(half_life=timedelta(days=30))),
        Setting("with half-life 1 year", Ranking(half_life=timedelta(days=365))),
        Setting("with diversity 0.3", Ranking(diversity=0.3)),
        Setting("with collapse 0.8", Ranking(collapse=0.8)),
    ]
    return found


def _weighed(name: str, weights: Mapping[str, float]) -> Setting:
    return Setting(name, Ranking(weights=weights))
