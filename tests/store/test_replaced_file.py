"""A file that is replaced under a running service is not written to any more."""

from __future__ import annotations

import shutil

import pytest
from helpers.memories import ALICE
from vecall import MemoryService, StorageError


def _replaced_by_a_copy(path, tmp_path):
    shutil.copy(path, tmp_path / "copy.db").replace(path)


def _deleted(path, _):
    path.unlink()


def _moved(path, tmp_path):
    path.rename(tmp_path / "elsewhere.db")


@pytest.mark.parametrize("change", [_replaced_by_a_copy, _deleted, _moved])
def test_no_write_is_acknowledged_that_a_reopening_would_lose(tmp_path, change):
    path = tmp_path / "memory.db"
    with MemoryService(path, embedder=None) as service:
        alice = service.sync.user(*ALICE.values())
        kept = alice.add("a zebra").id
        change(path, tmp_path)
        for write in (
            lambda: alice.add("lost"),
            lambda: alice.update(kept, content="lost"),
            lambda: alice.delete(kept),
        ):
            with pytest.raises(StorageError, match=r"replaced or deleted"):
                write()
        assert alice.get(kept).text == "a zebra"


def test_a_file_in_its_place_again_is_written_to(tmp_path):
    path = tmp_path / "memory.db"
    with MemoryService(path, embedder=None) as service:
        alice = service.sync.user(*ALICE.values())
        path.rename(tmp_path / "away.db")
        with pytest.raises(StorageError):
            alice.add("lost")
        (tmp_path / "away.db").rename(path)
        alice.add("a zebra")
    with MemoryService(path, embedder=None) as service:
        assert service.sync.user(*ALICE.values()).count() == 1
