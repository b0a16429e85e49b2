"""One user's searches while another user's token sends large bodies.

    python -m bench.server.noisy_neighbour [--bodies 250] [--connections 64]
        [--unlimited]

Each kind of request is sent `--bodies` times by a process of its own, over up to
`--connections` connections at once, to `vecall serve` on the loopback address. At the
same time a client searches 1,000 memories 50 times a second. Printed are the
milliseconds of these searches, the 99th percentile of the three idle seconds before,
the answers, and the growth in MB of the server's peak resident memory. `--unlimited`
lifts the budgets of requests and bytes a second, so that every body is read. An import
is no request: `vecall import` is a command.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from vecall import MemoryService
from vecall.server import TokenFile, mint

from bench.common import arguments

SIZE = 4 * 1024 * 1024
GOOD, NOISY = "/apps/app/users/good", "/apps/app/users/noisy"
SEARCH, ADD = f"{NOISY}/memories/search", f"{NOISY}/memories"
SESSION = f"{NOISY}/sessions/s"
OWN = 5_000  # memories of the noisy user before
PAUSE_S = 0.02
QUIET_S = 3.0
SERVE = "import sys; from vecall.cli.main import main; sys.exit(main(sys.argv[1:]))"
UNLIMITED = [
    *("--body-bytes-per-second", "1000000000"),
    *("--writes-per-second", "10000", "--reads-per-second", "10000"),
]


def lists(before: bytes, after: bytes) -> bytes:
    room = SIZE - len(before) - len(after) - 4
    return before + b"[" + b"[]," * (room // 3) + b"[]" + after


class Kind(NamedTuple):
    """A kind of request; `body` is sent as it is."""

    writes: bool
    path: str
    body: bytes = b""
    method: str = "POST"


def texts() -> list[str]:
    """256 texts of 16,000 characters."""
    return [f"{n} " + "tea and bread " * 1_140 for n in range(256)]


def turns(first: int = 0) -> bytes:
    """What fits every rule: 256 turns of 16,000 characters."""
    told = [
        {"id": f"e{first + n}", "author": "user", "timestamp": 1e9 + n, "content": text}
        for n, text in enumerate(texts())
    ]
    return json.dumps({"events": told}).encode()


def described() -> bytes:
    """What fits every rule: 256 memories with 15 kB of metadata each."""
    meta = {f"k{n}": "v" * 90 for n in range(150)}
    told = [{"content": f"tea {n}", "custom_metadata": meta} for n in range(256)]
    return json.dumps({"memories": told}).encode()


def bodies() -> dict[str, Kind]:
    """Each kind by its name."""
    names = b",".join(b'"%07x":1' % n for n in range(SIZE // 12 - 100))
    escaped = b"\\u0441" * (SIZE // 6 - 100)
    words = " ".join(f"w{n}" for n in range(30_000))
    asked = {"metadata": {f"k{n}": {"$in": ["v" * 99] * 60} for n in range(16)}}
    labels = {name: ["x" * 99] * 60 for name in ("author", "kind", "trust", "source")}

    def dumped(**body: object) -> bytes:
        return json.dumps(body).encode()

    return {
        "search, lists": Kind(False, SEARCH, lists(b'{"query":', b"]}")),
        "search, fields": Kind(False, SEARCH, b"{" + names + b"}"),
        "search, long": Kind(False, SEARCH, dumped(query=words, k=1_000)),
        "search, filter": Kind(
            False, SEARCH, dumped(query="tea", k=1_000, filter={**asked, **labels})
        ),
        "search, k": Kind(False, SEARCH, dumped(query="tea", k=1_000, explain=True)),
        "list": Kind(False, f"{ADD}?limit=1000", method="GET"),
        "export": Kind(False, f"{NOISY}/export", method="GET"),
        "add, lists": Kind(True, ADD, lists(b'{"memories":', b"]}")),
        "add, fields": Kind(True, ADD, b'{"memories":[{' + names + b"}]}"),
        "add, one text": Kind(True, ADD, dumped(memories=["a" * (SIZE - 99)])),
        "add, escapes": Kind(True, ADD, b'{"memories":["' + escaped + b'"]}'),
        "add, 256 texts": Kind(True, ADD, dumped(memories=texts())),
        "add, metadata": Kind(True, ADD, described()),
        "events": Kind(True, f"{NOISY}/events", turns()),
        "observe": Kind(True, f"{SESSION}/observe", turns()),
        "end": Kind(True, f"{SESSION}/end", turns()),
        "used": Kind(
            True, f"{ADD}/used", dumped(ids=["x" * 500 + str(n) for n in range(256)])
        ),
        "delete, filter": Kind(True, f"{ADD}/delete", dumped(filter=labels)),
        "consolidate": Kind(True, f"{NOISY}/consolidate", dumped(dry_run=False)),
    }


class Server(NamedTuple):
    """A server, and who may ask it."""

    process: int
    port: int
    good: str
    reader: str
    writer: str

    def peak(self) -> float:
        """MB of resident memory at most so far."""
        for line in Path(f"/proc/{self.process}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1024
        raise OSError(self.process)


@contextmanager
def served(options: list[str]) -> Iterator[Server]:
    """`vecall serve` on a file with 1,000 memories."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.db"
        with MemoryService(path, embedder=None) as memory:
            facts = [f"Fact {n}: tea number {n % 37} is green." for n in range(1_000)]
            memory.sync.add_memory(app_name="app", user_id="good", memories=facts)
            own = [f"Own fact {n}: bread number {n % 37}." for n in range(OWN)]
            memory.sync.add_memory(app_name="app", user_id="noisy", memories=own)
        made = [
            mint(app="app", user="good"),
            mint(app="app", user="noisy", read_only=True),
            mint(app="app", user="noisy"),
        ]
        TokenFile(f"{path}.tokens").change(lambda _: [token for _, token in made])
        command = [sys.executable, "-c", SERVE, "serve", "--port", "0"]
        process = subprocess.Popen(
            [*command, "--path", str(path), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline().rsplit(":", 1)[1])
            yield Server(process.pid, port, *(bearer for bearer, _ in made))
        finally:
            process.terminate()
            process.wait(30)


def ask(
    port: int, path: str, bearer: str, body: bytes, method: str = "POST"
) -> tuple[str, float]:
    """The answer's status, or the error's name, and the seconds that it took."""
    begin = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Authorization": f"Bearer {bearer}", "Content-Type": "application/json"}
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        answer.read()
        status = str(answer.status)
    except (OSError, http.client.HTTPException) as error:
        status = type(error).__name__
    finally:
        connection.close()
    return status, time.perf_counter() - begin


def searches(server: Server, ended: threading.Event) -> list[float]:
    """Milliseconds of each search until the end."""
    body = json.dumps({"query": "tea number 7", "k": 5}).encode()
    spent = []
    while not ended.is_set():
        status, seconds = ask(server.port, f"{GOOD}/memories/search", server.good, body)
        spent.append(1000 * seconds if status == "200" else 60_000.0)
        time.sleep(PAUSE_S)
    return spent


def send(port: int, bearer: str, kind: str, count: int, connections: int) -> None:
    """Send the bodies and print the statuses; runs in a process of its own."""
    _, path, body, method = bodies()[kind]
    with ThreadPoolExecutor(connections) as pool:
        answers = pool.map(
            lambda _: ask(port, path, bearer, body, method)[0], range(count)
        )
        print(json.dumps(Counter(answers)))


def quiet(server: Server) -> list[float]:
    """Milliseconds of searches while nobody else asks."""
    ended = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(searches, server, ended)
        time.sleep(QUIET_S)
        ended.set()
        return sorted(found.result())


def late(spent: list[float]) -> float:
    """The 99th percentile of sorted numbers."""
    return spent[min(len(spent) - 1, int(0.99 * len(spent)))]


def measured(server: Server, kind: str, count: int, connections: int) -> str:
    """A line of the table."""
    idle = quiet(server)
    before, ended = server.peak(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(searches, server, ended)
        begin = time.perf_counter()
        bearer = server.writer if bodies()[kind].writes else server.reader
        sender = [
            sys.executable,
            "-m",
            "bench.server.noisy_neighbour",
            "--sends",
            kind,
            "--bearer",
            bearer,
        ]
        sizes = ["--bodies", str(count), "--connections", str(connections)]
        more = [*sizes, "--port", str(server.port)]
        done = subprocess.run(
            [*sender, *more], stdout=subprocess.PIPE, check=True, text=True
        )
        told = json.loads(done.stdout)
        answers = ", ".join(f"{told[key]} x {key}" for key in sorted(told))
        seconds = time.perf_counter() - begin
        ended.set()
        spent = sorted(found.result())
    middle = statistics.median(spent)
    return (
        f"| {kind} | {late(idle):.1f} | {len(spent)} | {middle:.1f} | "
        f"{late(spent):.1f} | {spent[-1]:.1f} | {server.peak() - before:.0f} | "
        f"{answers} | {seconds:.1f} |"
    )


def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("--bodies", type=int, default=250)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--unlimited", action="store_true")
    parser.add_argument("--kinds", nargs="*", default=list(bodies()))
    parser.add_argument("--sends", help=argparse.SUPPRESS)
    parser.add_argument("--bearer", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.sends:
        send(given.port, given.bearer, given.sends, given.bodies, given.connections)
        return
    head = (
        "sent | idle p99 ms | searches | p50 | p99 | longest | peak + MB | answers | s"
    )
    print(f"| {head} |")
    print("|---" * 9 + "|")
    for kind in given.kinds:
        # A server of its own: the peak of one kind would hide that of the next.
        with served(UNLIMITED if given.unlimited else []) as server:
            print(measured(server, kind, given.bodies, given.connections), flush=True)


if __name__ == "__main__":
    main()
