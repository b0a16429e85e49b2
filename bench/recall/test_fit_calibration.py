"""Weights that are fitted anew replace those of the package, and nothing else."""

from __future__ import annotations

from dataclasses import replace

from vecall.ranking.calibration import Calibration, Weights

from bench.recall.fit_calibration import renewed

FITTED = ("words", "local", "local, unknown", "matches", "cosine: local", "own: mini")


def test_what_no_fit_chooses_stays_as_it_was():
    made = {name: Weights(float(at), (0.0,) * 8) for at, name in enumerate(FITTED)}
    shipped = Calibration.shipped()
    assert shipped.messages
    after = renewed(shipped, made, ["mini"])
    assert after == replace(
        shipped,
        words=made["words"],
        models={
            **shipped.models,
            "use-multilingual-v3": made["local"],
            "mini": made["own: mini"],
        },
        other=made["local, unknown"],
        matches=made["matches"],
        cosine=made["cosine: local"],
    )
