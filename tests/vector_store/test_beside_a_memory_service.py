"""A vector store and a memory service in one database have schemas of their own."""

from __future__ import annotations

import pytest
from helpers.postgres_server import Schema, shared_server
from helpers.vector_stores.plain import ALICE, Plain, X, three
from helpers.vector_stores.servers import needs_postgres, pgvector_url
from vecall import ConfigError, MemoryService
from vecall.vector_store import PgVectorStore

pytestmark = needs_postgres


@pytest.fixture
def schema():
    """The schema of a memory service, in which the role of the store may create."""
    pgvector_url()  # creates the role
    made = Schema()
    made.server.execute(f"GRANT USAGE, CREATE ON SCHEMA {made.name} TO vectors")
    yield made
    made.drop()


def tables(schema):
    return shared_server().execute(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND "
        f"relnamespace = to_regnamespace('{schema}') ORDER BY relname"
    )


def remembers(schema):
    with MemoryService(schema.url, embedder=None).sync as memory:
        memory.add_memory(**ALICE, memories=["zebra"])
        return [each.text for each in memory.list_memories(**ALICE)]


def test_the_default_schema_is_not_that_of_a_memory_service():
    before = tables("vecall")
    try:
        store = three(Plain(PgVectorStore(pgvector_url().partition("&schema=")[0])))
        assert store.ids(X) == ["a", "b", "c"]
        assert tables("vecall_vectors") == [("vectors",)]
        assert tables("vecall") == before
        store.store.close()
    finally:
        shared_server().execute("DROP SCHEMA IF EXISTS vecall_vectors CASCADE")


def test_the_schema_of_a_memory_service_is_refused(schema):
    store = Plain(PgVectorStore(pgvector_url(schema=schema.name)))
    before = tables(schema.name)
    for call in (
        lambda: store.put("a", X),
        lambda: store.search(X),
        lambda: store.delete("a"),
        store.delete_many,
    ):
        with pytest.raises(ConfigError, match="schema"):
            call()
    store.store.close()
    assert tables(schema.name) == before
    assert remembers(schema) == ["zebra"]


def test_tables_may_have_the_names_of_those_of_a_memory_service():
    stores = [
        Plain(PgVectorStore(pgvector_url(), table=name)) for name in ("meta", "part")
    ]
    for store in stores:
        three(store)
    again = [
        Plain(PgVectorStore(pgvector_url(), table=name)) for name in ("meta", "part")
    ]
    for store in again:
        assert store.ids(X) == ["a", "b", "c"]
        assert store.delete_many() == 3
    for store in stores + again:
        store.store.close()
    shared_server().execute("DROP TABLE vectors.meta, vectors.part")


def test_a_schema_with_a_table_of_others_is_migrated(schema):
    from vecall.store.postgres.schema import NEWEST, migrate_schema
    from vecall.store.postgres.url import parse_database_url

    server = schema.server
    server.execute(f"CREATE TABLE {schema.name}.foreign_rows (a int)")
    assert migrate_schema(parse_database_url(server.url(schema=schema.name))) == NEWEST
    server.execute(f"DROP TABLE {schema.name}.foreign_rows")
    assert remembers(schema) == ["zebra"]
