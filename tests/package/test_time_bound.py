"""A test that waits for ever fails, also one that waits for a database."""

from __future__ import annotations

import os
import subprocess
import sys

from helpers.paths import TESTS
from helpers.postgres_server import is_available, shared_server

WAITS = [
    "import threading; threading.Event().wait()",
    "import os, psycopg; "
    "psycopg.connect(os.environ['DATABASE']).execute('SELECT pg_sleep(1000)')",
]


def test_a_test_that_does_not_end_fails_and_the_next_one_runs(tmp_path):
    waits = WAITS if is_available() else WAITS[:1]
    database = shared_server().url() if is_available() else ""
    (tmp_path / "conftest.py").write_text(
        "from helpers import time_bound\n"
        "time_bound.TEST_S = 1.0\n"
        "pytest_plugins = ['helpers.time_bound']\n"
    )
    waiting = [f"def test_waits_{n}(): {wait}" for n, wait in enumerate(waits)]
    (tmp_path / "test_one.py").write_text(
        "\n".join([*waiting, "def test_next(): pass\n"])
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
    told = done.stdout.count("Failed: the test does not end; its threads:")
    assert told >= len(waits)
    assert f"{len(waits)} failed, 1 passed" in done.stdout
