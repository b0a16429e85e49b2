"""Arguments of several commands, and the service that they open."""

from __future__ import annotations

import argparse
import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vecall.cli.embedders import add_embedder, chosen
from vecall.cli.failures import naming
from vecall.coding_agents.options import DEFAULT, default_path, prepared
from vecall.embedders.resolve import AUTO, resolve
from vecall.errors import ConfigError
from vecall.hooks import WriteHook
from vecall.index.embedding import model_of
from vecall.operations.options import WritePolicy
from vecall.service.memory_service import MemoryService
from vecall.store import public_url
from vecall.validation import is_database_url

FILE_OR_URL = "the file, or the URL of a PostgreSQL database"


def add_path(command: argparse.ArgumentParser, what: str = FILE_OR_URL) -> None:
    """Add --path.

    Args:
        command: The command.
        what: What it names.
    """
    command.add_argument(
        "--path",
        type=expanded,
        default=default_path(),
        help=f"{what} (default: {DEFAULT})",
        metavar="PATH",
    )


def add_file(command: argparse.ArgumentParser) -> None:
    """Add --path and --embedder."""
    add_path(command)
    add_embedder(command)


def add_json(command: argparse.ArgumentParser) -> None:
    """Add --json."""
    command.add_argument("--json", action="store_true", help="print JSON")


def add_on_write(command: argparse.ArgumentParser) -> None:
    """Add --on-write."""
    command.add_argument(
        "--on-write",
        metavar="MODULE:NAME",
        help="function that judges every write, as on_write of MemoryService",
    )


def expanded(typed: str) -> str:
    """Return a file name with a leading "~" or "~user" replaced by the home folder."""
    return os.path.expanduser(typed)  # noqa: PTH111 - pathlib would remove "./"


def shown(path: str) -> str:
    """Return a path for messages: a URL without user, password and options.

    Raises:
        ConfigError: The URL is malformed.
    """
    return public_url(path) if is_database_url(path) else path


def require_file(path: str) -> None:
    """Require an existing file: a read must not create one. A URL creates nothing."""
    if not is_database_url(path) and not Path(path).is_file():
        msg = f"{path}: there is no such file"
        if path == default_path() and Path("memory.db").is_file():
            msg += "; for the one in this folder, write --path memory.db"
        raise ConfigError(msg)


def refuse_database(path: str, means: str) -> None:
    """Refuse the URL of a database.

    Args:
        path: The path, or the URL.
        means: What to use instead.

    Raises:
        ConfigError: The path is the URL of a database.
    """
    if is_database_url(path):
        msg = f"{shown(path)}: is a database; {means}"
        raise ConfigError(msg)


@contextmanager
def opened(
    path: str,
    embedder: str,
    on_write: WriteHook | None = None,
    *,
    read_only: bool = False,
) -> Iterator[MemoryService]:
    """Open a service on a file or a database and close it after the block.

    Args:
        path: The file, or the URL of a database.
        embedder: The value of --embedder.
        on_write: The hook that accepts, changes or refuses each write.
        read_only: Whether the command only reads: a file without vectors gets none.
    """
    given = chosen(embedder)
    is_new = not is_database_url(path) and not Path(path).exists()
    if given not in (None, AUTO) and is_new:
        given = resolve(given)
        if given is not None:
            model_of(given)  # if the embedder fails, create no file
    with (
        naming(shown(path)),
        MemoryService(
            path if read_only else prepared(path),
            embedder=given,
            read_only=read_only,
            writes=WritePolicy(on_write=on_write),
        ) as memory,
    ):
        yield memory


def named(given: str | None, option: str) -> Any:
    """Import the function module:name; return None for None.

    Args:
        given: The name.
        option: The name of the command-line option, without leading dashes.

    Raises:
        ConfigError: The name cannot be imported, or is not callable.
    """
    if given is None:
        return None
    module, _, name = given.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError):
        found = None
    if not callable(found):
        msg = f"{option}: expected MODULE:NAME of a function that can be imported"
        raise ConfigError(msg)
    return found
