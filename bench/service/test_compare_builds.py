"""Which figures of two builds are too far apart, and with what .ci/speed compares."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.service.compare_builds import (
    ROOT,
    Comparison,
    Cost,
    allowed,
    check_origin,
    told_here,
)

COST = Cost(50e-6, 40e-6)


def compared(*new: Cost) -> Comparison:
    """Three pairs of processes whose turns have these costs beside COST."""
    comparison = Comparison(Path("old"), Path("new"), {}, 1)
    comparison.found["a search"] = [[(COST, each) for each in new]] * 3
    return comparison


def times(clock: float, cpu: float) -> Cost:
    return Cost(COST.time * clock, COST.cpu * cpu)


@pytest.mark.parametrize(
    ("clock", "cpu", "is_above"),
    [(1.0, 1.04, False), (1.2, 1.0, False), (1.0, 1.06, True), (1.4, 1.0, True)],
)
def test_cpu_time_and_the_clock_have_their_limits(clock, cpu, is_above):
    assert compared(times(clock, cpu)).is_above("a search", 1.05) is is_above


def test_a_few_turns_and_one_pair_beside_other_programs_decide_nothing():
    calm, busy = times(1, 1), times(3, 2)
    comparison = compared(calm, calm, busy)
    comparison.found["a search"][0] = [(COST, busy)] * 9
    assert comparison.ratios("a search") == pytest.approx((1, 1))


def test_a_table_allows_figures_more():
    table = "# Slower\n\n| figure | at most | why |\n|---|---|---|\n"
    lines = [
        *table.splitlines(),
        "| an add, words | 1.2 | it syncs |",
        "| b | 1.3 |  |",
    ]
    assert allowed(lines) == {"an add, words": 1.2}


def test_a_build_from_elsewhere_is_not_compared(tmp_path):
    check_origin(str(tmp_path / "vecall" / "__init__.py"), tmp_path)
    with pytest.raises(SystemExit, match="editable"):
        check_origin(__file__, tmp_path)


def test_there_are_texts_and_questions_for_all_turns():
    told = told_here()
    assert len(told["turns"]) >= 1_000
    assert len(told["questions"]) == 400


def test_without_a_commit_before_nothing_is_compared(tmp_path):
    def speed() -> str:
        done = subprocess.run(
            [ROOT / ".ci" / "speed", sys.executable, tmp_path],
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def git(*words: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words],
            cwd=tmp_path,
            check=True,
            capture_output=True,
        )

    assert speed() == "skipped: no git history here\n"
    git("init", "-b", "main")
    git("commit", "--allow-empty", "-m", "first")
    assert speed().startswith("skipped: no commit before ")
