"""Reserves disk space, so that deleting works when the disk is full.

A deletion writes to the WAL before it frees any space. To use the space of the WAL
again, SQLite first writes its pages into the file, which may have to grow by as much.
`<file>.reserve` holds zeros of that size and 1 MiB more. It is released when a deletion
needs space, and filled again as far as the disk has room.
"""

from __future__ import annotations

import os
from pathlib import Path

from vecall.store.file.connections import file_bytes
from vecall.store.file.filesystem import is_own_file

_STEP = 1024 * 1024
# SQLite writes the WAL into the file after a commit that leaves 1,000 pages in it.
_LONGEST_WAL = 1_000 * 4_120


class Reserve:
    """The reserve file of one database."""

    def __init__(self, database: Path) -> None:
        """Set the file's name; `fill` creates it."""
        self._path = database.with_name(database.name + ".reserve")
        self._name = str(self._path)
        self._wal = f"{database}-wal"

    @property
    def covers_wal(self) -> bool:
        """Whether it holds what the file may grow by when the WAL is written to it."""
        return file_bytes(self._name) >= file_bytes(self._wal)

    def lacks(self, wal_bytes: int | None = None) -> int:
        """Return how many bytes it lacks for a WAL of a size; None: its size now."""
        if wal_bytes is None:
            wal_bytes = file_bytes(self._wal)
        wal_bytes = min(wal_bytes, _LONGEST_WAL)
        wanted = _STEP - (-wal_bytes // _STEP) * _STEP
        return max(0, wanted - file_bytes(self._name))

    def fill(self, size: int) -> None:
        """Reserve so many bytes more, as far as the disk has room."""
        # Without O_NONBLOCK, opening a FIFO of that name would block forever.
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            handle = os.open(self._path, flags, 0o600)
        except OSError:
            return
        try:
            about = os.fstat(handle)
            if is_own_file(about):
                end = about.st_size + size
                for at in range(about.st_size, end, _STEP):
                    os.pwrite(handle, bytes(min(_STEP, end - at)), at)
        except OSError:
            return  # the disk is full
        finally:
            os.close(handle)

    def release(self) -> bool:
        """Release the space; False if none was reserved."""
        try:
            held = self._path.stat().st_size
            self._path.unlink()
        except OSError:
            return False
        return held > 0
