"""Reads lines from a file descriptor and writes to one, on threads of their own.

Pipes, terminals and files work alike: asyncio reads no files, and would make a pipe
that other processes share non-blocking. The threads are daemons: a blocked read or
write does not keep the process alive.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial

_PIECE = 65_536


class TooLong:
    """Stands for a line above the limit, which is discarded."""


Line = bytes | TooLong | None
"""A line; `TooLong`; or None at the end of the input."""


class LineReader:
    """Reads lines ahead, up to a number of them.

    Args:
        descriptor: The file descriptor.
        max_bytes: The most bytes of a line.
    """

    def __init__(self, descriptor: int, max_bytes: int) -> None:
        """Start to read."""
        self._descriptor = descriptor
        self._max_bytes = max_bytes
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[Line] = asyncio.Queue()
        self._room = threading.Semaphore(64)
        self._ended = False
        threading.Thread(target=self._read, name="vecall-stdin", daemon=True).start()

    async def line(self) -> Line:
        """Return the next line."""
        found = await self._lines.get()
        self._room.release()
        return found

    def end(self) -> None:
        """End the input now; lines that were read and not returned are discarded."""
        self._ended = True
        while not self._lines.empty():
            self._lines.get_nowait()
        self._lines.put_nowait(None)

    def _read(self) -> None:
        held = bytearray()
        is_too_long = False
        while piece := self._piece():
            *lines, rest = piece.split(b"\n")
            for line in lines:
                held += line
                if is_too_long or len(held) > self._max_bytes:
                    self._put(TooLong())
                elif held.strip():
                    self._put(bytes(held))
                held.clear()
                is_too_long = False
            held += rest
            if len(held) > self._max_bytes:
                held.clear()
                is_too_long = True
        if held.strip():
            self._put(bytes(held))  # the last line may lack its end
        self._put(None)

    def _piece(self) -> bytes:
        try:
            return os.read(self._descriptor, _PIECE)
        except OSError:
            return b""

    def _put(self, line: Line) -> None:
        self._room.acquire()
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._take, line)

    def _take(self, line: Line) -> None:
        if not self._ended:
            self._lines.put_nowait(line)


class LineWriter:
    """Writes lines in order.

    Args:
        descriptor: The file descriptor.
        broken: Called on the event loop when the other side reads no more.
    """

    def __init__(self, descriptor: int, broken: Callable[[], None]) -> None:
        """Start the thread."""
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._broken = broken
        self._is_broken = False
        self._lines: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]]]
        self._lines = queue.SimpleQueue()
        threading.Thread(target=self._write, name="vecall-stdout", daemon=True).start()

    async def write(self, line: bytes) -> None:
        """Write a line; return when the system has it, or reads no more."""
        done = self._loop.create_future()
        self._lines.put((line, done))
        await done

    def _write(self) -> None:
        while True:
            line, done = self._lines.get()
            rest = memoryview(line)
            while rest and not self._is_broken:
                try:
                    rest = rest[os.write(self._descriptor, rest) :]
                except OSError:
                    self._is_broken = True
                    self._tell(self._broken)
            self._tell(partial(_finish, done))

    def _tell(self, what: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(what)


def _finish(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)
