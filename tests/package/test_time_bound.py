"""A test that waits for ever fails, also one that waits for a database."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from helpers.paths import TESTS
from helpers.postgres_server import MISSING, is_available, shared_server

WAITS = {
    "a lock": "import threading; threading.Event().wait()",
    "a database": "import os, psycopg; "
    "psycopg.connect(os.environ['DATABASE']).execute('SELECT pg_sleep(1000)')",
}


@pytest.mark.parametrize("what", WAITS)
def test_a_test_that_does_not_end_fails_and_the_next_one_runs(tmp_path, what):
    database = ""
    if what == "a database":
        if not is_available():
            pytest.skip(MISSING)
        database = shared_server().url()
    (tmp_path / "conftest.py").write_text(
        "from helpers import time_bound\n"
        "time_bound.TEST_S = 1.0\n"
        "pytest_plugins = ['helpers.time_bound']\n"
    )
    (tmp_path / "test_one.py").write_text(
        f"def test_waits(): {WAITS[what]}\n\ndef test_next(): pass\n"
    )
    places = [str(TESTS), *sys.path]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(places),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "DATABASE": database,
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "the test does not end; its threads:" in done.stdout
    assert "1 failed, 1 passed" in done.stdout
