"""On a Python without the global lock, using vecall does not bring it back."""

from __future__ import annotations

import subprocess
import sys
import sysconfig

import pytest

PROGRAM = """
import sys
from vecall import MemoryService
with MemoryService(":memory:", embedder=None).sync as memory:
    user = memory.user("hotel", "alice")
    user.add(["Prefers a quiet room"])
    assert len(user.search("which rooms?")) == 1
print(sys._is_gil_enabled())
"""


@pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"),
    reason="this Python always has the global lock",
)
def test_the_global_lock_stays_off():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "False"
