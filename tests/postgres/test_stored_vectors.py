"""A vector is written once: updates of its row leave it where it is."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.memories import ALICE
from vecall import FunctionEmbedder, MemoryService
from vecall.store.postgres.transaction import translate_sql

psycopg = pytest.importorskip("psycopg")

DIM = 1_536  # 6 KiB, so stored outside of the row


def embedded(texts):
    seeds = [sum(map(ord, text)) for text in texts]
    return np.array([np.random.default_rng(s).standard_normal(DIM) for s in seeds])


@pytest.fixture
def place(schema):
    """Returns where the vector of a memory is stored."""
    if not schema.server.execute(
        "SELECT 1 FROM pg_proc WHERE proname = 'pg_column_toast_chunk_id'"
    ):
        pytest.skip("needs pg_column_toast_chunk_id, of PostgreSQL 17")

    def found(id_):
        ((chunk,),) = schema.server.execute(
            f"SELECT pg_column_toast_chunk_id(vec) FROM {schema.name}.mem "
            f"WHERE id = '{id_}'"
        )
        assert chunk is not None
        return chunk

    return found


def test_only_a_new_vector_is_written(schema, place):
    embedder = FunctionEmbedder(embedded, dimensions=DIM, model_id="a")
    with MemoryService(schema.url, embedder=embedder) as memory:
        user = memory.sync.user(ALICE["app_name"], ALICE["user_id"])
        user.add([{"content": "zebra", "id": "m"}])
        first = place("m")
        user.mark_used(["m"])
        user.update("m", custom_metadata={"colour": "black"})
        assert place("m") == first
        user.update("m", content="lion")
        assert place("m") != first
        (found,) = user.search("lion").memories
        assert found.similarity == pytest.approx(1.0, abs=1e-3)


def test_an_update_removes_a_vector(schema):
    with psycopg.connect(schema.server.url(), autocommit=True) as connection:
        connection.execute(f"SET search_path = {schema.name}")
        connection.execute(
            "INSERT INTO mem (rid, part, id, seq, created_at, updated_at, text, hash, "
            "crc, vec) VALUES (4294967296, 1, 'a', 1, 0, 0, 'zebra', '', 0, '\\x01')"
        )
        change = translate_sql("UPDATE mem SET vec = ?, model = ? WHERE rid = ?")
        for value in (b"\x02", None, b"\x03", b"\x03"):
            connection.execute(change, (value, 1, 1 << 32))
            assert connection.execute("SELECT vec FROM mem").fetchone() == (value,)
