"""A purge of a database leaves nothing deleted in its tables, or says where it does."""

from __future__ import annotations

import warnings

import pytest
from vecall import MemoryEntry

pytest.importorskip("psycopg")

ME = {"app_name": "hotel", "user_id": "alice"}
USERS = """
SELECT c.relname, s.n_dead_tup, s.vacuum_count FROM pg_class AS c
JOIN pg_stat_all_tables AS s ON s.relid = c.oid
WHERE c.relnamespace = '{}'::regnamespace AND c.relkind = 'r'
AND c.relname NOT IN ('meta', 'model')
"""


def may_be_granted(schema):
    """Whether the server has the right to VACUUM, which PostgreSQL 17 introduced."""
    ((number,),) = schema.server.execute("SHOW server_version_num")
    return int(number) >= 170_000


@pytest.fixture
def granted(schema):
    """A schema whose keeper may VACUUM."""
    if not may_be_granted(schema):
        pytest.skip("needs the right MAINTAIN of PostgreSQL 17")
    return schema


def live_in_every_table(schema, open_service):
    """A service whose user has deleted rows, some of them in a snapshot."""
    service = open_service(schema.url)
    entries = [MemoryEntry(f"okapi {n}", id=f"m{n}") for n in range(600)]
    service.sync.add_memory(**ME, memories=entries)
    service.sync.admin.warm(**ME)
    for memory in ("m1", "m2"):
        service.sync.delete_memory(**ME, memory_id=memory)
    return service


def test_a_purge_vacuums_every_table_with_data_of_users(granted, open_service):
    schema = granted
    service = live_in_every_table(schema, open_service)
    before = {name for name, *_ in schema.server.execute(USERS.format(schema.name))}
    assert {"mem", "snap", "vec_next", "trig", "replaced"} <= before
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        service.sync.admin.purge()
    schema.server.wait_until(
        "SELECT bool_and(vacuum_count > 0) FROM ("
        + USERS.format(schema.name)
        + ") AS every"
    )


def test_a_purge_without_the_right_to_vacuum_says_so(schema, open_service):
    """As on PostgreSQL 15 and 16, where there is no right that could be granted."""
    if may_be_granted(schema):
        schema.server.execute(
            f"REVOKE MAINTAIN ON ALL TABLES IN SCHEMA {schema.name} FROM vecall_keeper"
        )
    service = live_in_every_table(schema, open_service)
    with pytest.warns(UserWarning, match="not vacuumed: vecall_keeper may not VACUUM"):
        service.sync.admin.purge()
    listed = service.sync.list_memories(**ME, limit=1000)
    assert len(listed) == 598


def test_a_purge_without_the_right_on_one_table_says_so(granted, open_service):
    schema = granted
    from vecall.store.postgres.schema import migrate_schema
    from vecall.store.postgres.url import parse_database_url

    schema.server.execute(f"REVOKE MAINTAIN ON {schema.name}.snap FROM vecall_keeper")
    service = live_in_every_table(schema, open_service)
    with pytest.warns(UserWarning, match="not vacuumed"):
        service.sync.admin.purge()
    migrate_schema(parse_database_url(schema.server.url(schema=schema.name)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        service.sync.admin.purge()
