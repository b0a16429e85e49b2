"""`--embedder`: the embedder of a command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from vecall.embedders.base import is_async
from vecall.embedders.resolve import AUTO, NAMES, EmbedderLike
from vecall.errors import ConfigError

_HELP = (
    "auto (the model of the file, else local if it is installed, else none), "
    "none (words alone), local, NAME or NAME:MODEL such as "
    "openai:text-embedding-3-small, or MODULE:NAME of a function from texts to vectors "
    "or of an embedder (default: %(default)s)"
)


def add_embedder(command: argparse.ArgumentParser) -> None:
    """Add --embedder."""
    command.add_argument("--embedder", default=AUTO, help=_HELP, metavar="EMBEDDER")


def chosen(given: str) -> EmbedderLike:
    """Return the `embedder` argument of a memory service.

    Args:
        given: The value of --embedder.

    Raises:
        ConfigError: MODULE:NAME cannot be imported.
    """
    if given == "none":
        return None
    module, colon, name = given.partition(":")
    if not colon or module in NAMES:
        return given
    return _imported(module, name)


def with_progress(embedder: Any, add: Callable[[int], None]) -> Any:
    """Return an embedder that reports how many texts it has embedded.

    Args:
        embedder: The embedder; an asynchronous one, or None, is returned as it is.
        add: Called with the number of texts of each call.
    """
    if embedder is None or is_async(embedder.embed):
        return embedder

    class Reporting:
        def embed(self, texts: Sequence[str]) -> Any:
            made = embedder.embed(texts)
            add(len(texts))
            return made

        def __getattr__(self, name: str) -> Any:
            return getattr(embedder, name)

    return Reporting()


def _imported(module: str, name: str) -> EmbedderLike:
    """Import a dotted name from a module; call a class without arguments."""
    # Look in the current folder too: a script's sys.path has the script's folder only.
    sys.path.append(str(Path.cwd()))
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        names = ", ".join(NAMES)
        msg = (
            f"embedder: expected auto, none, one of {names}, NAME:MODEL of one of "
            "these, or MODULE:NAME of something that can be imported"
        )
        raise ConfigError(msg) from error
    finally:
        sys.path.pop()
    made: EmbedderLike = found() if isinstance(found, type) else found
    return made
