"""Versions and vectors of the caller over HTTP."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("httptools")
pytest.importorskip("httpx")

from helpers.http import ALICE, door_to, error_of
from vecall import MemoryEntry
from vecall.embedders import CallerVectors

MEMORIES = f"{ALICE}/memories"
WHO = {"app_name": "hotel", "user_id": "alice"}


@pytest.fixture
def memory(open_service):
    made = open_service(embedder=CallerVectors(3))
    entry = MemoryEntry("zebra", id="m", author="user")
    made.sync.add_memory(**WHO, memories=[entry], vectors=[[1, 0, 0]])
    return made


def test_a_change_holds_for_the_version_that_was_read(memory):
    door = door_to(memory)
    version = door.ask("GET", f"{MEMORIES}/m").json()["updated_at"]
    body = {"kind": "fact", "if_version": version}
    changed = door.ask("PATCH", f"{MEMORIES}/m", json=body).json()
    assert changed["kind"] == "fact"
    assert changed["updated_at"] > version
    for answer in (
        door.ask("PATCH", f"{MEMORIES}/m", json=body),
        door.ask("DELETE", f"{MEMORIES}/m?if_version={version!r}"),
        door.ask(
            "POST",
            MEMORIES,
            json={"memories": [{"id": "m", "text": "x"}], "if_absent": True},
        ),
    ):
        assert error_of(answer)[:2] == (409, "conflict")
    assert door.ask("GET", f"{MEMORIES}/m").json() == changed
    newest = json.dumps(changed["updated_at"])
    gone = door.ask("DELETE", f"{MEMORIES}/m?if_version={newest}")
    assert gone.status_code == 204
    assert memory.sync.list_memories(**WHO) == []


@pytest.mark.parametrize("wrong", ["x", "", "nan", "1e999", "0x1", " 1", "1_0"])
def test_a_version_that_is_no_number_is_refused(memory, wrong):
    door = door_to(memory)
    answer = door.ask("DELETE", f"{MEMORIES}/m?if_version={wrong}")
    assert answer.status_code == 422
    assert len(memory.sync.list_memories(**WHO)) == 1


def test_vectors_are_stored_and_corrected(memory):
    door = door_to(memory)
    body = {"memories": ["lion", "duck"], "vectors": [[0, 1, 0], None]}
    assert door.ask("POST", MEMORIES, json=body).status_code == 201
    patch = {"content": "heron", "vector": [0, 0, 1]}
    assert door.ask("PATCH", f"{MEMORIES}/m", json=patch).status_code == 200
    assert door.ask("PATCH", f"{MEMORIES}/m", json={"content": "x"}).status_code == 422
    for vector, text in (([0, 1, 0], "lion"), ([0, 0, 1], "heron")):
        asked = {"query": "", "vector": vector, "min_similarity": 0.9}
        found = door.ask("POST", f"{MEMORIES}/search", json=asked).json()["memories"]
        assert [each["content"] for each in found] == [text]
    wrong = {"memories": ["a"], "vectors": [[1, 2]]}
    assert door.ask("POST", MEMORIES, json=wrong).status_code == 422
