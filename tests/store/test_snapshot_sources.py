"""A snapshot is used for the file, the user, the model and the analysis it is of."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from helpers.embedders import Recorder
from helpers.memories import ALICE
from helpers.snapshots import (
    ROWS,
    answers,
    entries,
    folder,
    from_rows,
    is_used,
    large,
    reopened,
    until,
    written,
)


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


def without_terms(memories):
    return np.empty(0, np.uint64), np.zeros(len(memories) + 1, np.int64)


def test_a_snapshot_of_another_text_analysis_is_not_used(
    open_service, tmp_path, monkeypatch
):
    """An update of vecall may give the same text other terms."""
    path = tmp_path / "m.db"
    with monkeypatch.context() as older:
        older.setattr("vecall.store.rows._ANALYSIS", 0)
        older.setattr("vecall.index.row_cache.terms_of_memories", without_terms)
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
