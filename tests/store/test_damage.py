"""Damage to a file is noticed, and is a typed error."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pytest
from helpers.memories import ALICE, texts
from vecall import (
    CorruptFileError,
    MemoryEntry,
    MemoryService,
    StorageError,
    VecallError,
)
from vecall.store import examine


def flip(path: Path, marker: bytes) -> None:
    """Change one byte of a marker wherever it is stored."""
    data = bytearray(path.read_bytes())
    assert marker in data
    at = -1
    while (at := data.find(marker, at + 1)) >= 0:
        data[at + len(marker) // 2] ^= 0x01
    path.write_bytes(data)


def spoiled(
    open_service: Any, path: Path, marker: bytes, **entry: Any
) -> MemoryService:
    service = open_service(path)
    service.sync.add_memory(
        **ALICE, memories=[MemoryEntry(**{"content": "zebra", "id": "x", **entry})]
    )
    service.close()
    flip(path, marker)
    return open_service(path)


FLIPS = [
    ("text", {"content": "zebra flipmarker"}),
    ("author", {"author": "flipmarker"}),
    ("parts", {"content": {"parts": [{"text": "zebra"}, {"text": "flipmarker"}]}}),
    ("metadata", {"custom_metadata": {"key": "flipmarker"}}),
    ("session", {"session_id": "flipmarker"}),
    ("trust", {"trust": "flipmarker"}),
]


@pytest.mark.parametrize(
    "entry", [entry for _, entry in FLIPS], ids=[name for name, _ in FLIPS]
)
def test_a_flipped_byte_is_noticed_by_a_search(open_service, tmp_path, entry):
    """Guarantee 6, bug class 1: never silently wrong."""
    service = spoiled(open_service, tmp_path / "m.db", b"flipmarker", **entry)
    with pytest.raises(CorruptFileError) as caught:
        service.sync.search_memory(**ALICE, query="zebra")
    assert "marker" not in str(caught.value)


@pytest.mark.parametrize(
    "entry", [entry for _, entry in FLIPS], ids=[name for name, _ in FLIPS]
)
def test_a_flipped_byte_is_noticed_by_a_get(open_service, tmp_path, entry):
    """Guarantee 6: whichever way a memory is read."""
    service = spoiled(open_service, tmp_path / "m.db", b"flipmarker", **entry)
    with pytest.raises(CorruptFileError):
        service.sync.get_memory(**ALICE, memory_id="x")


def test_a_flipped_byte_of_a_vector_is_noticed(open_service, tmp_path):
    """For database pages: an error, never a wrong vector."""
    path = tmp_path / "m.db"
    vector = [1.5, -2.25, 3.125, 7.0]

    def embed(texts: list[str]) -> list[list[float]]:
        return [vector for _ in texts]

    service = open_service(path, embedder=embed)
    service.sync.add_memory(**ALICE, memories=["zebra"])
    service.close()
    flip(path, struct.pack("<4f", *vector))
    service = open_service(path, embedder=embed)
    with pytest.raises(CorruptFileError):
        service.sync.search_memory(**ALICE, query="zebra")


def test_one_damaged_memory_harms_no_other_user(open_service, tmp_path):
    path = tmp_path / "m.db"
    service = open_service(path)
    service.sync.add_memory(
        app_name="app", user_id="bob", memories=["zebra flipmarker"]
    )
    service.sync.add_memory(**ALICE, memories=["zebra"])
    service.close()
    flip(path, b"flipmarker")
    service = open_service(path)
    assert texts(service, "zebra") == ["zebra"]
    service.sync.add_memory(**ALICE, memories=["zebra two"])
    assert texts(service, "zebra") == ["zebra", "zebra two"]


def test_any_damage_is_a_typed_error(open_service, tmp_path):
    """Pages of garbage and cut files: CorruptFileError and its like, no raw sqlite3."""
    path = tmp_path / "m.db"
    service = open_service(path)
    service.sync.add_memory(
        **ALICE, memories=[f"zebra {i} " + "x" * 700 for i in range(40)]
    )
    service.close()
    whole = path.read_bytes()
    rng = random.Random(5)
    noticed = 0
    for round_ in range(25):
        damaged = tmp_path / f"{round_}.db"
        data = bytearray(whole)
        if round_ % 5 == 0:
            del data[rng.randrange(100, len(data)) :]
        else:
            at = rng.randrange(100, len(data) - 600)
            data[at : at + 600] = rng.randbytes(600)
        damaged.write_bytes(data)
        try:
            with MemoryService(damaged, embedder=None) as opened:
                found = texts(opened, "zebra")
                assert all(text in whole.decode("latin-1") for text in found)
        except VecallError:
            noticed += 1
    assert noticed > 5  # the rest fell on bytes that say nothing


def test_a_damaged_length_that_no_memory_has_room_for_is_a_typed_error(
    open_service, tmp_path
):
    """SQLite asks for as many bytes as the file says, and Python raises MemoryError."""
    path = tmp_path / "m.db"
    open_service(path).close()
    data = bytearray(path.read_bytes())
    at = data.index(b"tabletoldtold") - 11  # the lengths before a row of the schema
    data[at : at + 8] = b"\xff" * 7 + b"\x7f"
    path.write_bytes(data)
    with pytest.raises(StorageError, match="memory"):
        open_service(path)
    assert any("memory" in str(finding) for finding in examine(path))
