"""Files of the snapshot folder, and what makes one of them valid.

`<file>.snap/<partition>.vs` holds the engine's form of a large partition, so that it
need not be built from rows again. It is a cache: the folder may be deleted at any time.
A snapshot is believed if the file has its nonce and its digest on record for the
partition, so only a process that can write the file makes a snapshot. Since the nonce
is new for every snapshot and recorded after the snapshot is in place, the record
proves that the file's history contains the very state of the snapshot, also after a
backup was put in the file's place.
"""

from __future__ import annotations

import os
import re
import secrets
import sqlite3
import stat
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from vecall.lexical import ANALYSIS_VERSION
from vecall.store.rows import Change
from vecall.store.writes.partition_writer import PartitionWriter

NONCE_BYTES = 8
_DIGEST_BYTES = 16
_TAG = struct.Struct("<16sQQ8sII")  # 48 bytes, as many as a snapshot's tag has


class SnapshotTag(NamedTuple):
    """What a snapshot is of."""

    uuid: bytes
    part: int
    seq: int
    nonce: bytes
    model: int  # 0 without vectors
    analysis: int

    @classmethod
    def new(cls, uuid: bytes, part: int, seq: int, model: int) -> SnapshotTag:
        """Return the tag of a snapshot that is about to be taken."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return cls(uuid, part, seq, nonce, model, _ANALYSIS)

    @classmethod
    def unpack(cls, data: bytes) -> SnapshotTag:
        """Read a tag."""
        return cls(*_TAG.unpack(data))

    def pack(self) -> bytes:
        """Return the tag as 48 bytes."""
        return _TAG.pack(*self)

    def is_of(self, uuid: bytes, part: int, nonce: bytes, model: int) -> bool:
        """Whether the snapshot is the one on record for a partition."""
        return self._replace(seq=0) == (uuid, part, 0, nonce, model, _ANALYSIS)


def recorded(nonce: bytes, data: bytes) -> bytes:
    """Return what the file stores of a snapshot: its nonce and its digest."""
    return nonce + blake2b(data, digest_size=_DIGEST_BYTES).digest()


_ANALYSIS = zlib.crc32(ANALYSIS_VERSION.encode())


_MAGIC = b"vecallS1"
_SECTIONS = 24
_TABLE = 128  # where the table of sections begins, 16 bytes each
_HEAD_BYTES = _TABLE + 16 * _SECTIONS
_ALIGNED = 64


def _size_by(head: bytes) -> int | None:
    """The bytes of a snapshot by its header; None if it is no snapshot's."""
    if len(head) < _HEAD_BYTES or not head.startswith(_MAGIC):
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
    """The folder next to one database file. It is made when it is first written to.

    All that is done in it is done relative to its descriptor, which is never one of a
    symbolic link, and only to files with names of its own.
    """

    def __init__(self, database: Path) -> None:
        """Name it."""
        self.path = database.with_name(database.name + ".snap")

    def read(self, part: int) -> bytes | None:
        """Return a partition's snapshot; None if there is none that can be read."""
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
                # Only what its own header accounts for is read into memory.
                head = file.read(_HEAD_BYTES)
                if _size_by(head) != about.st_size:
                    return None
                return head + file.read(about.st_size - len(head))
        except OSError:
            return None
        finally:
            os.close(handle)

    def write(self, part: int, data: bytes) -> None:
        """Put a snapshot in place: whole or not at all, also when power fails.

        Raises:
            OSError: The disk is full, or failed; the snapshot before it is still there.
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
        """Remove snapshots, and what was left behind while writing them.

        Returns:
            How many files there were.
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


@dataclass(slots=True)
class RecordSnapshot:
    """Puts a new snapshot on record.

    Attributes:
        app: The app.
        user: The user.
        record: Its nonce and its digest.
        part: The partition's number when it was taken.
        purges: How often the file had been purged when the snapshot was taken.
        kept: Whether it is on record. If not, it may hold what was purged meanwhile.
    """

    app: str
    user: str
    record: bytes
    part: int
    purges: int
    kept: bool = False
    estimated_bytes: int = 0

    def run(self, connection: sqlite3.Connection) -> Change:
        """Do it inside a transaction."""
        partition = PartitionWriter(connection, self.app, self.user, create=False)
        self.kept = partition.id == self.part and purges(connection) == self.purges
        if self.kept:
            connection.execute(
                "UPDATE part SET snap = ? WHERE id = ?", (self.record, partition.id)
            )
        return partition.changed()


def purges(connection: sqlite3.Connection) -> int:
    """Return how often the file was purged."""
    found = connection.execute("SELECT value FROM meta WHERE key = 'purges'").fetchone()
    return 0 if found is None else int(found[0])


def count_purge(connection: sqlite3.Connection) -> None:
    """Take all snapshots off the record, those that are being written too."""
    connection.execute("UPDATE part SET snap = NULL WHERE snap IS NOT NULL")
    connection.execute(
        "INSERT OR REPLACE INTO meta VALUES ('purges', ?)",
        (str(purges(connection) + 1),),
    )
