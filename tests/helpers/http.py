"""The HTTP door: apps asked in process, and real servers in processes of their own."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

import httpx
from vecall import Event, MemoryService, Session
from vecall.server import TokenFile, Tokens, create_app, mint

from helpers.processes import Process, child, said

BASE = "http://127.0.0.1:8765"
ALICE = "/apps/hotel/users/alice"
SECRET = "zebra-4711"  # what a client sends, and no error may repeat
TURN = {"content": f"I keep a {SECRET}.", "author": "user"}


class Door(NamedTuple):
    """An app, and what opens it."""

    app: Any
    bearer: str | None

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        """One request on a loop of its own; the token is sent unless another is."""
        return asyncio.run(self.ask_all([(method, path, more)]))[0]

    async def ask_all(
        self, requests: list[tuple[str, str, dict[str, Any]]]
    ) -> list[httpx.Response]:
        """Requests one after another on one loop."""
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=True)
        answers = []
        async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
            for method, path, more in requests:
                given = httpx.Headers(more.pop("headers", None))
                if self.bearer is not None and "authorization" not in given:
                    given.update(bearing(self.bearer))
                answers.append(
                    await client.request(method, path, headers=given.raw, **more)
                )
        return answers


async def load_session(*, app_name: str, user_id: str, session_id: str) -> Any:
    """One turn for every session, but for three that are special."""
    if session_id == "broken":
        raise RuntimeError(SECRET)
    if session_id == "unknown":
        return None
    owner = "bob" if session_id == "foreign" else user_id
    return Session(app_name, owner, session_id, [Event(**TURN)])


def door_to(memory: MemoryService | None, **more: Any) -> Door:
    """A door to a memory, with a token of the app hotel."""
    bearer, tokens = known()
    return Door(create_app(memory, tokens=tokens, **more), bearer)


def bearing(bearer: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {bearer}"}


def known(**bound: Any) -> tuple[str, Tokens]:
    """A token, and a source that knows it."""
    bearer, token = mint(**{"app": "hotel", **bound})
    return bearer, Tokens([token])


def refused(answer: httpx.Response) -> tuple[int, str]:
    """Status and code of an error that repeats nothing of what was sent."""
    assert SECRET not in answer.text
    assert "Traceback" not in answer.text
    return error_of(answer)


def error_of(answer: httpx.Response) -> tuple[int, str]:
    """Status and code of an error, which is checked to be made as all errors are."""
    told = answer.json()
    assert set(told) == {"error"}
    assert set(told["error"]) == {"code", "message", "request_id"}
    assert answer.headers["content-type"] == "application/json"
    return answer.status_code, told["error"]["code"]


SERVER = """
import json, logging, sys
from vecall import MemoryService
from vecall.server import HttpLimits, TokenFile, create_app
from vecall.server.run import Binding, serve

path, tokens, limits = sys.argv[1:]
logging.basicConfig(level=logging.DEBUG, filename=path + ".log")
limits = HttpLimits(**json.loads(limits))
with MemoryService(path, embedder=None) as memory:
    app = create_app(memory, tokens=TokenFile(tokens), limits=limits)
    serve(app, Binding(port=0), limits, lambda url: print(url, flush=True))
"""


class Server(NamedTuple):
    """A server in a process of its own."""

    url: str
    bearer: str
    path: Any

    @property
    def log(self) -> str:
        """What it logged so far, at its loudest."""
        return self.path.with_name("memory.db.log").read_text()

    @property
    def address(self) -> tuple[str, int]:
        url = httpx.URL(self.url)
        assert url.port is not None
        return url.host, url.port

    def client(self) -> httpx.Client:
        return httpx.Client(
            base_url=self.url, headers=bearing(self.bearer), timeout=20.0
        )

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=20.0)

    def head(self, method: str, path: str, *lines: str) -> bytes:
        """The beginning of a request as it goes over the wire."""
        host, port = self.address
        first = f"{method} {path} HTTP/1.1", f"Host: {host}:{port}"
        token = f"Authorization: Bearer {self.bearer}"
        return "\r\n".join([*first, token, *lines, "", ""]).encode()


@contextmanager
def running(folder: Any, **limits: Any) -> Iterator[Server]:
    """A server on a new file, with a token for alice of the app hotel."""
    tokens = folder / "tokens"
    bearer, token = mint(app="hotel", user="alice")
    TokenFile(tokens).change(lambda _: [token])
    path = folder / "memory.db"
    with child(
        SERVER, path, tokens, json.dumps(limits), imports="vecall.server"
    ) as process:
        yield Server(said(process), bearer, path)


COMMAND = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may ignore it
from vecall.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
OPTIONS = (
    "--port 0 --writes-per-second 10000 --reads-per-second 10000 "
    "--body-bytes-per-second 1000000000"
)


def vecall_process(*arguments: object) -> AbstractContextManager[Process]:
    """The command `vecall` with these arguments, in a process of its own."""
    return child(COMMAND, *arguments, imports="vecall.server vecall.cli.main")


@contextmanager
def serving(
    folder: Any, *more: Any, **bound: Any
) -> Iterator[tuple[Server, subprocess.Popen[str]]]:
    """`vecall serve` on a new file, and its process; the token is alice's."""
    path = folder / "memory.db"
    bearer, token = mint(**(bound or {"app": "hotel", "user": "alice"}))
    TokenFile(f"{path}.tokens").change(lambda tokens: [*tokens, token])
    arguments = ["serve", "--path", path, *OPTIONS.split(), *more]
    if "--embedder" not in more:
        arguments += ["--embedder", "none"]
    with vecall_process(*arguments) as process:
        yield Server(said(process).removeprefix("serving "), bearer, path), process


def all_of(connection: socket.socket) -> bytes:
    """What comes until the other side ends the connection."""
    pieces = []
    try:
        while piece := connection.recv(65_536):
            pieces.append(piece)
    except ConnectionResetError:
        pass
    return b"".join(pieces)
