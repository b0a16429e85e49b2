"""With the rights of a service, SQL by hand reaches no row of another user."""

from __future__ import annotations

import pytest
from helpers.postgres_server import MISSING, Schema, is_available

psycopg = pytest.importorskip("psycopg")
from psycopg import errors  # noqa: E402

ROLES = ("vecall_app", "vecall_reader")
SHARED = ("meta", "model")
ROWS = {
    "mem": "(rid, part, seq, crc, created_at, updated_at, id, text, hash) "
    "VALUES ({rid}, {part}, 1, 0, 0, 0, '{id}', 'secret {part}', 'x')",
    "vec_next": "(rid, model, vec) VALUES ({rid}, 1, 'secret {part}')",
    "chg": "(part, seq, rid, op, head) VALUES ({part}, {n}, {rid}, 'add', 1)",
    "tomb": "(part, id, at) VALUES ({part}, '{id}', 0)",
    "hist": "(part, id, seq, at, op, old) VALUES ({part}, '{id}', 1, 0, 'u', 'secret')",
    "idem": "(part, key, at) VALUES ({part}, '{id}', 0)",
    "trig": "(part, session, kind) VALUES ({part}, '{id}', 'summary')",
    "replaced": "(part, id, why, at) VALUES ({part}, '{id}', 'x', 0)",
    "told": "(part, session, id, at) VALUES ({part}, 's', '{id}', 0)",
    "fig": "(part, name) VALUES ({part}, '{id}')",
    "snap": "(part, n, data) VALUES ({part}, {n}, 'secret {part}')",
    "item": "(rid, part, ns, key, value, created_at, updated_at, crc) "
    "VALUES ({rid}, {part}, 'ns', '{id}', 'secret {part}', 0, 0, 0)",
}
"""An INSERT of a row of each table with data of users; `part` has the users."""
TABLES = ("part", *ROWS)
KEYS = {"part": "id", "vec_next": "(rid >> 32)"}
LISTED = (
    "SELECT c.relname FROM pg_class AS c WHERE c.relkind IN ('r', 'p') "
    "AND c.relnamespace = '{}'::regnamespace"
)


def insert(table, part, n):
    return f"INSERT INTO {table} " + ROWS[table].format(
        part=part, rid=(part << 32) + n, id=f"id {n}", n=n
    )


class World:
    """A schema in which alice and bob have a row in each table."""

    def __init__(self):
        self.schema = Schema()
        with psycopg.connect(self.schema.server.url(), autocommit=True) as admin:
            admin.execute(f"SET search_path = {self.schema.name}")
            admin.execute(
                "INSERT INTO model (name, dim, state) VALUES ('m', 2, 'active')"
            )
            self.parts = [
                admin.execute(
                    'INSERT INTO part (app, "user", created_at) '
                    f"VALUES ('hotel', '{user}', 0) RETURNING id"
                ).fetchone()[0]
                for user in ("alice", "bob")
            ]
            for part in self.parts:
                for table in ROWS:
                    admin.execute(insert(table, part, 1))
            admin.execute("ANALYZE mem")


@pytest.fixture(scope="module")
def world():
    if not is_available():
        pytest.skip(MISSING)
    made = World()
    yield made
    made.schema.drop()


class Attacker:
    """Executes statements with the rights of a role, as alice or as no user."""

    def __init__(self, world, role, user="alice"):
        self._connection = psycopg.connect(world.schema.url.partition("&schema")[0])
        self._connection.execute(f"SET search_path = {world.schema.name}")
        self._connection.execute(f"SET ROLE {role}")
        if user is not None:
            self._connection.execute("SELECT look('hotel', %s, NULL)", [user])
        self._connection.execute("SAVEPOINT begun")
        self.said = []
        self._connection.add_notice_handler(
            lambda notice: self.said.append(notice.message_primary)
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._connection.rollback()
        self._connection.close()

    def does(self, statement):
        """Return the rows, or the number of changed ones; or the error."""
        try:
            cursor = self._connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else cursor.rowcount
        except psycopg.Error as error:
            return error
        finally:
            self._connection.execute("ROLLBACK TO begun")


def leaks(world, role, table):
    """What a role can do with the rows of bob in a table, as alice."""
    alice, bob = world.parts
    key = KEYS.get(table, "part")
    others = f"{key} IS DISTINCT FROM {alice}"
    found = []
    with Attacker(world, role) as attacker:
        for statement in (
            f"SELECT * FROM {table} WHERE {others}",
            f"SELECT * FROM {table} WHERE {others} FOR UPDATE",
            f"DELETE FROM {table} WHERE {others} RETURNING *",
            f"DELETE FROM {table} USING part WHERE {table}.{key} <> {alice} RETURNING *"
            if key == "part" else "SELECT 1 LIMIT 0",
        ):  # fmt: skip
            rows = attacker.does(statement)
            if not isinstance(rows, errors.InsufficientPrivilege) and rows != []:
                found.append((statement, rows))
        column = {"part": "seq = 7", "vec_next": "model = 7"}.get(table, "part = part")
        changed = attacker.does(f"UPDATE {table} SET {column} WHERE {others}")
        if not isinstance(changed, errors.InsufficientPrivilege) and changed:
            found.append(("update", changed))
        moved = {"part": f"id = {bob + 9}", "vec_next": f"rid = {(bob << 32) + 9}"}
        statements = [
            f"UPDATE {table} SET {moved.get(table, f'part = {bob}')}",
            f"TRUNCATE {table}",
            f"COPY {table} FROM STDIN",
        ]
        if table in ROWS:
            statements.append(insert(table, bob, 2))
            statements.append(insert(table, bob, 1) + " ON CONFLICT DO NOTHING")
        else:
            statements.append(
                "INSERT INTO part (app, \"user\", created_at) VALUES ('a', 'eve', 0)"
            )
        for statement in statements:
            error = attacker.does(statement)
            refused = (errors.InsufficientPrivilege, errors.FeatureNotSupported)
            if not isinstance(error, refused):
                found.append((statement, error))
    return found


def test_the_tables_here_are_those_of_the_schema(world):
    found = world.schema.server.execute(LISTED.format(world.schema.name))
    assert {name for (name,) in found} == {*TABLES, *SHARED}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("table", TABLES)
def test_no_row_of_another_user_is_read_or_changed(world, role, table):
    with Attacker(world, role) as attacker:
        own = attacker.does(f"SELECT * FROM {table}")
        assert len(own) == 1  # the attack is on a table that the role can read
    assert leaks(world, role, table) == []


@pytest.mark.parametrize("table", TABLES)
def test_the_attacks_succeed_where_a_policy_shows_all_rows(world, table):
    """The test above can fail: with a wide policy both roles reach bob's rows."""
    change = world.schema.server.execute
    name = f"{world.schema.name}.{table}"
    try:
        change(f"CREATE POLICY wide ON {name} USING (true)")
        for role in ROLES:
            assert leaks(world, role, table) != []
    finally:
        change(f"DROP POLICY wide ON {name}")


@pytest.mark.parametrize("role", ROLES)
def test_without_a_user_nothing_is_seen(world, role):
    with Attacker(world, role, user=None) as attacker:
        for table in TABLES:
            assert attacker.does(f"SELECT * FROM {table}") == []
    with Attacker(world, role, user="nobody") as attacker:
        for table in TABLES:
            assert attacker.does(f"SELECT * FROM {table}") == []


ATTEMPTS = [
    "UPDATE meta SET value = '9'",
    "DELETE FROM meta",
    "INSERT INTO meta VALUES ('a', 'b')",
    "UPDATE model SET name = 'other'",
    "TRUNCATE meta",
    "CREATE TABLE mine (a int)",
    "CREATE FUNCTION mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE OR REPLACE FUNCTION look(a text, b text, c text) RETURNS bigint "
    "LANGUAGE sql AS 'SELECT 1'",
    "ALTER FUNCTION look SECURITY INVOKER",
    "ALTER TABLE mem DISABLE ROW LEVEL SECURITY",
    "ALTER TABLE mem NO FORCE ROW LEVEL SECURITY",
    "ALTER POLICY one ON mem USING (true)",
    "DROP POLICY one ON mem",
    "CREATE POLICY mine ON mem USING (true)",
    "CREATE INDEX ON mem (text)",
    "CREATE TRIGGER mine BEFORE UPDATE ON mem FOR EACH ROW "
    "EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "CREATE RULE mine AS ON INSERT TO mem DO ALSO NOTHING",
    "DROP TABLE mem",
    "ALTER ROLE vecall_app BYPASSRLS",
    "SELECT setval('part_id', 1)",
    "SELECT * FROM part_id",
    "SELECT pg_read_file('PG_VERSION')",
    "COPY mem TO PROGRAM 'true'",
]


@pytest.mark.parametrize("role", ROLES)
def test_neither_the_schema_nor_shared_tables_can_be_changed(world, role):
    with Attacker(world, role) as attacker:
        for statement in ATTEMPTS:
            error = attacker.does(statement)
            assert isinstance(error, errors.InsufficientPrivilege), statement
        attacker.does("GRANT SELECT ON mem TO public")  # warns, and does nothing
        assert attacker.said == ['no privileges were granted for "mem"']


def test_the_role_of_a_service_cannot_become_the_owner(world):
    with psycopg.connect(world.schema.url.partition("&schema")[0]) as connection:
        for role in ("vecall_owner", "admin"):
            with pytest.raises(errors.InsufficientPrivilege):
                connection.execute(f"SET ROLE {role}")
            connection.rollback()


@pytest.mark.parametrize("role", ROLES)
def test_users_cannot_be_listed(world, role):
    """`heads` answers about names that the caller knows, with numbers only."""
    with Attacker(world, role) as attacker:
        (row,) = attacker.does('SELECT app, "user" FROM part')
        assert row == ("hotel", "alice")
        assert attacker.does("SELECT * FROM heads('{hotel}', '{%}')") == []
        shown = attacker.does("SELECT * FROM heads('{hotel}', '{bob}')")
        assert shown == [(1, world.parts[1], 0, 0)]


@pytest.mark.parametrize("role", ROLES)
def test_neither_statistics_nor_functions_of_a_condition_show_other_rows(world, role):
    with Attacker(world, role) as attacker:
        schema = f"schemaname = '{world.schema.name}'"
        assert attacker.does(f"SELECT * FROM pg_stats WHERE {schema}") == []
        leak = (
            "CREATE FUNCTION pg_temp.shown(text) RETURNS bool COST 0.0000001 "
            "LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '%', $1; RETURN true; END $$; "
            "SELECT count(*) FROM mem WHERE pg_temp.shown(text)"
        )
        attacker.does(leak)
        assert attacker.said == [f"secret {world.parts[0]}"]


def test_row_level_security_holds_no_program_that_names_another_user(world):
    """It guards against mistakes of vecall, not against SQL of an attacker."""
    alice, bob = world.parts
    with Attacker(world, "vecall_app") as attacker:
        forged = (
            f"SELECT set_config('vecall.part', '{bob}', true); SELECT part FROM mem"
        )
        connection = attacker._connection
        connection.execute(forged.partition(";")[0])
        assert connection.execute("SELECT part FROM mem").fetchall() == [(bob,)]
        assert alice != bob


NUMBERED = ("mem", "item", "chg", "vec_next")
"""Tables whose rows have a number that begins with that of their user."""


@pytest.mark.parametrize("table", NUMBERED)
def test_no_row_takes_a_number_of_another_user(world, table):
    """Else the next row of that user could not be written."""
    alice, bob = world.parts
    own, number = insert(table, alice, 5), str((alice << 32) + 5)
    assert number in own
    forged = own.replace(number, str((bob << 32) + 5))
    moved = f"UPDATE {table} SET rid = {(bob << 32) + 5}"
    with Attacker(world, "vecall_app") as attacker:
        assert attacker.does(own) == 1
        for statement in (forged, moved):
            error = attacker.does(statement)
            refused = (errors.CheckViolation, errors.InsufficientPrivilege)
            assert isinstance(error, refused), statement


@pytest.mark.parametrize(
    "change",
    [
        "\"user\" = 'carol'",
        "app = 'motel'",
        "app = '', \"user\" = 'carol'",
        "sweep_until = 9e9",
        "id = id",
    ],
)
def test_a_user_keeps_its_number_its_names_and_its_turn(world, change):
    with Attacker(world, "vecall_app") as attacker:
        error = attacker.does(f"UPDATE part SET {change}")
        assert isinstance(error, errors.InsufficientPrivilege)
        assert attacker.does("UPDATE part SET seq = seq") == 1


def test_the_doctor_counts_rows_with_a_number_of_another_user(world):
    from vecall.store import examine_database

    def numbers():
        found = examine_database(world.schema.url)
        return [(each.level, each.message) for each in found if each.about == "numbers"]

    assert numbers() == [("ok", "right")]
    name, (alice, bob) = world.schema.name, world.parts
    change = world.schema.server.execute
    forged = insert("mem", alice, 6).replace(
        str((alice << 32) + 6), str((bob << 32) + 6)
    )
    check = f"ALTER TABLE {name}.mem %s CONSTRAINT mem_of_part"
    change(check % "DROP")
    try:
        change(forged.replace("INTO mem", f"INTO {name}.mem"))
        ((level, message),) = numbers()
        assert level == "error"
        assert "1 rows have another user's number" in message
    finally:
        change(f"DELETE FROM {name}.mem WHERE id = 'id 6'")
        change(f"{check % 'ADD'} CHECK (rid >> 32 = part) NOT VALID")
