"""tests/slow.txt names tests that exist."""

from __future__ import annotations

from helpers.workers import SLOW, TESTS


def test_each_slow_test_is_in_its_file_or_in_a_class_that_it_shares():
    defined = "".join(path.read_text("utf-8") for path in TESTS.rglob("*.py"))
    for line in SLOW.read_text("utf-8").split():
        path, *_, name = line.split("::")
        assert (TESTS / path).is_file(), line
        assert f"def {name}(" in defined or name == "runTest", line
