"""On a Python without the global lock, importing vecall does not bring it back."""

from __future__ import annotations

import subprocess
import sys
import sysconfig

import pytest


@pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"),
    reason="this Python always has the global lock",
)
def test_the_global_lock_stays_off():
    program = "import sys, vecall, vecall._core; print(sys._is_gil_enabled())"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "False"
