"""Snapshots of large partitions: a cache beside the file, never another answer."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from helpers.campaigns import SCALE
from helpers.embedders import Recorder
from helpers.memories import ALICE
from vecall import ConfigError, Filter, MemoryEntry, MemoryService

ROWS = 520
QUERIES = ["zebra", "okapi word11", "changed new", "user word3 number77"]


def entries(*numbers: int, word: str = "zebra") -> list[MemoryEntry]:
    return [
        MemoryEntry(
            f"{word} word{i % 37} {'okapi' if i % 5 else 'tapir'} number{i}",
            id=f"m{i}",
            session_id=f"s{i % 9}",
            author=("user", "agent")[i % 2],
            timestamp=1e9 + i,
        )
        for i in numbers
    ]


def answers(service: MemoryService, **who: str) -> list[Any]:
    """Ids, texts and scores of many searches."""
    found = []
    for query in QUERIES:
        for filter_ in (None, Filter(session_id="s4", after=1e9 + 300)):
            memories = service.sync.search_memory(
                **(who or ALICE), query=query, top_k=1000, filter=filter_
            ).memories
            found.append([(m.id, m.text, m.score, m.similarity) for m in memories])
    assert any(found)
    return found


def folder(path: Path) -> Path:
    return path.with_name(path.name + ".snap")


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 15
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.005)


def written(service: MemoryService, path: Path, part: int = 1) -> Path:
    """The snapshot of a partition once it is there and on record."""
    file = folder(path) / f"{part}.vs"
    until(file.exists)
    service.close()  # finishes what is being written
    return file


def large(
    open_service: Callable[..., MemoryService], path: Path, **options: Any
) -> Path:
    """A closed file with one snapshot, which is returned."""
    service = open_service(path, durability="process", **options)
    service.sync.add_memory(**ALICE, memories=entries(*range(ROWS)))
    service.sync.admin.warm(**ALICE)
    return written(service, path)


def from_rows(
    open_service: Callable[..., MemoryService], path: Path, **options: Any
) -> list[Any]:
    """The answers of a copy of the closed file without any snapshot."""
    copy = path.with_name("copy.db")
    shutil.rmtree(folder(copy), ignore_errors=True)
    shutil.copyfile(path, copy)
    with open_service(copy, durability="process", **options) as service:
        found = answers(service)
    copy.unlink()
    return found


def reopened(
    open_service: Callable[..., MemoryService], path: Path, **options: Any
) -> list[Any]:
    with open_service(path, durability="process", **options) as service:
        return answers(service)


def is_used(path: Path, file: Path) -> bool:
    """Whether a snapshot is the one on record: it has the nonce."""
    data = file.read_bytes()
    with closing(sqlite3.connect(path)) as connection:
        (record,) = connection.execute("SELECT snap FROM part WHERE id = 1").fetchone()
    return record is not None and record[:8] in data


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


def test_any_flipped_byte_or_cut_costs_no_answer(open_service, tmp_path):
    """Guarantees 3 and 6, bug classes 1 and 3: no error, and no other answer."""
    path = tmp_path / "m.db"
    file = large(open_service, path)
    whole = file.read_bytes()
    kept = tmp_path / "kept.db"
    shutil.copyfile(path, kept)
    expected = from_rows(open_service, path)
    rng = random.Random(6)
    most = 60 if SCALE <= 1 else len(whole)
    header = list(range(0, 112, 4))
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
        *rng.sample(range(len(whole)), 8),
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


def test_the_snapshot_of_another_file_is_not_believed(open_service, tmp_path):
    path, other = tmp_path / "m.db", tmp_path / "other.db"
    file = large(open_service, path)
    service = open_service(other, durability="process")
    service.sync.add_memory(**ALICE, memories=entries(*range(ROWS), word="gnu"))
    service.sync.admin.warm(**ALICE)
    foreign = written(service, other)
    expected = from_rows(open_service, path)
    shutil.copyfile(foreign, file)
    assert reopened(open_service, path) == expected


def test_the_snapshot_of_another_user_is_not_believed(open_service, tmp_path):
    """Guarantee 5: not even under the right name in the right folder."""
    path = tmp_path / "m.db"
    bob = {**ALICE, "user_id": "bob"}
    service = open_service(path, durability="process")
    service.sync.add_memory(**ALICE, memories=entries(*range(ROWS)))
    service.sync.add_memory(**bob, memories=entries(*range(ROWS), word="gnu"))
    service.sync.admin.warm(**ALICE)
    service.sync.admin.warm(**bob)
    until((folder(path) / "1.vs").exists)
    second = written(service, path, part=2)
    expected = from_rows(open_service, path)
    shutil.copyfile(second, folder(path) / "1.vs")
    found = reopened(open_service, path)
    assert found == expected
    assert "gnu" not in str(found)


def test_a_restored_file_is_not_answered_from_newer_snapshots(open_service, tmp_path):
    """The file was copied, went on, and was put back: its answers are those of then."""
    path = tmp_path / "m.db"
    file = large(open_service, path)
    old = file.read_bytes()
    kept = tmp_path / "kept.db"
    shutil.copyfile(path, kept)
    expected = from_rows(open_service, path)
    with open_service(path, durability="process") as service:
        service.sync.add_memory(**ALICE, memories=entries(*range(ROWS), word="changed"))
        service.sync.admin.warm(**ALICE)
        service.sync.add_memory(
            **ALICE, memories=entries(*range(ROWS, 2 * ROWS), word="new")
        )
        until(lambda: file.read_bytes() != old)
    newer = file.read_bytes()
    shutil.copyfile(kept, path)
    assert reopened(open_service, path) == expected
    # Nor once the restored file has gone on past the snapshot's last change.
    with open_service(path, durability="process") as service:
        for round_ in range(3):
            service.sync.add_memory(
                **ALICE, memories=entries(*range(0, ROWS, 2), word=f"other{round_}")
            )
    file.unlink(missing_ok=True)
    file.write_bytes(newer)
    assert reopened(open_service, path) == from_rows(open_service, path)


def test_a_backup_does_not_believe_the_snapshots_of_its_original(
    open_service, tmp_path
):
    path, copy = tmp_path / "m.db", tmp_path / "b.db"
    large(open_service, path)
    with open_service(path, durability="process") as service:
        service.sync.admin.backup(copy)
    with open_service(copy, durability="process") as service:
        service.sync.add_memory(**ALICE, memories=entries(*range(100), word="changed"))
    shutil.rmtree(folder(copy), ignore_errors=True)
    shutil.copytree(folder(path), folder(copy))
    found = reopened(open_service, copy)
    shutil.rmtree(folder(copy))
    assert found == reopened(open_service, copy)


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
        service = open_service(path, durability="process", memory_budget=1000)
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


@pytest.mark.filterwarnings("ignore:the file holds vectors")
def test_a_moved_file_does_not_use_the_snapshots_of_the_old_model(
    open_service, tmp_path
):
    """The engine's vectors are those of the model that answers."""
    path = tmp_path / "m.db"
    file = large(open_service, path, embedder=Recorder(5, "old"))
    before = file.read_bytes()
    new = Recorder(5, "new")
    with open_service(path, durability="process") as service:
        service.sync.admin.reembed(new)
    folder(path).mkdir(exist_ok=True)
    file.unlink(missing_ok=True)
    file.write_bytes(before)
    assert reopened(open_service, path, embedder=new) == from_rows(
        open_service, path, embedder=new
    )


def test_a_snapshot_of_another_text_analysis_is_not_used(
    open_service, tmp_path, monkeypatch
):
    """An update of vecall may give the same text other terms."""
    path = tmp_path / "m.db"
    with monkeypatch.context() as older:
        older.setattr("vecall.store.snapshot_tag._ANALYSIS", 0)
        older.setattr("vecall.index.rows.memory_terms", lambda *_: [])
        file = large(open_service, path)
        assert is_used(path, file)
    assert reopened(open_service, path) == from_rows(open_service, path)


@pytest.mark.filterwarnings("ignore:the file holds vectors")
def test_services_with_and_without_vectors_share_a_folder(open_service, tmp_path):
    """Neither answers from the other's snapshots."""
    path = tmp_path / "m.db"
    embedder = Recorder(5)
    large(open_service, path, embedder=embedder)
    hybrid = from_rows(open_service, path, embedder=embedder)
    lexical = from_rows(open_service, path)
    assert lexical != hybrid
    for _ in range(2):
        assert reopened(open_service, path) == lexical
        assert reopened(open_service, path, embedder=embedder) == hybrid
    words = open_service(path, durability="process")
    vectors = open_service(path, durability="process", embedder=embedder)
    for word in ("changed once", "changed twice"):
        vectors.sync.add_memory(**ALICE, memories=entries(*range(510), word=word))
        words.sync.admin.warm(**ALICE)
        vectors.sync.admin.warm(**ALICE)
        found = answers(words), answers(vectors)
        assert found == (answers(words), answers(vectors))
    words.close()
    vectors.close()
    assert found == (
        from_rows(open_service, path),
        from_rows(open_service, path, embedder=embedder),
    )
