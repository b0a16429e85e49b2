"""A text whose vector the file has is not embedded again; no user's for another."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
import pytest
from helpers.embedders import Recorder, embedded
from helpers.memories import ALICE, BOB
from vecall import MemoryService, Scopes
from vecall.store.rows import hash_of_text
from vecall.store.writes import add as known_module

TEXT = "likes green tea"
TURN = {"text": TEXT, "author": "user", "id": "e1"}


def told(id_: str, *events: dict[str, Any], **who: str) -> dict[str, Any]:
    return {**(who or ALICE), "id": id_, "events": list(events)}


@pytest.fixture
def opened(open_service, tmp_path) -> Callable[..., MemoryService]:
    return partial(open_service, tmp_path / "m.db", maintenance_interval=None)


def vectors(service: MemoryService, path: Any) -> list[bytes]:
    service.close()
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT vec FROM mem ORDER BY rid")
        return [vec for (vec,) in found]


def test_a_known_text_is_not_embedded_after_a_restart(opened, tmp_path):
    with opened(embedder=Recorder()) as service:
        service.sync.add_session_to_memory(told("s", TURN))
    embedder = Recorder()
    service = opened(embedder=embedder)
    service.sync.add_session_to_memory(told("other", {**TURN, "id": "e2"}))
    service.sync.add_memory(**ALICE, memories=[{"content": TEXT, "author": "user"}])
    assert embedder.asked == []
    assert embedded(service) == 3
    expected = Recorder().vector(f"user: {TEXT}").astype("<f4").tobytes()
    assert vectors(service, tmp_path / "m.db") == [expected] * 3


def test_another_author_and_another_text_are_embedded(opened):
    with opened(embedder=Recorder()) as service:
        service.sync.add_session_to_memory(told("s", TURN))
    embedder = Recorder()
    service = opened(embedder=embedder)
    model = {**TURN, "author": "model", "id": "e2"}
    more = {**TURN, "text": f"{TEXT}!", "id": "e3"}
    service.sync.add_session_to_memory(told("other", model, more))
    service.sync.add_memory(**ALICE, memories=[TEXT])
    assert embedder.asked == [f"model: {TEXT}", f"user: {TEXT}!", TEXT]


def test_no_vector_of_another_user_app_or_scope_is_used(opened):
    scopes = Scopes(read=["shared"], write=["shared"])
    others = [BOB, {**ALICE, "app_name": "another"}]
    with opened(embedder=Recorder(), scopes=scopes) as service:
        service.sync.add_memory(**ALICE, memories=[TEXT])
    embedder = Recorder()
    service = opened(embedder=embedder, scopes=scopes)
    for who in others:
        service.sync.add_memory(**who, memories=[TEXT])
    service.sync.add_memory(**ALICE, memories=[TEXT], scope="shared")
    assert embedder.asked == [TEXT] * 3


def test_a_vector_is_used_after_the_file_has_moved_to_another_model(opened):
    with opened(embedder=Recorder()) as service:
        service.sync.add_memory(**ALICE, memories=[TEXT])
        service.sync.admin.reembed(Recorder(9, "newer"))
    embedder = Recorder(9, "newer")
    service = opened(embedder=embedder)
    service.sync.add_session_to_memory(told("s", {**TURN, "author": None}))
    assert embedder.asked == []
    assert embedded(service) == 2


def test_a_vector_is_used_after_an_import(opened, open_service, tmp_path):
    with opened(embedder=Recorder()) as service:
        service.sync.add_memory(**ALICE, memories=[TEXT])
        service.sync.admin.export_jsonl(tmp_path / "x.jsonl", vectors=True)
    other = partial(open_service, tmp_path / "other.db")
    with other(embedder=Recorder()) as service:
        service.sync.admin.import_jsonl(tmp_path / "x.jsonl", vectors=True)
    embedder = Recorder()
    service = other(embedder=embedder)
    service.sync.add_session_to_memory(told("s", {**TURN, "author": None}))
    assert embedder.asked == []


def test_what_was_stored_without_an_embedder_uses_known_vectors_too(opened):
    with opened(embedder=Recorder()) as service:
        service.sync.add_memory(**ALICE, memories=[TEXT])
    turns = [{"text": TEXT, "id": str(n)} for n in range(3)]
    turns += [{"text": "another", "id": str(n)} for n in range(3, 6)]
    with pytest.warns(UserWarning, match="words alone"):
        service = opened()
    with service:
        service.sync.add_session_to_memory(told("s", *turns))
        service.sync.add_memory(**BOB, memories=[TEXT])
    embedder = Recorder()
    service = opened(embedder=embedder)
    assert service._memory.restart_backfill().wait_for_backfill(10)
    assert embedded(service) == 8
    assert sorted(embedder.asked) == ["another", TEXT]  # the latter is Bob's


@pytest.mark.parametrize("how", ["deleted", "purged", "damaged"])
def test_no_vector_of_what_is_gone_is_used(opened, tmp_path, how):
    with opened(embedder=Recorder()) as service:
        (id_,) = service.sync.add_memory(**ALICE, memories=[TEXT])
        service.sync.add_memory(**ALICE, memories=["another"])
        if how != "damaged":
            service.sync.delete_memory(**ALICE, memory_id=id_)
        if how == "purged":
            service.sync.admin.purge()
    if how == "damaged":
        with closing(sqlite3.connect(tmp_path / "m.db")) as connection, connection:
            wrong = np.ones(7, "<f4").tobytes()
            connection.execute("UPDATE mem SET vec = ? WHERE id = ?", (wrong, id_))
    embedder = Recorder()
    service = opened(embedder=embedder)
    service.sync.add_session_to_memory(told("s", {**TURN, "author": None}))
    assert embedder.asked == [TEXT]


def test_looking_for_a_vector_costs_the_same_beside_many_of_the_same_text(opened):
    """Counted in steps of SQLite's machine; logarithmic at most."""
    steps = []
    service = opened()
    for count in (20, 2_000):
        texts = [{"content": TEXT, "id": f"{count} {n}"} for n in range(count)]
        texts += [{"content": f"other {n}", "id": f"o{n}"} for n in range(count)]
        service.sync.add_memory(**ALICE, memories=texts)
        with service._memory.storage._database.read_transaction() as connection:
            done = []
            connection.set_progress_handler(lambda done=done: done.append(1), 1)
            said = [(hash_of_text(TEXT), "user"), (hash_of_text(TEXT), None)]
            assert known_module.vectors_of_same_texts(connection, 1, said, 1) == {}
            connection.set_progress_handler(None, 0)
        steps.append(len(done))
    assert steps[1] <= 1.2 * steps[0]
