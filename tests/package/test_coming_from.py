"""The examples for those who know hnswlib or usearch run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from helpers.paths import ROOT

GUIDE = ROOT / "docs/guide/coming-from-hnswlib-and-usearch.md"
# Without the documentation beside the tests there is nothing to run.
TEXT = GUIDE.read_text("utf-8") if GUIDE.exists() else ""
PARTS = re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.split()[0])
def test_the_examples_of_another_library_run(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.random.seed(7)  # noqa: NPY002  the examples use numpy's global generator
    names: dict[str, object] = {}
    programs = re.findall(r"```python\n(.*?)```", part, flags=re.DOTALL)
    assert len(programs) >= 3
    for program in programs:
        exec(compile(program, GUIDE.name, "exec"), names)
