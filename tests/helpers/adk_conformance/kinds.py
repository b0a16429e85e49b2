"""google-adk's own local services and ours, as they come; and ours without a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.adk.memory import InMemoryMemoryService
from vecall.adk import VecallMemoryService, register


def _sqlite(path: Path) -> Any:
    from google.adk.memory import SqliteMemoryService  # since google-adk 2.11

    return SqliteMemoryService(path)


@dataclass(frozen=True)
class Kind:
    """One service.

    Attributes:
        name: The class.
        open: Opens one on a file, or makes one that knows no files.
        uri: The scheme by which `adk web` opens it.
        register: Makes the scheme known, if google-adk does not know it.
        options: The end of the URI.
    """

    name: str
    open: Callable[[Path], Any]
    uri: str = ""
    register: Callable[[], object] = lambda: None
    options: str = ""


IN_MEMORY = Kind("InMemoryMemoryService", lambda _: InMemoryMemoryService(), "memory")
SQLITE = Kind("SqliteMemoryService", _sqlite, "sqlite")
VECALL = Kind("VecallMemoryService", VecallMemoryService, "vecall", register)
WORDS = Kind(
    "VecallMemoryService(embedder=None)",
    lambda path: VecallMemoryService(path, embedder=None),
    "vecall",
    register,
    "?embedder=none",
)
KINDS = [IN_MEMORY, SQLITE, VECALL]
