"""Streams an open file as a response."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import BinaryIO

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

_CHUNK = 256 * 1024


class FileStream(Response):
    """Sends a file in chunks, which another thread reads.

    Args:
        file: The file, at its beginning.
        media_type: The media type of the file.
        done: Closed after the file was sent or the client disconnected; it closes the
            file.
        allowed: Whether the client may still read the file. Called before each chunk;
            if False, the connection is closed.
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
