"""Which snapshot is put on record, and which is not."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from helpers.postgres_server import MISSING, Schema, is_available
from vecall.store import AddMemories, Draft, open_storage
from vecall.store.file.filesystem import _HEAD_BYTES, MAGIC
from vecall.store.rows import TAG_AT, SnapshotTag, record_of_snapshot

ME = "hotel", "alice"


@pytest.fixture(params=["file", "postgres"])
def storage(request, tmp_path) -> Iterator[Any]:
    """A storage with one memory."""
    if request.param == "file":
        with closing(open_storage(tmp_path / "m.db", "full")) as opened:
            add(opened)
            yield opened
        return
    if not is_available():
        pytest.skip(MISSING)
    schema = Schema()
    with closing(open_storage(schema.url, "full")) as opened:
        add(opened)
        yield opened
    schema.drop()


def add(storage: Any) -> None:
    job = AddMemories(*ME, [Draft(uuid.uuid4().hex, "zebra")])
    storage.submit(job).result(20)


def snapshot(storage: Any, seed: int) -> tuple[SnapshotTag, bytes]:
    """A snapshot of the user as of now, with bytes of its own."""
    tag = SnapshotTag.new(storage.identity, storage.version(*ME), 0)
    noise = random.Random(seed).randbytes(_HEAD_BYTES)  # without sections
    head = MAGIC + noise[len(MAGIC) : TAG_AT] + tag.pack() + bytes(4)
    return tag, head + noise[len(head) :]


def in_place(storage: Any, tag: SnapshotTag, data: bytes) -> bool:
    return (
        storage.snapshots.read_snapshot(tag.part, record_of_snapshot(tag.nonce, data))
        == data
    )


def test_a_newer_snapshot_takes_the_place_of_an_older_one_and_not_the_reverse(storage):
    """Two processes take one each, and the slower one comes last."""
    older = snapshot(storage, 1)
    add(storage)
    newer = snapshot(storage, 2)
    generation = storage.snapshots.snapshot_generation()
    assert storage.snapshots.write_snapshot(*ME, *newer, generation)
    assert not storage.snapshots.write_snapshot(*ME, *older, generation)
    assert in_place(storage, *newer)
    add(storage)
    newest = snapshot(storage, 3)
    assert storage.snapshots.write_snapshot(*ME, *newest, generation)
    assert in_place(storage, *newest)


def test_a_snapshot_that_was_taken_before_a_purge_is_not_recorded(storage):
    """It may have what the purge removed."""
    made = snapshot(storage, 1)
    generation = storage.snapshots.snapshot_generation()
    storage.maintenance.purge()
    assert not storage.snapshots.write_snapshot(*ME, *made, generation)
    assert not in_place(storage, *made)
    after = snapshot(storage, 2)
    assert storage.snapshots.write_snapshot(
        *ME, *after, storage.snapshots.snapshot_generation()
    )
    assert in_place(storage, *after)


def test_a_snapshot_of_another_history_is_not_recorded(storage):
    """As after a backup was restored while it was taken."""
    tag, data = snapshot(storage, 1)
    add(storage)
    for wrong in (
        tag._replace(head=tag.head ^ 1),
        tag._replace(seq=tag.seq + 100),
        tag._replace(part=tag.part + 1),
    ):
        changed = data.replace(tag.pack(), wrong.pack())
        generation = storage.snapshots.snapshot_generation()
        assert not storage.snapshots.write_snapshot(*ME, wrong, changed, generation)
        assert not in_place(storage, wrong, changed)
    assert storage.snapshots.write_snapshot(*ME, tag, data, generation)
