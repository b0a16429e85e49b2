"""Connections that transactions borrow.

psycopg_pool 3.3 connects on threads of its own, with growing pauses, and gives up some
seconds after a server is gone. Those who wait for a connection then wait for their
whole time, although the server is back: after an outage of some ten seconds, the first
statement came 13.9 s after the server, and a new pool would have done the same. Here
the borrower opens the connection.
"""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from vecall.errors import ClosedError
from vecall.store.postgres.bounded_connection import BoundedConnection
from vecall.store.postgres.errors import NoConnectionFreeError


class Pool:
    """At most a number of connections. Thread-safe."""

    def __init__(self, connect: Callable[[], BoundedConnection], most: int) -> None:
        """Create a pool without a connection.

        Args:
            connect: Opens a connection.
            most: The number of connections at a time.
        """
        self._connect = connect
        self._idle: deque[BoundedConnection] = deque()
        # A thread that is interrupted inside a C call leaves no lock behind.
        self._places: queue.SimpleQueue[None] = queue.SimpleQueue()
        for _ in range(most):
            self._places.put(None)
        self._generation = 0
        self._closed = False
        self._abandoned = False

    @contextmanager
    def borrowed(self, seconds: float) -> Iterator[BoundedConnection]:
        """Lend a connection that is in no transaction.

        Args:
            seconds: How long to wait until one is free; below 0, as 0.

        Raises:
            psycopg.Error: None was free in time, or the database cannot be reached.
            ClosedError: The pool is closed.
        """
        try:
            self._places.get(timeout=max(0.0, seconds))
        except queue.Empty:
            msg = "no connection was free in time"
            raise NoConnectionFreeError(msg) from None
        connection = None
        try:
            connection = self._taken()
            yield connection
        finally:
            if connection is not None:
                self._return(connection)
            self._places.put(None)

    def lose(self, connection: BoundedConnection) -> None:
        """Do not lend the connections that were opened before one that was lost."""
        if connection.generation == self._generation:
            self._generation += 1

    def lose_all(self) -> None:
        """Do not lend the connections that are open now."""
        self._generation += 1

    def close(self) -> None:
        """Close all connections; those that are lent, when they come back."""
        self._closed = True
        self._drop_idle()

    def abandon(self) -> None:
        """Close the idle connections, and each other one when it comes back.

        Work that was begun may still borrow one. Does not wait.
        """
        self._abandoned = True
        self._drop_idle()

    def _taken(self) -> BoundedConnection:
        if self._closed:
            msg = "the memory service is closed"
            raise ClosedError(msg)
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                break
            if connection.is_usable(self._generation):
                return connection
            connection.close()
        generation = self._generation
        connection = self._connect()
        connection.begin_life(generation)
        return connection

    def _return(self, connection: BoundedConnection) -> None:
        if connection.closed or connection.pgconn.transaction_status:  # not idle
            connection.close()
            return
        self._idle.append(connection)
        if self._closed or self._abandoned:
            self._drop_idle()

    def _drop_idle(self) -> None:
        while True:
            try:
                self._idle.pop().close()
            except IndexError:
                return
