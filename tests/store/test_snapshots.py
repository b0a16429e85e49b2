"""Snapshots of large partitions: a cache beside the file, never another answer."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.campaigns import SCALE
from helpers.embedders import Recorder
from helpers.memories import ALICE
from helpers.snapshots import (
    QUERIES,
    ROWS,
    answers,
    entries,
    folder,
    from_rows,
    is_used,
    large,
    reopened,
)
from vecall import ConfigError, Filter


def test_a_large_partition_gets_a_snapshot_for_its_owner_alone(open_service, tmp_path):
    path = tmp_path / "m.db"
    file = large(open_service, path)
    assert folder(path).stat().st_mode & 0o777 == 0o700
    assert file.stat().st_mode & 0o777 == 0o600
    assert [part.name for part in folder(path).iterdir()] == ["1.vs"]
    assert is_used(path, file)
    for secret in (b"zebra", b"okapi", b"number5", b"alice"):
        assert secret not in file.read_bytes(), "purge would have to look here, too"
    with open_service(path) as service:
        assert service.sync.admin.stats()["snapshot_bytes"] == file.stat().st_size


@pytest.mark.parametrize("embedder", [None, Recorder(5)], ids=["words", "vectors"])
def test_a_snapshot_gives_the_answers_of_the_rows(open_service, tmp_path, embedder):
    """Guarantee 3, with changes, deletions and additions after the snapshot."""
    path = tmp_path / "m.db"
    file = large(open_service, path, embedder=embedder)
    before = file.read_bytes()
    assert reopened(open_service, path, embedder=embedder) == from_rows(
        open_service, path, embedder=embedder
    )
    with open_service(path, durability="process", embedder=embedder) as service:
        service.sync.add_memory(
            **ALICE, memories=entries(*range(5, 300, 30), word="changed")
        )
        service.sync.add_memory(
            **ALICE, memories=entries(*range(ROWS, ROWS + 20), word="new")
        )
        for i in range(0, 200, 7):
            service.sync.delete_memory(**ALICE, memory_id=f"m{i}")
        service.sync.delete_session(**ALICE, session_id="s5")
        service.sync.add_memory(**ALICE, memories=entries(0, 7), restore=True)
    assert file.read_bytes() == before, "the snapshot is the one of before the changes"
    assert is_used(path, file)
    assert reopened(open_service, path, embedder=embedder) == from_rows(
        open_service, path, embedder=embedder
    )


@pytest.mark.campaign
def test_any_flipped_byte_or_cut_costs_no_answer(open_service, tmp_path):
    """Guarantees 3 and 6, bug classes 1 and 3: no error, and no other answer."""
    path = tmp_path / "m.db"
    file = large(open_service, path)
    whole = file.read_bytes()
    kept = tmp_path / "kept.db"
    shutil.copyfile(path, kept)
    expected = from_rows(open_service, path)
    rng = random.Random(6)
    most = len(whole) if SCALE > 1 else 60 if SCALE == 1 else 36 if SCALE >= 0.5 else 14
    header = list(range(0, 112, 4 if SCALE >= 1 else 8 if SCALE >= 0.5 else 16))
    flips = header + rng.sample(range(len(whole)), most - len(header))
    cuts = [
        0,
        1,
        47,
        48,
        63,
        64,
        100,
        len(whole) - 1,
        *rng.sample(range(len(whole)), 4 if SCALE < 1 else 8),
    ]
    damaged = []
    for at in flips:
        data = bytearray(whole)
        data[at] ^= rng.choice([0x01, 0x80, 0xFF])
        damaged.append(bytes(data))
    damaged += [whole[:at] for at in cuts] + [whole + b"\0", whole * 2]
    checked = QUERIES.index("okapi word11") * 2
    for data in damaged:
        shutil.copyfile(kept, path)  # with the nonce of this snapshot on record
        file.write_bytes(data)
        assert data[:112] != whole[:112] or is_used(path, file)
        with open_service(path, durability="process") as service:
            memories = service.sync.search_memory(
                **ALICE, query="okapi word11", top_k=1000
            ).memories
            got = [(m.id, m.text, m.score, m.similarity) for m in memories]
            assert got == expected[checked]
    file.write_bytes(whole)
    assert reopened(open_service, path) == expected


def test_a_damaged_snapshot_is_deleted(open_service, tmp_path):
    """Nothing replaces it here: the partition is too small for another snapshot."""
    path = tmp_path / "m.db"
    file = large(open_service, path)
    with open_service(path, durability="process") as service:
        older = Filter(before=1e9 + 100)
        assert service.sync.delete_where(**ALICE, filter=older) == 100
    assert is_used(path, file)
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    assert reopened(open_service, path) == from_rows(open_service, path)
    assert not file.exists()


def _a_link(place: Path) -> None:
    secret = place.parents[1] / "elsewhere"
    secret.write_bytes(b"not to be read")
    place.symlink_to(secret)


OBSTACLES: dict[str, Callable[[Path], object]] = {
    "folder": Path.mkdir,
    "queue": os.mkfifo,
    "text": lambda place: place.write_text("not a snapshot at all, but text\n" * 999),
    "link": _a_link,
}


@pytest.mark.parametrize("obstacle", OBSTACLES)
def test_what_is_no_snapshot_is_passed_over(open_service, tmp_path, obstacle, in_time):
    """Guarantee 3, bug class 3: whatever lies under the name of a snapshot."""
    path = tmp_path / "m.db"
    file = large(open_service, path)
    expected = from_rows(open_service, path)
    file.unlink()
    OBSTACLES[obstacle](file)
    service = open_service(path, durability="process")
    try:
        assert in_time(answers, service) == expected
    finally:
        if file.is_fifo():  # lets a reader go that waits for a writer
            os.close(os.open(file, os.O_RDWR | os.O_NONBLOCK))
    in_time(service.close)
    elsewhere = tmp_path / "elsewhere"
    if elsewhere.exists():
        assert elsewhere.read_bytes() == b"not to be read"


def test_a_file_in_the_place_of_the_folder_costs_only_time(open_service, tmp_path):
    path = tmp_path / "m.db"
    folder(path).write_text("in the way")
    with open_service(path, durability="process") as service:
        service.sync.add_memory(**ALICE, memories=entries(*range(ROWS)))
        before = answers(service)
    assert reopened(open_service, path) == before
    assert folder(path).read_text() == "in the way"


def test_a_symbolic_link_in_the_place_of_the_folder_is_refused(open_service, tmp_path):
    """Nothing is written, and nothing removed, in another folder."""
    path, elsewhere = tmp_path / "m.db", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "1.vs").write_text("precious")
    folder(path).symlink_to(elsewhere)
    with pytest.raises(ConfigError, match="symbolic link"):
        open_service(path)
    assert [file.name for file in tmp_path.iterdir() if file.suffix == ".db"] == []
    # Also not if it is put there while the file is open.
    folder(path).unlink()
    service = open_service(path, durability="process")
    folder(path).symlink_to(elsewhere)
    service.sync.add_memory(**ALICE, memories=entries(*range(ROWS)))
    assert len(answers(service)[0]) == ROWS
    service.sync.admin.purge()
    service.close()
    assert [file.name for file in elsewhere.iterdir()] == ["1.vs"]
    assert (elsewhere / "1.vs").read_text() == "precious"


def test_the_folder_may_be_deleted_at_any_time(open_service, tmp_path):
    path = tmp_path / "m.db"
    large(open_service, path)
    rng = random.Random(7)
    numbers = list(range(ROWS))
    for round_ in range(4):
        service = open_service(path, durability="process", cache_bytes=1000)
        if round_ % 2:
            answers(service)
        shutil.rmtree(folder(path), ignore_errors=True)
        some = rng.sample(numbers, 250)
        service.sync.add_memory(
            **ALICE, memories=entries(*some, word=f"changed round{round_}")
        )
        service.sync.admin.warm(**ALICE)
        shutil.rmtree(folder(path), ignore_errors=True)
        service.sync.delete_memory(**ALICE, memory_id=f"m{some[0]}")
        numbers.remove(some[0])
        service.sync.search_memory(app_name="app", user_id="bob", query="zebra")
        found = answers(service)
        service.close()
        assert found == from_rows(open_service, path)
