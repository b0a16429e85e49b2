"""A fair lock that lets one writer of all processes commit at a time.

Every commit of every process holds it: a mutex between the threads of a process, and
POSIX locks on `<file>.lock` between processes. With SQLite's own locks alone, a busy
writer can starve others, and a checkpoint can run during a commit. The kernel releases
the locks when their process dies.

The first byte of the file is the lock, the second the head of the queue. A writer locks
the head first, and releases it once it holds the lock. So a writer that has just
committed finds the head locked by others and queues behind them.

POSIX locks belong to the process, and closing *any* descriptor of the lock file drops
them. So a process has one `FileLock` per lock file, and nothing else may open the file.
"""

from __future__ import annotations

import errno
import fcntl
import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vecall.errors import BusyError, StorageError

_GATE, _HEAD = 0, 1
_SHORT_S = 0.0001  # shortest pause between attempts of the head of the queue
_LONG_S = 0.002
_chance = random.SystemRandom()  # separate from `random`'s state; differs in forks
_QUEUE_S = 0.0005


class FileLock:
    """This process's lock on one lock file. Get it with `open_gate`."""

    def __init__(self, path: Path) -> None:
        """Open the lock file; create it with mode 0600 if it does not exist."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self._file = os.open(path, flags, 0o600)
        except OSError as error:
            msg = f"path: the lock file cannot be opened: {error.strerror}"
            raise StorageError(msg) from error
        self.path = path
        self._mutex = threading.Lock()
        self.holders = 0

    @contextmanager
    def hold(self, timeout_s: float) -> Iterator[None]:
        """Hold the lock during the block.

        Raises:
            BusyError: The lock was not acquired within `timeout_s`.
        """
        deadline = time.monotonic() + timeout_s
        if not self._mutex.acquire(timeout=timeout_s):
            raise _busy(timeout_s)
        try:
            self._enter(deadline, timeout_s)
            try:
                yield
            finally:
                self._unlock(_GATE)
        finally:
            self._mutex.release()

    def _enter(self, deadline: float, timeout_s: float) -> None:
        while not self._lock(_HEAD):
            if time.monotonic() >= deadline:
                raise _busy(timeout_s)
            # Random pauses give all waiting processes the same chance.
            time.sleep(_QUEUE_S * _chance.uniform(0.5, 1.5))
        try:
            pause = _SHORT_S
            while not self._lock(_GATE):
                if time.monotonic() >= deadline:
                    raise _busy(timeout_s)
                time.sleep(pause)
                pause = min(1.1 * pause, _LONG_S)
        finally:
            self._unlock(_HEAD)

    def _lock(self, byte: int) -> bool:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                msg = f"the lock file cannot be locked: {error.strerror}"
                raise StorageError(msg) from error
            return False
        return True

    def _unlock(self, byte: int) -> None:
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, byte)

    def close(self) -> None:
        """Close the lock file."""
        os.close(self._file)


def _busy(timeout_s: float) -> BusyError:
    return BusyError(f"other writers held the file for {timeout_s:g} s")


_gates: dict[Path, FileLock] = {}
_gates_mutex = threading.Lock()


def open_gate(database: Path) -> FileLock:
    """Return this process's lock for a file; release it with `close_gate`."""
    path = _lock_path(database)
    with _gates_mutex:
        gate = _gates.get(path)
        if gate is None:
            gate = _gates[path] = FileLock(path)
        gate.holders += 1
        return gate


def close_gate(gate: FileLock) -> None:
    """Release a lock object; the last release closes its file."""
    with _gates_mutex:
        gate.holders -= 1
        # A forked child's table holds none of its parent's locks.
        if gate.holders == 0 and _gates.get(gate.path) is gate:
            del _gates[gate.path]
            gate.close()


def _lock_path(database: Path) -> Path:
    resolved = database.resolve()
    return resolved.with_name(resolved.name + ".lock")


def _begin_again() -> None:
    """Drop the parent's lock objects in a forked child, which does not hold the locks.

    Their descriptors stay open: closing one would drop the locks that the child may
    already hold on the same file.
    """
    global _gates, _gates_mutex  # noqa: PLW0603
    _gates = {}
    _gates_mutex = threading.Lock()


os.register_at_fork(after_in_child=_begin_again)
