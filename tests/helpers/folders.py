"""Where tests write: memory, where a sync costs nothing, or the disk."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MEMORY = Path("/dev/shm")
_LEAST_BYTES = 4 * 1024**3  # in a container there may be only 64 MB


def fastest() -> str | None:
    """The parent of a new folder in memory; None, the disk, where it has no room."""
    writable = _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK)
    if writable and shutil.disk_usage(_MEMORY).free >= _LEAST_BYTES:
        return str(_MEMORY)
    return None


@contextmanager
def fast_folder(name: str = "vecall") -> Iterator[Path]:
    """A folder in memory where there is room: a check there waits for no disk."""
    folder = tempfile.mkdtemp(prefix=f"{name}-", dir=fastest())
    try:
        yield Path(folder).resolve()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
