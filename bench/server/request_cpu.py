"""CPU time that the HTTP and MCP server takes for a request, and for the search alone.

    python -m bench.server.request_cpu [--rows 1000] [--requests 2000] [--rounds 5]

Needs vecall[mcp,server]. One client keeps one connection. The CPU time is that of the
server's threads, user and system, by Linux. The figures are the median of the rounds
and the fastest, which load of the machine touches less; more so of many short rounds.
"The app" is the ASGI app in this process, without sockets, HTTP and the log. Another
build is measured if its folder is the first of PYTHONPATH.
"""

from __future__ import annotations

import asyncio
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

import vecall
from vecall.server import HttpLimits, Tokens, create_app, mint

from bench.common import arguments

ME = {"app_name": "app", "user_id": "alice"}
COMMAND = [sys.executable, "-m", "vecall.cli.main"]
HOST = "127.0.0.1"
HEADERS = {
    "accept": "application/json, text/event-stream",
    "content-type": "application/json",
}
Asked = tuple[str, str, bytes]
QUERY = "Which parrot sings in the garden?"


def fill(path: Path, rows: int) -> None:
    """Store some sentences of one user."""
    with vecall.MemoryService(path, embedder=None) as service:
        texts = [f"Parrot number {n} sings in garden {n % 97}." for n in range(rows)]
        service.sync.add_memory(**ME, memories=texts)


def search_alone(path: Path, count: int) -> float:
    """Return the CPU seconds of one search in this process."""
    with vecall.MemoryService(path, embedder=None) as service:
        search = service.sync.search_memory
        for _ in range(20):
            search(**ME, query=QUERY, top_k=5)
        begun = time.process_time()
        for _ in range(count):
            search(**ME, query=QUERY, top_k=5)
        return (time.process_time() - begun) / count


async def app_alone(
    path: Path, kinds: dict[str, Asked], count: int
) -> dict[str, float]:
    """Return the CPU seconds of a request of each kind, without a server."""
    from vecall.mcp import asgi_app

    bearer, token = mint(app="app", user="alice")
    tokens, limits = Tokens([token]), HttpLimits(reads_per_second=1_000_000)
    taken = {}
    with vecall.MemoryService(path, embedder=None) as service:
        beside = create_app(service, tokens=tokens, limits=limits)
        app = asgi_app(service, tokens=tokens, limits=limits, beside=beside)
        for name, (method, where, body) in kinds.items():
            headers = {**HEADERS, "authorization": f"Bearer {bearer}", "host": HOST}
            headers["content-length"] = str(len(body))
            scope = {
                "type": "http",
                "http_version": "1.1",
                "scheme": "http",
                "server": ("127.0.0.1", 80),
                "method": method,
                "path": where,
                "raw_path": where.encode(),
                "query_string": b"",
                "headers": [(k.encode(), v.encode()) for k, v in headers.items()],
            }

            bodies: list[bytes] = []

            async def receive(bodies: list[bytes] = bodies) -> dict[str, object]:
                if not bodies:
                    await asyncio.Event().wait()  # the client stays
                return {"type": "http.request", "body": bodies.pop()}

            async def send(message: dict[str, object]) -> None:
                assert message.get("status", 200) == 200, message

            for number in range(count + 50):
                if number == 50:
                    begun = time.process_time()
                bodies[:] = [body]
                await app({**scope, "state": {}}, receive, send)
                await asyncio.sleep(0)
            taken[name] = (time.process_time() - begun) / count
    return taken


class Client:
    """One connection that is kept."""

    def __init__(self, url: str, token: str) -> None:
        self._token = token
        address = urlsplit(url)
        self._host = address.netloc
        self._socket = socket.create_connection((address.hostname, address.port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {self._host}\r\n"
            f"Authorization: Bearer {self._token}\r\n"
            "Accept: application/json, text/event-stream\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._socket.sendall(head.encode() + body)
        status = self._file.readline().split()[1]
        length = 0
        while (line := self._file.readline()) != b"\r\n":
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        answer = self._file.read(length)
        if status != b"200":
            msg = f"{path}: {status.decode()} {answer[:200].decode()}"
            raise SystemExit(msg)
        return answer


def message(method: str, params: dict[str, object]) -> bytes:
    """Return a request of the Model Context Protocol."""
    fields = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return json.dumps(fields).encode()


def cpu_of(process: int) -> float:
    """Return the CPU seconds of another process."""
    tasks = Path(f"/proc/{process}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--requests", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.db"
        fill(path, given.rows)
        make = [*COMMAND, "token", "create", "--path", str(path)]
        make += ["--app", "app", "--user", "alice"]
        token = subprocess.run(make, capture_output=True, text=True, check=True).stdout
        serve = [*COMMAND, "serve", "--path", str(path)]
        serve += ["--port", "0", "--embedder", "none", "--mcp"]
        serve += ["--reads-per-second", "1000000"]
        server = subprocess.Popen(
            serve, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            assert server.stdout is not None
            url = next(
                word
                for line in server.stdout
                for word in line.split()
                if word.startswith("http")
            )
            client = Client(url, token.split()[0])
            body = json.dumps({"query": QUERY, "k": 5}).encode()
            place = "/apps/app/users/alice/memories/search"
            tool = {"name": "search_memory", "arguments": {"query": QUERY, "limit": 5}}
            kinds = {
                "healthz": ("GET", "/healthz", b""),
                "search": ("POST", place, body),
                "MCP search": ("POST", "/mcp", message("tools/call", tool)),
                "MCP ping": ("POST", "/mcp", message("ping", {})),
            }
            rounds: dict[str, list[float]] = {name: [] for name in kinds}
            for request in kinds.values():
                for _ in range(50):
                    client.request(*request)
            for _ in range(given.rounds):
                for name, request in kinds.items():
                    begun = cpu_of(server.pid)
                    for _ in range(given.requests):
                        client.request(*request)
                    taken = cpu_of(server.pid) - begun
                    rounds[name].append(taken / given.requests)
        finally:
            server.terminate()
            server.wait(30)
        apps = [
            asyncio.run(app_alone(path, kinds, given.requests))
            for _ in range(given.rounds)
        ]
        alone = [search_alone(path, given.requests) for _ in range(given.rounds)]
    for name in kinds:
        rounds[f"{name}, app"] = [each[name] for each in apps]
    for name, seconds in {**rounds, "search in process": alone}.items():
        middle, least = statistics.median(seconds) * 1e6, min(seconds) * 1e6
        print(f"{name:<17}{middle:6.0f} us of CPU, fastest {least:.0f}")


if __name__ == "__main__":
    main()
