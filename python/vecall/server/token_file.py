"""Tokens in a file: commands write it, and a running server reloads it."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from vecall.errors import ConfigError, StorageError
from vecall.server.tokens import Token, Tokens, from_json, to_json

_log = logging.getLogger("vecall.server")

_Version = tuple[int, int, int] | None


class TokenFile:
    """Tokens in a file of mode 0600. A change takes effect from the next request on.

    A missing file has no tokens. If the file cannot be read, no token is valid.

    Args:
        path: The file.
    """

    def __init__(self, path: str | Path) -> None:
        """Create the object; the file is read later."""
        self._path = Path(path)
        self._tokens = Tokens()
        self._version: _Version = None

    def find(self, bearer: str) -> Token | None:
        """Return the record of a client's token, if it is known and not expired."""
        version = self._version_now()
        if version != self._version:
            self._version = version
            self._tokens = Tokens()  # if reading fails, no token is valid
            try:
                self._tokens = Tokens(self.read())
            except (ConfigError, StorageError):
                _log.error("tokens: the file cannot be used; all requests are refused")
        return self._tokens.find(bearer)

    def read(self) -> list[Token]:
        """Return the tokens.

        Raises:
            ConfigError: It is not a token file, or other users may read it.
            StorageError: The file cannot be read.
        """
        try:
            handle = os.open(
                self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
            )
        except FileNotFoundError:
            return []
        except OSError as error:
            msg = f"tokens: the file cannot be read: {error.strerror}"
            raise StorageError(msg) from error
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            msg = "tokens: not a file"
            raise ConfigError(msg)
        with os.fdopen(handle, encoding="utf-8") as file:
            self._check_owner(os.fstat(handle))
            try:
                return from_json(file.read())
            except UnicodeDecodeError:
                msg = "tokens: the file is not UTF-8"
                raise ConfigError(msg) from None

    def _check_owner(self, facts: os.stat_result) -> None:
        """Refuse a file that other users can read, write or replace."""
        if facts.st_mode & 0o077:
            msg = "tokens: the file must not be open to others: chmod 600"
            raise ConfigError(msg)
        if facts.st_uid not in (os.geteuid(), 0):
            msg = "tokens: the file must belong to the user of this process, or to root"
            raise ConfigError(msg)
        folder = self._path.parent.stat()
        if folder.st_mode & stat.S_IWOTH and not folder.st_mode & stat.S_ISVTX:
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
            with self._locked():
                tokens = [to_json(token) for token in edit(self.read())]
                self._replace(json.dumps({"tokens": tokens}, indent=2) + "\n")
        except OSError as error:
            if isinstance(error, StorageError):
                raise
            msg = f"tokens: the file cannot be written: {error.strerror}"
            raise StorageError(msg) from error

    def _replace(self, text: str) -> None:
        fresh = self._path.with_name(self._path.name + ".new")
        fresh.unlink(missing_ok=True)  # left by a killed command
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(fresh, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the file against changes of other commands."""
        path = self._path.with_name(self._path.name + ".lock")
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        handle = os.open(path, flags, 0o600)
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                msg = "tokens: the lock is not a file"
                raise ConfigError(msg)
            fcntl.lockf(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _version_now(self) -> _Version:
        try:
            facts = self._path.lstat()
        except OSError:
            return None
        return facts.st_ino, facts.st_ctime_ns, facts.st_size  # chmod counts
