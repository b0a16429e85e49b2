"""CrewAI: memories of a crew in a vecall file. Needs vecall[crewai]."""

from __future__ import annotations

try:
    from crewai.memory.storage.backend import (
        EmbeddingDimensionMismatchError,  # noqa: F401
    )
    from crewai.memory.storage.factory import set_memory_storage_factory
except ImportError as error:
    msg = 'vecall.crewai needs crewai 1.15.30 or newer: pip install "vecall[crewai]"'
    raise ImportError(msg) from error

from vecall.crewai.storage import VecallStorage

__all__ = ["VecallStorage", "install"]


def install(scheme: str = "vecall") -> None:
    """Let `Memory(storage="vecall:crew.db")` of CrewAI use a vecall file.

    Args:
        scheme: The text before the colon. Other storages are those of CrewAI.
    """

    def storage(spec: str) -> VecallStorage | None:
        name, colon, path = spec.partition(":")
        return VecallStorage(path) if (name, bool(colon)) == (scheme, True) else None

    set_memory_storage_factory(storage)
