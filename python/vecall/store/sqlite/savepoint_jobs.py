"""Runs jobs that share a transaction; each succeeds or fails by itself."""

from __future__ import annotations

import sqlite3

from vecall.store.file.sqlite_errors import as_typed
from vecall.store.rows import Change
from vecall.store.write_job import WriteJob


def run_in_savepoint(
    connection: sqlite3.Connection, job: WriteJob
) -> Change | BaseException:
    """Run a job in its own savepoint.

    Returns:
        Its change; or its error, after it was rolled back.

    Raises:
        sqlite3.Error: SQLite rolled the whole transaction back, as it does when the
            disk is full, so the jobs before this one are undone too.
    """
    connection.execute("SAVEPOINT job")
    try:
        change = job.run(connection)
    except BaseException as error:
        if not connection.in_transaction:
            raise
        connection.execute("ROLLBACK TO job")
        connection.execute("RELEASE job")
        return as_typed(error)
    connection.execute("RELEASE job")
    return change
