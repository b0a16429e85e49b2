"""Connections that send nothing, or too slowly, make room for others."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from vecall.server.answers import HttpError, as_response
from vecall.server.limits import HttpLimits

_log = logging.getLogger("vecall.server")


def guarded(limits: HttpLimits) -> type[H11Protocol]:
    """Return uvicorn's protocol with limits on headers and connections."""

    class Guarded(GuardedProtocol):
        allowed = limits

    return Guarded


class GuardedProtocol(H11Protocol):
    """HTTP/1.1, with a time for headers and a number of connections.

    uvicorn waits for ever for the headers of a request, and answers 503 to everybody
    once there are many connections.
    """

    allowed = HttpLimits()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a connection; where there are too many, let go of another."""
        super().connection_made(cast(asyncio.Transport, transport))
        self._timer: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self.idle_since = self.loop.time()
        self._wait_for_headers()
        if len(self.connections) > self.allowed.max_connections:
            known: Any = self.connections
            idle = [each for each in known if each.is_idle]  # with this one
            # Rather one that has begun a request than one that may be used again.
            longest = min(idle, key=lambda each: (not each.has_begun, each.idle_since))
            longest.transport.abort()
            known.discard(longest)  # at once, so that the next to come finds another

    def data_received(self, data: bytes) -> None:
        """Take what came; the first byte of a request starts its time."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._timer is None and not self.transport.is_closing():
            self._wait_for_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        if self._stalled is not None:
            self._stalled.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Be idle from now on, unless another request is there already."""
        self.idle_since = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Wait for a client that does not take its answer, but not for ever."""
        super().pause_writing()
        seconds = self.allowed.request_seconds
        self._stalled = self.loop.call_later(seconds, self._give_up)

    def resume_writing(self) -> None:
        """Go on; the client took what was sent."""
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        """Answer what is no HTTP, or has too large headers, as JSON."""
        error = HttpError(400, "bad_request", "The request is not valid HTTP.")
        response = as_response(error, "-")
        headers = [*response.raw_headers, (b"connection", b"close")]
        head = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
        body = h11.Data(data=bytes(response.body))
        with suppress(h11.LocalProtocolError):  # another answer has begun
            for event in (head, body, h11.EndOfMessage()):
                self.transport.write(self.conn.send(event))
        self.transport.close()

    @property
    def is_idle(self) -> bool:
        """Whether no request is there that is being answered."""
        cycle: Any = self.cycle  # None before the first request
        return cycle is None or bool(cycle.response_complete)

    @property
    def has_begun(self) -> bool:
        """Whether its first headers, or some of the next ones, are being waited for."""
        return self._timer is not None

    def _give_up(self) -> None:
        _log.info("a connection was closed: its answer was not taken")
        self.transport.abort()

    def _wait_for_headers(self) -> None:
        seconds = self.allowed.header_seconds
        self._timer = self.loop.call_later(seconds, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
