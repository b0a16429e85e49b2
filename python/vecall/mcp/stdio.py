"""Serves one client over the standard input and output of the process.

The output carries messages of the protocol alone: everything else that the process
prints goes to the standard error. At the end of the input, and on SIGTERM and SIGINT,
the server finishes the requests that it has begun, and then ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

import anyio
from mcp.shared.message import SessionMessage

from vecall.mcp.pipes import LineReader, LineWriter, TooLong
from vecall.mcp.wire import decoded, encoded, parts, refusal

MAX_LINE_BYTES = 4 * 1024 * 1024
_GRACE_S = 3.0  # for the requests that have begun
_FLUSH_S = 1.0  # for a client that does not read
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


async def run_stdio(server: Any, pipes: tuple[int, int] | None = None) -> None:
    """Serve one client until its input ends, or until SIGTERM or SIGINT.

    Call it from the main thread, which receives the signals.

    Args:
        server: The server, as from `create_server`.
        pipes: What `private_pipes` yields; None calls it.
    """
    with (
        contextlib.nullcontext(pipes) if pipes else private_pipes() as (source, target)
    ):
        connection = _Connection(source, target)
        with _on_signals(connection.end):
            await connection.serve(server)


class _Connection:
    """The messages of one client, and the requests without an answer."""

    def __init__(self, source: int, target: int) -> None:
        """Start to read."""
        self._reader = LineReader(source, MAX_LINE_BYTES)
        self._writer = LineWriter(target, self.end)
        self._open: set[str | int] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._ended = asyncio.Event()
        self._sent = asyncio.Event()

    def end(self) -> None:
        """Read no more."""
        self._ended.set()
        self._reader.end()

    async def serve(self, server: Any) -> None:
        """Answer the client until its input ends."""
        to_server, incoming = anyio.create_memory_object_stream[Any](0)
        outgoing, from_server = anyio.create_memory_object_stream[Any](0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._receive, to_server)
            tasks.start_soon(self._send, from_server)
            tasks.start_soon(self._stop_late, tasks.cancel_scope)
            options = server.create_initialization_options()
            await server.run(incoming, outgoing, options)
            self._ended.set()
            await outgoing.aclose()
            with anyio.move_on_after(_FLUSH_S):
                await self._sent.wait()
            tasks.cancel_scope.cancel()

    async def _stop_late(self, scope: anyio.CancelScope) -> None:
        """Stop the server if it does not end by itself: a client may not read."""
        await self._ended.wait()
        await anyio.sleep(_GRACE_S + 2 * _FLUSH_S)
        scope.cancel()

    async def _receive(self, to_server: Any) -> None:
        async with to_server:
            while (line := await self._reader.line()) is not None:
                if isinstance(line, TooLong):
                    await self._writer.write(refusal(b""))
                    continue
                try:
                    message = decoded(line)
                except ValueError:
                    await self._writer.write(refusal(line))
                    continue
                self._note(parts(message))
                try:
                    await to_server.send(SessionMessage(message))
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    return
            self._ended.set()
            with anyio.move_on_after(_GRACE_S):
                await self._idle.wait()

    async def _send(self, from_server: Any) -> None:
        async with from_server:
            async for session_message in from_server:
                message = session_message.message
                await self._writer.write(encoded(message))
                answered = parts(message)
                if not hasattr(answered, "method"):
                    self._close(answered.id)
        self._sent.set()

    def _note(self, message: Any) -> None:
        """Record a request, or that the client cancelled one."""
        method = getattr(message, "method", None)
        if method is None:
            return
        if (id_ := getattr(message, "id", None)) is not None:
            self._open.add(id_)
            self._idle.clear()
        elif method == "notifications/cancelled":
            self._close((message.params or {}).get("requestId"))

    def _close(self, id_: Any) -> None:
        self._open.discard(id_)
        if not self._open:
            self._idle.set()


@contextlib.contextmanager
def private_pipes() -> Iterator[tuple[int, int]]:
    """Yield private copies of the standard input and output of the process.

    In the block, the standard input is empty, and the standard output goes to the
    standard error, also for libraries in C and for child processes. Open the memory
    service in the block: an embedder may print.
    """
    sys.stdout.flush()
    source, target = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    try:
        yield source, target
    finally:
        sys.stdout.flush()
        os.dup2(source, 0)
        os.dup2(target, 1)
        # Open for ever: the thread that reads may still use it.


@contextlib.contextmanager
def _on_signals(end: Any) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, end)
    try:
        yield
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
