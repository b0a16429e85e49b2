"""Serves the clients of all users over streamable HTTP, behind the server's tokens.

The token of a request sets the app and the user. Every request stands alone: there are
no sessions, and no stream from the server to a client. Needs vecall[mcp,server].
"""

from __future__ import annotations

import logging
import secrets
from collections import OrderedDict
from collections.abc import Collection
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from typing import Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vecall.errors import BusyError
from vecall.limits import HttpLimits
from vecall.mcp.answers import Answers
from vecall.mcp.server import sdk_server_of
from vecall.mcp.tools import Access
from vecall.server import responses
from vecall.server.app import handle_lifespan
from vecall.server.requests import Gate, HttpRequest, Validator
from vecall.server.tokens import Token, TokenSource
from vecall.telemetry import is_traced
from vecall.tools.output import DEFAULT_MAX_TOKENS

_log = logging.getLogger("vecall.mcp")
_MAX_SERVERS = 1_024
_HEADERS = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
_JSON = "application/json"
_NONE = [""]  # of a header that is not there
_OBJECT = {"type": "object"}
_METADATA = "/.well-known/oauth-protected-resource"  # RFC 9728, section 3.1


def asgi_app(
    memory: Any,
    *,
    tokens: TokenSource,
    path: str = "/mcp",
    beside: ASGIApp | None = None,
    limits: HttpLimits | None = None,
    hosts: Collection[str] = (),
    origins: Collection[str] = (),
    max_tokens: int | None = DEFAULT_MAX_TOKENS,
    authorization_servers: Collection[str] = (),
) -> ASGIApp:
    """Return an ASGI app that serves the protocol at one path.

    It does not close the memory service. Anybody may read the metadata of the path as a
    protected resource (RFC 9728), which a 401 names.

    Args:
        memory: The memory service.
        tokens: The tokens and their permissions: `Tokens` or a `TokenFile`. A token
            must be bound to an app and a user.
        path: The path.
        beside: The app of all other paths, such as `vecall.server.create_app`; None
            answers 404.
        limits: The limits on the size, speed and rate of requests.
        hosts: Allowed values of the Host header, as in `create_app`.
        origins: Allowed values of the Origin header, as in `create_app`.
        max_tokens: The most tokens of an answer, at least 64; None is unlimited.
        authorization_servers: The issuers, as URLs, of tokens that `tokens` finds. None
            by default: who runs the server hands tokens out.
    """
    gate = Gate(tokens, limits, hosts, origins)
    return _Application(
        memory, gate, path, beside, max_tokens, list(authorization_servers)
    )


@dataclass(eq=False)
class _Application:
    """Checks requests, and passes each to the server of its token."""

    memory: Any
    gate: Gate
    path: str
    beside: ASGIApp | None
    max_tokens: int | None
    issuers: list[str]

    def __post_init__(self) -> None:
        self._metadata_paths = (_METADATA + self.path.rstrip("/"), _METADATA)
        self._servers: OrderedDict[Token, tuple[Answers, Any]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request at the path; pass others on."""
        paths = (self.path, *self._metadata_paths)
        at_path = scope["type"] == "http" and scope["path"] in paths
        if not at_path and self.beside is not None:
            await self.beside(scope, receive, send)
        elif scope["type"] == "lifespan":
            await handle_lifespan(receive, send)
        elif scope["type"] == "http":
            await self._answer_request(scope, receive, send, at_path=at_path)

    async def _answer_request(
        self, scope: Scope, receive: Receive, send: Send, *, at_path: bool
    ) -> None:
        """Send a response in every case; log the outcome without content."""
        started = False
        id_ = secrets.token_hex(8)

        async def counted(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                own = (*_HEADERS, (b"x-request-id", id_.encode()))
                message["headers"] = [*message.get("headers", ()), *own]
                _log.info("%s %s %d", id_, scope["method"], message["status"])
            await send(message)

        try:
            if not at_path:
                raise responses.HttpError("not_found", "There is nothing at this path.")
            await self._check_and_answer(HttpRequest(scope, receive), counted)
        except Exception as error:
            expected = responses.error_answer(error)
            if expected is None:
                _log.error("%s %s", id_, type(error).__name__)
            if started:
                return
            response: Response = responses.as_response(
                expected or responses.internal_error(), id_
            )
            response.headers["Connection"] = "close"  # the body may be endless
            await response(scope, receive, counted)

    async def _check_and_answer(self, request: HttpRequest, send: Send) -> None:
        """Check a request, and let the server of its token answer."""
        gate = self.gate
        gate.check_head(request)
        # What a proxy, or the client, says of TLS changes this answer alone.
        given = request.given
        forwarded = given.get("x-forwarded-proto", _NONE)[0] == "https"
        scheme = "https" if forwarded else request.scope["scheme"]
        root = f"{scheme}://{given['host'][0]}"
        if request.scope["path"] != self.path:
            await self._describe(request, root)(request.scope, request.receive, send)
            return
        more = f', resource_metadata="{root}{self._metadata_paths[0]}"'
        token = gate.authenticate(request, more)
        if token.admin or token.user is None:
            raise responses.HttpError(
                "forbidden", "This needs a token of an app and a user."
            )
        if request.method != "POST":
            # No client needs a stream of the server, and there is no session to end.
            msg = "The method is not allowed here."
            raise responses.HttpError("method_not_allowed", msg, {"Allow": "POST"})
        gate.check_rate(token.id, "read")
        async with AsyncExitStack() as held:
            most = gate.limits.max_text_body_bytes
            body = await gate.read_bytes(request, token.id, most, held)
            # The SDK parses it again, but fails on JSON that is nested too deeply.
            message = await gate.parse_body(body, token.id, _OBJECT, Validator({}))
            answers, server = self._server_of_token(token)
            if _is_plain_request(request) and _is_plain_call(message, body, answers):
                params = message["params"]
                result = await answers.call_tool(
                    params["name"], params.get("arguments")
                )
                told = {"jsonrpc": "2.0", "id": message["id"], "result": result}
                await responses.json_response(told)(
                    request.scope, request.receive, send
                )
                return
            receive = _replaying_receive(body, request.receive)
            # A manager serves one request here: what it starts ends with it.
            manager = StreamableHTTPSessionManager(
                server, json_response=True, stateless=True
            )
            async with manager.run():
                await manager.handle_request(request.scope, receive, send)

    def _describe(self, request: HttpRequest, root: str) -> Response:
        """Return the metadata of the path as a protected resource, without a secret."""
        if request.method not in ("GET", "HEAD"):
            msg = "The method is not allowed here."
            raise responses.HttpError("method_not_allowed", msg, {"Allow": "GET, HEAD"})
        fields = {"resource": root + self.path, "resource_name": "vecall"}
        issuers = {"authorization_servers": self.issuers} if self.issuers else {}
        more = {**issuers, "bearer_methods_supported": ["header"]}
        return JSONResponse({**fields, **more}, headers={"Connection": "close"})

    def _server_of_token(self, token: Token) -> tuple[Answers, Any]:
        """Return the answers for a token, and the server that gives them.

        The least recently used are discarded.
        """
        if token not in self._servers:
            answers = self._make_answers(token)
            self._servers[token] = answers, sdk_server_of(answers)
            if len(self._servers) > _MAX_SERVERS:
                self._servers.popitem(last=False)
        self._servers.move_to_end(token)
        return self._servers[token]

    def _make_answers(self, token: Token) -> Answers:
        assert token.app is not None
        assert token.user is not None
        claims = {"author": token.author, "source": token.source}
        access = Access(
            app_name=token.app,
            user_id=token.user,
            write=not token.read_only,
            trust=token.ceiling or "unverified",
            min_trust=token.min_trust,
            **{name: value for name, value in claims.items() if value is not None},
        )

        def admit(writes: bool) -> AbstractAsyncContextManager[None]:
            if writes and self.gate.rates.seconds_to_wait(token.id, "write"):
                msg = "Too many writes with this token; nothing was written. "
                raise BusyError(msg + "Try again later.")
            return self.gate.working.place(token.id)

        return Answers(
            self.memory,
            access,
            max_tokens=self.max_tokens,
            seconds=self.gate.limits.request_seconds,
            admit=admit,
        )


# A call of a tool that nothing sets apart is answered without the SDK, whose streams
# and tasks of a request take five times as long as a search. It passes on all others:
# other methods and revisions, whatever it refuses, and calls that are traced.


_PLAIN_REVISIONS = (None, "2025-03-26", "2025-06-18", "2025-11-25")
_PLAIN_FIELDS = {"jsonrpc", "id", "method", "params"}
_PLAIN_PARAMS = {"name", "arguments", "_meta"}
_EXACT = 2**53  # whole numbers below are the same in every parser


def _is_plain_request(request: HttpRequest) -> bool:
    """Whether the SDK would take the request for one of a revision with a handshake."""
    accepted = request.given.get("accept", _NONE)[0].split(",")
    revision, *_ = request.given.get("mcp-protocol-version", (None,))
    return (
        revision in _PLAIN_REVISIONS
        and any(each.split(";")[0].strip() == _JSON for each in accepted)
        and not is_traced()
    )


def _is_plain_call(message: dict[str, Any], body: bytes, answers: Answers) -> bool:
    """Whether a message calls a tool with an id and arguments that every parser takes.

    The SDK parses no text with half of a surrogate pair.
    """
    id_, params = message.get("id"), message.get("params")
    if (
        message.keys() != _PLAIN_FIELDS
        or message["jsonrpc"] != "2.0"
        or message["method"] != "tools/call"
        or not (isinstance(id_, str) or _is_exact(id_))
        or not isinstance(params, dict)
        or not {"name"} <= params.keys() <= _PLAIN_PARAMS
        or not answers.has_tool(params["name"])
        or b"\\ud" in body.lower()
    ):
        return False
    meta, arguments = params.get("_meta", {}), params.get("arguments", {})
    return (
        isinstance(meta, dict)
        and all(isinstance(v, str) or _is_exact(v) for v in meta.values())
        and isinstance(arguments, dict)
        and all(isinstance(v, str | bool) or _is_exact(v) for v in arguments.values())
    )


def _is_exact(value: object) -> bool:
    return type(value) is int and abs(value) < _EXACT


def _replaying_receive(body: bytes, receive: Receive) -> Receive:
    """Return a source of the body that was read, and then of what follows."""
    is_read = False

    async def again() -> Message:
        nonlocal is_read
        if is_read:
            return await receive()
        is_read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
