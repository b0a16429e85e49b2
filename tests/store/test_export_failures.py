"""An export that fails says why, and keeps nothing of the file open."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from helpers.memories import ALICE
from vecall import CorruptFileError, MemoryService, StorageError, WritePolicy


class Failing:
    """A stream that fails at the first line with a word.

    Args:
        word: The word.
        error: What it raises.
    """

    def __init__(self, word: str, error: Exception) -> None:
        self.word = word
        self.error = error

    def write(self, text: str) -> None:
        if self.word in text:
            raise self.error


@pytest.fixture(params=["file", "memory"])
def service(request, tmp_path):
    path = tmp_path / "m.db" if request.param == "file" else None
    with MemoryService(
        path, embedder=None, writes=WritePolicy(history_ttl=1e6)
    ) as made:
        made.sync.add_memory(**ALICE, memories=[{"content": "zebra", "id": "1"}])
        for number in range(3):
            changed = f"zebra {number}"
            made.sync.update_memory(**ALICE, memory_id="1", content=changed)
        yield made


@pytest.mark.parametrize("word", ["vecall", '"mem"', '"hist"'])
@pytest.mark.parametrize("kind", [ValueError, OSError, TypeError])
def test_a_stream_that_fails_is_no_damage_of_the_file(service, word, kind):
    with pytest.raises(StorageError, match=r"^path: ") as caught:
        service.sync.admin.export_jsonl(Failing(word, kind("zebra")))
    assert not isinstance(caught.value, CorruptFileError)
    assert "zebra" not in str(caught.value)


def test_a_failed_export_whose_error_is_kept_delays_no_purge(service):
    """Its cursors are closed: a purge waits for each state that somebody reads."""
    with pytest.raises(StorageError) as caught:
        service.sync.admin.export_jsonl(Failing('"hist"', OSError()))
    service.sync.delete_memory(**ALICE, memory_id="1")
    service.sync.admin.purge()
    assert caught.value is not None


def test_a_value_that_cannot_be_exported_delays_no_purge(tmp_path):
    path = tmp_path / "m.db"
    with MemoryService(
        path, embedder=None, writes=WritePolicy(history_ttl=1e6)
    ) as made:
        made.sync.add_memory(**ALICE, memories=[{"content": "zebra", "id": "1"}])
        made.sync.update_memory(**ALICE, memory_id="1", content="okapi")
        made.sync.update_memory(**ALICE, memory_id="1", content="tapir")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE hist SET old = x'fffe'")
    with MemoryService(path, embedder=None) as made:
        with pytest.raises(CorruptFileError) as caught:
            made.sync.admin.export_jsonl(tmp_path / "out.jsonl")
        made.sync.admin.purge()
        assert caught.value is not None
