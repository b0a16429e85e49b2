"""Bearer tokens: permissions, and hashes of the tokens."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import re
import secrets
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from pathlib import Path
from typing import Any, Protocol, TypedDict, Unpack

from vecall import system
from vecall.errors import ConfigError, InvalidArgumentError, StorageError
from vecall.filters.rights import Claims, Rights, check_trust_tier
from vecall.limits import Limits
from vecall.validation import check_name

SECRET_BYTES = 32

_SHAPE = re.compile(r"vecall_([0-9a-f]{16})_[A-Za-z0-9_-]{43}", re.ASCII)
_ID = re.compile(r"[0-9a-f]{16}", re.ASCII)
_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)
_NO_HASH = "0" * 64


@dataclass(frozen=True, kw_only=True)
class Token:
    """The record of a token: its hash and permissions, not the token itself.

    Attributes:
        id: The public part of the token; revoke it by this id.
        sha256: The SHA-256 of the whole token, in hex.
        app: The app whose memories it may access; None for an admin token.
        user: The user whose memories it may access; None: all users of the app.
        all_apps: Whether it may access the memories of all apps.
        read_only: Whether it may only read.
        review: Whether it may see quarantined memories, and release them unless it is
            read-only.
        admin: Whether it is an admin token: it may see metrics, but no memories.
        expires_at: When it expires, in seconds since 1970.
        trust: The highest tier, of `TRUST_TIERS`, of the memories it writes. None:
            "unverified" for a token of one user, any tier for a token of an app.
        source: The source of all memories it writes; None: the writer chooses.
        author: The author of all memories it writes; None: the writer chooses.
        min_trust: The lowest tier, of `TRUST_TIERS`, of the memories it reads; None:
            any.
        label: What it is for, in words; nothing depends on it.
    """

    id: str
    sha256: str = field(repr=False)
    app: str | None = None
    user: str | None = None
    all_apps: bool = False
    read_only: bool = False
    review: bool = False
    admin: bool = False
    expires_at: float | None = None
    trust: str | None = None
    source: str | None = None
    author: str | None = None
    min_trust: str | None = None
    label: str | None = None

    def __post_init__(self) -> None:
        """Check that it is for one app or for all, or is an admin token."""
        if not (_ID.fullmatch(self.id) and _HASH.fullmatch(self.sha256)):
            raise ConfigError("token: expected an id and a SHA-256 in hex")
        bound = self.app is not None
        if self.admin and self.review:
            raise ConfigError("token: an admin token cannot see or review memories")
        if bound + self.admin + self.all_apps != 1 or (self.user and not bound):
            raise ConfigError(
                "token: must be bound to an app, with or without a user, or be for all "
                "apps, or be admin"
            )
        try:
            for name in (self.app, self.user, self.source, self.author, self.label):
                if name is not None:
                    check_name(name, "token", Limits())
            if self.trust is not None:
                check_trust_tier(self.trust, "token.trust")
            if self.min_trust is not None:
                check_trust_tier(self.min_trust, "token.min_trust")
        except InvalidArgumentError as error:
            raise ConfigError(str(error)) from None

    @property
    def flags(self) -> tuple[bool, ...]:
        """The boolean permissions."""
        return self.read_only, self.review, self.admin, self.all_apps

    @property
    def ceiling(self) -> str | None:
        """The highest tier of trust of the memories it writes; None: any."""
        return self.trust or (None if self.user is None else "unverified")

    @property
    def claims(self) -> Claims:
        """What it may say about the memories that it writes."""
        return Claims(max_trust=self.ceiling, source=self.source, author=self.author)

    @property
    def rights(self) -> Rights:
        """Which memories it sees, and whether it may write."""
        if self.admin:
            return _rights(read_only=self.read_only)
        return _rights(
            min_trust=self.min_trust, review=self.review, read_only=self.read_only
        )

    def opens(self, app: str, user: str) -> bool:
        """Whether it may access this user's memories."""
        return self.all_apps or (self.app == app and self.user in (None, user))

    @property
    def lists_all(self) -> bool:
        """Whether it may list all apps and their users."""
        return self.all_apps or self.admin


_rights = lru_cache(256)(Rights)  # each request asks for those of its token


class TokenSource(Protocol):
    """Finds the records of tokens."""

    def find(self, bearer: str) -> Token | None:
        """Return the record of a client's token, if it is known and not expired."""
        ...


class Permissions(TypedDict, total=False):
    """What `mint` takes, as in `Token`."""

    app: str | None
    user: str | None
    all_apps: bool
    read_only: bool
    review: bool
    admin: bool
    expires_at: float | None
    trust: str | None
    source: str | None
    author: str | None
    min_trust: str | None
    label: str | None


def mint(**permissions: Unpack[Permissions]) -> tuple[str, Token]:
    """Make a token.

    Args:
        **permissions: As in `Token`.

    Returns:
        The token for the client, to be shown once, and its record.

    Raises:
        ConfigError: Not exactly one of an app, `all_apps` and `admin`; or an unknown
            tier of trust.
    """
    id_ = secrets.token_hex(8)
    bearer = f"vecall_{id_}_{secrets.token_urlsafe(SECRET_BYTES)}"
    return bearer, Token(id=id_, sha256=_bearer_digest(bearer), **permissions)


class Tokens:
    """Tokens in RAM.

    Args:
        tokens: The records of the tokens.
    """

    def __init__(self, tokens: Iterable[Token] = ()) -> None:
        """Index the tokens by their id."""
        self._known = {token.id: token for token in tokens}

    def __len__(self) -> int:
        """Return the number of tokens."""
        return len(self._known)

    def find(self, bearer: str) -> Token | None:
        """Return the record of a client's token, if it is known and not expired."""
        shaped = _SHAPE.fullmatch(bearer)
        token = self._known.get(shaped[1]) if shaped else None
        expected = _NO_HASH if token is None else token.sha256
        same = hmac.compare_digest(_bearer_digest(bearer), expected)
        if token is None or not same:
            return None
        if token.expires_at is not None and time.time() >= token.expires_at:
            return None
        return token


class OneHolder(Tokens):
    """Tokens that only the first who uses one may use.

    A client sends "<token>~<secret>" with a secret of its own. The first secret that
    is seen is the only one that opens, so an address with the token opens once.
    """

    _holder: bytes | None = None

    def find(self, bearer: str) -> Token | None:
        """Return the record of a client's token, if the client is its holder."""
        bearer, _, secret = bearer.partition("~")
        token = super().find(bearer) if len(secret) >= SECRET_BYTES else None
        if token is None:
            return None
        holder = secret.encode()
        self._holder = self._holder or holder
        return token if hmac.compare_digest(self._holder, holder) else None


def token_to_json(token: Token) -> dict[str, Any]:
    """Return a record in the format of the token file."""
    fields = {name: getattr(token, name) for name in Token.__dataclass_fields__}
    return {name: value for name, value in fields.items() if value not in (None, False)}


def tokens_from_json(text: str) -> list[Token]:
    """Read the tokens of a file, or raise ConfigError."""
    msg = 'tokens: expected a JSON file with a list "tokens"'
    try:
        items = json.loads(text)["tokens"]
        tokens = [Token(**item) for item in items]
        numbers = [token.expires_at for token in tokens if token.expires_at is not None]
        flags = [flag for token in tokens for flag in token.flags]
    except (KeyError, RecursionError, TypeError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(msg) from None
    finite = (type(number) in (int, float) and abs(number) < inf for number in numbers)
    if not all(finite) or not all(type(flag) is bool for flag in flags):
        raise ConfigError(msg)
    return tokens


def _bearer_digest(bearer: str) -> str:
    return hashlib.sha256(bearer.encode()).hexdigest()


# Tokens in a file: commands write it, and a running server reloads it.


_log = logging.getLogger("vecall.server")

_Version = tuple[int, int, int] | None

_SAVED_EVERY_S = 60.0  # the use of a token, at most
_COLLECTED_S = 1.0
_LATEST = 10**11  # in the year 5138


class TokenFile:
    """Tokens in a file of mode 0600. A change takes effect from the next request on.

    A missing file has no tokens. If the file cannot be read, no token is valid. When
    each token was last used is in `<file>.used`, up to a minute late, if the folder can
    be written.

    Args:
        path: The file.
    """

    def __init__(self, path: str | Path) -> None:
        """Create the object; the file is read later."""
        self._path = Path(path)
        self._tokens = Tokens()
        self._version: _Version = None
        self._uses: dict[str, float] = {}
        self._saved: dict[str, float] = {}
        self._saver: threading.Thread | None = None

    def find(self, bearer: str) -> Token | None:
        """Return the record of a client's token, if it is known and not expired."""
        version = self._token_file_version()
        if version != self._version:
            self._version = version
            self._tokens = Tokens()  # if reading fails, no token is valid
            try:
                self._tokens = Tokens(self.read())
            except (ConfigError, StorageError):
                _log.error("tokens: the file cannot be used; all requests are refused")
        token = self._tokens.find(bearer)
        if token is not None:
            self._note_token_use(token.id)
        return token

    def _note_token_use(self, id_: str) -> None:
        """Note a use; have it saved together with others, not for every request."""
        now = self._uses[id_] = time.time()
        if abs(now - self._saved.get(id_, 0.0)) < _SAVED_EVERY_S:
            return
        if self._saver is None or not self._saver.is_alive():  # as after a fork
            self._saver = threading.Timer(_COLLECTED_S, self.save_uses)
            self._saver.daemon = True
            self._saver.start()

    def save_uses(self) -> None:
        """Write when tokens were last used, unless the folder cannot be written."""
        uses = dict(self._uses)
        if uses == self._saved:
            return
        self._saved = uses
        with suppress(OSError, ConfigError), self._lock_token_file():
            known = {token.id for token in self.read()}
            latest = self.last_uses()
            for id_, at in uses.items():
                latest[id_] = max(round(at), latest.get(id_, 0))
            latest = {id_: at for id_, at in latest.items() if id_ in known}
            self._replace_tokens(self._path_beside(".used"), json.dumps(latest) + "\n")

    def last_uses(self) -> dict[str, int]:
        """Return when tokens were last used, in seconds since 1970, by their id."""
        try:
            handle = system.open_to_read(self._path_beside(".used"), follow=False)
            with os.fdopen(handle, encoding="utf-8") as file:
                found = json.load(file)
        except (OSError, RecursionError, ValueError):
            return {}
        if not isinstance(found, dict):
            return {}
        return {
            id_: at for id_, at in found.items() if type(at) is int and 0 < at < _LATEST
        }

    def read(self) -> list[Token]:
        """Return the tokens.

        Raises:
            ConfigError: It is not a token file, or other users may read it.
            StorageError: The file cannot be read.
        """
        try:
            handle = system.open_to_read(self._path, follow=False)
        except FileNotFoundError:
            return []
        except OSError as error:
            msg = f"tokens: the file cannot be read: {error.strerror}"
            raise StorageError(msg) from error
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise ConfigError("tokens: not a file")
        with os.fdopen(handle, encoding="utf-8") as file:
            self._check_token_file_owner(os.fstat(handle))
            try:
                return tokens_from_json(file.read())
            except UnicodeDecodeError:
                raise ConfigError("tokens: the file is not UTF-8") from None

    def _check_token_file_owner(self, facts: os.stat_result) -> None:
        """Refuse a file that other users can read, write or replace."""
        if system.rights_of_others(facts):
            raise ConfigError("tokens: the file must not be open to others: chmod 600")
        if not system.is_file_of_user(facts, or_root=True):
            msg = "tokens: the file must belong to the user of this process, or to root"
            raise ConfigError(msg)
        folder = self._path.parent.stat()
        if (
            system.rights_of_others(folder) & stat.S_IWOTH
            and not folder.st_mode & stat.S_ISVTX
        ):
            msg = "tokens: others may replace the file: chmod o-w on its folder"
            raise ConfigError(msg)

    def change(self, edit: Callable[[list[Token]], list[Token]]) -> None:
        """Replace the tokens by the result of a function.

        Args:
            edit: Gets the tokens and returns those to keep.

        Raises:
            ConfigError: As `read`.
            StorageError: The file cannot be written.
        """
        try:
            with self._lock_token_file():
                tokens = [token_to_json(token) for token in edit(self.read())]
                self._replace_tokens(
                    self._path, json.dumps({"tokens": tokens}, indent=2) + "\n"
                )
        except OSError as error:
            if isinstance(error, StorageError):
                raise
            msg = f"tokens: the file cannot be written: {error.strerror}"
            raise StorageError(msg) from error

    def _path_beside(self, suffix: str) -> Path:
        return self._path.with_name(self._path.name + suffix)

    def _replace_tokens(self, path: Path, text: str) -> None:
        fresh = path.with_name(path.name + ".new")
        fresh.unlink(missing_ok=True)  # left by a killed command
        handle = system.open_private(fresh, os.O_WRONLY | os.O_EXCL)
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        system.replace_file(fresh, path)

    @contextmanager
    def _lock_token_file(self) -> Iterator[None]:
        """Lock the file against changes of other commands."""
        handle = system.open_private(self._path_beside(".lock"), os.O_RDWR)
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise ConfigError("tokens: the lock is not a file")
            system.lock_byte(handle, 0, wait=True)
            yield
        finally:
            os.close(handle)

    def _token_file_version(self) -> _Version:
        try:
            facts = self._path.lstat()
        except OSError:
            return None
        return facts.st_ino, facts.st_ctime_ns, facts.st_size  # chmod counts
