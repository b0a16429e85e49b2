"""Closes idle and slow connections when there are too many."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from enum import Enum
from typing import Any, ClassVar, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from vecall.server.limits import HttpLimits
from vecall.server.listener import Listener
from vecall.server.responses import HttpError, as_response

_log = logging.getLogger("vecall.server")

_PATIENCE_S = 1.0  # longer requests count as slow; most arrive in one piece


class ReadPhase(Enum):
    """What the server waits for on a connection; closed in this order."""

    REQUEST = "request"
    NEXT_REQUEST = "next request"
    ANSWER_TAKEN = "answer taken"


Rooms = dict[ReadPhase, dict["GuardedProtocol", None]]
"""Connections by read phase, the longest-waiting first."""


def guarded(limits: HttpLimits, listener: Listener) -> type[H11Protocol]:
    """Return uvicorn's protocol with limits on headers and connections.

    Args:
        limits: The limits.
        listener: Takes the connections.
    """

    class Guarded(GuardedProtocol):
        allowed = limits
        taken_from = listener
        rooms: ClassVar[Rooms] = {wait: {} for wait in ReadPhase}

    return Guarded


class GuardedProtocol(H11Protocol):
    """HTTP/1.1 with a timeout for headers and a limit on connections.

    uvicorn alone has no timeout for headers, and answers every client with 503 above
    its limit on connections.
    """

    allowed: ClassVar[HttpLimits]
    taken_from: ClassVar[Listener]
    rooms: ClassVar[Rooms]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept a connection; if there are too many, close another."""
        super().connection_made(cast(asyncio.Transport, transport))
        self.taken_from.begun(transport.get_extra_info("socket").fileno())
        self._timer: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._room: ReadPhase | None = None
        self._since = 0.0
        self._wait_for_headers()
        if len(self.connections) > self.allowed.max_connections:
            self._make_room()
        self._find_room()

    def _make_room(self) -> None:
        """Close the connection that has made the server wait longest."""
        longest = [next(iter(room)) for room in self.rooms.values() if room]
        since = self.loop.time() - _PATIENCE_S
        slow = [each for each in longest if each._since < since]
        leaves = (slow or longest or [self])[0]
        leaves.transport.abort()
        leaves._leave_room()
        self.connections.discard(leaves)  # now, before the next connection

    def _find_room(self) -> None:
        """Move the connection to the group of its read phase."""
        wait = self._wait()
        if wait is not self._room:
            self._leave_room()
            self._room, self._since = wait, self.loop.time()
            if wait is not None:
                self.rooms[wait][self] = None

    def _leave_room(self) -> None:
        if self._room is not None:
            self.rooms[self._room].pop(self, None)

    def data_received(self, data: bytes) -> None:
        """Handle received bytes; the first byte of a request starts its timeout."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._timer is None and not self.transport.is_closing():
            self._wait_for_headers()
        self._find_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection."""
        self._stop_waiting()
        self._leave_room()
        if self._stalled is not None:
            self._stalled.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Mark the connection as idle, unless another request has arrived."""
        super().on_response_complete()
        self._find_room()

    def pause_writing(self) -> None:
        """Start a timeout for a client that does not read its response."""
        super().pause_writing()
        seconds = self.allowed.request_seconds
        self._stalled = self.loop.call_later(seconds, self._give_up)
        self._find_room()

    def resume_writing(self) -> None:
        """Stop the timeout: the client has read the response."""
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        self._find_room()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        """Answer malformed HTTP and too large headers with a JSON error."""
        error = HttpError(400, "bad_request", "The request is not valid HTTP.")
        response = as_response(error, "-")
        headers = [*response.raw_headers, (b"connection", b"close")]
        head = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
        body = h11.Data(data=bytes(response.body))
        with suppress(h11.LocalProtocolError):  # another response has begun
            for event in (head, body, h11.EndOfMessage()):
                self.transport.write(self.conn.send(event))
        self.transport.close()

    def _wait(self) -> ReadPhase | None:
        """Return what the connection waits for; None if the server must act."""
        cycle: Any = self.cycle  # None before the first request
        answered = cycle is None or cycle.response_complete
        if self._stalled is not None:
            return ReadPhase.ANSWER_TAKEN
        if answered and self._timer is None:
            return ReadPhase.NEXT_REQUEST
        if answered or self.conn.their_state is h11.SEND_BODY:
            return ReadPhase.REQUEST
        return None

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
