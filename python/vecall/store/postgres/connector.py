"""Opens connections with vecall's settings, directly or through a pooler."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from vecall.errors import ConfigError
from vecall.store.postgres.bounded_connection import BoundedConnection
from vecall.store.postgres.pooler import (
    is_pooled,
    refuses_options,
    renames_statements,
    settings_in,
)
from vecall.store.postgres.transaction import prepare_connection
from vecall.store.postgres.url import DatabaseUrl

_SETTINGS = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "application_name": "vecall",
}
_OF_SERVER = 0.9  # of the time: the server ends a statement before the client does
_OF_CONNECTING = 0.4  # of the time, for all hosts of the URL


class Connector:
    """Opens connections to the database of a URL. Thread-safe.

    Attributes:
        prepares: Whether statements are prepared on connections to come.
    """

    def __init__(self, url: DatabaseUrl, *, durable: bool) -> None:
        """Open no connection yet.

        Args:
            url: The database. Its `timeout` is the base of the time limits.
            durable: A commit waits for the disk of the server.
        """
        self.prepares = url.prepares
        self._url = url
        self._durable = durable
        self._refused: set[str] = set()  # URLs of poolers that refuse `options`

    def connect(
        self, conninfo: str | None = None, session: Mapping[str, str] | None = None
    ) -> BoundedConnection:
        """Return a new connection.

        Args:
            conninfo: Another URL than that of the database, such as the keeper's.
            session: Further settings of the session. A connection through a pooler,
                whose `settings` is not None, does not have them.

        Raises:
            psycopg.Error: The database cannot be reached, or refuses access.
            ConfigError: A pooler is between, and `options` has more than settings.
        """
        conninfo = conninfo or self._url.conninfo
        connection = self._opened(conninfo, session or {})
        try:
            if is_pooled(connection):
                connection.settings = self._of_session(conninfo)
                if self.prepares:
                    with self._opened(conninfo, {}) as asking:
                        self.prepares &= renames_statements(asking)
        except BaseException:
            connection.close()
            raise
        if not self.prepares:
            connection.prepare_threshold = None
        return connection

    def _opened(self, conninfo: str, session: Mapping[str, str]) -> BoundedConnection:
        try:
            connection = BoundedConnection.connect(
                self._with_settings(conninfo, session), autocommit=True
            )
        except psycopg.OperationalError as error:
            if conninfo in self._refused or not refuses_options(error):
                raise
            self._refused.add(conninfo)  # each transaction has its own settings
            return self._opened(conninfo, session)
        connection.allow(self._url.timeout, each=True)
        prepare_connection(connection)
        return connection

    def _with_settings(self, conninfo: str, session: Mapping[str, str]) -> str:
        """Return a URL with vecall's settings; those that it has take precedence."""
        given = conninfo_to_dict(conninfo)
        hosts = str(given.get("host") or "").count(",") + 1
        timeout = self._url.timeout
        own, more = (
            [f"-c {name}={value}" for name, value in each.items()]
            for each in (self._limits(), session)
        )
        options = " ".join([*own, _options_of(given), *more]).strip()
        settings: dict[str, Any] = {
            "connect_timeout": max(2, math.ceil(timeout * _OF_CONNECTING / hosts)),
            "tcp_user_timeout": math.ceil(1000 * timeout),
            **_SETTINGS,
            **given,
            "options": "" if conninfo in self._refused else options,
        }
        return make_conninfo("", **settings)

    def _of_session(self, conninfo: str) -> dict[str, str]:
        """Return the settings that a session has without a pooler."""
        try:
            given = settings_in(_options_of(conninfo_to_dict(conninfo)))
        except ValueError:
            msg = "path: options: behind a pooler, expected only -c NAME=VALUE"
            raise ConfigError(msg) from None
        return {**self._limits(), **given}

    def _limits(self) -> dict[str, str]:
        limit = f"{max(1, round(1000 * self._url.timeout * _OF_SERVER))}ms"
        limits = {
            "statement_timeout": limit,
            "lock_timeout": limit,
            "idle_in_transaction_session_timeout": "60s",
        }
        return limits if self._durable else {**limits, "synchronous_commit": "off"}


def _options_of(given: dict[str, Any]) -> str:
    return str(given.get("options") or os.environ.get("PGOPTIONS") or "")
