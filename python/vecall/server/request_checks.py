"""Checks of a request before its body is read."""

from __future__ import annotations

import re
from collections.abc import Collection

from starlette.requests import Request

from vecall.server.limits import HttpLimits, RateLimiter
from vecall.server.responses import HttpError
from vecall.server.tokens import Token, TokenSource

_LOOPBACK = re.compile(
    r"(?:127\.0\.0\.1|localhost|\[::1\])(?::([0-9]{1,5}))?", re.ASCII
)
_BEARER = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +([!-~]+)", re.ASCII)
_DEFAULT_PORTS = {"http": 80, "https": 443}


def check_header_size(request: Request, limits: HttpLimits) -> None:
    """Refuse a request whose headers together exceed the limit.

    Raises:
        HttpError: 400.
    """
    scope = request.scope
    size = len(scope.get("raw_path") or b"") + len(scope["query_string"])
    size += sum(len(name) + len(value) + 4 for name, value in scope["headers"])
    if size > limits.max_header_bytes:
        msg = f"The headers have at most {limits.max_header_bytes} bytes."
        raise HttpError(400, "headers_too_large", msg)


def check_framing(request: Request) -> None:
    """Refuse a body whose end is ambiguous to proxies (request smuggling).

    Raises:
        HttpError: 400.
    """
    headers = request.headers
    if "transfer-encoding" in headers and "content-length" in headers:
        msg = "A body has a length or is chunked, not both."
        raise HttpError(400, "bad_request", msg)


def check_host(request: Request, hosts: Collection[str]) -> None:
    """Refuse a request for another host, which prevents DNS rebinding.

    Args:
        request: The request.
        hosts: Allowed values of Host in addition to the loopback ones, in lower case.

    Raises:
        HttpError: 403.
    """
    given = request.headers.getlist("host")
    if len(given) == 1:
        host = given[0].lower()
        if host in hosts:
            return
        local = _LOOPBACK.fullmatch(host)
        default = _DEFAULT_PORTS.get(request.scope["scheme"])
        server = request.scope.get("server")
        bound = (server[1] if server else None) or default
        if local and int(local[1] or default or 0) == bound:
            return
    raise HttpError(403, "host", "The Host header is not allowed.")


def check_origin(request: Request, origins: Collection[str]) -> None:
    """Refuse requests of web pages, unless their origin is allowed.

    Args:
        request: The request.
        origins: Allowed values of Origin, in lower case.

    Raises:
        HttpError: 403.
    """
    given = request.headers.getlist("origin")
    if any(origin.lower() not in origins for origin in given):
        raise HttpError(403, "origin", "The Origin is not allowed.")


def authenticate(request: Request, tokens: TokenSource) -> Token:
    """Return the client's token.

    Raises:
        HttpError: 401.
    """
    given = request.headers.getlist("authorization")
    shaped = _BEARER.fullmatch(given[0]) if len(given) == 1 else None
    token = tokens.find(shaped[1]) if shaped else None
    if token is None:
        challenge = {"WWW-Authenticate": 'Bearer realm="vecall"'}
        msg = "A valid bearer token is needed."
        raise HttpError(401, "unauthorized", msg, challenge)
    return token


def authorize(token: Token, access: str, names: dict[str, str]) -> None:
    """Refuse an operation that a token does not permit.

    Args:
        token: The client's token.
        access: As in `Operation`, except "public".
        names: The app and the user in the path; empty for an admin operation.

    Raises:
        HttpError: 403.
    """
    if access.startswith("admin"):
        allowed = token.admin
    else:
        allowed = token.opens(names["app"], names["user"])
    if changes(access) and token.read_only:
        raise HttpError(403, "read_only", "The token may only read.")
    if not allowed:
        raise HttpError(403, "forbidden", "The token is not for this.")
    if access == "review":
        check_reviewer(token)


def check_rate(rates: RateLimiter, token: str, kind: str) -> None:
    """Refuse a request above the rate limit.

    Args:
        rates: The rate limits of the tokens.
        token: The id of the token.
        kind: As in `RateLimiter.wait`.

    Raises:
        HttpError: 429.
    """
    seconds = rates.wait(token, kind)
    if seconds:
        headers = {"Retry-After": str(int(seconds) + 1)}
        msg = "Too many requests or bytes with this token."
        raise HttpError(429, "too_many_requests", msg, headers)


def changes(access: str) -> bool:
    """Whether an access includes writes."""
    return access.endswith("write") or access == "review"


def check_reviewer(token: Token) -> None:
    """Refuse a token without the right to review.

    Raises:
        HttpError: 403.
    """
    if not token.review:
        msg = "This needs a token with the right to review."
        raise HttpError(403, "review", msg)
