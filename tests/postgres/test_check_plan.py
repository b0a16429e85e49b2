"""A check of versions reads the rows of the users who are asked for, and no others."""

from __future__ import annotations

import pytest

psycopg = pytest.importorskip("psycopg")


@pytest.mark.parametrize("mode", ["auto", "force_generic_plan", "force_custom_plan"])
@pytest.mark.parametrize("users", [1_000, 20_000])
def test_a_check_scans_no_table_however_many_users_there_are(schema, users, mode):
    """Also when PostgreSQL plans a statement that is repeated without its values."""
    with psycopg.connect(schema.server.url(), autocommit=True) as connection:
        run = connection.execute
        run(f"SET search_path = {schema.name}")
        run(f"SET plan_cache_mode = {mode}")
        numbers = f"generate_series(1, {users}) AS n"
        run(
            'INSERT INTO part (app, "user", created_at) '
            f"SELECT 'app', 'user ' || n, 0 FROM {numbers}"
        )
        run("VACUUM ANALYZE part")
        with connection.transaction():
            for _ in range(12):  # a plan without values is tried after five
                found = run(
                    "SELECT n, seq FROM heads(%s, %s)",
                    (["app", "app", "other"], ["user 7", "nobody", "user 7"]),
                ).fetchall()
            assert found == [(1, 0)]
            counts = run(
                "SELECT seq_scan, idx_scan FROM pg_stat_xact_user_tables "
                "WHERE relid = 'part'::regclass"
            ).fetchall()
    assert counts == [(0, 12 * 3)]
