"""The ASGI app: authentication, the order of checks, and logging."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine
from contextlib import AsyncExitStack
from contextvars import copy_context
from functools import partial
from pathlib import Path
from traceback import extract_tb
from typing import Any

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from vecall.concurrency.join import resume_coroutine
from vecall.errors import ConfigError
from vecall.limits import HttpLimits, Limits
from vecall.server import requests
from vecall.server.handlers import run_operation
from vecall.server.limits import Turns
from vecall.server.operations import all_operations
from vecall.server.responses import HttpError, as_response, error_answer, internal_error
from vecall.server.routing import (
    Operation,
    RequestContext,
    Router,
    ServerState,
    SessionLoader,
)
from vecall.server.schemas import openapi, ref, shared_schemas
from vecall.server.tokens import Token, TokenSource
from vecall.server.ui import page_operations
from vecall.service.memory_service import MemoryService

_log = logging.getLogger("vecall.server")

_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
_NOWHERE = "-"
_QUICK_S = 0.05  # most answers are there by then
_NO_TOKEN = ""


def create_app(
    memory: MemoryService | None,
    *,
    tokens: TokenSource,
    session_loader: SessionLoader | None = None,
    limits: HttpLimits | None = None,
    hosts: Collection[str] = (),
    origins: Collection[str] = (),
    backups: str | Path | None = None,
    accepting: Callable[[], bool] = lambda: True,
) -> ASGIApp:
    """Return an ASGI app that serves one memory service.

    It refuses requests without a token, and requests from web pages of other origins
    than `origins`. It does not close the service.

    Args:
        memory: The service. None: every operation on memories returns 400.
        tokens: The tokens and their permissions: `Tokens` or a `TokenFile`.
        session_loader: Called with app_name, user_id and session_id; returns the
            session, or None. Accepts `get_session` of a google-adk session service.
        limits: The limits on the size, speed and rate of requests. The app does not
            enforce the timeouts for headers and responses, nor the limit on
            connections: the server of `vecall serve` does.
        hosts: Allowed values of the Host header, such as "memory.example.com", in
            addition to 127.0.0.1, localhost and [::1] with the port of the server.
        origins: Allowed values of the Origin header. Requests without this header do
            not come from a web page and pass.
        backups: The folder for backups that an admin requests.
        accepting: Returns whether the server is not about to end; else /readyz is 503.

    Raises:
        ConfigError: The folder `backups` does not exist.
    """
    folder = None if backups is None else Path(backups)
    if folder is not None and not folder.is_dir():
        raise ConfigError("backups: there is no such folder")
    gate = requests.Gate(tokens, limits, hosts, origins)
    state = ServerState(
        memory, gate.limits, session_loader, accepting=accepting, backups=folder
    )
    return _Application(state, gate)


class _Application:
    """Answers requests."""

    def __init__(self, state: ServerState, gate: requests.Gate) -> None:
        self.state = state
        self._gate = gate
        self._turns = Turns()
        of_memory = Limits() if state.memory is None else state.memory.limits
        operations = all_operations(state.limits, of_memory)
        shared = shared_schemas(operations, state.limits)
        self._router = Router([*operations, *page_operations()])
        self._validator = requests.Validator(shared)
        state.document = openapi(operations, shared)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await handle_lifespan(receive, send)
        elif scope["type"] == "http":
            await _Exchange(self, requests.HttpRequest(scope, receive)).answer(send)

    async def respond_to_request(self, exchange: _Exchange) -> Response:
        """Check a request and run its operation."""
        request, gate = exchange.request, self._gate
        try:
            operation, names, token = self._identify_request(exchange)
        except HttpError:
            await self._turns.wait_for_turn(_NO_TOKEN)
            raise
        sender = _NO_TOKEN if token is None else token.id
        size = request.declared_size if request.has_body else 0
        await self._turns.wait_for_turn(sender, size)
        if token is not None:
            kind = "write" if requests.access_writes(operation.access) else "read"
            gate.check_rate(token.id, kind)
            requests.authorize_access(token, operation.access, names)
        query = requests.read_query(
            request, self._validator, operation.query, operation.needs
        )
        async with AsyncExitStack() as held:
            body = await self._read_body(request, operation, token, held)
            call = RequestContext(
                self.state,
                operation,
                names,
                query,
                body,
                token,
                partial(gate.still_admits, request),
                request.scope.get("root_path", ""),
            )
            if token is None or not operation.timed:
                return await operation.handler(call)
            async with gate.working.place(token.id):
                return await self._answer_in_time(operation, call, request)

    def _identify_request(
        self, exchange: _Exchange
    ) -> tuple[Operation, dict[str, str], Token | None]:
        """Return the operation, the names in the path, and the client's token."""
        request = exchange.request
        self._gate.check_head(request)
        operation, names = self._router.find_operation(request)
        exchange.operation = operation
        is_public = operation.access == "public"
        return operation, names, None if is_public else self._gate.authenticate(request)

    async def _read_body(
        self,
        request: requests.HttpRequest,
        operation: Operation,
        token: Token | None,
        held: AsyncExitStack,
    ) -> dict[str, Any]:
        if operation.body is None:
            if operation.method == "DELETE" and request.has_body:
                # A client that sends a filter must not delete everything by mistake.
                raise HttpError("invalid", "body: is not read here; leave it out")
            return {}
        assert token is not None, "a public operation has no body"
        limits = self.state.limits
        max_bytes = {
            "small": limits.max_small_body_bytes,
            "text": limits.max_text_body_bytes,
            "batch": limits.max_body_bytes,
        }[operation.body_limit]
        body = await self._gate.read_bytes(request, token.id, max_bytes, held)
        schema = ref(operation.body)
        return await self._gate.parse_body(body, token.id, schema, self._validator)

    async def _answer_in_time(
        self, operation: Operation, call: RequestContext, request: requests.HttpRequest
    ) -> Response:
        seconds = self.state.limits.request_seconds
        work = _begin_work(operation.handler(call), operation.handler is run_operation)
        if isinstance(work, Response):
            return work
        quick = min(seconds, _QUICK_S)
        done, _ = await asyncio.wait([work], timeout=quick)
        left = False
        if not done:
            is_read = operation.body is not None or not request.has_body
            if is_read and not requests.access_writes(operation.access):
                left = await _wait_for_client(work, request.receive, seconds - quick)
            else:
                await asyncio.wait([work], timeout=seconds - quick)
        if not work.done():
            work.add_done_callback(_retrieve_task_error)
            work.cancel()
            if left:
                raise HttpError("disconnected", "The client has disconnected.")
            msg = f"There was no answer within {seconds:g} s; a write may come yet."
            raise HttpError("timeout", msg)
        return work.result()


class _Exchange:
    """One request and its response."""

    def __init__(self, app: _Application, request: requests.HttpRequest) -> None:
        self._app = app
        self.request = request
        self.operation: Operation | None = None
        self._id = secrets.token_hex(8)
        self._begin = time.perf_counter()

    async def answer(self, send: Send) -> None:
        """Send a response in every case; log the outcome without content."""
        try:
            response = await self._app.respond_to_request(self)
            whole = self.operation is not None and self.operation.body is not None
        except Exception as error:
            response = as_response(self._expected_error(error), self._id)
            whole = False
        if self.request.has_body and not whole:
            response.headers["Connection"] = "close"  # the body may be endless
        given = {name for name, _ in response.raw_headers}
        response.raw_headers += [each for each in _HEADERS if each[0] not in given]
        if b"x-request-id" not in given:
            response.raw_headers.append((b"x-request-id", self._id.encode()))
        self._log_outcome(response.status_code)
        await response(self.request.scope, self.request.receive, send)

    def _expected_error(self, error: Exception) -> HttpError:
        expected = error_answer(error)
        if expected is None or expected.status >= 500:
            cause = error.__cause__ or error
            frames = extract_tb(cause.__traceback__)
            where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}"
            name = type(cause).__name__
            more = {"request": {"request_id": self._id, "error": name, "where": where}}
            _log.error("%s %s at %s", self._id, name, where, extra=more)
        return expected or internal_error()

    def _log_outcome(self, status: int) -> None:
        method, path, name = _NOWHERE, _NOWHERE, _NOWHERE
        if self.operation is not None:
            method, path = self.operation.method, self.operation.path
            name = self.operation.id
        seconds = time.perf_counter() - self._begin
        self._app.state.answered[name, status] += 1
        self._app.state.durations.add_duration(name, seconds)
        if not _log.isEnabledFor(logging.INFO):
            return
        spent = 1000 * seconds
        told = {
            "request_id": self._id,
            "method": method,
            "route": path,
            "status": status,
            "duration_ms": round(spent, 1),
        }
        line, shown = "%s %s %s %d %.1f ms", (self._id, method, path, status, spent)
        # Not by `info`, which would look for the caller's place.
        made = _log.name, logging.INFO, __file__, 0, line, shown, None
        _log.handle(_log.makeRecord(*made, extra={"request": told}))


def _begin_work(
    work: Awaitable[Response], at_once: bool
) -> Response | asyncio.Future[Response]:
    """Begin work, and go on in a task if it waits; most searches have to wait for none.

    What begins `at_once`, in the caller's task, may begin no timeouts or other things
    of a task before it first waits.
    """
    if not at_once or not isinstance(work, Coroutine):
        return asyncio.ensure_future(work)
    context = copy_context()
    try:
        awaited = context.run(work.send, None)
    except StopIteration as done:
        response: Response = done.value
        return response
    loop = asyncio.get_running_loop()
    return loop.create_task(resume_coroutine(work, awaited), context=context)


async def _wait_for_client(
    work: asyncio.Future[Response], receive: Receive, seconds: float
) -> bool:
    """Wait for an answer; return early, and True, if its client disconnects."""
    gone = asyncio.ensure_future(_wait_for_disconnect(receive))
    try:
        either: list[asyncio.Future[Any]] = [work, gone]
        first = asyncio.FIRST_COMPLETED
        await asyncio.wait(either, timeout=seconds, return_when=first)
        return gone.done()
    finally:
        gone.cancel()


async def _wait_for_disconnect(receive: Receive) -> None:
    """Wait until the client of a request whose body was read disconnects."""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        await asyncio.sleep(_QUICK_S)  # a source that never waits would hold the loop


def _retrieve_task_error(work: asyncio.Future[Response]) -> None:
    """Do not log the error of an abandoned task; its message may contain user text."""
    if not work.cancelled():
        work.exception()


async def handle_lifespan(receive: Receive, send: Send) -> None:
    """Handle the ASGI lifespan messages; startup and shutdown do nothing."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
