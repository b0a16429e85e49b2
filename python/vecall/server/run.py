"""Runs the server: its address, TLS, and the checks before it listens."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import json
import logging
import math
import socket
import ssl
import sys
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, cast

import httptools
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from vecall.clock import to_iso
from vecall.errors import ConfigError
from vecall.limits import HttpLimits
from vecall.server.responses import HttpError, as_response


class Listener(socket.socket):
    """Closes the oldest of too many connections in their TLS handshake.

    uvicorn does not count connections before the end of the handshake, and waits a
    minute for each.
    """

    limit: int = 256

    def __init__(self, *args: int, **more: int) -> None:
        """Create the object without connections."""
        super().__init__(*args, **more)
        self._begun: dict[int, socket.socket] = {}

    def accept(self) -> tuple[socket.socket, object]:
        """Accept a connection; if too many are in their handshake, close the oldest."""
        connection, address = super().accept()
        self._begun.pop(connection.fileno(), None)  # a reused file descriptor
        self._begun[connection.fileno()] = connection
        if len(self._begun) > self.limit:
            oldest = self._begun.pop(next(iter(self._begun)))
            with suppress(OSError):  # closed already, or the client has disconnected
                oldest.shutdown(socket.SHUT_RDWR)
        return connection, address

    def stop_counting(self, number: int) -> None:
        """Stop counting a connection, which the server handles from now on."""
        self._begun.pop(number, None)


_log = logging.getLogger("vecall.server")

_MAX_PIPELINED = 8
_PATIENCE_S = 1.0  # longer requests count as slow; most arrive in one piece


class ReadPhase(Enum):
    """What the server waits for on a connection; closed in this order."""

    REQUEST = "request"
    NEXT_REQUEST = "next request"
    ANSWER_TAKEN = "answer taken"


Rooms = dict[ReadPhase, dict["GuardedProtocol", None]]
"""Connections by read phase, the longest-waiting first."""


def make_guarded_protocol(
    limits: HttpLimits, listener: Listener
) -> type[HttpToolsProtocol]:
    """Return uvicorn's protocol with limits on headers and connections."""

    class Guarded(GuardedProtocol):
        allowed = limits
        taken_from = listener
        rooms: ClassVar[Rooms] = {wait: {} for wait in ReadPhase}

    return Guarded


class _JoinedWrites:
    """A transport that sends the head of a response with its body: one packet.

    A write waits for the next one, at most until the loop's next turn.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop):
        self._transport = transport
        self._later = loop.call_soon
        self._held = b""
        self.is_closing = transport.is_closing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if self._held:
            self._transport.write(self._held + data)
            self._held = b""
        else:
            self._held = data
            self._later(self.flush)

    def flush(self) -> None:
        """Send what waits."""
        if self._held:
            self._transport.write(self._held)
            self._held = b""

    def close(self) -> None:
        self.flush()
        self._transport.close()


class GuardedProtocol(HttpToolsProtocol):
    """HTTP/1.1 with limits on headers, and on connections.

    uvicorn alone has neither size nor timeout for headers, takes trailers for headers,
    and answers every client with 503 above its limit on connections. Of requests that
    are sent before the responses to those before them, some wait; more are not read.
    """

    allowed: ClassVar[HttpLimits]
    taken_from: ClassVar[Listener]
    rooms: ClassVar[Rooms]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept a connection; if there are too many, close another."""
        joined = _JoinedWrites(cast(asyncio.Transport, transport), self.loop)
        super().connection_made(cast(asyncio.Transport, joined))
        self.taken_from.stop_counting(transport.get_extra_info("socket").fileno())
        self._timer: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._room: ReadPhase | None = None
        self._since = 0.0
        self._unread = 0  # bytes since the last that were read as headers or body
        self._in_body = False
        self._wait_for_headers()
        if len(self.connections) > self.allowed.max_connections:
            self._make_room_for_connection()
        self._join_phase_group()

    def _make_room_for_connection(self) -> None:
        """Close the connection that has made the server wait longest."""
        longest = [next(iter(room)) for room in self.rooms.values() if room]
        since = self.loop.time() - _PATIENCE_S
        slow = [each for each in longest if each._since < since]
        leaves = (slow or longest or [self])[0]
        leaves.transport.abort()
        leaves._leave_phase_group()
        self.connections.discard(leaves)  # now, before the next connection

    def _join_phase_group(self) -> None:
        """Move the connection to the group of its read phase."""
        wait = self._connection_phase()
        if wait is not self._room:
            self._leave_phase_group()
            self._room, self._since = wait, self.loop.time()
            if wait is not None:
                self.rooms[wait][self] = None

    def _leave_phase_group(self) -> None:
        if self._room is not None:
            self.rooms[self._room].pop(self, None)

    def data_received(self, data: bytes) -> None:
        """Handle received bytes; the first byte of a request starts its timeout."""
        if self.transport.is_closing():
            return
        self._unset_keepalive_if_required()
        self._unread += len(data)
        try:
            self._parse(data)
            if self._unread > self.allowed.max_header_bytes:
                raise httptools.HttpParserError
        except httptools.HttpParserError:
            self.send_400_response("")
        if self._in_body or not self._is_answered():
            self._stop_waiting()
        elif self._timer is None and not self.transport.is_closing():
            self._wait_for_headers()
        self._join_phase_group()

    def _parse(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as end:  # there is none: a body may follow
            self.parser = httptools.HttpRequestParser(self)
            framing = b"content-length", b"transfer-encoding"
            lines = [b"%b: %b" % each for each in self.headers if each[0] in framing]
            self.parser.feed_data(b"\r\n".join([b"POST / HTTP/1.1", *lines, b"", b""]))
            self._parse(data[end.args[0] :])

    def on_message_begin(self) -> None:
        """Begin a request, unless too many wait for the response before theirs."""
        if not self._in_body:
            if len(self.pipeline) >= _MAX_PIPELINED:
                raise httptools.HttpParserError
            super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; trailers are dropped."""
        if not self._in_body:
            if len(self.headers) > self.allowed.max_header_bytes // 5:
                raise httptools.HttpParserError
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin the response to a request of HTTP/1 for a path."""
        if not self._in_body:
            version = self.parser.get_http_version()
            if version not in ("1.0", "1.1") or self.url[:1] not in b"/*":
                raise httptools.HttpParserError
            super().on_headers_complete()
            self._unread, self._in_body = 0, True

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        if not self.parser.should_upgrade():
            self._unread, self._in_body = 0, False
            super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection."""
        self._stop_waiting()
        self._leave_phase_group()
        if self._stalled is not None:
            self._stalled.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Mark the connection as idle, unless another request has arrived."""
        super().on_response_complete()
        self._join_phase_group()

    def pause_writing(self) -> None:
        """Start a timeout for a client that does not read its response."""
        super().pause_writing()
        seconds = self.allowed.request_seconds
        self._stalled = self.loop.call_later(seconds, self._abort_untaken)
        self._join_phase_group()

    def resume_writing(self) -> None:
        """Stop the timeout: the client has read the response."""
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        self._join_phase_group()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        """Answer malformed HTTP and too large headers with a JSON error."""
        if not self._is_answered():
            self.cycle.keep_alive = False
            if self.pipeline or not self._in_body:  # others are answered before
                self.flow.pause_reading()
                return
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if not self._in_body or not self.cycle.response_started:
            error = HttpError("bad_request", "The request is not valid HTTP.")
            response = as_response(error, "-")
            headers = [*response.raw_headers, (b"connection", b"close")]
            lines = [b"%b: %b" % each for each in headers]
            head = b"\r\n".join([b"HTTP/1.1 400 Bad Request", *lines, b"", b""])
            self.transport.write(head + response.body)
        self.transport.close()

    def _is_answered(self) -> bool:
        """Whether each request so far has its response."""
        cycle: Any = self.cycle  # None before the first request
        return cycle is None or cycle.response_complete

    def _connection_phase(self) -> ReadPhase | None:
        """Return what the connection waits for; None if the server must act."""
        answered = self._is_answered()
        if self._stalled is not None:
            return ReadPhase.ANSWER_TAKEN
        if answered and self._timer is None:
            return ReadPhase.NEXT_REQUEST
        if answered or self._in_body:
            return ReadPhase.REQUEST
        return None

    def _abort_untaken(self) -> None:
        _log.info("a connection was closed: its answer was not taken")
        self.transport.abort()

    def _wait_for_headers(self) -> None:
        seconds = self.allowed.header_seconds
        self._timer = self.loop.call_later(seconds, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""The ciphers of TLS 1.2 with forward secrecy and authenticated encryption."""


@dataclass(frozen=True, kw_only=True)
class Binding:
    """The address of the server, and its TLS files."""

    host: str = "127.0.0.1"
    port: int = 8765  # 0 selects a free one
    certificate: Path | None = None  # of the TLS certificate chain
    key: Path | None = None
    client_ca: Path | None = None  # signs the certificates that clients then need
    insecure: bool = False  # other machines without TLS, behind a proxy that has it
    hosts: Collection[str] = ()  # of the Host header, besides the loopback ones

    def check_address(self, *, tokens: int) -> None:
        """Refuse a non-loopback address without TLS, hosts or a number of tokens."""
        if (self.certificate is None) != (self.key is None):
            raise ConfigError("TLS needs both a certificate and a key")
        if self.client_ca is not None and self.certificate is None:
            msg = "certificates of clients need TLS: give a certificate and a key"
            raise ConfigError(msg)
        if is_loopback(self.host):
            return
        if self.certificate is None and not self.insecure:
            raise ConfigError(
                "other machines could reach this address without TLS: give a "
                "certificate and a key, or --insecure-bind behind a proxy with TLS"
            )
        if not tokens:
            msg = "other machines could reach this address and there is no token yet"
            raise ConfigError(msg)
        if not self.hosts:
            msg = "other machines could reach this address: name it with --allow-host"
            raise ConfigError(msg)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Drain:
    """Whether a server takes new requests. For some seconds after a signal it need not.

    So long it goes on answering the others.
    """

    def __init__(self, seconds: float = 0.0) -> None:
        """Begin before the signal."""
        if not 0 <= seconds < math.inf:
            raise ConfigError("drain: must be a number of seconds of at least 0")
        self._seconds = seconds
        self._end = math.inf

    def begin_draining(self) -> bool:
        """Begin to drain; False if that has begun before, or takes no time."""
        if not self._seconds or not self.is_accepting():
            return False
        self._end = time.monotonic() + self._seconds
        return True

    def is_accepting(self) -> bool:
        """Whether no signal has come."""
        return self._end == math.inf

    def is_drain_over(self) -> bool:
        """Whether it has lasted long enough."""
        return time.monotonic() >= self._end


class _Server(uvicorn.Server):
    """Ends after it has drained; at once with a second signal."""

    def __init__(self, config: uvicorn.Config, drain: Drain) -> None:
        super().__init__(config)
        self._drain = drain
        self._signal: tuple[int, FrameType | None] | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._drain.begin_draining():
            self._signal = sig, frame
        else:
            self._signal = None
            super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        if self._signal is not None and self._drain.is_drain_over():
            super().handle_exit(*self._signal)
            self._signal = None
        return await super().on_tick(counter)


class JsonLines(logging.Formatter):
    """Formats a record as a JSON object on one line.

    Of an exception it has the class, not the message, which may contain user text.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without the line break."""
        fields: dict[str, Any] = {
            "time": to_iso(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            **getattr(record, "request", {"message": record.getMessage()}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            fields["error"] = record.exc_info[0].__name__
        return json.dumps(fields)


def serve(
    app: ASGIApp,
    binding: Binding,
    limits: HttpLimits,
    started: Callable[[str], None],
    drain: Drain | None = None,
) -> None:
    """Serve an app of `create_app` at a checked address until SIGTERM or SIGINT.

    `started` is called with the URL once the server accepts connections.
    """
    listener = open_listening_socket(binding)
    listener.limit = limits.max_connections
    port = listener.getsockname()[1]
    scheme = "http" if binding.certificate is None else "https"
    shown = f"[{binding.host}]" if ":" in binding.host else binding.host
    config = uvicorn.Config(
        app,
        http=make_guarded_protocol(limits, listener),
        ws="none",
        loop="asyncio",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=128,  # all accepted in one go, before the server can close any
        timeout_graceful_shutdown=5,
        ssl_certfile=binding.certificate,
        ssl_keyfile=binding.key,
        ssl_ciphers=_CIPHERS,
        ssl_ca_certs=None if binding.client_ca is None else str(binding.client_ca),
        ssl_cert_reqs=ssl.CERT_NONE if binding.client_ca is None else ssl.CERT_REQUIRED,
    )
    _load_certificates(config, listener)
    logging.getLogger("uvicorn.error").addFilter(_drop_exception_text)
    # A garbage collection visits only what comes from now on, not the modules, which
    # takes 10 ms. A thread that asks for the GIL gets it after 0.5 ms, not 5.
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(0.0005)
    with listener:
        started(f"{scheme}://{shown}:{port}")
        _Server(config, drain or Drain()).run(sockets=[listener])


def _load_certificates(config: uvicorn.Config, listener: Listener) -> None:
    """Read the certificates, and allow no TLS below 1.2."""
    try:
        config.load()
    except OSError as error:  # includes SSLError
        listener.close()
        msg = "TLS: the certificate, the key or the clients' CA cannot be used"
        raise ConfigError(msg) from error
    if config.ssl is not None:
        config.ssl.minimum_version = ssl.TLSVersion.TLSv1_2


def _drop_exception_text(record: logging.LogRecord) -> bool:
    """Log the type of an error, not its message, which may contain user text."""
    record.exc_info = None
    return True


def open_listening_socket(binding: Binding) -> Listener:
    """Return a listening socket with TCP_NODELAY.

    A response is sent as head and body. Without TCP_NODELAY the body would wait some
    40 ms until the client acknowledges the head.
    """
    family = socket.AF_INET6 if ":" in binding.host else socket.AF_INET
    try:
        opened = socket.create_server((binding.host, binding.port), family=family)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or "not a port"
        raise ConfigError(f"the address cannot be listened on: {why}") from error
    listener = Listener(fileno=opened.detach())
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
