"""One user's calls beside another user's dearest ones.

    python -m bench.server.tenants [--seconds 3] [--connections 4] [--patterns ...]

A token of another user sends one pattern over some connections at once, from a process
of its own, to `vecall serve` on the loopback address. At the same time a client
searches, counts, lists and adds, one call after another. Printed are the 99th
percentiles of these calls in milliseconds, alone and beside the pattern, the answers to
the pattern, and "over" where a call takes more than twice its time alone and 20 ms. The
limits on requests a second are lifted.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from bench.common import arguments
from bench.server.noisy_neighbour import (
    ADD,
    GOOD,
    NOISY,
    SEARCH,
    UNLIMITED,
    Server,
    ask,
    late,
    served,
)

Request = tuple[str, str, dict[str, Any] | None]

TEXT = 30_000  # characters of a query or a text
LEAST, FACTOR = 20.0, 2.0  # ms, and times alone: what a call may take beside others
CALLS: dict[str, Request] = {
    "search": ("POST", f"{GOOD}/memories/search", {"query": "tea number 7", "k": 5}),
    "count": ("POST", f"{GOOD}/memories/count", {}),
    "list": ("GET", f"{GOOD}/memories?limit=20", None),
    "add": ("POST", f"{GOOD}/memories", {"memories": ["tea is green"]}),
}


def filters() -> dict[str, Any]:
    """Conditions that every row is compared with."""
    deep: dict[str, Any] = {"a.b": -1}
    for _ in range(29):
        deep = {"$or": [deep, {"a.b": -2}]}
    return {
        "$nin": {
            "$and": [
                {"a": {"$nin": list(range(64 * k, 64 * k + 64))}} for k in range(20)
            ]
        },
        "nested": deep,
        "wide": {"$or": [{"$or": [{"a": {"$gt": 9}}] * 60} for _ in range(12)]},
    }


def texts() -> dict[str, str]:
    """Texts that are dear to read."""
    return {
        "words": " ".join(f"w{n}q" for n in range(TEXT // 6)),
        "one word": "a" * TEXT,
        "CJK": "".join(chr(0x4E00 + n % 20_000) for n in range(TEXT)),
        "marks": "a" + "\u0301" * TEXT,
        "Tibetan": "\u0f73" * TEXT,
        "emoji": "\U0001f469\u200d" * (TEXT // 2),
        "reminders": "<system-reminder>" * (TEXT // 17),
        "dates": "2024-01-01T" * (TEXT // 11),
    }


def patterns() -> dict[str, Request]:
    """What the other user sends, by name."""
    made: dict[str, Request] = {
        "search, k=1000": (
            "POST",
            SEARCH,
            {"query": "bread number 7", "k": 1000, "explain": True},
        ),
        "list, 1000": ("GET", f"{ADD}?limit=1000", None),
        "export": ("GET", f"{NOISY}/export", None),
        "consolidate": ("POST", f"{NOISY}/consolidate", {"dry_run": True}),
        "add, 256": ("POST", ADD, {"memories": [f"bread {n}" for n in range(256)]}),
    }
    for name, wanted in filters().items():
        body = {"filter": {"metadata": wanted}}
        made[f"count, {name}"] = ("POST", f"{ADD}/count", body)
        made[f"list, {name}"] = ("POST", f"{ADD}/list", body)
        made[f"search, {name}"] = ("POST", SEARCH, {"query": "bread", **body})
        made[f"delete, {name}"] = ("POST", f"{ADD}/delete", body)
    for name, text in texts().items():
        made[f"search, {name}"] = ("POST", SEARCH, {"query": text})
        made[f"add, {name}"] = ("POST", ADD, {"memories": [{"content": text}]})
    return made


def sent(port: int, bearer: str, request: Request) -> tuple[str, float]:
    method, path, body = request
    data = b"" if body is None else json.dumps(body).encode()
    return ask(port, path, bearer, data, method)


def attack(port: int, bearer: str, pattern: str, connections: int) -> None:
    """Send a pattern until the input ends; runs in a process of its own."""
    ended, answers = threading.Event(), Counter[str]()
    method, path, body = patterns()[pattern]
    data = b"" if body is None else json.dumps(body).encode()

    def again(_: int) -> None:
        while not ended.is_set():
            answers[ask(port, path, bearer, data, method)[0]] += 1

    with ThreadPoolExecutor(connections) as pool:
        running = pool.map(again, range(connections))
        sys.stdin.read()
        ended.set()
        list(running)
    print(json.dumps(answers))


def spent(server: Server, seconds: float) -> dict[str, float]:
    """The 99th percentile of each call, in milliseconds, over some seconds."""
    found: dict[str, list[float]] = {name: [] for name in CALLS}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, request in CALLS.items():
            status, took = sent(server.port, server.good, request)
            found[name].append(1000 * took if status[0] == "2" else 60_000.0)
            time.sleep(0.002)
    return {name: late(sorted(each)) for name, each in found.items()}


def beside(
    server: Server, pattern: str, connections: int, work: Callable[[], Any]
) -> tuple[Any, Counter[str]]:
    """Return what `work` returns while a pattern is sent, and the pattern's answers."""
    command = [sys.executable, "-m", "bench.server.tenants", "--sends", pattern]
    more = ["--port", str(server.port), "--bearer", server.writer]
    process = subprocess.Popen(
        [*command, *more, "--connections", str(connections)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    time.sleep(1.0)  # until it has begun
    result = work()
    told, _ = process.communicate("")
    return result, Counter(json.loads(told))


def describe(server: Server) -> None:
    """Give the other user's memories metadata."""
    for start in range(0, 5_000, 250):
        body = {
            "memories": [
                {"content": f"bread {n}", "custom_metadata": {"a": n, "b": {"c": n}}}
                for n in range(start, start + 250)
            ]
        }
        sent(server.port, server.writer, ("POST", ADD, body))


def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--patterns", nargs="*", default=list(patterns()))
    parser.add_argument("--sends", help=argparse.SUPPRESS)
    parser.add_argument("--bearer", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.sends:
        attack(given.port, given.bearer, given.sends, given.connections)
        return
    print(f"| beside | {' | '.join(f'{name} p99 ms' for name in CALLS)} | answers | |")
    print("|---" * (len(CALLS) + 3) + "|")
    with served(UNLIMITED) as server:
        describe(server)
        work = partial(spent, server, given.seconds)
        work()
        alone = work()
        print(f"| nobody | {' | '.join(f'{alone[name]:.1f}' for name in CALLS)} | | |")
        for pattern in given.patterns:
            found, answers = beside(server, pattern, given.connections, work)
            over = [n for n in CALLS if found[n] > FACTOR * alone[n] + LEAST]
            shown = " | ".join(f"{found[name]:.1f}" for name in CALLS)
            told = ", ".join(f"{answers[key]} x {key}" for key in sorted(answers))
            mark = f"over: {', '.join(over)}" if over else ""
            print(f"| {pattern} | {shown} | {told} | {mark} |", flush=True)


if __name__ == "__main__":
    main()
