"""Another process with a service on the same file, which does what it is told.

A pool imports this module once and forks the children, since google-adk takes
seconds to import.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.adk import an_event
from helpers.adk_conformance.broken import BROKEN
from helpers.adk_conformance.kinds import KINDS, WORDS

if TYPE_CHECKING:
    from helpers.adk_conformance.checks import Place

WAIT_S = 30.0


class Child:
    """The parent's side."""

    def __init__(self, place: Place) -> None:
        ours, theirs = socket.socketpair()
        ours.settimeout(WAIT_S)
        job = {"kind": place.kind.name, "path": str(place.path)}
        self._pid = place.pool.start(job, theirs.fileno())
        theirs.close()
        self._socket = ours
        self._lines = ours.makefile()

    def call(self, verb: str, text: str) -> list[str]:
        """Has it done, and waits until it says so: the texts that it found."""
        self._socket.sendall(f"{json.dumps([verb, text])}\n".encode())
        line = self._lines.readline()
        assert line.startswith("["), line or "the other process ended"
        found: list[str] = json.loads(line)
        return found

    def kill(self) -> None:
        """Kills it with SIGKILL, and waits until it is dead."""
        os.kill(self._pid, signal.SIGKILL)
        assert self._lines.readline() == ""

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *raised: object) -> None:
        self._lines.close()
        self._socket.close()  # it ends by that


def run(job: dict[str, Any], file: int) -> None:
    """The child's side, which helpers.fork_pool calls."""
    asyncio.run(_serve(job, socket.socket(fileno=os.dup(file))))
    os._exit(0)


async def _serve(job: dict[str, Any], connection: socket.socket) -> None:
    from helpers.adk_conformance.checks import Memory

    (kind,) = [kind for kind in [*KINDS, WORDS, *BROKEN] if kind.name == job["kind"]]
    memory = Memory(kind.open(Path(job["path"])))
    for line in connection.makefile():
        verb, text = json.loads(line)
        if verb == "tell":
            await memory.delta(an_event(text), session_id="trip-1")
            found = []
        else:
            found = await memory.texts(text)
        connection.sendall(f"{json.dumps(found)}\n".encode())
