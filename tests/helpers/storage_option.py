"""The option `--storage`: the behaviour suite over a file or over PostgreSQL.

With `--storage=postgres` each path of a file that a test opens becomes a schema of a
real server. `helpers/file_only.py` lists the tests of what only a file has.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from vecall import store, validation
from vecall.clock import Clock, ExpiryClock
from vecall.index import partition_cache
from vecall.operations import runtime

from helpers.file_only import reason_of
from helpers.postgres_server import MISSING, Schema, is_available


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption(
        "--storage",
        choices=("sqlite", "postgres"),
        default="sqlite",
        help="where services of the tests store memories",
    )


@pytest.fixture(params=["file", "memory", "postgres"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Path | str | None]:
    """What a service opens, on each storage; None is memory."""
    if request.param != "postgres":
        yield tmp_path / "m.db" if request.param == "file" else None
        return
    if not is_available():
        pytest.skip(MISSING)
    schema = Schema()
    yield schema.url
    schema.drop()


_NOT_SYNCED = ("fsync", "full_page_writes", "replication")

_schemas: dict[Path, Schema] = {}
"""The schemas of the running test, by the path that the test opens."""


def pytest_configure(config: pytest.Config) -> None:
    """Let the doctor examine schemas instead of files."""
    if config.getoption("--storage") == "sqlite":
        return
    config.pluginmanager.register(_OverPostgres(), "over postgres")
    examine_file = store.examine

    def examine(path: Path) -> list[store.Finding]:
        schema = _schemas.get(Path(path).absolute())
        if schema is None:
            return examine_file(path)
        from vecall.store.postgres.doctor import examine_url
        from vecall.store.postgres.url import parse_database_url

        found = examine_url(parse_database_url(schema.url))
        # The shared server does not sync, so that tests are fast.
        return [each for each in found if each.about not in _NOT_SYNCED]

    store.examine = partition_cache.examine = examine


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Skip the tests of files over a database."""
    if config.getoption("--storage") == "sqlite":
        return
    for item in items:
        reason = reason_of(item.nodeid)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=f"file only: {reason}"))


def pytest_report_collectionfinish(
    config: pytest.Config, items: list[pytest.Item]
) -> list[str]:
    """Say how many tests run over a database."""
    if config.getoption("--storage") == "sqlite":
        return []
    left = sum(reason_of(item.nodeid) is not None for item in items)
    return [f"over PostgreSQL: {len(items) - left} tests; for files only: {left}"]


class _Tables:
    """A look into the tables of a schema, for tests that look into those of a file."""

    def __init__(self, schema: Schema) -> None:
        import psycopg
        from vecall.store.postgres.transaction import (
            PostgresTransaction,
            prepare_connection,
        )

        self._connection = psycopg.connect(schema.server.url(), autocommit=True)
        prepare_connection(self._connection)
        self._connection.execute(f"SET search_path = {schema.name}")
        self._transaction = PostgresTransaction(
            self._connection, ExpiryClock(Clock()), b""
        )

    def execute(self, sql: str, values: Any = ()) -> Any:
        return self._transaction.execute(sql, values)

    def executemany(self, sql: str, rows: Any) -> None:
        for values in rows:
            self.execute(sql, values)

    def iterdump(self) -> Iterator[str]:
        """Yield every row of every table as text."""
        tables = self._connection.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'r' "
            "AND relnamespace = current_schema()::regnamespace ORDER BY relname"
        ).fetchall()
        for (table,) in tables:
            rows = self._connection.execute(
                f"SELECT t::text FROM {table} AS t ORDER BY 1"
            ).fetchall()
            yield from (f"{table} {row}" for (row,) in rows if "(clock," not in row)

    def commit(self) -> None:
        """Every statement is committed."""

    def close(self) -> None:
        self._connection.close()

    def __del__(self) -> None:
        """Closes without a warning, as sqlite3 does before Python 3.13."""
        self._connection.close()

    def __enter__(self) -> _Tables:
        return self

    def __exit__(self, *_: object) -> None:
        """Like sqlite3's, it does not close."""


class _OverPostgres:
    """The fixture of a run over a database; thousands of other tests do without."""

    @pytest.fixture(autouse=True)
    def storage_of_services(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Let services open schemas instead of files."""
        if not is_available():
            pytest.skip(MISSING)
        schemas = _schemas

        def place(path: object) -> Path | str | None:
            found = validation.check_storage_path(path)
            if not isinstance(found, Path) or found.exists():
                return found
            if not found.parent.is_dir():
                return found  # refused, as without the option
            key = found.absolute()
            if key not in schemas:
                schemas[key] = Schema()
            return schemas[key].url

        def connect(path: Any, *rest: Any, **options: Any) -> Any:
            schema = schemas.get(Path(str(path)).absolute())
            if schema is None or Path(str(path)).exists():
                return connect_to_file(path, *rest, **options)
            return _Tables(schema)

        connect_to_file = sqlite3.connect
        monkeypatch.setattr(sqlite3, "connect", connect)
        monkeypatch.setattr(runtime, "check_storage_path", place)
        yield
        for schema in schemas.values():
            schema.drop()
        schemas.clear()
