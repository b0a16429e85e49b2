"""A plugin of pytest: what does not run on Windows and why, and the share that does."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]
# Files that cannot be imported, and tests of what Windows has not.
LEFT_OUT = {
    "forks": """
        engine/test_index_forks.py
        store/test_forks.py
    """,
    "sends signals": """
        mcp_server/test_stdio.py::test_no_acknowledged_write_is_lost_when_the_process
        mcp_server/test_stdio.py::test_a_client_that_reads_nothing_does_not_keep_the
        search/test_mark_used.py::test_an_acknowledged_use_survives_a_kill
    """,
    "starts PostgreSQL or Redis": """
        postgres
    """,
}
_FUNCTION = re.compile(r"^ *(?:async )?def test_", re.MULTILINE)


def reason_of(name: str) -> str | None:
    """Why a test is left out, by its path and name below tests/; None if it runs."""
    for reason, names in LEFT_OUT.items():
        for each in names.split():
            if (
                name == each
                or name.startswith((f"{each}/", f"{each}::"))
                or ("::" in each and name.startswith(each))
            ):
                return reason
    return None


if sys.platform == "win32":

    def pytest_ignore_collect(collection_path: Path) -> bool | None:
        """Leave out files and folders."""
        if TESTS not in collection_path.parents:
            return None
        return reason_of(collection_path.relative_to(TESTS).as_posix()) and True

    def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
        """Leave out tests."""
        for item in items:
            name = item.nodeid.removeprefix("tests/")
            if reason := reason_of(name):
                item.add_marker(pytest.mark.skip(reason=f"on Windows: {reason}"))

    def pytest_terminal_summary(terminalreporter: Any) -> None:
        """Say which share ran."""
        files = list(TESTS.glob("*/test_*.py"))
        there = sum(len(_FUNCTION.findall(each.read_text("utf-8"))) for each in files)
        passed = terminalreporter.stats.get("passed", ())
        ran = {each.nodeid.split("[")[0] for each in passed}
        line = terminalreporter.write_line
        for reason, names in LEFT_OUT.items():
            line(f"left out, {reason}: {' '.join(names.split())}")
        line(f"{len(ran)} of {there} test functions passed on Windows")
