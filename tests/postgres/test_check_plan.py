"""A check of versions reads the rows of the users who are asked for, and no others."""

from __future__ import annotations

import pytest

psycopg = pytest.importorskip("psycopg")


@pytest.mark.parametrize("users", [1_000, 5_000, 20_000])
def test_a_check_scans_no_table_however_many_users_there_are(schema, users):
    """PostgreSQL plans a statement that is repeated without its values."""
    with psycopg.connect(schema.server.url(), autocommit=True) as connection:
        run = connection.execute
        run(f"SET search_path = {schema.name}")
        run("SET plan_cache_mode = force_generic_plan")
        numbers = f"generate_series(1, {users}) AS n"
        run(
            'INSERT INTO part (app, "user", created_at) '
            f"SELECT 'app', 'user ' || n, 0 FROM {numbers}"
        )
        run("VACUUM ANALYZE part")
        ((text,),) = run("SELECT prosrc FROM pg_proc WHERE oid = 'heads'::regproc")
        for name, number in (("apps", "$1"), ("users", "$2")):
            text = text.replace(f"{name},", f"{number},").replace(
                f"{name})", f"{number})"
            )
        run(f"PREPARE heads (text[], text[]) AS {text}")
        lines = run("EXPLAIN EXECUTE heads (ARRAY['app'], ARRAY['user 7'])").fetchall()
    plan = "\n".join(line for (line,) in lines)
    assert "Seq Scan" not in plan, plan
    assert "Index" in plan, plan
