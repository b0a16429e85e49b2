"""Checks the folder of a file: local, with free space, without symbolic links."""

from __future__ import annotations

import ctypes
import os
import re
import stat
import sys
from pathlib import Path

from vecall.errors import ConfigError, NetworkFilesystemError, StorageError

_NETWORK = re.compile(
    r"(nfs\d?|cifs|smb\d?|smbfs|smbfs\d|ncpfs?|afs|coda|ceph|lustre|gpfs|beegfs|"
    r"pvfs2|orangefs|ocfs2|gfs2|glusterfs|davfs|webdav|"
    r"fuse\.(?!ext|lxcfs|overlay|fuse-overlayfs|mergerfs|ntfs|exfat|gocryptfs|encfs).*)"
)
_MOUNTS = Path("/proc/self/mountinfo")


def with_resolved_folder(path: Path) -> Path:
    """Return the absolute path of a file, without symbolic links in its folder.

    An open storage keeps it: the working folder or a link may change later.
    """
    try:
        return path.parent.resolve() / path.name
    except (OSError, RuntimeError):  # RuntimeError: a loop of links, before 3.13
        return path  # `require_plain` refuses it


def require_plain(path: Path) -> None:
    """Check that a file and its companion files are not symbolic links.

    Raises:
        ConfigError: One of them is, or `path` is a folder or not a file name, or its
            folder does not exist.
    """
    try:
        is_folder = path.is_dir()
    except OSError as error:  # with the path in its message
        msg = f"path: cannot be used: {error.strerror}"
        raise ConfigError(msg) from None
    if is_folder:
        msg = "path: is a folder; give the name of a file in it"
        raise ConfigError(msg)
    if not path.parent.is_dir():
        msg = "path: the folder in which the file should lie does not exist"
        raise ConfigError(msg)
    for suffix in ("", "-wal", "-shm", ".lock", ".snap", ".reserve"):
        if path.with_name(path.name + suffix).is_symlink():
            what = "the file" if not suffix else f"<file>{suffix}"
            msg = f"path: {what} is a symbolic link, which vecall does not follow"
            raise ConfigError(msg)
        _require_file(path.with_name(path.name + suffix), suffix)


def _require_file(path: Path, suffix: str) -> None:
    try:
        about = path.lstat()
    except OSError:
        return
    what = "the file" if not suffix else f"<file>{suffix}"
    if suffix == ".snap":
        return
    if not stat.S_ISREG(about.st_mode):
        msg = f"path: {what} is no plain file"
        raise ConfigError(msg)
    if about.st_nlink > 1:
        msg = f"path: {what} has a second name (a hard link), under which nothing locks"
        raise ConfigError(msg)


def is_own_file(about: os.stat_result) -> bool:
    """Whether it is a plain file of this user that has no second name."""
    return (
        stat.S_ISREG(about.st_mode)
        and about.st_nlink == 1
        and about.st_uid == os.geteuid()
    )


def require_new(path: Path) -> None:
    """Check that a database file can be created, and that no leftovers exist.

    Raises:
        ConfigError: The file exists, or a WAL or journal of that name. SQLite would
            apply their content to the new file.
    """
    require_plain(path)
    for suffix in ("", "-wal", "-shm", "-journal"):
        if path.with_name(path.name + suffix).exists():
            msg = f"path: there is a file already: <name>{suffix}"
            raise ConfigError(msg)


def require_unrelated(path: Path, database: Path | None) -> None:
    """Check that a file to read or write is not one of the database's.

    Opening and closing such a file would drop the locks of every connection.

    Raises:
        ConfigError: It is one of them.
    """
    if database is None:
        return
    for suffix in ("", "-wal", "-shm", ".lock"):
        own = database.with_name(database.name + suffix)
        if path.exists() and own.exists() and path.samefile(own):
            msg = "path: belongs to the open database itself"
            raise ConfigError(msg)


def require_local(folder: Path) -> None:
    """Check that a folder is on a local file system.

    Raises:
        NetworkFilesystemError: It is on a network file system, as far as is known.
    """
    kind = filesystem_of(folder)
    if kind is not None and _NETWORK.fullmatch(kind):
        msg = (
            f"path: lies on a network file system ({kind}), whose locks cannot be "
            "trusted; StorageOptions(allow_network_filesystem=True) opens it at your "
            "own risk, and then one process at a time"
        )
        raise NetworkFilesystemError(msg)


def filesystem_of(folder: Path) -> str | None:
    """Return the type of a folder's file system, such as "ext4"; None if unknown."""
    if sys.platform == "darwin":
        return _filesystem_of_mac(folder)
    try:
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    return filesystem_in(mounts, folder.resolve())


def filesystem_in(mounts: str, folder: Path) -> str | None:
    """Find a folder's file system in the text of /proc/self/mountinfo (proc(5))."""
    found: str | None = None
    inside = f"{folder}/".replace("//", "/")
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[4])
        # In the order of mounting: a later mount hides what is below it.
        if inside.startswith(point if point == "/" else f"{point}/"):
            found = after.split(" ")[0]
    return found


def _filesystem_of_mac(folder: Path) -> str | None:
    """Ask statfs(2); its struct holds the type at byte 72, the flags at byte 64."""
    buffer = ctypes.create_string_buffer(4096)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.statfs(os.fsencode(folder), buffer) != 0:
        return None
    return buffer.raw[72:88].split(b"\0")[0].decode("ascii", "replace")


def free_bytes(folder: Path) -> int:
    """Return the bytes that this user may still write on a folder's disk.

    Raises:
        StorageError: The size is not available, for example without the folder.
    """
    try:
        facts = os.statvfs(folder)
    except OSError as error:
        msg = f"the free space of the file's folder cannot be read: {error.strerror}"
        raise StorageError(msg) from None
    return facts.f_bavail * facts.f_frsize


def create_private(path: Path) -> None:
    """Make an empty file with mode 0600 unless there is one.

    Nothing but SQLite may open the file once it is in use: closing any descriptor of it
    would drop the locks of every connection in this process. O_EXCL makes sure of that.

    Raises:
        StorageError: It cannot be made.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        msg = f"path: the file cannot be created: {error.strerror}"
        raise StorageError(msg) from error


def sync_folder(folder: Path) -> None:
    """Sync a folder: creations, renames and removals then survive a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
