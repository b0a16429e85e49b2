"""A file is moved to another embedding model while it is in use."""

from __future__ import annotations

import sqlite3
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.embedders import Recorder
from helpers.memories import ALICE, BOB
from helpers.processes import child, said, tell
from helpers.snapshots import until
from vecall import (
    ClosedError,
    EmbedderError,
    EmbeddingMismatchError,
    MemoryEntry,
    MemoryService,
)

WAIT_S = 20.0
ROWS = 200  # a few batches
QUERIES = ["zebra 7", "okapi 13", "zebra"]


class Named(Recorder):
    """An embedder whose vectors depend on its name, too."""

    def vector(self, text: str) -> np.ndarray:
        return super().vector(f"{self.model_id} {text}")


class Gated(Named):
    """Embeds a first part, and the rest when it is let go; queries always."""

    def __init__(self, dimensions: int, model_id: str, first: int) -> None:
        super().__init__(dimensions, model_id)
        self.first = first
        self.reached = threading.Event()
        self.go_on = threading.Event()

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        if len(self.asked) >= self.first and len(texts) > 1:
            self.reached.set()
            assert self.go_on.wait(WAIT_S), "nobody let the embedder go"
        return super().embed(texts)


class Failing(Named):
    """Fails after so many texts."""

    def __init__(self, dimensions: int, model_id: str, most: int) -> None:
        super().__init__(dimensions, model_id)
        self.most = most

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        if len(self.asked) + len(texts) > self.most:
            msg = "secret zebra"
            raise RuntimeError(msg)
        return super().embed(texts)


OLD = Named(7, "old")
NEW = Named(5, "new")


def told(*numbers: int, word: str = "zebra") -> list[MemoryEntry]:
    """Memories of one moment: of equal ones the newer would rank higher."""
    return [
        MemoryEntry(f"{word if i % 2 else 'okapi'} {i}", id=f"m{i}", timestamp=1.0)
        for i in numbers
    ]


def answers(service: MemoryService, **who: str) -> list[Any]:
    found = []
    for query in QUERIES:
        memories = service.sync.search_memory(
            **(who or ALICE), query=query, top_k=20
        ).memories
        found.append([(m.id, m.text, m.score, m.similarity) for m in memories])
    return found


def made(open_service: Callable[..., MemoryService], path: Path, embedder: Any) -> Any:
    service = open_service(path, embedder=embedder, durability="process")
    service.sync.add_memory(**ALICE, memories=told(*range(ROWS)))
    service.sync.add_memory(**BOB, memories=told(*range(3)))
    return service


def assert_like_fresh(
    open_service: Callable[..., MemoryService],
    service: MemoryService,
    tmp_path: Path,
    entries: list[MemoryEntry],
    embedder: Recorder = NEW,
) -> None:
    """The answers are those of a file that never had another model."""
    fresh = open_service(tmp_path / "fresh.db", embedder=embedder, durability="process")
    fresh.sync.add_memory(**ALICE, memories=entries)
    assert answers(service) == answers(fresh)
    assert service.sync.admin.stats()["model"] == embedder.model_id


@pytest.mark.parametrize("dimensions", [5, 7], ids=["other dims", "same dims"])
def test_a_moved_file_answers_as_one_that_was_made_so(
    open_service, tmp_path, dimensions
):
    """Bug class 12, also where the length of the vectors would not tell."""
    new = Named(dimensions, "new")
    service = made(open_service, tmp_path / "m.db", OLD)
    before = answers(service)
    assert service.sync.admin.reembed(new) == ROWS + 3
    assert sorted(new.asked) == sorted(
        [str(e.content) for e in told(*range(ROWS))]
        + [str(e.content) for e in told(*range(3))]
    )
    assert answers(service) != before
    assert_like_fresh(open_service, service, tmp_path, told(*range(ROWS)), new)
    service.close()
    with closing(sqlite3.connect(tmp_path / "m.db")) as connection:
        lengths = connection.execute(
            "SELECT DISTINCT length(coalesce(next.vec, mem.vec)) FROM mem "
            "LEFT JOIN vec_next AS next ON next.rid = mem.rid"
        ).fetchall()
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert lengths == [(4 * dimensions,)]
    again = open_service(tmp_path / "m.db", embedder=new)
    assert answers(again) == answers(open_service(tmp_path / "fresh.db", embedder=new))


def test_moving_to_the_same_model_does_nothing(open_service, tmp_path):
    service = made(open_service, tmp_path / "m.db", OLD)
    before = answers(service)
    OLD.asked.clear()
    assert service.sync.admin.reembed(OLD) == 0
    assert OLD.asked == []
    assert answers(service) == before


def test_a_file_without_a_model_gets_one(open_service, tmp_path):
    service = made(open_service, tmp_path / "m.db", None)
    service.sync.admin.reembed(NEW)
    assert_like_fresh(open_service, service, tmp_path, told(*range(ROWS)))
    assert service.sync.admin.stats()["embedded"] == ROWS + 3


def test_searches_see_the_old_vectors_and_then_the_new(open_service, tmp_path):
    """Never a mixture: each answer is wholly of one model."""
    service = made(open_service, tmp_path / "m.db", OLD)
    fresh = made(open_service, tmp_path / "fresh.db", NEW)
    old, new = answers(service), answers(fresh)
    gate = Gated(5, "new", first=64)
    over = threading.Event()
    seen: list[list[str]] = [[], []]
    errors: list[BaseException] = []

    def search(of: int) -> None:
        try:
            while not over.is_set():
                for at, query in enumerate(QUERIES):
                    memories = service.sync.search_memory(
                        **ALICE, query=query, top_k=20
                    ).memories
                    got = [(m.id, m.text, m.score, m.similarity) for m in memories]
                    assert got in (old[at], new[at])
                    seen[of].append("old" if got == old[at] else "new")
        except BaseException as error:
            errors.append(error)

    moving = threading.Thread(target=lambda: service.sync.admin.reembed(gate))
    threads = [threading.Thread(target=search, args=(of,)) for of in range(2)]
    for thread in [moving, *threads]:
        thread.start()
    try:
        assert gate.reached.wait(WAIT_S)
        half = len(seen[0])
        end = time.monotonic() + WAIT_S
        while len(seen[0]) < half + 10 and not errors and time.monotonic() < end:
            time.sleep(0.01)
        assert set(seen[0]) | set(seen[1]) == {"old"}
        assert answers(service) == old
        gate.go_on.set()
        moving.join(WAIT_S)
        assert not moving.is_alive()
        assert answers(service) == new
    finally:
        gate.go_on.set()
        over.set()
        for thread in threads:
            thread.join(WAIT_S)
    assert errors == []
    for mine in seen:
        assert mine == sorted(mine, key=["old", "new"].index), "back to the old ones"


def test_what_is_written_meanwhile_is_moved_too(open_service, tmp_path):
    """Adds, changes and deletions, before and behind the place it has come to."""
    service = made(open_service, tmp_path / "m.db", OLD)
    gate = Gated(5, "new", first=64)
    moving = threading.Thread(target=lambda: service.sync.admin.reembed(gate))
    moving.start()
    try:
        assert gate.reached.wait(WAIT_S)
        changed = [2, 70, 150, 199]
        service.sync.add_memory(**ALICE, memories=told(*changed, word="changed"))
        service.sync.add_memory(**ALICE, memories=told(300, 301))
        for i in (4, 90, 198):
            service.sync.delete_memory(**ALICE, memory_id=f"m{i}")
        service.sync.delete_user(**BOB, forget=True)
        found = service.sync.search_memory(**ALICE, query="changed").memories
        assert found[0].text.startswith("changed")
    finally:
        gate.go_on.set()
        moving.join(WAIT_S)
    entries = {f"m{i}": told(i)[0] for i in [*range(ROWS), 300, 301]}
    entries |= {f"m{i}": told(i, word="changed")[0] for i in changed}
    for i in (4, 90, 198):
        del entries[f"m{i}"]
    found = service.sync.search_memory(**ALICE, query="zebra changed okapi", top_k=500)
    got = {memory.id: memory.text for memory in found.memories}
    assert got == {id_: entry.content for id_, entry in entries.items()}
    for id_, entry in entries.items():
        query = str(entry.content)
        best = service.sync.search_memory(**ALICE, query=query, top_k=1000).memories
        similarity = {memory.id: memory.similarity for memory in best}[id_]
        assert similarity == pytest.approx(1.0, abs=1e-5), "the vector of another text"
    assert service.sync.admin.stats()["embedded"] == len(entries)


def test_an_embedder_that_fails_is_tried_again_from_there(open_service, tmp_path):
    """Nothing is embedded, or paid for, twice."""
    service = made(open_service, tmp_path / "m.db", OLD)
    before = answers(service)
    failing = Failing(5, "new", most=130)
    with pytest.raises(EmbedderError) as caught:
        service.sync.admin.reembed(failing)
    assert "zebra" not in str(caught.value)
    assert len(failing.asked) == 128
    assert answers(service) == before
    assert service.sync.admin.stats()["model"] == "old"
    service.sync.add_memory(**ALICE, memories=told(400))
    NEW.asked.clear()
    assert service.sync.admin.reembed(NEW) == ROWS + 3 + 1 - 128
    assert len(NEW.asked) == ROWS + 3 + 1 - 128
    moved = sorted(NEW.asked + failing.asked)
    assert moved.count("zebra 5") == 1
    entries = told(*range(ROWS), 400)
    assert_like_fresh(open_service, service, tmp_path, entries)


def is_closed(service: MemoryService) -> bool:
    try:
        service.sync.count_memories(**ALICE)
    except ClosedError:
        return True
    return False


def test_a_service_closed_in_the_middle_goes_on_when_it_is_reopened(
    open_service, tmp_path, in_time
):
    path = tmp_path / "m.db"
    service = made(open_service, path, OLD)
    before = answers(service)
    gate = Gated(5, "new", first=64)
    moving = threading.Thread(target=lambda: service.sync.admin.reembed(gate))
    moving.start()
    assert gate.reached.wait(WAIT_S)
    closing_ = threading.Thread(target=service.close)
    closing_.start()
    until(lambda: is_closed(service))
    gate.go_on.set()
    closing_.join(WAIT_S)
    moving.join(WAIT_S)
    assert not closing_.is_alive()
    assert not moving.is_alive()
    embedded = len(gate.asked)
    assert 64 <= embedded < ROWS
    with open_service(path, embedder=OLD, durability="process") as again:
        assert answers(again) == before
        NEW.asked.clear()
        assert again.sync.admin.reembed(NEW) == ROWS + 3 - embedded
        assert len(NEW.asked) == ROWS + 3 - embedded
        assert_like_fresh(open_service, again, tmp_path, told(*range(ROWS)))


OTHER = """
import sys, warnings
import numpy as np
from hashlib import blake2b
import vecall
warnings.simplefilter("ignore")

class Old:
    model_id, dimensions = "old", 7
    def embed(self, texts):
        def vector(text):
            digest = blake2b(f"old {text}".encode(), digest_size=8).digest()
            rng = np.random.default_rng(int.from_bytes(digest, "little"))
            return rng.standard_normal(7)
        return np.stack([vector(text) for text in texts])

scope = dict(app_name=sys.argv[2], user_id=sys.argv[3])
service = vecall.MemoryService(sys.argv[1], embedder=Old())
service.sync.search_memory(**scope, query="zebra")
print("ready", flush=True)
for line in sys.stdin:
    verb, text = line.strip().split(" ", 1)
    try:
        if verb == "add":
            service.sync.add_memory(**scope, memories=[text])
            print("added", flush=True)
        else:
            found = service.sync.search_memory(**scope, query=text, top_k=1000)
            print(len([m for m in found.memories if text in m.text]), flush=True)
    except vecall.VecallError as error:
        print(type(error).__name__, flush=True)
"""


def test_another_process_with_the_old_model_adds_nothing_wrong(open_service, tmp_path):
    """Its adds count until the switch, are refused after it; its searches go on."""
    path = tmp_path / "m.db"
    service = made(open_service, path, OLD)
    gate = Gated(5, "new", first=64)
    with child(OTHER, path, *ALICE.values()) as other:
        assert said(other) == "ready"

        def ask(line: str) -> str:
            tell(other, line)
            return said(other)

        moving = threading.Thread(target=lambda: service.sync.admin.reembed(gate))
        moving.start()
        try:
            assert gate.reached.wait(WAIT_S)
            assert ask("add zebra meanwhile") == "added"
            assert ask("search meanwhile") == "1"
        finally:
            gate.go_on.set()
            moving.join(WAIT_S)
        assert ask("add zebra later") == "EmbeddingMismatchError"
        assert ask("search meanwhile") == "1"
        assert ask("search zebra") == str(ROWS // 2 + 1)
        service.sync.add_memory(**ALICE, memories=["zebra tapir"])
        assert ask("search tapir") == "1"
        found = service.sync.search_memory(**ALICE, query="zebra meanwhile", top_k=1)
        assert found.memories[0].similarity == pytest.approx(1.0, abs=1e-5)
        assert service.sync.admin.stats()["memories"] == ROWS + 3 + 2


def test_the_old_model_is_refused_afterwards(open_service, tmp_path):
    """S4.65: naming both; and a service without a model still finds words."""
    path = tmp_path / "m.db"
    service = made(open_service, path, OLD)
    service.sync.admin.reembed(NEW)
    service.close()
    with pytest.raises(EmbeddingMismatchError, match=r"new \(5.*old \(7"):
        open_service(path, embedder=OLD)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        words = open_service(path)
    assert answers(words)[0][0][1] == "zebra 7"
    back = Named(7, "old")
    assert words.sync.admin.reembed(back) == ROWS + 3
    words.close()
    again = open_service(path, embedder=back, durability="process")
    assert answers(again) == answers(made(open_service, tmp_path / "never.db", OLD))


def test_forgetting_users_does_not_stop_the_embedding_of_others(open_service, tmp_path):
    """A user may go while old rows are given their vectors in the background."""
    path = tmp_path / "m.db"
    with open_service(path) as service:
        for user in range(4):
            who = {"app_name": "app", "user_id": f"user{user}"}
            service.sync.add_memory(**who, memories=["zebra one", "zebra two"])
    entered, go_on = threading.Event(), threading.Event()

    class Slow(Recorder):
        def embed(self, texts: Sequence[str]) -> np.ndarray:
            entered.set()
            assert go_on.wait(20)
            return super().embed(texts)

    service = open_service(path, embedder=Slow(4))
    assert entered.wait(20)
    service.sync.delete_user(app_name="app", user_id="user1", forget=True)
    service.sync.delete_user(app_name="app", user_id="user2")
    go_on.set()
    end = time.monotonic() + 10
    while service.sync.admin.stats()["embedded"] < 4:
        assert time.monotonic() < end, service.sync.admin.stats()
        time.sleep(0.01)
