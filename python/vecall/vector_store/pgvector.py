"""A vector store in PostgreSQL with pgvector. Needs the extra `vecall[pgvector]`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vecall.embedders.base import PerProcess
from vecall.errors import ClosedError, ConfigError, DimensionError, needs_extra
from vecall.limits import Limits
from vecall.telemetry import warn_caller
from vecall.validation import is_database_url
from vecall.vector_store import base

if TYPE_CHECKING:
    from vecall.store.postgres.connections import BoundedConnection
    from vecall.store.postgres.url import DatabaseUrl


_UNUSED = ("writers", "readers", "keeper_url")


def parsed_store_url(url: str, schema: str) -> DatabaseUrl:
    """Return the parts of a URL."""
    from vecall.store.postgres.url import parse_database_url

    if not is_database_url(url):
        raise ConfigError("url: expected postgresql://user@host/database")
    found = parse_database_url(url, default_schema=schema)
    for name in _UNUSED:
        if f"{name}=" in url.partition("?")[2]:
            msg = f"url: {name} is an option of MemoryService; use connections="
            raise ConfigError(msg)
    if not found.is_checked:
        warn_caller(
            "url: the connection to the database does not verify the server; use "
            "sslmode=verify-full"
        )
    return found


_MOST_DIMENSIONS = 16_000  # of pgvector's type
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_SCHEMA = "vecall_vectors"

_STATE = """
SELECT (SELECT atttypmod FROM pg_attribute
    WHERE attrelid = to_regclass(%s) AND attname = 'vec'),
  (SELECT count(*) = 2 FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
    WHERE c.relnamespace = to_regnamespace(%s)
    AND (c.relname, a.attname) IN (('meta', 'key'), ('part', 'live')))
"""
"""The length of the vectors, and whether a memory service has the schema."""


class PgVectorStore(base.RemoteVectorStore):
    """A `DeletingVectorStore` in a table of a PostgreSQL database with pgvector.

    A search is exact: it scores all rows of the user, which the primary key finds, and
    uses no approximate index. The cosine is that of float32 vectors. A statement sees
    the rows of one app and user, which are part of the primary key.

    The first upsert creates the table, and its schema unless that exists. The length of
    the vectors is that of the column. An administrator creates the extension.
    """

    def __init__(
        self,
        url: str,
        *,
        dimensions: int | None = None,
        table: str = "vectors",
        connections: int = 4,
        limits: Limits | None = None,
    ) -> None:
        """Create a store; the first call connects.

        Args:
            url: "postgresql://user@host/database"; options of libpq, and `schema`
                (default: `vecall_vectors`; not that of a `MemoryService`) and `timeout`
                (seconds that a call waits; default: 18), follow a question mark.
            dimensions: Length of every vector, 1 to 16,000; None uses that of the
                table, or of the first stored vector.
            table: Name of the table in the schema.
            connections: Number of connections and threads, at most 64.
            limits: Maximum sizes of names, metadata and results. Metadata holds the
                text, so its limit is `max_text_bytes`.

        Raises:
            ConfigError: An option is invalid.
            ImportError: The extra `vecall[pgvector]` is not installed.
        """
        with needs_extra("PgVectorStore", "psycopg", "pgvector"):
            from vecall.store.postgres.connections import Connector, Pool
        self._url = parsed_store_url(url, _SCHEMA)
        super().__init__(
            dimensions,
            limits,
            connections=connections,
            timeout=self._url.timeout,
            most_dimensions=_MOST_DIMENSIONS,
        )
        given: object = table
        if not isinstance(given, str) or not _NAME.fullmatch(given):
            allowed = "a name of lower-case letters, digits and _, at most 63"
            raise ConfigError(f"table: expected {allowed}")
        self._table = f'"{self._url.schema}"."{table}"'
        self._insert = (
            f"INSERT INTO {self._table} (app, usr, id, session, micros, metadata, vec) "
            "VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT (app, usr, id) DO UPDATE "
            "SET session = excluded.session, micros = excluded.micros, "
            "metadata = excluded.metadata, vec = excluded.vec"
        )
        connector = Connector(self._url, durable=True)
        self._pools = PerProcess(
            lambda: Pool(connector.connect, connections, connector.prepare_no_more)
        )

    @contextmanager
    def _lend_connection(self) -> Iterator[BoundedConnection]:
        """Lend a connection for the time left, and raise vecall's errors."""
        import psycopg
        from psycopg import errors

        from vecall.store.postgres.url import database_errors

        seconds = self._call_seconds_left()
        with database_errors():
            try:
                with self._pools().borrow_connection(seconds) as connection:
                    connection.allow(seconds, each=False)
                    yield connection
            except ClosedError:
                raise base.closed_store_error() from None
            except psycopg.Error as error:
                self._dimensions = None  # the table may have been dropped
                if isinstance(error, errors.UndefinedObject):
                    raise ConfigError(
                        "the database has no type vector in the search_path; an "
                        "administrator runs CREATE EXTENSION vector"
                    ) from None
                is_data = isinstance(error, errors.DataException)
                if is_data and error.sqlstate == "22000":
                    msg = "embedding: the table has vectors of another length"
                    raise DimensionError(msg) from None
                raise

    def _store_row(
        self, key: base.Key, row: base.StoredRow, vector: NDArray[np.float32]
    ) -> None:
        with self._lend_connection() as connection:
            is_known = self._require_dim(vector, lambda: self._read_length(connection))
            values = [*key, *row, str(vector.tolist())]
            if is_known:
                _execute_on_pg(connection, self._insert, values)
            else:
                with connection.transaction():
                    self._create_pgvector_table(connection, vector)
                    _execute_on_pg(connection, self._insert, values)
            self._dimensions = vector.size

    def _create_pgvector_table(
        self, connection: BoundedConnection, vector: NDArray[np.float32]
    ) -> None:
        """Create the table unless another process has done so meanwhile."""
        lock = "SELECT pg_advisory_xact_lock(hashtext(%s))"
        _execute_on_pg(connection, lock, [self._table])
        if self._require_dim(vector, lambda: self._read_length(connection)):
            return
        schema = self._url.schema
        if not _execute_on_pg(connection, "SELECT to_regnamespace(%s)", [schema])[0][0]:
            _execute_on_pg(connection, f'CREATE SCHEMA "{schema}"')
        _execute_on_pg(
            connection,
            f'CREATE TABLE {self._table} (app text COLLATE "C", usr text COLLATE "C", '
            'id text COLLATE "C", session text COLLATE "C", micros bigint NOT NULL, '
            f"metadata text NOT NULL, vec vector({vector.size}) NOT NULL, "
            "PRIMARY KEY (app, usr, id))",
        )

    def _read_length(self, connection: BoundedConnection) -> int | None:
        """Return the length that the table's column has; None without a table."""
        length: int | None
        values = [self._table, self._url.schema]
        length, is_of_service = _execute_on_pg(connection, _STATE, values)[0]
        if is_of_service:
            raise ConfigError(
                "url: schema: it has the tables of a MemoryService; name another one, "
                f"or none for {_SCHEMA}"
            )
        return length

    def _nearest_rows(
        self, vector: NDArray[np.float32], count: int, scope: base.PartitionScope
    ) -> list[tuple[float, base.StoredRow]]:
        with self._lend_connection() as connection:
            if not self._require_dim(vector, lambda: self._read_length(connection)):
                return []
            where, values = _sql_of_store_filter(scope)
            found = _execute_on_pg(
                connection,
                "SELECT vec <#> %s AS distance, id, session, micros, metadata "
                f"FROM {self._table} WHERE {where} ORDER BY distance LIMIT %s",
                [str(vector.tolist()), *values, count],
            )
        return [(-distance, base.StoredRow(*row)) for distance, *row in found]

    def _delete_row(self, key: base.Key, id: str) -> bool:
        with self._lend_connection() as connection:
            if self._read_length(connection) is None:
                return False
            own = "WHERE app = %s AND usr = %s AND id = %s RETURNING 1"
            query = f"DELETE FROM {self._table} {own}"
            return bool(_execute_on_pg(connection, query, [*key, id]))

    def _delete_rows(self, scope: base.PartitionScope) -> int:
        where, values = _sql_of_store_filter(scope)
        with self._lend_connection() as connection:
            if self._read_length(connection) is None:
                return 0
            with connection.transaction():
                if scope.where is not None:
                    columns = "id, session, micros, metadata"
                    query = f"SELECT {columns} FROM {self._table} WHERE {where}"
                    found = _execute_on_pg(connection, f"{query} FOR UPDATE", values)
                    rows = [base.StoredRow(*each) for each in found]
                    where += " AND id = ANY(%s)"
                    values.append([row.id for row in rows if row.passes_scope(scope)])
                return connection.execute(
                    f"DELETE FROM {self._table} WHERE {where}".encode(), values
                ).rowcount

    def _disconnect(self) -> None:
        self._pools().close()  # connections in use, when they come back


def _execute_on_pg(
    connection: BoundedConnection, statement: str, values: Any = ()
) -> list[tuple[Any, ...]]:
    """Execute a statement, and return its rows."""
    cursor = connection.execute(statement.encode(), values)
    return cursor.fetchall() if cursor.description else []


def _sql_of_store_filter(scope: base.PartitionScope) -> tuple[str, list[Any]]:
    """Return the conditions of a filter apart from `where`, with their values."""
    conditions, values = ["app = %s", "usr = %s"], list[Any](scope.key)
    for condition, value in (
        ("session = %s", scope.session),
        ("micros >= %s", scope.after),
        ("micros < %s", scope.before),
    ):
        if value is not None:
            conditions.append(condition)
            values.append(value)
    return " AND ".join(conditions), values
