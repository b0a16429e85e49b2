"""A database that does not hold users apart is refused, and the doctor says why."""

from __future__ import annotations

import pytest
from vecall import ConfigError, MemoryService
from vecall.store import examine_database

psycopg = pytest.importorskip("psycopg")

TABLES = ("part", "mem", "vec_next", "chg", "tomb", "hist", "idem", "trig", "replaced",
          "told", "snap", "item", "fig")  # fmt: skip
DOORS = ("enter", "look", "heads")


def open_service(schema):
    return MemoryService(schema.url, embedder=None).sync


def errors(schema):
    found = examine_database(schema.url)
    return [finding.message for finding in found if finding.level == "error"]


@pytest.fixture
def change(schema):
    """Execute statements in the schema as the administrator."""

    def execute(statement):
        schema.server.execute(f"SET search_path = {schema.name}; {statement}")

    return execute


def rights(schema):
    """What the doctor says about roles and tables, apart from the server's settings."""
    ours = ("is on", "a power cut", "a crash")
    return [text for text in errors(schema) if not any(part in text for part in ours)]


def test_a_new_schema_is_accepted(schema):
    assert rights(schema) == []
    with open_service(schema) as memory:
        memory.user("hotel", "alice").add(["Prefers a quiet room."])


CHANGES = [
    ("DROP POLICY one ON {}", "has no policy for vecall_app"),
    ("DROP POLICY every ON {}", "has no policy for vecall_keeper"),
    ("ALTER TABLE {} NO FORCE ROW LEVEL SECURITY", "does not force"),
    ("ALTER TABLE {} DISABLE ROW LEVEL SECURITY", "has no row-level security"),
    ("CREATE POLICY more ON {} TO vecall_app USING (true)", "shows other users"),
    ("ALTER POLICY one ON {} USING (true)", "shows other users"),
    ("CREATE POLICY more ON {} FOR SELECT TO public USING (true)", "shows other"),
]
DOOR_CHANGES = [
    ("GRANT EXECUTE ON FUNCTION {} TO public", "executed by every role"),
    ("ALTER FUNCTION {} SECURITY INVOKER", "not SECURITY DEFINER"),
    ("ALTER FUNCTION {} RESET search_path", "has not the search_path"),
    ("ALTER FUNCTION {} RESET ALL", "has not the search_path"),
    ("ALTER FUNCTION {} SET search_path = public", "has not the search_path"),
    ("ALTER FUNCTION {} SET search_path = pg_temp", "has not the search_path"),
    ("DROP FUNCTION {}", "is missing"),
]


def test_the_tables_here_are_all_that_have_data_of_users(schema):
    from vecall.store.postgres.schema import SHARED

    found = schema.server.execute(
        "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') "
        f"AND relnamespace = '{schema.name}'::regnamespace"
    )
    assert {name for (name,) in found} == {*TABLES, *SHARED}


def test_each_policy_and_function_that_is_dropped_or_widened_is_noticed(schema):
    from vecall.store.postgres.schema import table_faults

    cases = [
        (statement.format(name), fault, name)
        for names, changes in ((TABLES, CHANGES), (DOORS, DOOR_CHANGES))
        for name in names
        for statement, fault in changes
    ]
    with psycopg.connect(schema.server.url(), autocommit=True) as connection:
        for statement, fault, name in cases:
            with connection.transaction(force_rollback=True):
                connection.execute(f"SET LOCAL search_path = {schema.name}")
                connection.execute(statement)
                (found,) = table_faults(connection, schema.name)
            assert fault in found, statement
            assert name in found, statement
        assert table_faults(connection, schema.name) == []


@pytest.mark.parametrize("arguments", ["", ", ".join(["int"] * 9)])
def test_a_second_function_of_the_name_of_a_door_is_looked_at_too(schema, arguments):
    """Of whichever the catalogue tells first."""
    from vecall.store.postgres.schema import table_faults

    with psycopg.connect(schema.server.url(), autocommit=True) as connection:
        for name in DOORS:
            with connection.transaction(force_rollback=True):
                connection.execute(f"SET LOCAL search_path = {schema.name}")
                connection.execute(
                    f"CREATE FUNCTION {name}({arguments}) RETURNS int LANGUAGE sql "
                    f"SET search_path = {schema.name}, pg_temp AS 'SELECT 1'; "
                    f"REVOKE ALL ON FUNCTION {name}({arguments}) FROM public"
                )
                found = table_faults(connection, schema.name)
            assert found == [f"the function {name} is not SECURITY DEFINER"]


def test_a_service_refuses_a_table_without_a_policy_by_name(schema, change):
    change("DROP POLICY one ON hist")
    fault = "the table hist has no policy for vecall_app"
    assert rights(schema) == [fault]
    with pytest.raises(ConfigError, match=fault):
        open_service(schema)


def test_a_function_that_looks_up_its_tables_as_its_caller_does_is_an_error(
    schema, change
):
    change("ALTER FUNCTION look RESET search_path")
    fault = "the function look has not the search_path of the schema"
    assert rights(schema) == [fault]
    with pytest.raises(ConfigError, match=fault):
        open_service(schema)
    # Without pg_temp at its end, temporary tables of the caller come first.
    change(f"ALTER FUNCTION look SET search_path = {schema.name}")
    assert rights(schema) == [fault]
    change(f"ALTER FUNCTION look SET search_path = {schema.name}, pg_temp")
    assert rights(schema) == []


@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        ("ALTER ROLE other SUPERUSER", "superuser"),
        ("ALTER ROLE other BYPASSRLS", "BYPASSRLS"),
        ("GRANT vecall_owner TO other", "member of vecall_owner"),
        ("GRANT vecall_keeper TO other", "inherits"),
        ("REVOKE vecall_app FROM other", "no member of vecall_app"),
        ("ALTER TABLE mem OWNER TO other", "owns tables"),
    ],
)
def test_a_role_with_other_rights_is_refused(schema, change, statement, fault):
    change("CREATE ROLE other LOGIN; GRANT vecall_app TO other")
    url = schema.server.url("other", schema=schema.name)
    try:
        change(statement)
        with pytest.raises(ConfigError, match=fault):
            MemoryService(url, embedder=None)
        said = [finding.message for finding in examine_database(url)]
        assert any(fault in text for text in said)
    finally:
        change("REASSIGN OWNED BY other TO vecall_owner; DROP OWNED BY other")
        change("DROP ROLE other")


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("DROP INDEX mem_session", "mem"),
        ("ALTER TABLE hist ADD extra int", "hist"),
        ("GRANT SELECT ON mem TO public", "mem"),
        ("ALTER TABLE snap SET LOGGED", "snap"),
        ("CREATE FUNCTION added() RETURNS int LANGUAGE sql AS 'SELECT 1'", "added"),
    ],
)
def test_the_doctor_names_what_is_not_as_the_migration_made_it(
    schema, change, statement, name
):
    def tables():
        found = examine_database(schema.url)
        return [each for each in found if each.about == "tables"]

    assert [finding.level for finding in tables()] == ["ok"]
    change(statement)
    (finding,) = tables()
    assert finding.level == "warning"
    assert finding.message.endswith(f": {name}")


def test_functions_of_the_owner_use_no_temporary_table_of_their_caller(schema):
    """A trigger of such a table would run with the rights of the owner."""
    with open_service(schema) as memory:
        memory.user("hotel", "alice").add(["Prefers a quiet room."])
    with psycopg.connect(schema.server.url("server")) as connection:
        run = connection.execute
        heads = f"SELECT * FROM {schema.name}.heads('{{hotel}}', '{{alice}}')"
        before = run(heads).fetchall()
        run(
            "SET LOCAL search_path = pg_temp; "
            'CREATE TEMP TABLE part (id bigint, app text, "user" text, seq bigint, '
            "head bigint, live bigint, bytes bigint, created_at float8, crc bigint); "
            "INSERT INTO part VALUES (99, 'hotel', 'alice', 7, 7, 1, 1, 1, 1); "
            "GRANT ALL ON part TO public; "
            "CREATE FUNCTION pg_temp.run() RETURNS trigger LANGUAGE plpgsql "
            "AS $$ BEGIN RAISE 'as %', current_user; END $$; "
            "CREATE TRIGGER one BEFORE INSERT OR UPDATE ON part FOR EACH ROW "
            "EXECUTE FUNCTION pg_temp.run()"
        )
        assert run(heads).fetchall() == before
        look = run(f"SELECT {schema.name}.look('hotel', 'alice', '')").fetchone()
        assert look == (before[0][1],)
        run(f"SELECT * FROM {schema.name}.enter('hotel', 'bob', '', true, 0)")
