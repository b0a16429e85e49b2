"""The statement that asks for versions of partitions, on a connection of its own."""

from __future__ import annotations

import psycopg
from psycopg import sql

from vecall.store.postgres.bounded_connection import BoundedConnection
from vecall.store.postgres.connections import Connections
from vecall.store.postgres.dialect import encoded
from vecall.store.postgres.errors import MISPLACED, NoAnswerError, is_lost
from vecall.store.postgres.pooler import set_for_transaction
from vecall.store.results import Version

Names = tuple[str, str]

_OF_THE_TIME = 0.25  # of the URL's `timeout`: a check is a small part of a call


class VersionStatement:
    """Sends the statement, and connects when it has to. One thread at a time uses it.

    Attributes:
        sent: The number of statements that were sent.
    """

    def __init__(self, connections: Connections) -> None:
        """Do not connect yet."""
        self.sent = 0
        self._connections = connections
        self._connection: BoundedConnection | None = None
        self._query = sql.SQL(
            "SELECT n, part, seq, head FROM {}.heads(%s::text[], %s::text[])"
        ).format(sql.Identifier(connections.url.schema))

    def versions(self, names: list[Names]) -> dict[Names, Version | None]:
        """Return the version of each (app, user); None if there is no partition.

        A connection that is lost is replaced once.

        Raises:
            psycopg.Error: The database cannot be reached, or does not answer.
        """
        apps = [encoded(app) for app, _ in names]
        users = [encoded(user) for _, user in names]
        try:
            rows = self._rows(apps, users)
        except psycopg.Error as error:
            if isinstance(error, MISPLACED):
                self._connections.prepare_no_more()
            elif not is_lost(error) or isinstance(error, NoAnswerError):
                raise
            rows = self._rows(apps, users)  # on a new connection
        found: dict[Names, Version | None] = dict.fromkeys(names)
        for place, part, seq, head in rows:
            found[names[place - 1]] = (part, seq, head)
        return found

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()

    def _rows(
        self, apps: list[str], users: list[str]
    ) -> list[tuple[int, int, int, int]]:
        if self._connection is None or self._connection.closed:
            self._connection = self._connections.connect()
            seconds = self._connections.url.timeout * _OF_THE_TIME
            self._connection.allow(seconds, each=True)
        self.sent += 1
        try:
            return self._executed(self._connection, (apps, users))
        except BaseException:
            self._connection.close()  # it may be lost, or in a transaction
            raise

    def _executed(
        self, connection: BoundedConnection, names: tuple[list[str], list[str]]
    ) -> list[tuple[int, int, int, int]]:
        if connection.settings is None:
            return connection.execute(
                self._query, names, prepare=True, binary=True
            ).fetchall()
        with connection.pipeline():
            connection.execute(b"BEGIN READ ONLY")
            connection.execute(set_for_transaction(connection.settings))
            found = connection.execute(self._query, names, prepare=True, binary=True)
            connection.execute(b"COMMIT")
        return found.fetchall()
