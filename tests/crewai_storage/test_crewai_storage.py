"""CrewAI's storage backend, against records in a dictionary and cosines in float64."""

from __future__ import annotations

import itertools
import re
import threading
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest

pytest.importorskip("crewai.memory.storage.factory")

from crewai.memory.storage.backend import (
    EmbeddingDimensionMismatchError,
    StorageBackend,
)
from crewai.memory.storage.factory import resolve_memory_storage
from crewai.memory.types import MemoryRecord
from crewai.memory.unified_memory import Memory
from helpers.door_programs import refuses_wrong_names
from helpers.paths import ROOT
from vecall import InvalidTypeError, MemoryService
from vecall.crewai import VecallStorage, install
from vecall.service._items_sync import SyncItems

GUIDE = ROOT / "docs/guide/crewai.md"
START = datetime(2026, 1, 1)
SCOPES = ["/", "/a", "/a/b", "/ab", "/a/b/c%_", "/\u00e9 '\"\\/x"]
CATEGORIES = ["tea", "a.b", "", "$or"]


@pytest.fixture
def storage(tmp_path):
    made = VecallStorage(tmp_path / "crew.db")
    yield made
    made.close()


def some_records(count: int, seed: int = 1) -> list[MemoryRecord]:
    rng = np.random.default_rng(seed)
    return [
        MemoryRecord(
            id=f"id {number}",
            content=f"text {number}",
            scope=SCOPES[number % len(SCOPES)],
            categories=[each for each in CATEGORIES if rng.random() < 0.4],
            metadata={
                "n": number % 3,
                "k.k": f"v{number % 2}",
                "name": f"{number % 2}",
            },
            importance=round(rng.random(), 3),
            created_at=START + timedelta(days=int(rng.integers(0, 400))),
            embedding=rng.standard_normal(4).astype(np.float32).tolist(),
            source=None if number % 2 else "me",
            private=number % 5 == 0,
        )
        for number in range(count)
    ]


def is_in(record: MemoryRecord, scope: str | None) -> bool:
    prefix = (scope or "").rstrip("/")
    return record.scope == prefix or record.scope.startswith(prefix + "/")


def has(
    record: MemoryRecord, categories: Any = None, metadata_filter: Any = None
) -> bool:
    if categories and not set(categories) & set(record.categories):
        return False
    wanted = metadata_filter or {}
    return all(record.metadata.get(key) == wanted[key] for key in wanted)


CONDITIONS: list[dict[str, Any]] = [
    {},
    {"categories": ["tea"]},
    {"categories": ["a.b", "$or"]},
    {"categories": [""]},
    {"metadata_filter": {"n": 1}},
    {"metadata_filter": {"k.k": "v1"}},
    {"metadata_filter": {"name": "0", "absent": None}},
    {"categories": ["tea"], "metadata_filter": {"n": 2, "name": "1"}},
]


def test_it_is_a_storage_backend(storage):
    assert isinstance(storage, StorageBackend)


@pytest.mark.parametrize("conditions", CONDITIONS)
@pytest.mark.parametrize("scope", [None, *SCOPES])
def test_a_search_returns_what_numpy_returns(storage, scope, conditions):
    """In the order of cosines, with the score, down to the limit and the minimum."""
    records = some_records(60)
    storage.save(records)
    query = np.array([0.3, -1.0, 0.2, 0.9])
    expected = []
    for record in records:
        vector = np.asarray(record.embedding, np.float64)
        cosine = vector @ query / np.linalg.norm(vector) / np.linalg.norm(query)
        if is_in(record, scope) and has(record, **conditions) and cosine >= 0.1:
            expected.append((float(cosine), record.id))
    expected.sort(reverse=True)
    found = storage.search(query.tolist(), scope, limit=7, min_score=0.1, **conditions)
    assert [record.id for record, _ in found] == [id_ for _, id_ in expected[:7]]
    scores = [score for score, _ in expected[:7]]
    assert [score for _, score in found] == pytest.approx(scores, abs=1e-5)


def test_records_come_back_as_they_were(storage, tmp_path):
    """All fields, also after the file is opened again."""
    records = some_records(30)
    zone = timezone(timedelta(hours=2))
    records[3].created_at = datetime(2026, 5, 1, 12, 0, 0, 123456, zone)
    records[4].embedding = None
    records[5].metadata = {"z": [1, {"a": None}], "a": 10**30, "\u00e9": "\0"}
    storage.save(records)
    storage.close()
    reopened = VecallStorage(tmp_path / "crew.db")
    for record in records:
        assert reopened.get_record(record.id) == record
    assert reopened.get_record("nothing") is None
    reopened.close()


def test_lists_and_counts_are_those_of_the_scope(storage):
    records = some_records(60)
    storage.save(records)
    for scope in [None, *SCOPES, "/nothing"]:
        inside = [record for record in records if is_in(record, scope)]
        newest = sorted((r.created_at for r in inside), reverse=True)
        listed = storage.list_records(scope, limit=5, offset=2)
        assert [record.created_at for record in listed] == newest[2:7]
        assert storage.count(scope) == len(inside)
        names = [name for record in inside for name in record.categories]
        assert storage.list_categories(scope) == {n: names.count(n) for n in set(names)}
        info = storage.get_scope_info(scope or "/")
        assert info.record_count == len(inside)
        assert info.newest_record == (newest[0] if newest else None)
        assert info.oldest_record == (newest[-1] if newest else None)
        assert info.categories == sorted(set(names))
        assert info.child_scopes == storage.list_scopes(scope or "/")
    assert storage.list_scopes() == ["/a", "/ab", "/\u00e9 '\"\\"]
    assert storage.list_scopes("/a") == ["/a/b"]


@pytest.mark.parametrize("conditions", CONDITIONS)
@pytest.mark.parametrize("scope", [None, "/a", "/a/b"])
@pytest.mark.parametrize("ids", [None, [], ["id 1", "id 7", "id 7", "nothing"]])
def test_a_deletion_deletes_what_meets_all_conditions(storage, scope, conditions, ids):
    records = some_records(40)
    storage.save(records)
    before = START + timedelta(days=300)
    gone = {
        record.id
        for record in records
        if is_in(record, scope)
        and has(record, **conditions)
        and (ids is None or record.id in ids)
        and record.created_at < before
    }
    deleted = storage.delete(scope, record_ids=ids, older_than=before, **conditions)
    assert deleted == len(gone)
    left = {record.id for record in storage.list_records(limit=1000)}
    assert left == {record.id for record in records} - gone


def test_a_record_that_moves_is_in_one_scope_only(storage):
    """Also when threads move it at the same time."""
    (record, *_) = some_records(1)
    storage.save([record])
    errors = []

    def move(number: int) -> None:
        try:
            for step in range(10):
                scope = f"/thread{number}/{step}"
                storage.update(record.model_copy(update={"scope": scope}))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=move, args=(each,)) for each in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert storage.count() == 1
    (found,) = storage.list_records()
    assert found.scope in {f"/thread{each}/9" for each in range(3)}
    assert storage.get_record(record.id) == found


def between(monkeypatch, method: str, count: int, act: Any) -> None:
    """Call `act` once, just before the `count`-th call of a method of the items."""
    call = getattr(SyncItems, method)
    left = [count]

    def after_act(self, *args, **named):
        left[0] -= 1
        if left[0] == 0:
            act()
        return call(self, *args, **named)

    monkeypatch.setattr(SyncItems, method, after_act)


CHANGES: dict[str, dict[str, Any]] = {
    "moved": {"scope": "/z"},
    "other category": {"categories": ["other"]},
    "other text": {"content": "changed"},
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    ("ids", "method", "count"),
    [(True, "write", 1), (True, "get", 2), (False, "write", 1)],
    ids=["by id, written", "by id, read", "by conditions"],
)
def test_a_deletion_takes_what_it_means_of_a_record_that_changes_meanwhile(
    storage, tmp_path, monkeypatch, change, ids, method, count
):
    """The result is that of the change before the deletion."""
    old, kept = some_records(2)
    old = old.model_copy(update={"scope": "/a", "categories": ["tea"]})
    new = old.model_copy(update=CHANGES[change])
    storage.save([old, kept])
    other = VecallStorage(tmp_path / "crew.db")
    between(monkeypatch, method, count, lambda: other.update(new))
    asked = {"record_ids": [old.id]} if ids else {}
    deleted = storage.delete("/a", ["tea"], **asked)
    monkeypatch.undo()
    stays = change != "other text"
    assert deleted == (0 if stays else 1)
    assert storage.get_record(old.id) == (new if stays else None)
    # A record has one place, and whoever saves it again finds that.
    storage.update(new.model_copy(update={"scope": "/y"}))
    assert storage.count() == 2
    assert storage.count("/y") == 1
    other.close()


def test_a_record_that_is_deleted_twice_at_once_counts_once(
    storage, tmp_path, monkeypatch
):
    records = some_records(3)
    storage.save(records)
    other = VecallStorage(tmp_path / "crew.db")
    between(monkeypatch, "write", 1, lambda: other.delete(record_ids=[records[0].id]))
    assert storage.delete() == 2
    assert storage.count() == 0
    other.close()


def test_a_record_that_moves_while_it_is_read_by_id_is_found(
    storage, tmp_path, monkeypatch
):
    old, *_ = some_records(1)
    new = old.model_copy(update={"scope": "/z"})
    storage.save([old])
    other = VecallStorage(tmp_path / "crew.db")
    between(monkeypatch, "get", 2, lambda: other.update(new))
    assert storage.get_record(old.id) == new
    other.close()


def test_a_touch_changes_the_last_access_only(storage):
    records = some_records(3)
    storage.save(records)
    storage.touch_records(["id 1", "id 1", "nothing"])
    touched = storage.get_record("id 1")
    assert touched.last_accessed > records[1].last_accessed
    assert touched.model_copy(update={"last_accessed": None}) == records[1].model_copy(
        update={"last_accessed": None}
    )
    assert storage.get_record("id 2") == records[2]
    storage.delete(record_ids=["id 1"])
    storage.save([records[1]])
    assert storage.get_record("id 1") == records[1]


def test_embeddings_of_another_dimension_are_refused_until_a_reset(storage):
    storage.save(some_records(6))
    other = MemoryRecord(content="x", embedding=[1.0, 0.0])
    with pytest.raises(EmbeddingDimensionMismatchError) as raised:
        storage.save([other])
    assert (raised.value.stored_dim, raised.value.new_dim) == (4, 2)
    with pytest.raises(EmbeddingDimensionMismatchError):
        storage.search([1.0, 0.0])
    with pytest.raises(EmbeddingDimensionMismatchError):
        storage.save([other, *some_records(1)])
    assert storage.count() == 6
    storage.reset("/a")
    assert storage.count() == 4 - 1  # /a, /a/b and /a/b/c%_ are gone
    storage.reset()
    assert storage.search([1.0, 0.0]) == []
    storage.save([other])
    assert [record.id for record, _ in storage.search([1.0, 0.0])] == [other.id]


def test_metadata_that_are_no_json_change_nothing(storage):
    (record,) = some_records(1)
    storage.save([record])
    for value in (START, {1}, float("nan"), b"x"):
        worse = record.model_copy(update={"metadata": {"zebra": value}})
        with pytest.raises(TypeError) as raised:
            storage.save([*some_records(9, seed=2)[1:], worse])
        assert isinstance(raised.value, InvalidTypeError)
        assert "zebra" not in str(raised.value)
    assert storage.list_records() == [record]


def test_users_and_apps_do_not_see_each_other(tmp_path):
    """Nor do the memories of the service."""
    with MemoryService(tmp_path / "m.db", embedder=None) as memory:
        whose = [("hotel", "alice"), ("hotel", "bob"), ("bar", "alice")]
        doors = [VecallStorage(memory, app_name=a, user_id=u) for a, u in whose]
        for number, door in enumerate(doors):
            door.save(some_records(number + 1))
        memory.sync.user("hotel", "alice").add(["a memory"])
        assert [door.count() for door in doors] == [1, 2, 3]
        doors[0].reset()
        doors[1].delete(record_ids=["id 0"])
        assert [door.count() for door in doors] == [0, 1, 3]
        assert len(memory.sync.user("hotel", "alice").list()) == 1
        doors[0].close()  # the service stays open
        assert doors[2].count() == 3
        memory.sync.user("bar", "alice").delete_all()
        assert doors[2].count() == 0


def test_more_records_than_one_call_lists(storage):
    records = [
        MemoryRecord(id=f"{n}", content="x", created_at=START + timedelta(seconds=n))
        for n in range(10_500)
    ]
    storage.save(records)
    assert storage.count() == 10_500
    listed = storage.list_records(limit=3, offset=10_400)
    assert [record.id for record in listed] == ["99", "98", "97"]
    assert storage.delete(older_than=START + timedelta(seconds=10_490)) == 10_490


def test_the_program_of_the_guide_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (program,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.S)
    exec(program, {"embedder": lambda texts: [[1.0, 0.5] for _ in texts]})
    assert capsys.readouterr().out.endswith(" Likes tea.\n")


def test_the_memory_of_crewai_remembers_and_recalls(tmp_path):
    """With a function as embedder and no model."""

    def embedder(texts: list[str]) -> list[list[float]]:
        return [[float("tea" in text), float("duck" in text), 0.1] for text in texts]

    install()
    try:
        storage = resolve_memory_storage(f"vecall:{tmp_path / 'crew.db'}")
        assert isinstance(storage, VecallStorage)
        assert resolve_memory_storage("lancedb") is None
    finally:
        from crewai.memory.storage.factory import set_memory_storage_factory

        set_memory_storage_factory(None)
    memory = Memory(storage=storage, embedder=embedder)
    for text in ("Likes tea.", "Saw a duck."):
        memory.remember(
            text, scope="/alice", categories=["x"], importance=0.5, metadata={}
        )
    found = memory.recall("tea", scope="/alice", depth="shallow", limit=1)
    assert [match.record.content for match in found] == ["Likes tea."]
    memory.close()


def test_a_wrong_name_opens_no_file(tmp_path):
    refuses_wrong_names(VecallStorage, tmp_path)


def test_a_scope_with_more_records_of_one_time_than_a_page_is_listed(storage):
    count = 10_001
    scopes = {"odd": "/a", "even": "/a/b"}
    made = [
        MemoryRecord(content="x", scope=scopes[n], categories=[n], created_at=START)
        for n in itertools.islice(itertools.cycle(scopes), count)
    ]
    storage.save(made)
    listed = storage.list_records("/a", limit=count + 1)
    assert {record.id for record in listed} == {record.id for record in made}
    assert storage.get_scope_info("/a").record_count == count
    assert storage.list_categories("/a") == {"odd": 5_001, "even": 5_000}
    assert storage.delete("/a", categories=["odd"]) == 5_001
    assert storage.count("/a") == 5_000
