"""Connections that send nothing, or too slowly, make room for others."""

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

_PATIENCE_S = 1.0  # what takes longer is slow: a request mostly comes in one piece


class ReadPhase(Enum):
    """What a client keeps a connection waiting for; the first make room first."""

    REQUEST = "request"
    NEXT_REQUEST = "next request"
    ANSWER_TAKEN = "answer taken"


Rooms = dict[ReadPhase, dict["GuardedProtocol", None]]
"""Who waits for what, those that came first in front."""


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
    """HTTP/1.1, with a time for headers and a number of connections.

    uvicorn waits for ever for the headers of a request, and answers 503 to everybody
    once there are many connections.
    """

    allowed: ClassVar[HttpLimits]
    taken_from: ClassVar[Listener]
    rooms: ClassVar[Rooms]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a connection; where there are too many, let go of another."""
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
        """Let go of the one that keeps the server waiting for longest."""
        longest = [next(iter(room)) for room in self.rooms.values() if room]
        since = self.loop.time() - _PATIENCE_S
        slow = [each for each in longest if each._since < since]
        leaves = (slow or longest or [self])[0]
        leaves.transport.abort()
        leaves._leave_room()
        self.connections.discard(leaves)  # at once, for the next that comes

    def _find_room(self) -> None:
        """Stand where those stand that wait for the same."""
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
        """Take what came; the first byte of a request starts its time."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._timer is None and not self.transport.is_closing():
            self._wait_for_headers()
        self._find_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        self._leave_room()
        if self._stalled is not None:
            self._stalled.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Be idle from now on, unless another request is there already."""
        super().on_response_complete()
        self._find_room()

    def pause_writing(self) -> None:
        """Wait for a client that does not take its answer, but not for ever."""
        super().pause_writing()
        seconds = self.allowed.request_seconds
        self._stalled = self.loop.call_later(seconds, self._give_up)
        self._find_room()

    def resume_writing(self) -> None:
        """Go on; the client took what was sent."""
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        self._find_room()

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

    def _wait(self) -> ReadPhase | None:
        """What its client keeps it waiting for; None where it is the server's turn."""
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
