"""Error responses: their codes, and the mapping from exceptions.

A message states only the violated rule. It contains no user text, name or traceback.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from starlette.responses import Response

from vecall.errors import (
    BusyError,
    ClosedError,
    ConfigError,
    ConflictError,
    EmbedderError,
    InvalidArgumentError,
    MemoryNotConfiguredError,
    NotFoundError,
    ReadOnlyError,
    RerankerError,
    RewriterError,
    RightsError,
    ScopeError,
    StorageError,
    StorageFullError,
    SummaryError,
    VecallError,
    WriteHookError,
    WriteRejectedError,
)

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode

NO_MEMORY = "Memory service is not configured."
NO_LOADER = "Session loader is not configured."
NO_SESSION = "Session not found"


CODES: dict[int, tuple[str, ...]] = {
    400: (
        "bad_path",
        "bad_query",
        "bad_request",
        "disconnected",
        "headers_too_large",
        "not_configured",
        "not_json",
    ),
    401: ("unauthorized",),
    403: (
        "author",
        "forbidden",
        "host",
        "origin",
        "read_only",
        "review",
        "source",
        "trust",
    ),
    404: ("not_found",),
    405: ("method_not_allowed",),
    408: ("too_slow",),
    409: ("conflict",),
    413: ("too_large",),
    415: ("unsupported_media_type",),
    422: ("invalid", "rejected"),
    429: ("too_many_requests",),
    500: ("internal",),
    503: (
        "busy",
        "closed",
        "embedder",
        "reranker",
        "rewriter",
        "session_loader",
        "storage",
        "summarizer",
        "timeout",
        "write_hook",
    ),
    507: ("storage_full",),
}
"""The codes of the error responses, by HTTP status."""


class HttpError(Exception):
    """An error response to a request.

    Args:
        status: The HTTP status.
        code: The machine-readable error code.
        message: The message, one sentence.
        headers: Further headers.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Set the parts of the response."""
        assert code in CODES[status], "not in the OpenAPI document"
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = dict(headers or {})


_RETRY = {"Retry-After": "1"}

# Class, status, code and message; the first matching class applies. None: use the
# error's own message, which names an argument and its rule.
_OF: list[tuple[type[VecallError], int, str, str | None]] = [
    (NotFoundError, 404, "not_found", "There is no such memory."),
    (ConflictError, 409, "conflict", None),
    (MemoryNotConfiguredError, 400, "not_configured", NO_MEMORY),
    (InvalidArgumentError, 422, "invalid", None),
    (ConfigError, 422, "invalid", None),
    (WriteRejectedError, 422, "rejected", "The write was refused by a rule."),
    (ReadOnlyError, 403, "read_only", "The memory can only be read."),
    (ScopeError, 403, "forbidden", "The scope is not allowed."),
    (BusyError, 503, "busy", "The memory is busy; nothing was written."),
    (StorageFullError, 507, "storage_full", "The disk is full; nothing was written."),
    (StorageError, 503, "storage", "The memory cannot be read or written."),
    (EmbedderError, 503, "embedder", "The embedder failed; nothing was written."),
    (RerankerError, 503, "reranker", "The reranker failed."),
    (RewriterError, 503, "rewriter", "The rewriter of queries failed."),
    (SummaryError, 503, "summarizer", "The summarizer failed; nothing was written."),
    (
        WriteHookError,
        503,
        "write_hook",
        "A rule for writes failed; nothing was written.",
    ),
    (ClosedError, 503, "closed", "The server is shutting down."),
]


def answer_to(error: Exception) -> HttpError | None:
    """Return the error response for an exception; None for an unexpected one."""
    if isinstance(error, HttpError):
        return error
    if isinstance(error, RightsError):
        return HttpError(403, error.right, str(error))
    for kind, status, code, message in _OF:
        if isinstance(error, kind):
            headers = _RETRY if status == 503 else None
            return HttpError(status, code, message or str(error), headers)
    return None


def internal() -> HttpError:
    """Return the response to an unexpected exception."""
    return HttpError(500, "internal", "The server failed to answer.")


def as_response(error: HttpError, request_id: str) -> Response:
    """Return an error as JSON."""
    error_body = {
        "code": error.code,
        "message": error.message,
        "request_id": request_id,
    }
    return json_response({"error": error_body}, error.status, error.headers)


def json_response(
    value: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a value as JSON."""
    return raw_json(as_json(value), status, headers)


def raw_json(
    text: str, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a response of encoded JSON."""
    return Response(text, status, headers, "application/json")


def as_json(value: object) -> str:
    """Return a value as JSON in ASCII, because UTF-8 cannot encode lone surrogates."""
    return _encode(value)
