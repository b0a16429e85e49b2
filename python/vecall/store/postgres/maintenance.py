"""Maintenance of a database, as far as it is vecall's and not the server's."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from vecall.caller_warnings import warn_caller
from vecall.errors import ConfigError
from vecall.store.postgres.errors import database_errors
from vecall.store.postgres.transaction import PostgresTransaction
from vecall.store.writes.idempotency import drop_digests
from vecall.store.writes.purge_digests import hide_what_is_gone
from vecall.store.writes.record_snapshot import count_purge
from vecall.store.writes.row_diff import shorten_digests

_REMEDY = (
    "deleted rows stay in the files of the server until autovacuum, or VACUUM by an "
    "administrator, removes them"
)
_MAX_LOGGED = 16  # changes of a partition that a purge keeps
_Begin = Callable[[], AbstractContextManager[PostgresTransaction]]
_SIZES = """
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0),
  (SELECT coalesce(sum(octet_length(data)), 0) FROM snap)
FROM pg_class AS c WHERE c.relnamespace = CAST(current_schema() AS regnamespace)
AND c.relkind = 'r' AND c.relname <> 'snap'
"""


class PostgresMaintenance:
    """Implements `Maintenance`."""

    def __init__(
        self, reading: _Begin, altering: _Begin, vacuum: Callable[[], str | None]
    ) -> None:
        """Maintain a database.

        Args:
            reading: Begins a transaction that reads across users.
            altering: Begins one that writes across users.
            vacuum: Returns the space of deleted rows; says why if it could not.
        """
        self._reading = reading
        self._altering = altering
        self._vacuum = vacuum

    def sizes(self) -> dict[str, int]:
        """Return the sizes of vecall's tables and of the snapshots, in bytes."""
        with database_errors(), self._reading() as transaction:
            row = transaction.execute(_SIZES).fetchone()
        assert row is not None
        return {"file_bytes": row[0], "wal_bytes": 0, "snapshot_bytes": row[1]}

    def has_room(self, size: int) -> bool:
        """Return True: room is the server's matter."""
        del size
        return True

    def purge(self) -> int:
        """Erase deleted data from the tables; return the bytes freed.

        WAL, replicas and backups keep them for their own retention. If the tables were
        not vacuumed, the call warns and says why.
        """
        before = sum(self.sizes().values())
        with database_errors(), self._altering() as transaction:
            count_purge(transaction)
            transaction.execute("DELETE FROM snap")
            transaction.execute(
                "DELETE FROM chg WHERE seq <= "
                "(SELECT seq FROM part WHERE part.id = chg.part) - ?",
                (_MAX_LOGGED,),
            )
            drop_digests(transaction)
            shorten_digests(transaction)
            hide_what_is_gone(transaction, transaction.expiry_clock.wall())
        lacking = self._vacuum()
        if lacking is not None:
            warn_caller(f"purge: the tables were not vacuumed: {lacking}; {_REMEDY}")
        return max(0, before - sum(self.sizes().values()))

    def backup(self, target: Path) -> None:
        """Refuse: a database has its own means."""
        del target
        msg = "backup: a database is backed up by pg_dump, or by PITR of its server"
        raise ConfigError(msg)

    def require_unrelated(self, path: Path) -> None:
        """Accept every path: a database has no files of its own here."""
        del path
