"""The cost of a delete, and the cost of a quota for every add."""

from __future__ import annotations

import itertools
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from vecall import MemoryService, Quota, StorageOptions, WritePolicy
from vecall.errors import LimitExceededError
from vecall.types import Filter

from bench.service.lifecycle_data import (
    APP,
    entries,
    fill,
    head,
    made_up_embedder,
    median,
    opened,
    row,
)
from bench.service.lifecycle_data import texts as made_up

MEMORIES = 10_000  # of a user of whom some are deleted
GONE = 1_000
ROUNDS = 5
USERS = 1_000
OF_EACH = 20
IDLE = StorageOptions(durability="process", maintenance_interval=None)
SIZES = (1_000, 10_000, 100_000)
POLICIES = ("oldest", "lru", "lowest_value")
MARK = "zebra"  # a word that those have which are forgotten by a search


def deletes() -> None:
    """Print what it costs to delete."""
    head(
        "durability",
        f"{GONE:,} of {MEMORIES:,}, by",
        "a commit, ms",
        "deleted in, ms",
        "less a commit",
        "worst",
    )
    for durability in ("full", "process"):
        with tempfile.TemporaryDirectory() as folder:
            storage = StorageOptions(durability=durability, maintenance_interval=None)
            path = Path(folder) / "m.db"
            with opened(path, embedder=made_up_embedder(), storage=storage) as memory:
                _deletes(memory, durability)
    _deleted_user()


def _deletes(memory: MemoryService, durability: str) -> None:
    ways: dict[str, Callable[[str], int]] = {
        "delete_where": lambda user: memory.sync.delete_where(
            app_name=APP, user_id=user, filter=Filter(kind="gone")
        ),
        "delete_session": lambda user: memory.sync.delete_session(
            app_name=APP, user_id=user, session_id="gone"
        ),
        "confirm_forget": lambda user: memory.sync.confirm_forget(
            app_name=APP, user_id=user, token=tokens[user]
        ),
    }
    tokens: dict[str, str] = {}
    for way, delete in ways.items():
        commits, took = [], []
        for turn in range(ROUNDS):
            user = f"{way} {turn}"
            kept = made_up(MEMORIES - GONE, turn)
            gone = [f"{MARK} {text}" for text in made_up(GONE, turn + ROUNDS)]
            fill(memory, user, entries(kept, "kept"))
            fill(memory, user, entries(gone, "gone", kind="gone", session_id="gone"))
            proposed = memory.sync.propose_forget(
                app_name=APP, user_id=user, query=MARK, top_k=GONE
            )
            assert len(proposed.memories) == GONE
            tokens[user] = proposed.token
            for number in range(10):
                begin = time.perf_counter()
                memory.sync.add_memory(
                    app_name=APP, user_id=user, memories=[f"one more, {number}"]
                )
                commits.append(1e3 * (time.perf_counter() - begin))
            begin = time.perf_counter()
            count = delete(user)
            took.append(1e3 * (time.perf_counter() - begin))
            assert count == GONE, count
        commit, whole = median(commits), median(took)
        row(
            durability,
            way,
            f"{commit:.2f}",
            f"{whole:.1f}",
            f"{whole - commit:.1f}",
            f"{max(took):.1f}",
        )


def _deleted_user() -> None:
    """One user among many goes; what is left of the others is compared."""
    with (
        tempfile.TemporaryDirectory() as folder,
        opened(Path(folder) / "m.db", embedder=made_up_embedder()) as memory,
    ):
        for number in range(USERS):
            fill(memory, f"user {number}", made_up(OF_EACH, number))
        took = []
        for turn in range(ROUNDS):
            user, forget = f"user {turn * 97}", turn % 2 == 0
            before = _exported(memory, Path(folder))
            begin = time.perf_counter()
            gone = memory.sync.delete_user(app_name=APP, user_id=user, forget=forget)
            took.append(1e3 * (time.perf_counter() - begin))
            after = _exported(memory, Path(folder))
            assert gone == OF_EACH, gone
            assert len(before.pop(user)) > OF_EACH
            after.pop(user, None)
            assert before == after, "a user's export has changed"
    print(
        f"\none of {USERS:,} users of {OF_EACH} deleted {ROUNDS} times: "
        f"{median(took):.2f} ms ({max(took):.2f} at worst); the exports of the other "
        f"{USERS - 1:,}, {sum(map(len, after.values())):,} lines, are byte-identical"
    )


def _exported(memory: MemoryService, folder: Path) -> dict[str, list[bytes]]:
    """The lines of an export by user."""
    path = folder / "export.jsonl"
    path.unlink(missing_ok=True)
    memory.sync.admin.export_jsonl(path, vectors=True)
    lines: dict[str, list[bytes]] = {}
    user = ""
    for line in path.read_bytes().splitlines()[1:]:
        if line.startswith(b'{"part"'):  # what follows is this user's
            user = json.loads(line)["part"]["user"]
        lines.setdefault(user, []).append(line)
    return lines


def limits() -> None:
    """Print what an add costs a user who has as much as is allowed."""
    head("memories", "no limit, ms", *(f"{name}, ms" for name in _services(0)))
    for size in SIZES:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            with opened(folder / "full.db", storage=IDLE) as memory:
                fill(memory, "alice", entries(made_up(size, 1), "m"))
            _limits(folder, size)


def _services(size: int) -> dict[str, Quota]:
    room = {"reject": Quota(memories=size + 1_000)}
    at = {name: Quota(memories=max(size, 1), eviction=name) for name in POLICIES}
    return {
        "limit not reached": room["reject"],
        "reject": Quota(memories=max(size, 1)),
        **at,
    }


def _limits(folder: Path, size: int) -> None:
    """The services take turns, each with a copy of one file."""
    memories, times = {}, {}
    for number, (name, quota) in enumerate({"": Quota(), **_services(size)}.items()):
        path = folder / f"{number}.db"
        shutil.copy(folder / "full.db", path)
        memories[name] = opened(path, writes=WritePolicy(quota=quota), storage=IDLE)
        times[name] = []
    for text in itertools.islice(made_up(100, 2), 5 if size > 50_000 else 50):
        for name, memory in memories.items():
            begin = time.perf_counter()
            try:
                memory.sync.add_memory(app_name=APP, user_id="alice", memories=[text])
            except LimitExceededError:
                assert name == "reject"
            times[name].append(1e3 * (time.perf_counter() - begin))
    base = median(times.pop(""))
    for memory in memories.values():
        memory.close()
    cells = [f"{median(t):.2f} ({median(t) / base:.1f} x)" for t in times.values()]
    row(f"{size:,}", f"{base:.2f}", *cells)
