"""What runs at a small scale has the marker by which CI runs it at its full size."""

from __future__ import annotations

import re

from helpers.paths import TESTS

SCALED = re.compile(r"\b(scaled|campaign)\(\d")
MARKER = "pytest.mark.campaign"


def test_each_file_with_a_scaled_test_has_the_marker():
    texts = {path: path.read_text("utf-8") for path in TESTS.glob("*/test_*.py")}
    scaled = {path.name for path, text in texts.items() if SCALED.search(text)}
    marked = {path.name for path, text in texts.items() if MARKER in text}
    assert len(scaled) > 10
    assert scaled <= marked
