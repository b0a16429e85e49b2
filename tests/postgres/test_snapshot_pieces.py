"""A large snapshot is stored in pieces."""

from __future__ import annotations

import random
from contextlib import closing

import pytest
from vecall.store import AddMemories, Draft, open_storage
from vecall.store.rows import TAG_AT, SnapshotTag, record_of_snapshot

pytest.importorskip("psycopg")
from vecall.store.postgres import storage as snapshots

ME = "hotel", "alice"


def test_pieces_are_read_in_their_order_wherever_the_server_has_them(
    schema, monkeypatch
):
    monkeypatch.setattr(snapshots, "_PIECE_BYTES", 1_000)
    with closing(open_storage(schema.url, "full")) as storage:
        storage.submit(AddMemories(*ME, [Draft("zebra", "zebra")])).result(20)
        version = storage.version(*ME)
        tag = SnapshotTag.new(storage.identity, version, 0)
        noise = random.Random(5).randbytes(10_500)
        data = noise[:TAG_AT] + tag.pack() + noise[TAG_AT:]
        assert storage.snapshots.write_snapshot(
            *ME, tag, data, storage.snapshots.snapshot_generation()
        )
        table = f"{schema.name}.snap"
        assert schema.server.execute(f"SELECT count(*) FROM {table}") == [(11,)]
        for piece in (0, 5, 3):  # a new version of a row lies behind the others
            schema.server.execute(f"UPDATE {table} SET n = n WHERE n = {piece}")
        record = record_of_snapshot(tag.nonce, data)
        assert storage.snapshots.read_snapshot(version[0], record) == data
