"""Asks the database for versions of partitions: one statement for all who wait."""

from __future__ import annotations

import queue
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from time import monotonic

import psycopg
from psycopg import sql

from vecall.concurrency.interruptible import InterruptibleFuture
from vecall.errors import ClosedError
from vecall.store.postgres.bounded_connection import BoundedConnection
from vecall.store.postgres.connections import Connections
from vecall.store.postgres.dialect import encoded
from vecall.store.postgres.errors import MISPLACED, NoAnswerError, as_typed, is_lost
from vecall.store.postgres.pooler import set_for_transaction
from vecall.store.results import Version

Names = tuple[str, str]
_Waiting = tuple[Names, "Future[Version | None]"]
_MOST = 1_000  # versions in one statement
_OF_THE_TIME = 0.25  # of the URL's `timeout`: a check is a small part of a call


class VersionChecker:
    """Answers with states that are no older than the question. Thread-safe.

    A question that comes while a statement runs goes with the next one.
    """

    def __init__(self, connections: Connections, max_staleness: float = 0.0) -> None:
        """Start the thread.

        Args:
            connections: The connections.
            max_staleness: An answer of at most this age, in seconds, is given again.
        """
        self._connections = connections
        self._query = sql.SQL(
            "SELECT n, part, seq, head FROM {}.heads(%s::text[], %s::text[])"
        ).format(sql.Identifier(connections.url.schema))
        self._connection: BoundedConnection | None = None
        self._max_staleness = max_staleness
        # Not a dict, which is slow at its beginning where much was removed.
        self._recent: OrderedDict[Names, tuple[float, Version | None]] = OrderedDict()
        # A caller that is interrupted inside a C call leaves no lock behind.
        self._waiting: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._closing = threading.Lock()
        self._noting = threading.Lock()
        self._closed = False
        self.statements = 0
        """The number of statements that were sent."""
        self._thread = threading.Thread(
            target=self._work, name="vecall-versions", daemon=True
        )
        self._thread.start()

    def ask(self, app: str, user: str) -> Future[Version | None]:
        """Return a future of the version of a partition; None if there is none."""
        future: Future[Version | None] = InterruptibleFuture()
        names = (app, user)
        if self._max_staleness:
            known = self._recent.get(names)
            if known is not None and monotonic() - known[0] <= self._max_staleness:
                future.set_result(known[1])
                return future
        with self._closing:
            if self._closed:
                msg = "the memory service is closed"
                raise ClosedError(msg)
            self._waiting.put((names, future))
        return future

    def note(self, app: str, user: str, version: Version | None) -> None:
        """Record a version that this process has just written."""
        if self._max_staleness:
            with self._noting:
                self._put((app, user), monotonic(), version)
                self._forget_outdated()

    def close(self) -> None:
        """Answer what waits, and end the thread."""
        with self._closing:
            if not self._closed:
                self._closed = True
                self._waiting.put(None)
        if self._thread is not threading.current_thread():
            self._thread.join()

    def abandon(self) -> Callable[[], None]:
        """Return a function that ends the thread, not waiting."""
        put = self._waiting.put

        def end() -> None:
            put(None)

        return end

    def _work(self) -> None:
        ending = False
        while not ending:
            taken: list[_Waiting] = []
            first = self._waiting.get()
            while first is not None:
                taken.append(first)
                if len(taken) == _MOST:
                    break
                try:
                    first = self._waiting.get_nowait()
                except queue.Empty:
                    break
            else:
                ending = True
            if taken:
                self._answer(taken)
            first = None
        if self._connection is not None:
            self._connection.close()

    def _answer(self, taken: list[_Waiting]) -> None:
        try:
            found = self._found(list(dict.fromkeys(names for names, _ in taken)))
        except BaseException as error:
            typed = as_typed(error) if isinstance(error, psycopg.Error) else error
            for _, future in taken:
                with suppress(Exception):  # the caller was cancelled
                    future.set_exception(typed)
            return
        for names, future in taken:
            if future.set_running_or_notify_cancel():
                future.set_result(found.get(names))

    def _found(self, names: list[Names]) -> dict[Names, Version | None]:
        apps = [encoded(app) for app, _ in names]
        users = [encoded(user) for _, user in names]
        asked = monotonic()
        try:
            rows = self._ask_database(apps, users)
        except psycopg.Error as error:
            if isinstance(error, MISPLACED):
                self._connections.prepare_no_more()
            elif not is_lost(error) or isinstance(error, NoAnswerError):
                raise
            rows = self._ask_database(apps, users)  # on a new connection
        found: dict[Names, Version | None] = dict.fromkeys(names)
        for place, part, seq, head in rows:
            found[names[place - 1]] = (part, seq, head)
        if self._max_staleness:
            self._remember(asked, found)
        return found

    def _remember(self, asked: float, found: dict[Names, Version | None]) -> None:
        """Keep answers, except those that a write of this process has overtaken."""
        with self._noting:
            for names, version in found.items():
                known = self._recent.get(names)
                if known is None or known[0] < asked:
                    self._put(names, asked, version)
            self._forget_outdated()

    def _put(self, names: Names, at: float, version: Version | None) -> None:
        self._recent[names] = (at, version)
        self._recent.move_to_end(names)  # so that the order is nearly that of time

    def _forget_outdated(self) -> None:
        """Remove the oldest versions, as far as they are too old to be given again."""
        limit = monotonic() - self._max_staleness
        outdated: list[Names] = []
        for names, (at, _) in self._recent.items():
            if at >= limit or len(outdated) == 2 * _MOST:  # the rest next time
                break
            outdated.append(names)
        for names in outdated:
            del self._recent[names]

    def _ask_database(
        self, apps: list[str], users: list[str]
    ) -> list[tuple[int, int, int, int]]:
        if self._connection is None or self._connection.closed:
            self._connection = self._connections.connect()
            seconds = self._connections.url.timeout * _OF_THE_TIME
            self._connection.allow(seconds, each=True)
        self.statements += 1
        try:
            return self._versions(self._connection, (apps, users))
        except psycopg.Error:
            self._connection.close()  # it may be lost, or in a transaction
            raise

    def _versions(
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
