"""The folder of snapshots next to a database file.

`<file>.snap/<partition>.vs` holds the engine's state of a large partition, which loads
faster than rows. It is a cache: the folder may be deleted at any time.
"""

from __future__ import annotations

import os
import re
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MAGIC = b"vecallS1"
_SECTIONS = 24
_TABLE = 128  # offset of the table of sections, 16 bytes each
_HEAD_BYTES = _TABLE + 16 * _SECTIONS
_ALIGNED = 64


def _size_by(head: bytes) -> int | None:
    """The size of a snapshot according to its header; None if it is not valid."""
    if len(head) < _HEAD_BYTES or not head.startswith(MAGIC):
        return None
    (count,) = struct.unpack_from("<I", head, 112)
    if count > _SECTIONS:
        return None
    sizes: list[int] = [
        struct.unpack_from("<Q", head, _TABLE + 16 * at + 8)[0] for at in range(count)
    ]
    return _HEAD_BYTES + sum(-(-size // _ALIGNED) * _ALIGNED for size in sizes)


_NAMES = re.compile(r"\d+\.vs|\d+\.\d+\.tmp")


class SnapshotFolder:
    """The folder next to one database file, created by the first write.

    All operations are relative to the folder's descriptor, which is never that of a
    symbolic link, and touch only files with snapshot names.
    """

    def __init__(self, database: Path) -> None:
        """Set the folder's name."""
        self.path = database.with_name(database.name + ".snap")

    def read(self, part: int) -> bytes | None:
        """Return a partition's snapshot; None if it is missing or unreadable."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        try:
            with self._opened() as folder:
                handle = os.open(f"{part}.vs", flags, dir_fd=folder)
        except OSError:
            return None
        try:
            about = os.fstat(handle)
            if not stat.S_ISREG(about.st_mode):
                return None
            with os.fdopen(handle, "rb", closefd=False) as file:
                # Read only as many bytes as the header declares.
                head = file.read(_HEAD_BYTES)
                if _size_by(head) != about.st_size:
                    return None
                return head + file.read(about.st_size - len(head))
        except OSError:
            return None
        finally:
            os.close(handle)

    def header(self, part: int) -> bytes:
        """Return the first bytes of a partition's snapshot; none if it is missing."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        with suppress(OSError), self._opened() as folder:
            handle = os.open(f"{part}.vs", flags, dir_fd=folder)
            try:
                if stat.S_ISREG(os.fstat(handle).st_mode):
                    return os.read(handle, _TABLE)
            finally:
                os.close(handle)
        return b""

    def write(self, part: int, data: bytes) -> None:
        """Store a snapshot atomically, also across a power cut.

        Raises:
            OSError: The disk is full or failed; the previous snapshot is still there.
        """
        if not self.path.is_dir():
            self.path.mkdir(mode=0o700)
        passing = f"{part}.{os.getpid()}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        with self._opened() as folder:
            try:
                handle = os.open(passing, flags, 0o600, dir_fd=folder)
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(handle)
                os.rename(passing, f"{part}.vs", src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                _unlink(passing, folder)
                raise
            os.fsync(folder)

    def remove(self, part: int) -> None:
        """Remove a partition's snapshot, if there is one."""
        with suppress(OSError), self._opened() as folder:
            _unlink(f"{part}.vs", folder)

    def clear(self, *, unfinished_only: bool = False) -> int:
        """Remove snapshots, and files left behind by interrupted writes.

        Returns:
            The number of removed files.
        """
        count = 0
        with suppress(OSError), self._opened() as folder:
            for name in os.listdir(folder):  # noqa: PTH208
                if _NAMES.fullmatch(name) and not (
                    unfinished_only and name.endswith(".vs")
                ):
                    count += _unlink(name, folder)
        return count

    def sizes(self) -> dict[str, int]:
        """Return the bytes of each file."""
        found = {}
        with suppress(OSError), self._opened() as folder:
            for name in sorted(os.listdir(folder)):  # noqa: PTH208
                if _NAMES.fullmatch(name):
                    with suppress(OSError):
                        about = os.stat(name, dir_fd=folder, follow_symlinks=False)
                        found[name] = about.st_size
        return found

    def nbytes(self) -> int:
        """Return the bytes of all files."""
        return sum(self.sizes().values())

    @contextmanager
    def _opened(self) -> Iterator[int]:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        folder = os.open(self.path, flags)
        try:
            yield folder
        finally:
            os.close(folder)


def _unlink(name: str, folder: int) -> bool:
    try:
        os.unlink(name, dir_fd=folder)
    except OSError:
        return False
    return True
