"""Other Python processes that share a file with the test."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from helpers import fork_server

PIPE = subprocess.PIPE
Process = subprocess.Popen[str]


def _started(
    script: str, arguments: tuple[object, ...], imports: str, *files: int | None
) -> Process:
    words = [str(argument) for argument in arguments]
    if not fork_server.AVAILABLE:
        command = [sys.executable, "-c", script, *words]
        stdin, stdout, stderr = files
        return subprocess.Popen(
            command, stdin=stdin, stdout=stdout, stderr=stderr, text=True
        )
    job = fork_server.Job(
        script, words, dict(os.environ), str(Path.cwd()), imports.split()
    )
    return fork_server.server().start(job, files)  # type: ignore[return-value]


def started(script: str, *arguments: object, imports: str = "") -> Process:
    """A Python process without pipes, forked as that of `child`; its caller ends it."""
    return _started(script, arguments, imports, None, None, None)


def piped(script: str, *arguments: object, imports: str = "") -> Process:
    """As `started`, with three pipes."""
    return _started(script, arguments, imports, PIPE, PIPE, PIPE)


@contextmanager
def child(script: str, *arguments: object, imports: str = "") -> Iterator[Process]:
    """A Python process with pipes, killed at the end whatever happens.

    It is forked from a process that has imported vecall and the modules of `imports`.
    """
    process = _started(script, arguments, imports, PIPE, PIPE, None)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def run(
    script: str,
    *arguments: object,
    imports: str = "",
    stdin: str = "",
    check: bool = True,
    timeout_s: float = 60.0,
) -> subprocess.CompletedProcess[str]:
    """What a Python process prints, forked as that of `child`, and how it ends."""
    process = piped(script, *arguments, imports=imports)
    try:
        out, err = process.communicate(stdin, timeout_s)
    finally:
        process.kill()
    if check:
        assert process.returncode == 0, f"{process.returncode}: {err[-3000:]}"
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


# Keeps everybody else from writing a file until it is told to let go.
HOLDER = """
import fcntl, os, sys
file = os.open(sys.argv[1] + ".lock", os.O_RDWR | os.O_CREAT)
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.readline()
fcntl.lockf(file, fcntl.LOCK_UN)
print("free", flush=True)
sys.stdin.readline()
"""
