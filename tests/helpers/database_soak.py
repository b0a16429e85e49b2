"""Writers and readers on one database for a long while, some of them killed."""

from __future__ import annotations

from typing import Any

from helpers.fork_pool import ForkPool
from helpers.postgres_server import Schema
from helpers.soak import Soak


class DatabaseSoak(Soak):
    """As `Soak`, over a schema of a database."""

    def __init__(
        self, pool: ForkPool, schema: Schema, seed: int, **options: Any
    ) -> None:
        """Prepare the parent."""
        super().__init__(pool, schema.url, seed, **options)
        self._schema = schema

    def _texts(self) -> list[str]:
        rows = self._schema.server.execute(f"SELECT text FROM {self._schema.name}.mem")
        return [text for (text,) in rows]
