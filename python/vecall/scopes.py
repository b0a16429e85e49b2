"""Memories beyond one user of one app: off unless switched on, one by one.

The wall between (app, user) pairs stands. Beside a user's own memories there can be two
more places, each a partition of its own:

- "shared": what all apps may know of one user;
- "app": what one app knows for all of its users, such as a handbook.

Reading and writing are switched on separately. No app and no user may have one of the
two names by which a file knows these places.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypedDict, get_args

from vecall.errors import ConfigError, InvalidArgumentError, ScopeError

Scope = Literal["user", "shared", "app"]
"""A user's own memories; what all apps know of the user; what an app knows for all."""

SHARED_APP = "\x01vecall shared\x01"
APP_WIDE = "\x01vecall app\x01"
_OWN = (SHARED_APP, APP_WIDE)


class Owner(TypedDict):
    """App and user, as the methods of a memory service take them."""

    app_name: str
    user_id: str


@dataclass(frozen=True)
class Scopes:
    """Which places beside a user's own memories may be read and written.

    Attributes:
        read: Of "shared" and "app"; a search looks there too.
        write: Of "shared" and "app".
    """

    read: frozenset[Scope] = frozenset()
    write: frozenset[Scope] = frozenset()

    def __init__(
        self, *, read: Iterable[Scope] = (), write: Iterable[Scope] = ()
    ) -> None:
        """Switch on what is named.

        Raises:
            ConfigError: Something else than these two is.
        """
        for given, name in ((read, "read"), (write, "write")):
            named: frozenset[Scope] | None
            try:
                named = frozenset(given)
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
            InvalidArgumentError: There is no such scope.
            ScopeError: It is not switched on.
        """
        if app in _OWN or user in _OWN:
            msg = "app_name, user_id: this name is vecall's own"
            raise InvalidArgumentError(msg)
        if scope == "user":
            return app, user
        if scope not in get_args(Scope):
            msg = 'scope: must be "user", "shared" or "app"'
            raise InvalidArgumentError(msg)
        allowed = self.write if write else self.read
        if scope not in allowed:
            way = "write" if write else "read"
            msg = f"scope: MemoryService(scopes=Scopes({way}=...)) does not allow it"
            raise ScopeError(msg)
        return (SHARED_APP, user) if scope == "shared" else (app, APP_WIDE)
