"""What is committed can be loaded: tiny vectors, and rows that the engine refuses."""

from __future__ import annotations

import io
import logging
import sqlite3
from contextlib import closing

import numpy as np
import pytest
import vecall.store.rows
from helpers.memories import ALICE, texts
from vecall import FunctionEmbedder, Put
from vecall.embedders import CallerVectors
from vecall.index.partition_cache import examine_storage
from vecall.store import copy_storage
from vecall.store.rows import COLUMNS, Row
from vecall.store.values import vectors_with_checksum

DIM = 8
DIRECTION = np.random.default_rng(29).standard_normal(DIM)
SCALES = (1e-20, 1e-31, 1e-38, 1e-43)


def tiny(scale):
    vector = (DIRECTION * scale).astype(np.float32)
    assert vector.any()
    return vector


def embedder(scale):
    def embed(given):
        found = [tiny(scale) if "tiny" in each else DIRECTION for each in given]
        return np.array(found)

    return FunctionEmbedder(embed, model_id="tiny", dimensions=DIM)


def loading(path):
    return {each.about: each.level for each in examine_storage(path)}["loading"]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "m.db"


@pytest.mark.parametrize("scale", SCALES)
def test_a_tiny_vector_is_stored_and_found_by_its_direction(path, open_service, scale):
    """Of the embedder, of the caller, of an import, of a copy, of an item."""
    service = open_service(path, embedder=embedder(scale))
    service.sync.add_memory(**ALICE, memories=["zebra plain", "zebra tiny"])
    own = ["zebra own"]
    service.sync.add_memory(**ALICE, memories=own, vectors=[tiny(scale)])
    put = [Put(("n",), "tiny", 1, tiny(scale)), Put(("n",), "other", 2, -DIRECTION)]
    service.items.sync.write(put, **ALICE)
    exported = io.StringIO()
    service.sync.admin.export_jsonl(exported)
    assert len(texts(service)) == 3
    service.close()
    copied = path.with_name("copy.db")
    copy_storage(path, copied)
    imported = path.with_name("imported.db")
    with open_service(imported, embedder=embedder(scale)) as other:
        other.sync.admin.import_jsonl(io.BytesIO(exported.getvalue().encode()))
    for each in (path, copied, imported):
        again = open_service(each, embedder=embedder(scale))
        found = again.sync.search_memory(**ALICE, query="", vector=DIRECTION).memories
        near = {one.text: one.similarity for one in found}
        assert near.keys() == {"zebra plain", "zebra tiny", "zebra own"}
        if scale > 1e-40:  # below, a number has only a few bits
            assert min(near.values()) > 0.999
        vector = tiny(scale)
        first = again.items.sync.find((), **ALICE, vector=vector, limit=1)
        assert [one.key for one in first] == ["tiny"]
        again.close()
        assert loading(each) == "ok"


def test_a_move_to_a_model_of_tiny_vectors_leaves_every_user_searchable(
    path, open_service
):
    service = open_service(path)
    service.sync.add_memory(**ALICE, memories=["zebra plain", "zebra tiny"])
    service.sync.admin.reembed(embedder(1e-35))
    assert len(texts(service)) == 2
    service.close()
    service = open_service(path, embedder=embedder(1e-35))
    assert len(service.sync.search_memory(**ALICE, query="tiny").memories) == 2
    service.close()
    assert loading(path) == "ok"


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
def test_a_row_that_the_engine_refuses_costs_its_vector_alone(
    path, open_service, caplog, value
):
    """A file of an earlier release, or of a stranger, may have such rows."""
    service = open_service(path, embedder=CallerVectors(DIM))
    added = [f"zebra {number}" for number in range(40)]
    service.sync.add_memory(**ALICE, memories=added, vectors=[DIRECTION] * 40)
    bob = {"app_name": "app", "user_id": "bob"}
    service.sync.add_memory(**bob, memories=["zebra bob"], vectors=[DIRECTION])
    service.close()
    bad = np.full(DIM, value, "<f4").tobytes()
    with closing(sqlite3.connect(path)) as file, file:
        for *row, vec in file.execute(f"SELECT {COLUMNS}, vec FROM mem").fetchall():
            stored = Row(*row)
            if stored.text in ("zebra 3", "zebra 17"):
                assert vec != bad
                crc = vecall.store.rows.checksum(stored, bad)
                change = "UPDATE mem SET vec = ?, crc = ? WHERE rid = ?"
                file.execute(change, (bad, crc, stored.rid))
    caplog.set_level(logging.ERROR, "vecall")
    service = open_service(path, embedder=CallerVectors(DIM))
    assert sorted(texts(service)) == sorted(added)
    assert len(caplog.records) == 1
    assert "2 memories" in caplog.records[0].message
    near = service.sync.search_memory(**ALICE, query="", vector=DIRECTION, top_k=50)
    assert {"zebra 3", "zebra 17"}.isdisjoint(each.text for each in near.memories)
    assert len(near.memories) == 38
    service.sync.add_memory(**ALICE, memories=["zebra new"], vectors=[DIRECTION])
    third = service.sync.search_memory(**ALICE, query="zebra 3").memories[0]
    assert service.sync.delete_memory(**ALICE, memory_id=third.id)
    assert len(texts(service)) == 40
    service.close()
    assert loading(path) == "warning"
    again = open_service(path, embedder=CallerVectors(DIM))
    assert len(texts(again)) == 40
    assert texts(again, **bob) == ["zebra bob"]


def test_an_item_whose_vector_the_engine_refuses_is_listed_last(
    path, open_service, caplog
):
    service = open_service(path)
    puts = [Put(("n",), f"k{n}", n, [DIRECTION, -DIRECTION]) for n in range(3)]
    service.items.sync.write(puts, **ALICE)
    service.close()
    bad = np.concatenate([DIRECTION, np.full(DIM, np.nan)]).astype("<f4").tobytes()
    with closing(sqlite3.connect(path)) as file, file:
        ((rid,),) = file.execute("SELECT rid FROM item WHERE key = 'k1'").fetchall()
        vecs = vectors_with_checksum(rid, bad)
        file.execute("UPDATE item SET vecs = ? WHERE rid = ?", (vecs, rid))
    caplog.set_level(logging.ERROR, "vecall")
    service = open_service(path)
    found = service.items.sync.find((), **ALICE, vector=DIRECTION)
    assert [each.key for each in found] == ["k2", "k0", "k1"]
    assert [each.score is None for each in found] == [False, False, True]
    assert len(caplog.records) == 1
    service.items.sync.write([Put(("n",), "k1", 9, DIRECTION)], **ALICE)
    found = service.items.sync.find((), **ALICE, vector=DIRECTION)
    assert [each.key for each in found] == ["k1", "k2", "k0"]
    service.close()
    assert loading(path) == "ok"


def test_doctor_says_which_users_a_search_cannot_load(path, open_service):
    service = open_service(path)
    service.sync.add_memory(**ALICE, memories=["zebra one"])
    service.sync.add_memory(app_name="app", user_id="bob", memories=["zebra two"])
    service.close()
    assert loading(path) == "ok"
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE part SET live = live + 1 WHERE user = 'bob'")
    found = {each.about: each for each in examine_storage(path)}["loading"]
    assert (found.level, found.message) == ("error", "1 of 2 users cannot be searched")
