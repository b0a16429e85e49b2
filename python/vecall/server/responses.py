"""Error responses: their codes, and the mapping from exceptions.

A message states only the violated rule. It contains no user text, name or traceback.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import BinaryIO

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from vecall import errors

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode

NO_MEMORY = "Memory service is not configured."

CODES: dict[int, tuple[str, ...]] = {
    status: tuple(codes.split())
    for status, codes in {
        400: "bad_path bad_query bad_request disconnected headers_too_large "
        "not_configured not_json",
        401: "unauthorized",
        403: "author forbidden host origin read_only review source trust",
        404: "not_found",
        405: "method_not_allowed",
        408: "too_slow",
        409: "conflict",
        413: "too_large",
        415: "unsupported_media_type",
        422: "invalid rejected",
        429: "too_many_requests",
        500: "internal",
        503: "busy closed embedder not_ready reranker rewriter session_loader "
        "storage summarizer timeout write_hook",
        507: "storage_full",
    }.items()
}
"""The codes of the error responses, by HTTP status."""
_STATUS = {code: status for status, codes in CODES.items() for code in codes}


class HttpError(Exception):
    """An error response to a request: a code, one sentence, further headers.

    The code has a status. A client may come again after a 503.
    """

    def __init__(
        self, code: str, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        """Set the parts of the response."""
        super().__init__(message)
        self.status = _STATUS[code]
        self.code = code
        self.message = message
        self.headers = dict(headers or {})
        if self.status == 503:
            self.headers.setdefault("Retry-After", "1")


# Class, code and message; the first matching class applies. None: use the
# error's own message, which names an argument and its rule.
_OF: list[tuple[type[errors.VecallError], str, str | None]] = [
    (errors.NotFoundError, "not_found", "There is no such memory."),
    (errors.ConflictError, "conflict", None),
    (errors.MemoryNotConfiguredError, "not_configured", NO_MEMORY),
    (errors.InvalidArgumentError, "invalid", None),
    (errors.ConfigError, "invalid", None),
    (errors.WriteRejectedError, "rejected", "The write was refused by a rule."),
    (errors.ReadOnlyError, "read_only", "The memory can only be read."),
    (errors.ScopeError, "forbidden", "The scope is not allowed."),
    (errors.BusyError, "busy", "The memory is busy; nothing was written."),
    (errors.StorageFullError, "storage_full", "The disk is full; nothing was written."),
    (errors.StorageError, "storage", "The memory cannot be read or written."),
    (errors.EmbedderError, "embedder", "The embedder failed; nothing was written."),
    (errors.RerankerError, "reranker", "The reranker failed."),
    (errors.RewriterError, "rewriter", "The rewriter of queries failed."),
    (errors.SummaryError, "summarizer", "The summarizer failed; nothing was written."),
    (
        errors.WriteHookError,
        "write_hook",
        "A rule for writes failed; nothing was written.",
    ),
    (errors.ClosedError, "closed", "The server is shutting down."),
]


def error_answer(error: Exception) -> HttpError | None:
    """Return the error response for an exception; None for an unexpected one."""
    if isinstance(error, HttpError):
        return error
    if isinstance(error, errors.RightsError):
        return HttpError(error.right, str(error))
    for kind, code, message in _OF:
        if isinstance(error, kind):
            return HttpError(code, message or str(error))
    return None


def internal_error() -> HttpError:
    """Return the response to an unexpected exception."""
    return HttpError("internal", "The server failed to answer.")


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


_CHUNK = 256 * 1024


class FileStream(Response):
    """Sends an open file in chunks, which another thread reads.

    `done` closes it after that, or if the client has disconnected. Before each chunk
    the client must still be `allowed` to read it, or the connection is closed.
    """

    def __init__(
        self,
        file: BinaryIO,
        media_type: str,
        done: ExitStack,
        allowed: Callable[[], bool] = lambda: True,
    ) -> None:
        """Wrap the file; Content-Length lets a client detect a truncated response."""
        size = os.fstat(file.fileno()).st_size
        headers = {"content-length": str(size)}
        super().__init__(headers=headers, media_type=media_type)
        self._file = file
        self._done = done
        self._allowed = allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send the file."""
        with self._done:
            start = {"type": "http.response.start", "status": self.status_code}
            await send({**start, "headers": self.raw_headers})
            while chunk := await asyncio.to_thread(self._file.read, _CHUNK):
                if not self._allowed():
                    return  # the server closes an incomplete response
                body = {"type": "http.response.body", "body": chunk, "more_body": True}
                await send(body)
            await send({"type": "http.response.body", "body": b""})
