"""The gate through which one writer of one process passes at a time.

Every commit of every process runs under it: a mutex between the threads of a process
and a POSIX lock on `<file>.lock` between processes. SQLite's own locking lets one busy
writer starve another and lets a checkpoint meet a commit; behind a gate neither
happens. The kernel frees the lock when its holder dies, however it dies.

POSIX locks belong to the process, and closing *any* descriptor of the lock file drops
them, so there is one gate for each lock file in a process and nothing else may open it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vecall.errors import BusyError

_FIRST_PAUSE_S = 0.0002
_LONGEST_PAUSE_S = 0.005


class WriteGate:
    """One lock file's gate in this process. Get it with `open_gate`."""

    def __init__(self, path: Path) -> None:
        """Open the lock file, made with mode 0600 if it is not there."""
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._mutex = threading.Lock()
        self.holders = 0

    @contextmanager
    def passing(self, timeout_s: float) -> Iterator[None]:
        """Hold the gate during the block.

        Raises:
            BusyError: The gate was not had within `timeout_s`.
        """
        deadline = time.monotonic() + timeout_s
        if not self._mutex.acquire(timeout=timeout_s):
            raise _busy(timeout_s)
        try:
            self._lock(deadline, timeout_s)
            try:
                yield
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN)
        finally:
            self._mutex.release()

    def _lock(self, deadline: float, timeout_s: float) -> None:
        pause = _FIRST_PAUSE_S
        while True:
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EAGAIN):
                    raise
                if time.monotonic() >= deadline:
                    raise _busy(timeout_s) from None
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)
            else:
                return

    def close(self) -> None:
        """Close the lock file."""
        os.close(self._file)


def _busy(timeout_s: float) -> BusyError:
    return BusyError(f"other writers kept the file for {timeout_s:g} s")


_gates: dict[Path, WriteGate] = {}
_gates_mutex = threading.Lock()


def open_gate(database: Path) -> WriteGate:
    """Return this process's gate for a file; give it back with `close_gate`."""
    path = _lock_path(database)
    with _gates_mutex:
        gate = _gates.get(path)
        if gate is None:
            gate = _gates[path] = WriteGate(path)
        gate.holders += 1
        return gate


def close_gate(database: Path) -> None:
    """Give a gate back; the last one to do so closes it."""
    path = _lock_path(database)
    with _gates_mutex:
        gate = _gates[path]
        gate.holders -= 1
        if gate.holders == 0:
            del _gates[path]
            gate.close()


def _lock_path(database: Path) -> Path:
    resolved = database.resolve()
    return resolved.with_name(resolved.name + ".lock")
