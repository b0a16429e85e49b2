"""Clients of the Model Context Protocol: raw lines, and those of the SDK."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

from helpers import processes

PROGRAM = [sys.executable, "-m", "vecall.cli.main", "mcp", "--embedder", "none"]
_SCRIPT = "import sys; from vecall.cli.main import main; sys.exit(main())"
_IMPORTS = "vecall.cli.main vecall.mcp vecall.mcp.server"


class LineClient:
    """A process that serves over stdio, and the lines that it reads and writes."""

    def __init__(self, process: processes.Process) -> None:
        self.process = process
        self._number = 0

    def put(self, line: bytes | Mapping[str, Any]) -> None:
        if not isinstance(line, bytes):
            line = json.dumps({"jsonrpc": "2.0", **line}).encode()
        assert self.process.stdin is not None
        self.process.stdin.buffer.write(line + b"\n")
        self.process.stdin.buffer.flush()

    def get(self) -> dict[str, Any]:
        """The next message; nothing else may come."""
        assert self.process.stdout is not None
        message = json.loads(self.process.stdout.buffer.readline())
        assert message["jsonrpc"] == "2.0"
        return message

    def begin(self, method: str, **params: Any) -> int:
        """Ask, and do not wait for the answer."""
        self._number += 1
        self.put({"id": self._number, "method": method, "params": params})
        return self._number

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        number = self.begin(method, **params)
        answer = self.get()
        assert answer["id"] == number
        return answer

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What a tool answers, or its error."""
        result = self.ask("tools/call", name=tool, arguments=arguments)["result"]
        if result.get("isError"):
            return {"error": result["content"][0]["text"]}
        return result["structuredContent"]

    def close(self, stream: str) -> None:
        """Close "stdin" or "stdout", which Popen then no longer uses."""
        getattr(self.process, stream).close()
        setattr(self.process, stream, None)

    def end(self) -> int:
        """End the input; return the status of the process."""
        self.process.communicate(timeout=20)
        return self.process.returncode

    def initialize(self) -> dict[str, Any]:
        """Shake hands."""
        about = {"name": "test", "version": "1"}
        answer = self.ask(
            "initialize",
            protocolVersion="2025-11-25",
            capabilities={},
            clientInfo=about,
        )
        self.put({"method": "notifications/initialized"})
        return answer["result"]


@contextmanager
def started(path: Path, *more: str, embedder: str = "none") -> Iterator[Any]:
    """A process that serves a file over stdio, forked as those of `processes`."""
    words = ["mcp", "--embedder", embedder, "--path", path, *more]
    process = processes.piped(_SCRIPT, *words, imports=_IMPORTS)
    try:
        yield LineClient(process)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


@contextmanager
def over_stdio(path: Path, *more: str, embedder: str = "none") -> Iterator[Any]:
    """A process after the handshake."""
    with started(path, *more, embedder=embedder) as client:
        client.initialize()
        yield client


@asynccontextmanager
async def sdk_session(streams: Any) -> AsyncIterator[Any]:
    """A session of the SDK's client over the streams of a transport."""
    from mcp import ClientSession

    async with (
        streams as (incoming, outgoing, *_),
        ClientSession(incoming, outgoing) as session,
    ):
        await session.initialize()
        yield session


def fields(model: Any) -> dict[str, Any]:
    """A result of the SDK, of any version, as on the wire."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)
