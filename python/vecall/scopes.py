"""Scopes: memories shared between the apps of a user, or the users of an app.

(app, user) pairs are isolated from each other. Besides a user's own memories there are
two more scopes, each a partition of its own:

- "shared": memories of one user for all apps;
- "app": memories of one app for all its users, such as a handbook.

Both are off by default. Reading and writing are enabled separately. The two names of
these partitions in the file are reserved: no app and no user may have them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypedDict, get_args

from vecall.errors import ConfigError, InvalidArgumentError, ScopeError
from vecall.reprs import short_repr
from vecall.scalars import exact

Scope = Literal["user", "shared", "app"]
"""The user's own memories, those of the user for all apps, or those of the app."""

SHARED_APP = "\x01vecall shared\x01"
APP_WIDE = "\x01vecall app\x01"
_OWN = (SHARED_APP, APP_WIDE)


class Owner(TypedDict):
    """App and user, as the methods of a memory service take them."""

    app_name: str
    user_id: str


@dataclass(frozen=True)
class Scopes:
    """Which scopes besides a user's own memories may be read and written.

    Attributes:
        read: "shared", "app" or both; searches include them.
        write: "shared", "app" or both.
    """

    read: frozenset[Scope] = frozenset()
    write: frozenset[Scope] = frozenset()

    __repr__ = short_repr

    def __init__(
        self, *, read: Iterable[Scope] = (), write: Iterable[Scope] = ()
    ) -> None:
        """Enable scopes.

        Raises:
            ConfigError: A value other than "shared" and "app".
        """
        for given, name in ((read, "read"), (write, "write")):
            named: frozenset[Scope] | None
            try:
                named = frozenset(map(exact, given))
            except TypeError:
                named = None
            places = {"shared", "app"}
            if isinstance(given, str) or named is None or not named <= places:
                msg = f'scopes.{name}: expected some of "shared" and "app"'
                raise ConfigError(msg)
            object.__setattr__(self, name, named)

    def key(
        self, scope: object, app: str, user: str, *, write: bool
    ) -> tuple[str, str]:
        """Return the names of the partition behind a scope.

        Raises:
            InvalidArgumentError: An unknown scope, or a reserved name.
            ScopeError: The scope is not enabled.
        """
        if app in _OWN or user in _OWN:
            msg = "app_name, user_id: this name is reserved"
            raise InvalidArgumentError(msg)
        if type(scope) is not str:
            scope = exact(scope)
        if type(scope) is str and scope == "user":
            return app, user
        if type(scope) is not str or scope not in get_args(Scope):
            msg = 'scope: must be "user", "shared" or "app"'
            raise InvalidArgumentError(msg)
        allowed = self.write if write else self.read
        if scope not in allowed:
            way = "write" if write else "read"
            msg = f"scope: MemoryService(scopes=Scopes({way}=...)) does not allow it"
            raise ScopeError(msg)
        return (SHARED_APP, user) if scope == "shared" else (app, APP_WIDE)
