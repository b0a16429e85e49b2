"""Deleted is gone: from answers at once, from the file after a purge."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from helpers.campaigns import SCALE
from helpers.embedders import Recorder
from helpers.processes import child, run, said, tell
from vecall import Filter, InvalidArgumentError, MemoryEntry, MemoryService
from vecall.store import examine

APPS = ["app", "app/x", "APP"]
USERS = ["alice", "x/alice", "Alice"]
SESSIONS = ["s", "t", None]
AUTHORS = ["user", "agent"]
KINDS = ["fact", "note", None]

# Which of the words (as JSON) the bytes of a folder's files hold, and their sizes.
SEARCHER = """
import json, pathlib, sys
words = json.loads(sys.stdin.read())
found = set()
for file in pathlib.Path(sys.argv[1]).rglob("*"):
    if file.is_file():
        data = file.read_bytes()
        found |= {word for word in words if word.encode() in data}
print(json.dumps(sorted(found)))
"""


def seen_in(folder: Path, words: Sequence[str]) -> list[str]:
    """The words that some file of a folder holds, read by another process."""
    done = run(SEARCHER, folder, stdin=json.dumps(list(words)))
    return [str(word) for word in json.loads(done.stdout)]


def scope(app: str, user: str) -> dict[str, str]:
    return {"app_name": app, "user_id": user}


ALICE = scope("app", "alice")


def texts(service: MemoryService, query: str, **who: str) -> list[str]:
    found = service.sync.search_memory(**(who or ALICE), query=query, top_k=1000)
    return sorted(memory.text for memory in found.memories)


Held = dict[tuple[str, str], dict[str, MemoryEntry]]


def filled(service: MemoryService, seed: int) -> Held:
    """Users whose names look alike, with memories of all kinds."""
    rng = random.Random(seed)
    held: Held = {}
    for app in APPS:
        for user in USERS:
            told = [
                MemoryEntry(
                    f"zebra {app} {user} {i}",
                    id=f"m{i}",
                    session_id=rng.choice(SESSIONS),
                    author=rng.choice(AUTHORS),
                    kind=rng.choice(KINDS),
                    timestamp=float(rng.randint(0, 20)),
                )
                for i in range(rng.randint(3, 15))
            ]
            service.sync.add_memory(**scope(app, user), memories=told)
            held[app, user] = {entry.id or "": entry for entry in told}
    return held


def agrees(service: MemoryService, held: Held) -> None:
    for (app, user), entries in held.items():
        expected = sorted(str(entry.content) for entry in entries.values())
        assert texts(service, "zebra", **scope(app, user)) == expected
    assert service.sync.admin.stats()["memories"] == sum(map(len, held.values()))


def lets_through(asked: Filter, entry: MemoryEntry) -> bool:
    time_ = entry.timestamp
    assert isinstance(time_, float)
    return (
        asked.session_id in (None, entry.session_id)
        and asked.author in (None, entry.author)
        and asked.kind in (None, entry.kind)
        and (asked.after is None or time_ >= float(str(asked.after)))
        and (asked.before is None or time_ < float(str(asked.before)))
    )


@pytest.mark.parametrize("file", [None, "m.db"])
def test_a_filter_deletes_what_a_dict_says(open_service, tmp_path, file):
    """delete_session and delete_where, and what is deleted stays deleted."""
    path = None if file is None else tmp_path / file
    service = open_service(path, durability="process")
    held = filled(service, 1)
    rng = random.Random(2)
    for round_ in range(60):
        pair = rng.choice(sorted(held))
        asked: dict[str, Any] = {
            "session_id": rng.choice(["s", "t", "nowhere"]),
            "author": rng.choice(AUTHORS),
            "kind": rng.choice(["fact", "note", "episode"]),
            "after": float(rng.randint(0, 20)),
            "before": float(rng.randint(0, 20)),
        }
        kept = rng.sample(sorted(asked), rng.randint(1, 3))
        filter_ = Filter(**{name: asked[name] for name in kept})
        gone = {i for i, e in held[pair].items() if lets_through(filter_, e)}
        if kept == ["session_id"]:
            count = service.sync.delete_session(
                **scope(*pair), session_id=asked["session_id"]
            )
        else:
            count = service.sync.delete_where(**scope(*pair), filter=filter_)
        assert count == len(gone), filter_
        buried = {id_: held[pair].pop(id_) for id_ in gone}
        agrees(service, held)
        told = list(buried.values())
        who = {**scope(*pair), "memories": told}
        assert not any(service.sync.add_memory(**who, restore=False))
        if round_ % 3 == 0 and told:
            assert set(service.sync.add_memory(**who, restore=True)) == gone
            held[pair].update(buried)
        agrees(service, held)
    assert any(held.values())


def test_a_filter_without_a_condition_deletes_nothing(open_service):
    """Bug class 37: no call deletes more than it names."""
    service = open_service()
    service.sync.add_memory(**ALICE, memories=["zebra"])
    with pytest.raises(InvalidArgumentError, match="delete_user"):
        service.sync.delete_where(**ALICE, filter=Filter())
    for wrong in (None, {}, "s", {"session": "s"}, {"session_id": None}):
        with pytest.raises(InvalidArgumentError):
            service.sync.delete_where(**ALICE, filter=wrong)
    assert texts(service, "zebra") == ["zebra"]


def test_a_user_and_an_app_are_deleted_and_nobody_else(open_service, tmp_path):
    """Guarantee 5, bug classes 36 and 37: names that look alike."""
    service = open_service(tmp_path / "m.db", durability="process")
    held = filled(service, 3)
    for confirm in (False, None, 1, "yes"):
        with pytest.raises(InvalidArgumentError, match="confirm"):
            service.sync.admin.delete_app(app_name="app", confirm=confirm)
    agrees(service, held)
    for forget in (False, True):
        pair = ("app/x", ["alice", "x/alice"][forget])
        count = service.sync.delete_user(**scope(*pair), forget=forget)
        assert count == len(held[pair])
        held[pair] = {}
        agrees(service, held)
        assert service.sync.delete_user(**scope(*pair), forget=forget) == 0
    for app, forget in (("app", False), ("APP", True)):
        count = service.sync.admin.delete_app(app_name=app, confirm=True, forget=forget)
        assert count == sum(len(held[app, user]) for user in USERS)
        held.update({(app, user): {} for user in USERS})
        agrees(service, held)
    assert service.sync.admin.delete_app(app_name="nobody's", confirm=True) == 0


def test_a_deleted_session_is_not_brought_back_by_telling_it_again(open_service):
    events = [{"id": f"e{i}", "role": "user", "text": f"zebra {i}"} for i in range(4)]
    told = {**ALICE, "id": "trip", "events": events}
    service = open_service()
    service.sync.add_session_to_memory(told)
    assert service.sync.delete_session(**ALICE, session_id="trip") == 4
    assert service.sync.add_session_to_memory(told).stored == []
    events.append({"id": "e4", "author": "user", "text": "zebra 4"})
    assert len(service.sync.add_session_to_memory(told).stored) == 1
    assert texts(service, "zebra") == ["zebra 4"]
    assert len(service.sync.add_session_to_memory(told, restore=True)) == 5
    assert len(texts(service, "zebra")) == 5


def test_a_forgotten_user_starts_afresh_under_a_new_number(open_service, tmp_path):
    """Guarantee 5: who had the user loaded sees neither old nor other memories."""
    path = tmp_path / "m.db"
    first, second = open_service(path), open_service(path)
    carol = scope("app", "carol")
    first.sync.add_memory(**ALICE, memories=[f"zebra old{i}" for i in range(20)])
    for round_ in range(8):
        for service in (first, second):
            texts(service, "zebra")
            texts(service, "zebra", **carol)
        first.sync.delete_user(**ALICE, forget=True)
        assert texts(second, "zebra") == []
        # The next partition that is made must not take the number of the last one.
        first.sync.add_memory(**carol, memories=[f"zebra carol{round_}"])
        assert texts(second, "zebra") == []
        (id_,) = first.sync.add_memory(**ALICE, memories=[f"zebra new{round_}"])
        for service in (second, first):
            assert texts(service, "zebra") == [f"zebra new{round_}"]
            assert texts(service, "zebra", **carol) == [f"zebra carol{round_}"]
            assert service.sync.get_memory(**ALICE, memory_id=id_).text.endswith(
                f"new{round_}"
            )
        second.sync.delete_user(**carol, forget=True)
    assert first.sync.admin.stats()["users"] == 1
    assert first.sync.admin.stats()["deleted_ids"] == 0


async def delete(service: MemoryService, ids: Sequence[str]) -> None:
    """All at once, so that they share a few transactions."""
    works = [service.delete_memory(**ALICE, memory_id=id_) for id_ in ids]
    await asyncio.gather(*works)


SEARCHING = """
import sys, vecall
service = vecall.MemoryService(sys.argv[1], embedder=None)
scope = dict(app_name="app", user_id="alice")
print(len(service.sync.search_memory(**scope, query="zebra", top_k=1000).memories),
      flush=True)
for line in sys.stdin:
    found = service.sync.search_memory(**scope, query="zebra", top_k=1000).memories
    print(len(found), flush=True)
"""


def test_nothing_deleted_is_in_any_file_after_a_purge(open_service, tmp_path):
    """Guarantee 8, pain 13: with another process that has the file open."""
    folder = tmp_path / "data"
    folder.mkdir()
    path = folder / "m.db"
    service = open_service(path, embedder=Recorder(6), durability="process")
    secret = [f"secret{i:04d}x" for i in range(700)]
    kept = [f"kept{i:04d}x" for i in range(10)]
    service.sync.add_memory(
        **ALICE,
        memories=[MemoryEntry(f"zebra {w}", id=w[:10]) for w in [*secret, *kept]],
    )
    versions = [f"version{i:04d}x" for i in range(6)]
    for word in versions:
        for id_ in ("changed", "kept0000x"[:10]):
            entry = MemoryEntry(
                {
                    "parts": [
                        {"text": "zebra"},
                        {"text": word if id_[0] == "c" else id_},
                    ]
                },
                id=id_,
                custom_metadata={"note": f"meta{word}" if id_[0] == "c" else word[:7]},
            )
            service.sync.add_memory(**ALICE, memories=[entry])
    gone = scope("app", "forgotten-person")
    service.sync.add_memory(**gone, memories=["zebra hidden9999x"])
    events = [{"id": "e", "author": "author7777x", "text": "zebra turn7777x"}]
    service.sync.add_session_to_memory({**ALICE, "id": "sess7777x", "events": events})
    words = [*secret, *versions, "hidden9999x", "forgotten-person"]
    words += ["author7777x", "turn7777x", "sess7777x"]
    with child(SEARCHING, path) as other:
        assert int(said(other)) > 700
        asyncio.run(delete(service, [word[:10] for word in secret]))
        service.sync.delete_memory(**ALICE, memory_id="changed")
        service.sync.delete_user(**gone, forget=True)
        service.sync.delete_session(**ALICE, session_id="sess7777x")
        assert seen_in(folder, words), "the search finds nothing at all"
        service.sync.admin.purge()
        ids = {word[:10] for word in secret}  # tombstones keep the ids, no text
        assert set(seen_in(folder, words)) <= ids
        tell(other, "again")
        assert int(said(other)) == len(texts(service, "zebra"))
    assert len(seen_in(folder, kept)) == len(kept)


def test_forgetting_leaves_neither_name_nor_id(open_service, tmp_path):
    """The right to be forgotten: after the purge not even tombstones are left."""
    folder = tmp_path / "data"
    folder.mkdir()
    service = open_service(folder / "m.db")
    app, users = "application0001x", ["someone0001x", "someone0002x"]
    for user in users:
        who = scope(app, user)
        entry = MemoryEntry("zebra", id=f"id-{user}", session_id=f"session-{user}")
        service.sync.add_memory(**who, memories=[entry], idempotency_key=f"key-{user}")
        service.sync.add_memory(**who, memories=["okapi"])
        service.sync.delete_memory(**who, memory_id=f"id-{user}")
    service.sync.delete_user(**scope(app, users[0]), forget=True)
    service.sync.admin.purge()
    assert seen_in(folder, [*users, app]) == [app, users[1]]
    service.sync.admin.delete_app(app_name=app, confirm=True, forget=True)
    service.sync.admin.purge()
    assert seen_in(folder, [users[1], app]) == []
    assert service.sync.admin.stats()["users"] == 0


def test_a_purge_that_is_the_first_write_leaves_no_app_without_users(
    open_service, tmp_path
):
    """What a file counts of an app goes when its last user does, under its name."""
    folder = tmp_path / "data"
    folder.mkdir()
    service = open_service(folder / "m.db")
    gone = scope("application0002x", "someone0003x")
    service.sync.add_memory(**gone, memories=["zebra"])
    service.sync.delete_user(**gone)
    service.close()
    service = open_service(folder / "m.db")
    service.sync.admin.purge()
    assert seen_in(folder, list(gone.values())) == []
    service.close()
    assert [each for each in examine(folder / "m.db") if each.level == "error"] == []


def test_a_purge_gives_the_disk_back(open_service, tmp_path):
    """At most 1.3 times a file that never had what was deleted."""
    rng = random.Random(5)
    filling = [rng.randbytes(300).hex() for _ in range(5000)]

    kept = sorted(rng.sample(range(5000), 500))
    stays = set(kept)

    def entries(numbers: Sequence[int]) -> list[MemoryEntry]:
        return [
            MemoryEntry(
                f"zebra{i} {filling[i]}",
                id=f"m{i}",
                session_id="stays" if i in stays else "gone",
            )
            for i in numbers
        ]

    def size(service: MemoryService) -> int:
        stats = service.sync.admin.stats()
        return int(stats["file_bytes"] + stats["wal_bytes"])

    def tell_all(service: MemoryService, numbers: Sequence[int]) -> None:
        for at in range(0, len(numbers), 500):
            some = entries(numbers[at : at + 500])
            service.sync.add_memory(**ALICE, memories=some)

    service = open_service(tmp_path / "m.db", durability="process")
    tell_all(service, range(5000))
    before = size(service)
    assert service.sync.delete_session(**ALICE, session_id="gone") == 4500
    freed = service.sync.admin.purge()
    fresh = open_service(tmp_path / "fresh.db", durability="process")
    tell_all(fresh, kept)
    fresh.close()
    lean = (tmp_path / "fresh.db").stat().st_size
    assert size(service) <= 1.3 * lean
    assert freed >= before - 2 * lean, "it says what it freed"
    assert len(texts(service, "zebra17")) == (17 in kept)
    assert service.sync.admin.stats()["memories"] == 500


@pytest.mark.campaign
def test_writes_and_searches_go_on_during_purges(open_service, tmp_path):
    path = tmp_path / "m.db"
    service, second = open_service(path), open_service(path)
    base = [f"zebra base{i}" for i in range(50)]
    service.sync.add_memory(**ALICE, memories=base)
    over = threading.Event()
    errors: list[BaseException] = []
    added: list[str] = []

    def guarded(work: Any) -> threading.Thread:
        def run() -> None:
            try:
                while not over.is_set():
                    work()
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def write() -> None:
        text = f"zebra added{len(added)}"
        (id_,) = second.sync.add_memory(**ALICE, memories=[text])
        if len(added) % 3 == 0:
            second.sync.delete_memory(**ALICE, memory_id=id_)
            text = ""
        added.append(text)

    def search() -> None:
        known = [text for text in added if text]
        found = set(texts(service, "zebra"))
        assert found >= {*base, *known}

    with ExitStack() as stack:
        stack.callback(over.set)
        threads = [guarded(write), guarded(search)]
        end = time.monotonic() + (2.0 if SCALE >= 1 else 0.8)
        purges = 0
        # A busy machine may take its time for three purges beside all this.
        while not errors and (time.monotonic() < end or purges < 3):
            service.sync.admin.purge()
            purges += 1
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert errors == []
    assert purges > 2
    assert set(texts(second, "zebra")) == {*base, *added} - {""}
