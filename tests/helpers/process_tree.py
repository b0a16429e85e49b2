"""The processes that a process has started."""

from __future__ import annotations

import subprocess


def children(process: int) -> list[int]:
    """The processes that a process has started."""
    listed = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True
    )
    pairs = (map(int, line.split()) for line in listed.stdout.splitlines())
    return [child for child, parent in pairs if parent == process]


def runs(process: int) -> bool:
    """Whether a process runs, and is not only waiting to be reaped."""
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(process)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return state.stdout.strip()[:1] not in ("", "Z")
