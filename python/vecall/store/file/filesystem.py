"""Checks the folder of a file: local, with free space, without symbolic links."""

from __future__ import annotations

import os
import random
import re
import stat
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from vecall import system
from vecall.errors import BusyError, ConfigError, NetworkFilesystemError, StorageError
from vecall.store.file.connections import file_bytes

_NETWORK = re.compile(
    r"(nfs\d?|cifs|smb\d?|smbfs|smbfs\d|ncpfs?|afs|coda|ceph|lustre|gpfs|beegfs|"
    r"pvfs2|orangefs|ocfs2|gfs2|glusterfs|davfs|webdav|network drive|"
    r"fuse\.(?!ext|lxcfs|overlay|fuse-overlayfs|mergerfs|ntfs|exfat|gocryptfs|encfs).*)"
)


def with_resolved_folder(path: Path) -> Path:
    """Return the absolute path of a file, without symbolic links in its folder."""
    # An open storage keeps it: the working folder or a link may change later.
    try:
        return path.parent.resolve() / path.name
    except (OSError, RuntimeError):  # RuntimeError: a loop of links, before 3.13
        return path  # `require_plain_file` refuses it


def require_plain_file(path: Path) -> None:
    """Check that a path can be a file's, and that no file of it is a link."""
    # ConfigError if a file or a companion file is a symbolic link, the path is a folder
    # or no file name, or the folder does not exist.
    try:
        is_folder = path.is_dir()
    except OSError as error:  # with the path in its message
        raise ConfigError(f"path: cannot be used: {error.strerror}") from None
    if is_folder:
        raise ConfigError("path: is a folder; give the name of a file in it")
    if not path.parent.is_dir():
        msg = "path: the folder in which the file should lie does not exist"
        raise ConfigError(msg)
    for suffix in ("", "-wal", "-shm", ".lock", ".snap", ".reserve"):
        try:
            about = os.lstat(f"{path}{suffix}")
        except OSError:
            continue
        what = f"path: <file>{suffix}" if suffix else "path: the file"
        if stat.S_ISLNK(about.st_mode):
            msg = f"{what} is a symbolic link, which vecall does not follow"
            raise ConfigError(msg)
        if suffix == ".snap":
            continue
        if not stat.S_ISREG(about.st_mode):
            raise ConfigError(f"{what} is no plain file")
        if about.st_nlink > 1:
            msg = f"{what} has a second name (a hard link), under which nothing locks"
            raise ConfigError(msg)


def require_new_file(path: Path) -> None:
    """Check that a database file can be created, and that no leftovers exist."""
    # SQLite would apply the content of a WAL or a journal of that name to the new file.
    require_plain_file(path)
    for suffix in ("", "-wal", "-shm", "-journal"):
        if path.with_name(path.name + suffix).exists():
            raise ConfigError(f"path: there is a file already: <name>{suffix}")


def require_unrelated_file(path: Path, database: Path | None) -> None:
    """Check that a file to read or write is not one of the database's."""
    # Opening and closing such a file would drop the locks of every connection.
    if database is None:
        return
    for suffix in ("", "-wal", "-shm", ".lock"):
        own = database.with_name(database.name + suffix)
        if path.exists() and own.exists() and path.samefile(own):
            raise ConfigError("path: belongs to the open database itself")


def require_local_folder(folder: Path) -> None:
    """Check that a folder is on a local file system, as far as is known."""
    kind = system.filesystem_of(folder)
    if kind is not None and _NETWORK.fullmatch(kind):
        raise NetworkFilesystemError(
            f"path: lies on a network file system ({kind}), whose locks cannot be "
            "trusted; StorageOptions(allow_network_filesystem=True) opens it at your "
            "own risk, and then one process at a time"
        )


def free_disk_bytes(folder: Path) -> int:
    """Return the bytes that this user may still write on a folder's disk."""
    import shutil  # only writes ask

    try:
        return shutil.disk_usage(folder).free
    except OSError as error:
        msg = f"the free space of the file's folder cannot be read: {error.strerror}"
        raise StorageError(msg) from None


def create_private_file(path: Path) -> None:
    """Make an empty file with mode 0600 unless there is one."""
    # Nothing but SQLite may open a file that is in use: closing any descriptor of it
    # would drop the locks of all connections of the process. Hence O_EXCL.
    try:
        os.close(system.open_private(path, os.O_RDWR | os.O_EXCL))
    except FileExistsError:
        return
    except OSError as error:
        msg = f"path: the file cannot be created: {error.strerror}"
        raise StorageError(msg) from error


# Reserves disk space, so that deleting works when the disk is full.
#
# A deletion writes to the WAL before it frees any space. To use the space of the WAL
# again, SQLite first writes its pages into the file, which may have to grow by as much.
# `<file>.reserve` holds zeros of that size and 1 MiB more. It is released when a
# deletion needs space, and filled again as far as the disk has room.

_STEP = 1024 * 1024
# SQLite writes the WAL into the file after a commit that leaves 1,000 pages in it.
_LONGEST_WAL = 1_000 * 4_120


class Reserve:
    """The reserve file of one database."""

    def __init__(self, database: Path) -> None:
        """Set the file's name; `reserve_disk_bytes` creates it."""
        self._path = database.with_name(database.name + ".reserve")
        self._name = str(self._path)
        self._wal = f"{database}-wal"

    @property
    def covers_wal(self) -> bool:
        """Whether it holds what the file may grow by when the WAL is written to it."""
        return file_bytes(self._name) >= file_bytes(self._wal)

    def missing_bytes(self, wal_bytes: int | None = None) -> int:
        """Return how many bytes it lacks for a WAL of a size; None: its size now."""
        if wal_bytes is None:
            wal_bytes = file_bytes(self._wal)
        wal_bytes = min(wal_bytes, _LONGEST_WAL)
        wanted = _STEP - (-wal_bytes // _STEP) * _STEP
        return max(0, wanted - file_bytes(self._name))

    def reserve_disk_bytes(self, size: int) -> None:
        """Reserve so many bytes more, as far as the disk has room."""
        try:
            handle = system.open_private(self._path, os.O_WRONLY)
        except OSError:
            return
        try:
            about = os.fstat(handle)
            is_plain = stat.S_ISREG(about.st_mode) and about.st_nlink == 1
            if is_plain and system.is_file_of_user(about):
                end = about.st_size + size
                os.lseek(handle, about.st_size, os.SEEK_SET)
                for at in range(about.st_size, end, _STEP):
                    os.write(handle, bytes(min(_STEP, end - at)))
        except OSError:
            return  # the disk is full
        finally:
            os.close(handle)

    def release_disk_bytes(self) -> bool:
        """Release the space; False if none was reserved."""
        try:
            held = self._path.stat().st_size
            self._path.unlink()
        except OSError:
            return False
        return held > 0


# A fair lock that lets one writer of all processes commit at a time.
#
# Every commit of every process holds it: a mutex between the threads of a process, and
# POSIX locks on `<file>.lock` between processes. With SQLite's own locks alone, a busy
# writer can starve others, and a checkpoint can run during a commit. The kernel
# releases the locks when their process dies.
#
# The first byte of the file is the lock, the second the head of the queue. A writer
# locks the head first, and releases it once it holds the lock. So a writer that has
# just committed finds the head locked by others and queues behind them.
#
# POSIX locks belong to the process, and closing *any* descriptor of the lock file drops
# them. So a process has one `FileLock` per lock file, and nothing else may open the
# file.

_GATE, _HEAD = 0, 1
_SHORT_S = 0.0001  # shortest pause between attempts of the head of the queue
_LONG_S = 0.002
_chance = random.SystemRandom()  # separate from `random`'s state; differs in forks
_QUEUE_S = 0.0005


class FileLock:
    """This process's lock on one lock file. Get it with `open_file_gate`."""

    def __init__(self, path: Path) -> None:
        """Open the lock file; create it with mode 0600 if it does not exist."""
        try:
            self._file = system.open_private(path, os.O_RDWR)
        except OSError as error:
            msg = f"path: the lock file cannot be opened: {error.strerror}"
            raise StorageError(msg) from error
        self.path = path
        self._mutex = threading.Lock()
        self.holders = 0

    @contextmanager
    def hold_file_lock(self, timeout_s: float) -> Iterator[None]:
        """Hold the lock during the block; BusyError if it was not free in time."""
        deadline = time.monotonic() + timeout_s
        if not self._mutex.acquire(timeout=timeout_s):
            raise _busy_file_error(timeout_s)
        try:
            self._lock_file_in_turn(deadline, timeout_s)
            try:
                yield
            finally:
                system.unlock_byte(self._file, _GATE)
        finally:
            self._mutex.release()

    def _lock_file_in_turn(self, deadline: float, timeout_s: float) -> None:
        try:
            while not system.lock_byte(self._file, _HEAD):
                if time.monotonic() >= deadline:
                    raise _busy_file_error(timeout_s)
                # Random pauses give all waiting processes the same chance.
                time.sleep(_QUEUE_S * _chance.uniform(0.5, 1.5))
            try:
                pause = _SHORT_S
                while not system.lock_byte(self._file, _GATE):
                    if time.monotonic() >= deadline:
                        raise _busy_file_error(timeout_s)
                    time.sleep(pause)
                    pause = min(1.1 * pause, _LONG_S)
            finally:
                system.unlock_byte(self._file, _HEAD)
        except BusyError:
            raise
        except OSError as error:
            msg = f"the lock file cannot be locked: {error.strerror}"
            raise StorageError(msg) from error

    def close(self) -> None:
        """Close the lock file."""
        os.close(self._file)


def _busy_file_error(timeout_s: float) -> BusyError:
    return BusyError(f"other writers held the file for {timeout_s:g} s")


_gates: dict[Path, FileLock] = {}
_gates_mutex = threading.Lock()


def open_file_gate(database: Path) -> FileLock:
    """Return this process's lock for a file; release it with `close_file_gate`."""
    path = _lock_file_path(database)
    with _gates_mutex:
        gate = _gates.get(path)
        if gate is None:
            gate = _gates[path] = FileLock(path)
        gate.holders += 1
        return gate


def is_file_open_here(database: Path) -> bool:
    """Whether this process has a file open to write."""
    return _lock_file_path(database) in _gates


def close_file_gate(gate: FileLock) -> None:
    """Release a lock object; the last release closes its file."""
    with _gates_mutex:
        gate.holders -= 1
        # A forked child's table holds none of its parent's locks.
        if gate.holders == 0 and _gates.get(gate.path) is gate:
            del _gates[gate.path]
            gate.close()


def _lock_file_path(database: Path) -> Path:
    path = system.resolve_path(database)
    return path.with_name(path.name + ".lock")


def _forget_gates_of_parent() -> None:
    """Drop the parent's lock objects in a forked child, which does not hold the locks.

    Their descriptors stay open: closing one would drop the locks that the child may
    already hold on the same file.
    """
    global _gates, _gates_mutex  # noqa: PLW0603
    _gates = {}
    _gates_mutex = threading.Lock()


system.at_fork(after_in_child=_forget_gates_of_parent)


# The folder of snapshots next to a database file.
#
# `<file>.snap/<partition>.vs` holds the engine's state of a large partition, which
# loads faster than rows. It is a cache: the folder may be deleted at any time.

MAGIC = b"vecallS1"
_SECTIONS = 24
_TABLE = 128  # offset of the table of sections, 16 bytes each
_HEAD_BYTES = _TABLE + 16 * _SECTIONS
_ALIGNED = 64


def _declared_snapshot_size(head: bytes) -> int | None:
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

    @contextmanager
    def _open_snapshot_file(self, part: int) -> Iterator[BinaryIO]:
        """Open a partition's snapshot; OSError if it is missing or no plain file."""
        with system.OpenFolder(self.path) as folder:
            handle = folder.open_to_read(f"{part}.vs")
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise OSError("no plain file")
            with os.fdopen(handle, "rb", closefd=False) as file:
                yield file
        finally:
            os.close(handle)

    def read_snapshot(self, part: int) -> bytes | None:
        """Return a partition's snapshot; None if it is missing or unreadable."""
        with suppress(OSError), self._open_snapshot_file(part) as file:
            size = os.fstat(file.fileno()).st_size
            if _declared_snapshot_size(file.read(_HEAD_BYTES)) == size:
                file.seek(0)
                return file.read(size)
        return None

    def read_snapshot_header(self, part: int) -> bytes:
        """Return the first bytes of a partition's snapshot; none if it is missing."""
        with suppress(OSError), self._open_snapshot_file(part) as file:
            return file.read(_TABLE)
        return b""

    def write_snapshot(self, part: int, data: bytes) -> None:
        """Store a snapshot atomically; after an OSError the last one is still there."""
        if not self.path.is_dir():
            self.path.mkdir(mode=0o700)
        passing = f"{part}.{os.getpid()}.tmp"
        with system.OpenFolder(self.path) as folder:
            try:
                handle = folder.open_private(passing, os.O_WRONLY | os.O_TRUNC)
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(handle)
                folder.replace(passing, f"{part}.vs")
            except OSError:
                _unlink_if_possible(passing, folder)
                raise
            folder.sync()

    def remove_snapshot(self, part: int) -> None:
        """Remove a partition's snapshot, if there is one."""
        with suppress(OSError), system.OpenFolder(self.path) as folder:
            _unlink_if_possible(f"{part}.vs", folder)

    def clear_snapshots(self, *, unfinished_only: bool = False) -> int:
        """Remove snapshots and leftovers of interrupted writes; return their number."""
        count = 0
        with suppress(OSError), system.OpenFolder(self.path) as folder:
            for name in folder.file_names():
                if _NAMES.fullmatch(name) and not (
                    unfinished_only and name.endswith(".vs")
                ):
                    count += _unlink_if_possible(name, folder)
        return count

    def sizes(self) -> dict[str, int]:
        """Return the bytes of each file."""
        found = {}
        with suppress(OSError), system.OpenFolder(self.path) as folder:
            for name in sorted(folder.file_names()):
                if _NAMES.fullmatch(name):
                    with suppress(OSError):
                        found[name] = folder.file_size(name)
        return found

    def nbytes(self) -> int:
        """Return the bytes of all files."""
        return sum(self.sizes().values())


def _unlink_if_possible(name: str, folder: system.OpenFolder) -> bool:
    try:
        folder.unlink(name)
    except OSError:
        return False
    return True
