"""How long is a search through the MCP server, over stdio and over HTTP?

    python -m bench.service.mcp_round_trip [--memories 1000] [--runs 200]

Needs vecall[mcp,server] and httpx. The client sends raw messages, so the times have no
cost of a client of the SDK. "ping" is a call that touches no memory, in the same run:
what is above it is the search. "direct" is the same search in this process.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vecall import MemoryService

from bench.common import arguments

WHO = {"app_name": "bench", "user_id": "me"}
PROGRAM = [sys.executable, "-m", "vecall.cli.main"]
ACCEPT = {"Accept": "application/json, text/event-stream"}
Ask = Callable[[str, dict[str, Any]], dict[str, Any]]


def message(number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return a request of the protocol."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


@contextmanager
def over_stdio(path: Path) -> Iterator[Ask]:
    """A server on the standard input and output."""
    command = [*PROGRAM, "mcp", "--path", str(path), "--embedder", "none"]
    command += ["--app", WHO["app_name"], "--user", WHO["user_id"]]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
            line = json.dumps(message(1, method, params)).encode()
            process.stdin.write(line + b"\n")
            process.stdin.flush()
            return dict(json.loads(process.stdout.readline()))

        about = {"name": "bench", "version": "1"}
        ask(
            "initialize",
            {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": about},
        )
        process.stdin.write(
            b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n'
        )
        try:
            yield ask
        finally:
            process.stdin.close()
            process.wait(20)


@contextmanager
def over_http(path: Path) -> Iterator[Ask]:
    """`vecall serve --mcp` with one token, and one connection to it."""
    import httpx
    from vecall.server import TokenFile, mint

    bearer, token = mint(app=WHO["app_name"], user=WHO["user_id"])
    TokenFile(Path(f"{path}.tokens")).change(lambda tokens: [*tokens, token])
    command = [*PROGRAM, "serve", "--path", str(path), "--port", "0", "--mcp"]
    with subprocess.Popen(
        [*command, "--embedder", "none"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # a line for each request
        text=True,
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip().removeprefix("serving ")
        headers = {"Authorization": f"Bearer {bearer}", **ACCEPT}
        with httpx.Client(base_url=url, headers=headers, timeout=20.0) as client:

            def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
                answer = client.post("/mcp", json=message(1, method, params))
                answer.raise_for_status()
                return dict(answer.json())

            try:
                yield ask
            finally:
                process.terminate()
                process.wait(20)


def times_ms(call: Callable[[int], Any], runs: int) -> list[float]:
    """Return the times of calls, after ten that are not measured."""
    found = []
    for number in range(runs + 10):
        begin = time.perf_counter()
        call(number)
        found.append(1e3 * (time.perf_counter() - begin))
    return sorted(found[10:])


def show(name: str, times: list[float]) -> None:
    """Print the median and the 99th percentile."""
    high = times[int(0.99 * (len(times) - 1))]
    print(f"{name:16}{statistics.median(times):10.2f} ms p50{high:10.2f} ms p99")


def main() -> None:
    """Print the times of each way."""
    parser = arguments.parser(__doc__)
    parser.add_argument("--memories", type=int, default=1_000)
    parser.add_argument("--runs", type=int, default=200)
    options = parser.parse_args()
    print(f"{options.memories:,} memories, words, load {os.getloadavg()[0]:.1f}")

    def query(number: int) -> str:
        return f"what is the colour of project{number % options.memories}"

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.db"
        with MemoryService(path, embedder=None) as memory:
            for at in range(0, options.memories, 500):
                some = range(at, min(at + 500, options.memories))
                texts = [f"The colour of project{n} is shade {7 * n}." for n in some]
                memory.sync.add_memory(**WHO, memories=texts)
            search = memory.sync.search_memory
            ways = times_ms(lambda n: search(**WHO, query=query(n)), options.runs)
            show("direct", ways)
        for name, opened in (("stdio", over_stdio), ("HTTP", over_http)):
            with opened(path) as ask:

                def asked(number: int, ask: Ask = ask) -> None:
                    given = {"query": query(number)}
                    params = {"name": "search_memory", "arguments": given}
                    answer = ask("tools/call", params)
                    assert not answer["result"].get("isError"), answer

                show(f"{name}, search", times_ms(asked, options.runs))
                ping = times_ms(lambda _, ask=ask: ask("ping", {}), options.runs)
                show(f"{name}, ping", ping)


if __name__ == "__main__":
    main()
