"""Reserves disk space, so that deleting works when the disk is full.

A deletion writes to the WAL before it frees any space. `<file>.reserve` holds 1 MiB of
zeros. It is released when a deletion needs space, and refilled when the disk has room.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from vecall.store.file.connections import file_bytes
from vecall.store.file.filesystem import is_own_file

BYTES = 1024 * 1024


class Reserve:
    """The reserve file of one database."""

    def __init__(self, database: Path) -> None:
        """Set the file's name; `fill` creates it."""
        self._path = database.with_name(database.name + ".reserve")
        self._name = str(self._path)

    @property
    def is_held(self) -> bool:
        """Whether the space is reserved."""
        return file_bytes(self._name) >= BYTES

    def fill(self) -> bool:
        """Reserve the space unless it is reserved; False if the disk is full."""
        if self.is_held:
            return True
        # Without O_NONBLOCK, opening a FIFO of that name would block forever.
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            handle = os.open(self._path, flags, 0o600)
        except OSError:
            return False
        try:
            if not is_own_file(os.fstat(handle)):
                return False
            os.ftruncate(handle, 0)
            written = os.write(handle, bytes(BYTES))
            if written < BYTES:  # the disk is full
                os.ftruncate(handle, 0)
        except OSError:
            with suppress(OSError):
                os.ftruncate(handle, 0)
            return False
        finally:
            os.close(handle)
        return written == BYTES

    def release(self) -> bool:
        """Release the space; False if none was reserved."""
        try:
            held = self._path.stat().st_size
            self._path.unlink()
        except OSError:
            return False
        return held > 0
