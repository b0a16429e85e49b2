"""Python processes that start in milliseconds: a server imports vecall and forks them.

A new interpreter spends 0.4 s on numpy and vecall. What a forked process shares with
the server is what was imported, no more: it gets its own arguments, environment,
folder and pipes, runs its script as `__main__`, and ends as an interpreter ends.

A test starts a new interpreter with `subprocess` where it is about the start itself:
what is imported, options of Python, variables that are read when a library loads.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, NamedTuple

# macOS does not let a process fork that has used its frameworks, as numpy does.
AVAILABLE = sys.platform == "linux" and not os.environ.get("VECALL_TEST_FRESH")
MESSAGE_BYTES = 200_000


class ForkedProcess:
    """A process of the server, with the methods of `subprocess.Popen`."""

    def __init__(self, args: list[str], status: int, pipes: list[IO[str] | None]):
        self.args = args
        self.returncode: int | None = None
        self.stdin, self.stdout, self.stderr = pipes
        self._status = os.fdopen(status)
        self.pid = int(self._status.readline())

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], 0)[0]:
            self._read()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self._read()
        assert self.returncode is not None
        return self.returncode

    def _read(self) -> None:
        words = self._status.readline().split()
        assert words, "the fork server ended"
        self.returncode = int(words[0])
        spent.cpu_s += float(words[1])
        self._status.close()

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it ended since
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def communicate(
        self, input: str | None = None, timeout: float | None = None
    ) -> tuple[str | None, str | None]:
        """Writes the input, reads both pipes to their ends, and waits."""
        until = None if timeout is None else time.monotonic() + timeout
        if input:
            threading.Thread(target=_write, args=(self.stdin, input)).start()
        elif self.stdin is not None:
            with suppress(BrokenPipeError):
                self.stdin.close()
        texts: dict[Any, list[bytes]] = {}
        with selectors.DefaultSelector() as waiting:
            for pipe in (self.stdout, self.stderr):
                if pipe is not None:
                    texts[pipe] = []
                    waiting.register(pipe, selectors.EVENT_READ)
            while waiting.get_map():
                left = None if until is None else until - time.monotonic()
                ready = waiting.select(left)
                if not ready:
                    self.kill()
                    raise subprocess.TimeoutExpired(self.args, timeout or 0)
                for key, _ in ready:
                    piece = os.read(key.fd, 65_536)
                    texts[key.fileobj].append(piece)
                    if not piece:
                        waiting.unregister(key.fileobj)
        self.wait(None if until is None else max(0.0, until - time.monotonic()))
        out, err = (
            b"".join(texts[pipe]).decode() if pipe in texts else None
            for pipe in (self.stdout, self.stderr)
        )
        for pipe in texts:
            pipe.close()
        return out, err


def _write(pipe: IO[str], text: str) -> None:
    """Writes a text, which a pipe may only take while the other side reads."""
    with suppress(BrokenPipeError):
        pipe.write(text)
    with suppress(BrokenPipeError):
        pipe.close()


class Spent:
    """The CPU seconds of forked processes that ended: no children of this process."""

    cpu_s = 0.0


spent = Spent()


class Job(NamedTuple):
    """What the server is sent, beside the files."""

    script: str
    arguments: list[str]
    environment: dict[str, str]
    folder: str
    imports: list[str]


class ForkServer:
    """The parent's side."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * MESSAGE_BYTES)
        self.owner = os.getpid()
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__)), str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            cwd=Path(__file__).parents[2],  # that of a test is deleted
            # One thread, so that it may fork.
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )
        theirs.close()

    def start(self, job: Job, files: Iterable[int | None]) -> ForkedProcess:
        """Runs a script; its three files are pipes, or what a file number names."""
        ours: list[IO[str] | None] = []
        theirs: list[int] = []
        opened: list[int] = []
        for number, file in enumerate(files):
            if file == subprocess.PIPE:
                reads, writes = os.pipe()
                mine, other = (writes, reads) if number == 0 else (reads, writes)
                ours.append(os.fdopen(mine, "r" if number else "w"))
                opened.append(other)
                theirs.append(other)
            else:
                ours.append(None)
                theirs.append(number if file is None else file)
        status, reports = os.pipe()
        data = json.dumps(job).encode()
        assert len(data) < MESSAGE_BYTES
        socket.send_fds(self._control, [data], [*theirs, reports])
        for file in (*opened, reports):
            os.close(file)
        return ForkedProcess(["-c", *job.arguments], status, ours)

    def close(self) -> None:
        """Ends the server and what it started."""
        if os.getpid() == self.owner:
            self._control.close()
            self._process.wait(30)


@cache
def server() -> ForkServer:
    """The one of this process, started when it is first needed."""
    made = ForkServer()
    atexit.register(made.close)
    return made


# The server's side.


def _serve(control: socket.socket) -> tuple[Job, list[int]] | None:
    """Forks for each job; returns it in the child, and nothing at the end."""
    wakes, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends with its parent
    reports: dict[int, int] = {}
    while True:
        ready = select.select([control, wakes], [], [])[0]
        if wakes in ready:
            os.read(wakes, 4096)
            _report(reports)
        if control not in ready:
            continue
        data, files, _, _ = socket.recv_fds(control, MESSAGE_BYTES, 4)
        if not data:
            for pid in reports:
                os.kill(pid, signal.SIGKILL)
            return None
        job = Job(*json.loads(data))
        for name in job.imports:
            importlib.import_module(name)
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            control.close()
            for file in (wakes, wake, files.pop(), *reports.values()):
                os.close(file)
            return job, files
        reports[pid] = files.pop()
        os.write(reports[pid], f"{pid}\n".encode())
        for file in files:
            os.close(file)


def _report(reports: dict[int, int]) -> None:
    """Writes how each process ended that did."""
    while reports:
        pid, status, used = os.wait4(-1, os.WNOHANG)
        if pid == 0:
            return
        code = os.waitstatus_to_exitcode(status)
        report = reports.pop(pid)
        with suppress(BrokenPipeError):  # the test is over
            os.write(report, f"{code} {used.ru_utime + used.ru_stime}\n".encode())
        os.close(report)


def _become(job: Job, files: list[int]) -> None:
    """Makes this process look as if Python had been started with `-c`."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    path = os.environ.get("PYTHONPATH")  # in sys.path already
    os.environ.clear()
    os.environ.update(job.environment)
    tempfile.tempdir = None  # an import may have asked for it; it follows TMPDIR again
    if (added := job.environment.get("PYTHONPATH")) and added != path:
        sys.path[1:1] = added.split(os.pathsep)
    os.chdir(job.folder)
    sys.argv = ["-c", *job.arguments]
    sys.modules["__main__"] = types.ModuleType("__main__")


if __name__ == "__main__":
    sys.path[0] = ""
    import gc

    import vecall

    for name in vecall.__all__:  # each is imported when it is first used
        getattr(vecall, name)

    gc.collect()
    gc.freeze()
    if found := _serve(socket.socket(fileno=int(sys.argv[1]))):
        _become(*found)
        exec(
            compile(found[0].script, "<string>", "exec"), vars(sys.modules["__main__"])
        )
