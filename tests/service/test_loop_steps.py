"""No public call takes the event loop for long, however much it gets or finds."""

from __future__ import annotations

import asyncio
import gc
import inspect
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.campaigns import scaled
from vecall import (
    Drop,
    Filter,
    FunctionEmbedder,
    Items,
    LlmSummaryProvider,
    MemoryAdmin,
    MemoryService,
    Put,
    Ranking,
    StorageOptions,
)

pytestmark = [pytest.mark.campaign, pytest.mark.xdist_group("timing")]

N = scaled(20_000, least=1_000)  # memories, and half as many items
STEP_S = 0.010  # asked of 20,000
BOUND_S = max(STEP_S * N / 20_000, 0.006)  # what does not grow with them is below
TURNS = 100_000
TURNS_S = 0.005  # so many turns of a loop, about, where the bounds were set


def seconds_of_turns() -> float:
    begin = time.thread_time()
    total = 0
    for number in range(TURNS):
        total += number * number & 7
    return time.thread_time() - begin


def takes_too_long(step: float) -> bool:
    """Whether a step is above its bound, which is higher on a slower processor."""
    if step <= BOUND_S:
        return False
    slower = max(1.0, min(seconds_of_turns() for _ in range(5)) / TURNS_S)
    return step > slower * BOUND_S


U = {"app_name": "app", "user_id": "u"}
DIM = 16

Call = Callable[[], Awaitable[Any]]


def embed(texts: list[str]) -> list[list[float]]:
    return [[1.0 + len(text) % 7, *[0.5] * (DIM - 1)] for text in texts]


def calls(service: MemoryService, folder: Path) -> dict[str, list[Call]]:
    """Of each public coroutine the calls with much to do, in an order that works."""
    half, many = N // 2, min(N // 2, 10_000)
    facts = [
        {
            "id": f"f{i}",
            "content": f"fact {i} about topic {i % 97} and some more words",
            "kind": "fact",
            "custom_metadata": {"n": i % 10},
        }
        for i in range(half)
    ]
    turns = [
        {
            "id": f"e{i}",
            "content": f"turn {i} about topic {i % 97}",
            "author": "user",
            "timestamp": 1.7e9 + i,
        }
        for i in range(half)
    ]
    ids = [f"f{i}" for i in range(many)]
    by_number = {"metadata": {"n": {"$gte": 0}}}
    items, admin = service.items, service.admin
    puts = [
        Put(("n", str(i % 100)), f"k{i}", {"i": i}, [1.0, i % 9]) for i in range(many)
    ]
    places = [(put.namespace, put.key) for put in puts]

    def told(name: str) -> dict[str, Any]:
        return {**U, "id": name, "events": turns}

    def search(**more: Any) -> Call:
        return lambda: service.search_memory(**U, query="topic words", **more)

    async def confirm() -> None:
        found = await service.propose_forget(**U, query="topic 7", top_k=1000)
        await service.confirm_forget(**U, token=found.token, ids=None)

    return {
        "add_memory": [lambda: service.add_memory(**U, memories=facts)],
        "add_events_to_memory": [
            lambda: service.add_events_to_memory(**U, session_id="s", events=turns),
            lambda: service.add_events_to_memory(**U, session_id="s", events=turns),
        ],
        "search_memory": [
            search(),
            search(top_k=1000, explain=True),
            search(top_k=1000, offset=half),
            search(filter=by_number, top_k=1000),
            search(ranking=Ranking(fusion="rrf", depth=1000)),
            search(ranking=Ranking(collapse=0.9, depth=1000)),
        ],
        "explain_memory": [
            lambda: service.explain_memory(
                **U, query="topic words", memory_id="f1", filter=by_number
            )
        ],
        "get_memory": [lambda: service.get_memory(**U, memory_id="f1")],
        "get_memories": [lambda: service.get_memories(**U, memory_ids=ids)],
        "touch_memories": [
            lambda: service.touch_memories(**U, memory_ids=ids, ttl=1e9)
        ],
        "mark_used": [lambda: service.mark_used(**U, memory_ids=ids)],
        "expand_session": [
            lambda: service.expand_session(
                **U, memory_id="f1", turns_before=100, turns_after=100
            )
        ],
        "list_memories": [
            lambda: service.list_memories(**U, limit=1000),
            lambda: service.list_memories(**U, limit=1000, filter=by_number),
        ],
        "count_memories": [lambda: service.count_memories(**U, filter=by_number)],
        "memory_figures": [lambda: service.memory_figures(**U)],
        "list_sessions": [lambda: service.list_sessions(**U, limit=1000)],
        "update_memory": [
            lambda: service.update_memory(**U, memory_id="f5", content="changed")
        ],
        "memory_history": [lambda: service.memory_history(**U, memory_id="f5")],
        "archive_memory": [lambda: service.archive_memory(**U, memory_id="f6")],
        "restore_memory": [lambda: service.restore_memory(**U, memory_id="f6")],
        "propose_forget": [
            lambda: service.propose_forget(**U, query="topic 7", top_k=1000)
        ],
        "confirm_forget": [confirm],
        "observe_session": [lambda: service.observe_session(told("o"))],
        "end_session": [lambda: service.end_session(**U, session_id="o")],
        "add_session_to_memory": [lambda: service.add_session_to_memory(told("p"))],
        "write": [
            lambda: items.write(puts, **U),
            lambda: items.write([Drop(*place) for place in places[::2]], **U),
        ],
        "get": [lambda: items.get(places, **U, refresh=True)],
        "find": [
            lambda: items.find(("n",), **U, vector=[1.0, 2.0], limit=many),
            lambda: items.find(("n",), **U, where={"i": {"$gt": 3}}, limit=many),
            lambda: items.find(("n",), **U, limit=many, refresh=True),
        ],
        "find_all": [lambda: items.find_all(("n",), **U)],
        "namespaces": [lambda: items.namespaces(**U)],
        "count": [lambda: items.count((), **U, where={"i": 4})],
        "sweep": [lambda: items.sweep(**U)],
        "delete": [lambda: items.delete((), **U)],
        "stats": [admin.stats],
        "list_apps": [lambda: admin.list_apps(limit=1000)],
        "list_users": [lambda: admin.list_users(app_name="app", limit=1000)],
        "run_due": [admin.run_due],
        "warm": [lambda: admin.warm(**U)],
        "export_jsonl": [lambda: admin.export_jsonl(folder / "x.jsonl")],
        "import_jsonl": [lambda: admin.import_jsonl(folder / "x.jsonl")],
        "backup": [lambda: admin.backup(folder / "b.db")],
        "purge": [admin.purge],
        "reembed": [
            lambda: admin.reembed(FunctionEmbedder(embed, model_id="y", dimensions=DIM))
        ],
        "conflicts": [lambda: service.conflicts(**U)],
        "consolidate": [
            lambda: service.consolidate(**U, dry_run=True, similarity=0.999),
            lambda: service.consolidate(**U, older_than=10.0),
        ],
        "delete_memories": [lambda: service.delete_memories(**U, memory_ids=ids)],
        "delete_memory": [lambda: service.delete_memory(**U, memory_id="f1")],
        "delete_where": [lambda: service.delete_where(**U, filter=Filter(kind="fact"))],
        "delete_session": [lambda: service.delete_session(**U, session_id="s")],
        "delete_user": [lambda: service.delete_user(**U)],
        "delete_app": [lambda: admin.delete_app(app_name="app", confirm=True)],
    }


LEFT_OUT = {
    "aclose": "ends the service",
    "release_memory": "as restore_memory: one memory",
}


def opened(folder: Path) -> MemoryService:
    return MemoryService(
        folder / "m.db",
        embedder=FunctionEmbedder(embed, model_id="x", dimensions=DIM),
        summarizer=LlmSummaryProvider(lambda _: "summary"),
        storage=StorageOptions(durability="process", maintenance_interval=None),
    )


def test_every_public_coroutine_is_called(tmp_path):
    with opened(tmp_path) as service:
        known = {*calls(service, tmp_path), *LEFT_OUT}
    public = {
        name
        for kind in (MemoryService, Items, MemoryAdmin)
        for name, _ in inspect.getmembers(kind, inspect.iscoroutinefunction)
        if not name.startswith("_")
    }
    assert known == public


class Steps:
    """Measures the steps of event loops, in seconds of their threads.

    Time on the wall would count what the machine gives to others.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.longest = 0.0
        run = asyncio.events.Handle._run

        def measured(handle: asyncio.events.Handle) -> None:
            begin = time.thread_time()
            try:
                run(handle)
            finally:
                self.longest = max(self.longest, time.thread_time() - begin)

        monkeypatch.setattr(asyncio.events.Handle, "_run", measured)

    async def of(self, call: Call) -> float:
        """The longest step while a call runs; the garbage collector waits."""
        gc.collect()
        gc.disable()
        try:
            await asyncio.sleep(0)
            self.longest = 0.0
            await call()
            await asyncio.sleep(0)
            return self.longest
        finally:
            gc.enable()


def test_no_call_takes_the_loop_for_long(tmp_path, monkeypatch):
    """Of a call that takes too long twice, the third run decides."""
    steps = Steps(monkeypatch)
    slow: dict[str, float] = {}

    async def run(number: int, only: set[str] | None) -> None:
        folder = tmp_path / str(number)
        folder.mkdir()
        with opened(folder) as service:
            for name, made in calls(service, folder).items():
                for at, call in enumerate(made):
                    each = f"{name} {at}"
                    took = await steps.of(call)
                    if (only is None or each in only) and takes_too_long(took):
                        slow[each] = min(took, slow.get(each, took))
                    else:
                        slow.pop(each, None)

    only: set[str] | None = None
    for number in range(3):
        asyncio.run(run(number, only))
        if not slow:
            return
        only = set(slow)
    listed = {name: f"{1000 * took:.1f} ms" for name, took in slow.items()}
    bound = f"{1000 * BOUND_S:.0f} ms of a fast processor"
    pytest.fail(f"steps above {bound}: {listed}")
