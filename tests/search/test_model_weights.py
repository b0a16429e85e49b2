"""Which weights of a calibration a model has, and whether its vectors count in full."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from vecall import Calibration, ConfigError
from vecall.ranking.calibration import Signals, Weights


@pytest.mark.parametrize(
    ("model_id", "expected"),
    [
        ("some-model", "own name"),
        ("sentence-transformers:Some-Model", "own name"),
        ("sentence-transformers:owner/Some-Model", "own name"),
        ("sentence-transformers:/a/folder/some-model/", "own name"),
        ("sentence-transformers:C:\\folder\\some-model", "own name"),
        ("fastembed:owner/some-model", "own name"),
        ("openai:some-model", "whole id"),
        ("sentence-transformers:owner/some-model-2", "other"),
        ("some-model:latest", "other"),
        ("", "other"),
    ],
)
def test_a_model_has_the_same_weights_whichever_package_runs_it(model_id, expected):
    """But weights of the whole id come first."""
    signals = (0.0,) * len(Signals._fields)
    kinds = ("own name", "whole id", "other")
    weights = {kind: Weights(float(n), signals) for n, kind in enumerate(kinds)}
    models = {
        "some-model": weights["own name"],
        "openai:some-model": weights["whole id"],
    }
    calibration = Calibration(weights["other"], models, weights["other"])
    assert calibration.of_model(model_id) is weights[expected]


def test_a_file_keeps_the_list_of_models_that_count_in_full(tmp_path):
    """And a file without the list, as earlier versions wrote it, is read."""
    file = tmp_path / "own.json"
    shipped = Calibration.shipped()
    own = replace(shipped, full_weight=frozenset(["mine", "another"]))
    own.save(file)
    assert Calibration.load(file).full_weight == {"mine", "another"}
    assert own.counts_in_full("mine")
    assert own.counts_in_full("use-multilingual-v3")  # by the shipped list
    assert not shipped.counts_in_full("mine")
    content = json.loads(file.read_text())
    del content["full_weight"]
    file.write_text(json.dumps(content))
    assert Calibration.load(file).full_weight == frozenset()
    file.write_text(json.dumps({**content, "full_weight": "mine"}))
    with pytest.raises(ConfigError):
        Calibration.load(file)


def test_a_file_keeps_what_messages_add(tmp_path):
    """A file without it adds nothing, as earlier versions did."""
    file = tmp_path / "own.json"
    replace(Calibration.shipped(), messages=-0.5).save(file)
    assert Calibration.load(file).messages == -0.5
    content = json.loads(file.read_text())
    for wrong in ("much", None, [], math.inf, math.nan):
        file.write_text(json.dumps({**content, "messages": wrong}))
        with pytest.raises(ConfigError):
            Calibration.load(file)
    del content["messages"]
    file.write_text(json.dumps(content))
    assert Calibration.load(file).messages == 0.0
