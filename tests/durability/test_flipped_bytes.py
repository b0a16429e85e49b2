"""Damage anywhere in the file: an error or the right answer, never another one."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import helpers.file_corruption
import pytest
from helpers.campaigns import scaled
from helpers.processes import run

pytestmark = pytest.mark.campaign


def outcomes(folder: Path, kind: str, count: int, seed: int) -> dict[str, int]:
    """How often each outcome was seen; a crash fails here."""
    script = Path(helpers.file_corruption.__file__).read_text()
    done = run(script, folder, kind, count, seed, timeout_s=60 + count)
    seen: dict[str, int] = json.loads(done.stdout)
    sys.stdout.write(f"{kind}: {seen}\n")
    return seen


@pytest.mark.parametrize(("kind", "count"), [("flips", 400), ("cuts", 50)])
def test_damage_is_an_error_or_changes_no_answer(tmp_path, kind, count):
    """Guarantee 6, bug class 1: no crash, no wrong answer, nobody else's memory."""
    count = scaled(count)
    seen = outcomes(tmp_path, kind, count, seed=11)
    assert "wrong" not in seen, seen
    assert seen["an error"] > count // 50, seen
