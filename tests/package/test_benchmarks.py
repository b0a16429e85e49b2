"""Every benchmark starts, and the documentation names commands that exist."""

from __future__ import annotations

import importlib
import re
import runpy
import sys
from pathlib import Path

import pytest
from helpers.paths import ROOT

BENCH = ROOT / "bench"
NEEDS_GOOGLE_ADK = {"bench.adk.conformance", "bench.adk.recall"}


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


SCRIPTS = sorted(
    module_of(path)
    for path in BENCH.rglob("*.py")
    if '\nif __name__ == "__main__":' in path.read_text("utf-8")
)
PAGES = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/**/*.md"),
    *BENCH.rglob("*.md"),
    ROOT / ".ci/run",
    ROOT / ".ci/speed",
    ROOT / ".github/workflows/bench.yml",
]
COMMAND = re.compile(r"python\"? -m (bench\.[\w.]*\w)((?:[^`|\n\\]|\\\n)*)")

pytestmark = pytest.mark.skipif(
    not BENCH.exists(), reason="the benchmarks are not beside the tests"
)


@pytest.fixture
def help_of(monkeypatch, capsys):
    """The help that a script prints, run as `python -m` runs it."""

    def run(name: str) -> str:
        if name in NEEDS_GOOGLE_ADK:
            pytest.importorskip("google.adk")
        for loaded in list(sys.modules):
            if loaded.partition(".")[0] == "bench":
                monkeypatch.delitem(sys.modules, loaded)
        monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
        monkeypatch.setattr(sys, "argv", [name, "--help"])
        with pytest.raises(SystemExit) as exit_status:
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        assert exit_status.value.code == 0
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize("name", SCRIPTS)
def test_each_script_prints_a_help_that_begins_with_its_command(help_of, name):
    text = help_of(name)
    assert text.startswith(f"usage: python -m {name} ")
    assert f"\n    python -m {name}" in text


def test_the_list_of_benchmarks_has_one_command_for_each_script():
    listed = re.findall(
        r"^\| .*`python -m (bench\.[\w.]+)", (BENCH / "README.md").read_text(), re.M
    )
    assert len(SCRIPTS) > 20
    assert sorted(set(listed)) == SCRIPTS


def test_every_documented_command_names_a_script_and_options_that_it_has(help_of):
    commands: dict[str, set[str]] = {}
    for page in PAGES:
        if page.exists():
            for name, rest in COMMAND.findall(page.read_text("utf-8")):
                options = re.findall(r"--[a-z][a-z-]*", rest)
                commands.setdefault(name, set()).update(options)
    assert len(commands) > 20
    assert set(commands) <= set(SCRIPTS)
    for name, options in commands.items():
        assert options <= set(re.findall(r"--[a-z][a-z-]*", help_of(name))), name


def test_a_report_reruns_each_figure_of_readme(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(ROOT))
    report = importlib.import_module("bench.report")
    found = list(report.chosen([ROOT / "README.md"], [], tmp_path / "data", tmp_path))
    rows = re.findall(
        r"`python -m (bench[.\w]+)", (ROOT / "README.md").read_text("utf-8")
    )
    assert {words[0] for _, words in found} == set(rows)
    assert all(str(tmp_path) in " ".join(words) for _, words in found)
    without = list(report.chosen([ROOT / "README.md"], [], None, tmp_path))
    assert [why for _, why in without if isinstance(why, str)]
    everything = report.chosen([BENCH / "README.md"], [], tmp_path / "data", tmp_path)
    assert not any("bench.report" in words for _, words in everything)


def test_a_report_says_what_a_command_printed_and_that_it_failed(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    report = importlib.import_module("bench.report")
    done = report.run(["bench.common.tables", "no such file"])
    assert done["status"] != 0
    assert "no such file" in report.document({}, [{"what": "tables", **done}])


def test_a_report_has_the_tables_that_a_command_printed(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    report = importlib.import_module("bench.report")
    output = (
        "| no | table |\nfirst:\n| a | b |\n|---|---|\n| 1 | 2 us |\n| 3 | |\n\n"
        "| alone |\n\n| c |\n|:---:|\nend\n"
    )
    assert report.tables_in(output) == [
        [["a", "b"], ["1", "2 us"], ["3", ""]],
        [["c"]],
    ]
    not_run = report.document({}, [{"what": "speed", "why": "no data"}])
    assert "| speed | - | not run: no data |" in not_run
