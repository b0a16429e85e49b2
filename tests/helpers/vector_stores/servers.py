"""Vector stores on real servers: each store has a table, or a prefix, of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from vecall.vector_store import PgVectorStore, RedisVectorStore

from helpers import postgres_server, redis_server

_numbers = itertools.count(1)

needs_postgres = pytest.mark.skipif(
    not postgres_server.is_available(), reason=postgres_server.MISSING
)
needs_redis = pytest.mark.skipif(
    not redis_server.is_available(), reason=redis_server.MISSING
)
SERVERS = [
    pytest.param("pgvector", marks=needs_postgres, id="pgvector"),
    pytest.param("redis", marks=needs_redis, id="redis"),
]


def pgvector_url(**options: str) -> str:
    """Return the URL of the shared server, for a role that may create a schema."""
    server = postgres_server.shared_server()
    if not server.execute("SELECT 1 FROM pg_roles WHERE rolname = 'vectors'"):
        server.execute("CREATE EXTENSION IF NOT EXISTS vector")
        server.execute("CREATE ROLE vectors LOGIN")
        server.execute("GRANT CREATE ON DATABASE postgres TO vectors")
    return server.url("vectors", **{"schema": "vectors", **options})


def new_pgvector(**options: Any) -> PgVectorStore:
    """Return an empty store over the shared server."""
    if not postgres_server.is_available():
        pytest.skip(postgres_server.MISSING)
    options = {"table": f"t{next(_numbers)}", **options}
    return PgVectorStore(pgvector_url(), **options)


def new_redis(**options: Any) -> RedisVectorStore:
    """Return an empty store over the shared server."""
    if not redis_server.is_available():
        pytest.skip(redis_server.MISSING)
    options = {"prefix": f"p{next(_numbers)}", **options}
    return RedisVectorStore(redis_server.shared_redis().url(), **options)


ON_SERVERS: dict[str, Callable[..., Any]] = {
    "pgvector": new_pgvector,
    "redis": new_redis,
}
