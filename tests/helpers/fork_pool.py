"""A pool of child processes that start in milliseconds: one process forks them.

    with ForkPool("helpers.workloads") as pool:
        pid = pool.start({...}, file)

Each child calls `run(job, file)` of the module, where `file` is its end of a pipe or
socket. A child runs until it is killed or the pool ends, so its process id is not
reused before.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from functools import partial
from pathlib import Path
from typing import Any

WAIT_S = 30.0


class ForkPool:
    """The parent's side."""

    def __init__(self, module: str) -> None:
        self._control, theirs = socket.socketpair()
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__)), module, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            # One thread, so that it may fork.
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )
        theirs.close()

    def start(self, job: dict[str, Any], file: int) -> int:
        """A new child and its process id; `file` may be closed afterwards."""
        socket.send_fds(self._control, [json.dumps(job).encode()], [file])
        answer = self._control.recv(64)
        assert answer, "the pool ended"
        return int(answer)

    def close(self) -> None:
        self._control.close()
        self._process.wait(WAIT_S)

    def __enter__(self) -> ForkPool:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


class Lines:
    """Whole lines from pipes or sockets, as they come."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._rest = b""
        self.ended = False

    def read(self, timeout_s: float = WAIT_S) -> list[str]:
        """Waits for something new; nothing at all at the end of the file."""
        if not select.select([self._file], [], [], timeout_s)[0]:
            msg = f"not a word in {timeout_s:g} s"
            raise AssertionError(msg)
        try:
            new = os.read(self._file, 65536)
        except ConnectionResetError:
            new = b""
        self.ended = not new
        *lines, self._rest = (self._rest + new).split(b"\n")
        return [line.decode() for line in lines]


def together(file: int, works: list[Any]) -> None:
    """Runs functions on threads of their own; what one raises is the last word."""

    def guarded(work: Any) -> None:
        try:
            work()
        except BrokenPipeError:
            os._exit(0)
        except BaseException:
            told = traceback.format_exc(limit=-4).replace("\n", " | ")
            os.write(file, f"error {told}\n".encode())

    for work in works:
        threading.Thread(target=guarded, args=(work,), daemon=True).start()


def _nurse(module: str, control: socket.socket) -> None:
    run = importlib.import_module(module).run
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody need wait for the children
    nurse = os.getpid()
    while True:
        message, files, _, _ = socket.recv_fds(control, 65536, 1)
        if not message:
            return
        pid = os.fork()
        if pid == 0:
            control.close()
            faulthandler.register(signal.SIGUSR1)  # where all its threads are
            together(files[0], [partial(run, json.loads(message), files[0])])
            while os.getppid() == nurse:
                time.sleep(0.5)
            os._exit(0)
        os.close(files[0])
        control.send(str(pid).encode())


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])
    _nurse(sys.argv[1], socket.socket(fileno=int(sys.argv[2])))
