"""A normal client of `vecall serve` beside many that send or read a byte a second.

    python -m bench.server.slow_clients [--slow 500] [--rounds 3] [--seconds 6]

Slow clients send their headers or their bodies, or read an export, a byte a second; a
client whose connection is closed reconnects after a second. They run in a process of
their own. The normal client searches 1,000 memories up to 100 times a second, on one
persistent connection, and on a new one each time. Rounds without and with the slow
clients alternate; a cell is the median of the rounds.
"""

from __future__ import annotations

import argparse
import http.client
import json
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from vecall import MemoryService
from vecall.server import TokenFile, mint

from bench.common import arguments

USER = "/apps/app/users/user"
PAUSE_S = 0.01
SETTLED_S = 4
KINDS = {"headers": 0, "bodies": 1, "answers": 2}
SERVE = "import sys; from vecall.cli.main import main; sys.exit(main(sys.argv[1:]))"


class Server(NamedTuple):
    """Where it is, and what opens it."""

    port: int
    bearer: str

    def headers(self) -> dict[str, str]:
        token = f"Bearer {self.bearer}"
        return {"Authorization": token, "Content-Type": "application/json"}

    def head(self, first: str, *lines: str) -> bytes:
        told = [f"{name}: {value}" for name, value in self.headers().items()]
        host = f"Host: 127.0.0.1:{self.port}"
        return "\r\n".join([f"{first} HTTP/1.1", host, *told, *lines]).encode()


@contextmanager
def served(connections: int) -> Iterator[Server]:
    """`vecall serve` on a file with 1,000 memories."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.db"
        with MemoryService(path, embedder=None) as memory:
            texts = [
                f"guest {n} likes room {n * 7 % 501}, and tea" for n in range(1000)
            ]
            memory.sync.add_memory(app_name="app", user_id="user", memories=texts)
        bearer, token = mint(app="app", user="user")
        TokenFile(f"{path}.tokens").change(lambda _: [token])
        arguments = ["serve", "--path", str(path), "--port", "0"]
        arguments += ["--reads-per-second", "100000"]
        arguments += ["--max-connections", str(connections)]
        process = subprocess.Popen(
            [sys.executable, "-c", SERVE, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline().rpartition(":")[2])
            yield Server(port, bearer)
        finally:
            process.terminate()
            process.communicate()


class Slow:
    """One slow client."""

    def __init__(self, server: Server, kind: int) -> None:
        self.server = server
        self.reads = kind == 2
        heads = [
            server.head(f"POST {USER}/memories/search", f"X-Filler: {'x' * 9_999}"),
            server.head(f"POST {USER}/memories/search", "Content-Length: 9999\r\n\r\n"),
            server.head(f"GET {USER}/export", "\r\n"),
        ]
        filler = len(heads[0]) - 9_999 if kind == 0 else len(heads[kind])
        self.at_once = heads[kind][:filler]
        self.socket: socket.socket | None = None

    def step(self) -> str:
        """A byte more; what became of it."""
        try:
            if self.socket is None:
                self._connect()
                return "came"
            if self._ended():
                raise ConnectionResetError
            if not self.reads:
                self.socket.send(b" ")
        except OSError:
            if self.socket is not None:
                self.socket.close()
            self.socket = None
            return "let go"
        return "open"

    def _connect(self) -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        self.socket.settimeout(0.2)
        self.socket.connect(("127.0.0.1", self.server.port))
        self.socket.sendall(self.at_once)
        self.socket.setblocking(False)

    def _ended(self) -> bool:
        assert self.socket is not None
        try:
            return not self.socket.recv(1)
        except BlockingIOError:
            return False


def be_slow(server: Server, kinds: list[int], count: int) -> None:
    """Step every client once a second; say how they fare until nobody listens."""
    clients = [Slow(server, kinds[n % len(kinds)]) for n in range(count)]
    stdin = selectors.DefaultSelector()
    stdin.register(sys.stdin, selectors.EVENT_READ)
    let_go, second = 0, 0
    while not stdin.select(0):
        begin = time.monotonic()
        for number, client in enumerate(clients):
            let_go += client.step() == "let go"
            behind = begin + number / count - time.monotonic()
            if behind > 0:
                time.sleep(behind)
        second += 1
        is_open = sum(client.socket is not None for client in clients)
        print(json.dumps({"s": second, "open": is_open, "let_go": let_go}), flush=True)


@contextmanager
def slow_ones(
    server: Server, kinds: list[int], count: int
) -> Iterator[list[dict[str, int]]]:
    """There for some seconds when the block begins; filled at its end."""
    told: list[dict[str, int]] = []
    task = json.dumps([*server, kinds, count])
    command = [sys.executable, "-m", "bench.server.slow_clients", "--as-slow", task]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for _ in range(SETTLED_S):
        process.stdout.readline()
    yield told
    output, _ = process.communicate("done\n")
    told += [json.loads(line) for line in output.splitlines()]


def good(server: Server, seconds: float, *, keep: bool) -> tuple[list[float], int]:
    """Milliseconds of each search, and how many failed."""
    took, failed = [], 0
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    end = time.monotonic() + seconds
    number = 0
    while time.monotonic() < end:
        number += 1
        body = json.dumps({"query": f"who likes room {number % 501}?"})
        begin = time.perf_counter()
        try:
            connection.request(
                "POST", f"{USER}/memories/search", body, server.headers()
            )
            answer = connection.getresponse()
            found = json.loads(answer.read())
            if answer.status != 200 or len(found["memories"]) != 5:
                failed += 1
        except (OSError, http.client.HTTPException):
            failed += 1
            connection.close()
        took.append(1000 * (time.perf_counter() - begin))
        if not keep:
            connection.close()
        time.sleep(PAUSE_S)
    connection.close()
    return took, failed


def cells(rounds: list[tuple[list[float], int]]) -> tuple[float, float, int, int]:
    """Medians over rounds of p50 and p99; failures and requests of all."""
    p50 = statistics.median(statistics.median(took) for took, _ in rounds)
    p99 = statistics.median(sorted(took)[int(0.99 * len(took))] for took, _ in rounds)
    return p50, p99, sum(failed for _, failed in rounds), sum(len(t) for t, _ in rounds)


def measure(options: argparse.Namespace, names: str, connections: int) -> None:
    """Print the two rows for one kind of slow clients and one number of places."""
    kinds = [KINDS[name] for name in names.split("+")]
    results: dict[tuple[bool, bool], list[Any]] = {}
    fares = []
    with served(connections) as server:
        good(server, 1.0, keep=True)
        for _ in range(options.rounds):
            for keep in (True, False):
                quiet = good(server, options.seconds, keep=keep)
                results.setdefault((keep, False), []).append(quiet)
            with slow_ones(server, kinds, options.slow) as told:
                for keep in (True, False):
                    beside = good(server, options.seconds, keep=keep)
                    results.setdefault((keep, True), []).append(beside)
            fares += told
    for keep in (True, False):
        alone, beside = cells(results[keep, False]), cells(results[keep, True])
        name = "kept" if keep else "new each time"
        print(
            f"| {names} | {connections} | {name} | {alone[0]:.2f} / {alone[1]:.2f} "
            f"| {beside[0]:.2f} / {beside[1]:.2f} | {beside[1] / alone[1]:.2f} "
            f"| {alone[2]} of {alone[3]} | {beside[2]} of {beside[3]} |",
            flush=True,
        )
    least = min(told["open"] for told in fares)
    gone = max(told["let_go"] for told in fares)
    print(f"(slow clients open: at least {least}; let go in a round: {gone})")


def main() -> None:
    options = arguments.parser(__doc__)
    options.add_argument("--slow", type=int, default=500)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--seconds", type=float, default=6.0)
    options.add_argument("--connections", type=int, nargs="+", default=[256, 1024])
    options.add_argument("--kinds", nargs="+", default=["headers+bodies", "answers"])
    options.add_argument("--as-slow", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.as_slow:
        port, bearer, kinds, count = json.loads(given.as_slow)
        be_slow(Server(port, bearer), kinds, count)
        return
    print(f"{given.slow} slow clients; milliseconds, p50 / p99")
    print("| slow | places | connection | alone | beside | p99 | failed | beside |")
    print("|---|---|---|---|---|---|---|---|")
    for names in given.kinds:
        for connections in given.connections:
            measure(given, names, connections)


if __name__ == "__main__":
    main()
