"""A service for reads uses the role vecall_reader, also where that is all it may be."""

from __future__ import annotations

import pytest
from helpers.embedders import Recorder
from helpers.memories import ALICE
from vecall import ConfigError, MemoryService, ReadOnlyError

pytest.importorskip("psycopg")

BOB = {**ALICE, "user_id": "bob"}


@pytest.fixture
def looker(schema):
    """The URL of a role that may become vecall_reader only."""
    schema.server.execute("CREATE ROLE looker LOGIN; GRANT vecall_reader TO looker")
    yield schema.server.url("looker", schema=schema.name)
    schema.server.execute("DROP ROLE looker")


@pytest.fixture
def filled(schema):
    texts = [f"word {n}" for n in range(700)]
    with MemoryService(schema.url, embedder=Recorder(4)) as memory:
        memory.sync.add_memory(**ALICE, memories=texts)
        memory.sync.add_memory(**BOB, memories=["a secret"])
        memory.sync.search_memory(**ALICE, query="word")  # makes a snapshot
    return schema


def test_a_role_that_may_only_read_searches_and_loads(filled, looker):
    with MemoryService(looker, embedder=Recorder(4), read_only=True) as memory:
        found = memory.sync.search_memory(**ALICE, query="word 7", top_k=3)
        assert found.memories[0].text == "word 7"
        (secret,) = memory.sync.search_memory(**BOB, query="secret").memories
        assert secret.text == "a secret"
        assert (
            memory.sync.search_memory(
                app_name="app", user_id="unknown", query="secret"
            ).memories
            == []
        )


def test_it_is_refused_what_concerns_all_users_and_every_write(filled, looker):
    with MemoryService(looker, embedder=Recorder(4), read_only=True) as memory:
        with pytest.raises(ConfigError, match="may not become vecall_keeper"):
            memory.sync.admin.list_apps()
        with pytest.raises(ReadOnlyError):
            memory.sync.add_memory(**ALICE, memories=["more"])
    with pytest.raises(ConfigError, match="no member of vecall_app"):
        MemoryService(looker, embedder=None)


def test_a_service_for_reads_of_a_role_with_more_rights_uses_no_more(filled):
    """Without the rights of vecall_reader, it cannot read; others can."""
    change = filled.server.execute
    change(f"REVOKE SELECT ON {filled.name}.mem FROM vecall_reader")
    with (
        MemoryService(filled.url, embedder=Recorder(4), read_only=True) as memory,
        pytest.raises(ConfigError, match="refused access"),
    ):
        memory.sync.search_memory(**BOB, query="secret")
    with MemoryService(filled.url, embedder=Recorder(4)) as memory:
        assert memory.sync.search_memory(**BOB, query="secret").memories


def test_a_service_for_reads_works_on_a_replica(filled):
    replica = filled.server.replica(synchronous=False)
    try:
        replica.wait_for(filled.server)
        url = replica.url("server", schema=filled.name)
        with MemoryService(url, embedder=Recorder(4), read_only=True) as memory:
            found = memory.sync.search_memory(**ALICE, query="word 7", top_k=3)
            assert found.memories[0].text == "word 7"
            assert memory.sync.admin.list_apps()
        with pytest.raises(ReadOnlyError, match="replica"):
            MemoryService(url, embedder=Recorder(4))
    finally:
        replica.remove()
