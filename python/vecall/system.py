"""What differs between operating systems; no other module names such a call.

Windows has no permission bits, no sync of folders and no fork. The guide "production"
says what is done there instead.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import io
import os
import re
import select
import shlex
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Generic, Self, TypeVar, overload

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_Result = TypeVar("_Result")

# Files.


def open_to_read(
    path: str | Path, *, follow: bool = True, folder: int | None = None
) -> int:
    """Open a file, relative to a folder, to read; return its descriptor."""
    # A FIFO does not block. Without `follow` a symbolic link is refused.
    return _open_file(path, os.O_RDONLY, follow, folder)


def open_private(path: str | Path, flags: int, *, folder: int | None = None) -> int:
    """Open a file to write, and make it for its owner alone if it does not exist."""
    # A symbolic link is refused; a FIFO does not block. `flags` are those of `os.open`
    # that every system has; O_CREAT is added.
    return _open_file(path, flags | os.O_CREAT, False, folder)


def _open_file(path: str | Path, flags: int, follow: bool, folder: int | None) -> int:
    if sys.platform == "win32":
        if not follow and os.path.islink(path):  # noqa: PTH114
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        # For a moment, a file that is being replaced cannot be opened.
        return _retry_denied(5, os.open, path, flags | os.O_BINARY, 0o600)
    else:
        flags |= os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
        return os.open(path, flags, 0o600, dir_fd=folder)


def replace_file(source: str | Path, target: str | Path, **folders: int) -> None:
    """Rename a file atomically over another, with the folders of `os.replace`."""
    # Windows refuses it while the other is open, so it is tried there for two seconds.
    if sys.platform == "win32":
        _retry_denied(11, os.replace, source, target)
    else:
        os.replace(source, target, **folders)  # noqa: PTH105


def _retry_denied(times: int, call: Callable[..., _Result], *arguments: Any) -> _Result:
    """Repeat a call that Windows denies, after 1, 2, 4, ... milliseconds."""
    for n in range(times):
        try:
            return call(*arguments)
        except PermissionError:
            time.sleep(0.001 * 2**n)
    return call(*arguments)


def resolve_path(path: Path) -> Path:
    """Return the absolute path without links; with them where Windows cannot tell."""
    try:
        return path.resolve()
    except OSError:  # of long paths and of some disks
        if sys.platform == "win32":
            return path.absolute()
        raise


def sync_file(path: Path) -> None:
    """Sync a file that this user may write."""
    file = os.open(path, os.O_RDWR)  # Windows syncs no file that is open to read
    try:
        os.fsync(file)
    finally:
        os.close(file)


def sync_folder(folder: str | Path) -> None:
    """Sync a folder: creations, renames and removals then survive a power cut."""
    with OpenFolder(folder, follow=True) as opened:
        opened.sync()


class OpenFolder:
    """A folder whose files are named relative to its descriptor."""

    def __init__(self, path: str | Path, *, follow: bool = False) -> None:
        """Open it."""
        self._path = path
        self._at: int | None = None
        if sys.platform == "win32":
            if not follow and os.path.islink(path):  # noqa: PTH114
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        else:
            link = 0 if follow else os.O_NOFOLLOW
            self._at = os.open(path, os.O_RDONLY | os.O_DIRECTORY | link)

    def __enter__(self) -> OpenFolder:
        """Return the folder."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        if self._at is not None:
            os.close(self._at)

    def _name(self, name: str) -> str:
        return name if self._at is not None else os.path.join(self._path, name)  # noqa: PTH118

    def open_to_read(self, name: str) -> int:
        """As `open_to_read` of a file, without following a link."""
        return open_to_read(self._name(name), follow=False, folder=self._at)

    def open_private(self, name: str, flags: int) -> int:
        """As `open_private`."""
        return open_private(self._name(name), flags, folder=self._at)

    def replace(self, source: str, target: str) -> None:
        """As `replace_file`."""
        folders = {}
        if self._at is not None:
            folders = {"src_dir_fd": self._at, "dst_dir_fd": self._at}
        replace_file(self._name(source), self._name(target), **folders)

    def unlink(self, name: str) -> None:
        """Remove a file."""
        os.unlink(self._name(name), dir_fd=self._at)

    def file_names(self) -> list[str]:
        """Return the names of its files."""
        return os.listdir(self._path if self._at is None else self._at)  # noqa: PTH208

    def file_size(self, name: str) -> int:
        """Return the bytes of a file, or those of a link itself."""
        about = os.stat(self._name(name), dir_fd=self._at, follow_symlinks=False)
        return about.st_size

    def sync(self) -> None:
        """As `sync_folder`."""
        if self._at is not None:
            os.fsync(self._at)


def is_file_of_user(about: os.stat_result, *, or_root: bool = False) -> bool:
    """Whether a file belongs to this user; always on Windows, which does not tell."""
    if sys.platform == "win32":
        return True
    else:
        return about.st_uid == os.geteuid() or (or_root and about.st_uid == 0)


def rights_of_others(about: os.stat_result) -> int:
    """Return the permission bits of group and others; none on Windows."""
    return 0 if sys.platform == "win32" else stat.S_IMODE(about.st_mode) & 0o077


# Locks. A system releases them when their process dies.


def lock_byte(file: int, byte: int, *, wait: bool = False) -> bool:
    """Lock a byte of a file that is open to write."""
    # Return whether it was locked; always with `wait`. POSIX locks belong to the
    # process: closing any descriptor of the file drops them.
    if sys.platform == "win32":
        # msvcrt.locking gives up after ten attempts, and fails under contention.
        how = 2 if wait else 3  # exclusive; and fail immediately
        handle, at = _handle_and_offset(file, byte)
        if _kernel.LockFileEx(handle, how, 0, 1, 0, at):
            return True
        code = ctypes.get_last_error()
        if code in (33, 997):  # ERROR_LOCK_VIOLATION, ERROR_IO_PENDING
            return False
        raise ctypes.WinError(code)
    else:
        try:
            how = fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB)
            fcntl.lockf(file, how, 1, byte)
        except (BlockingIOError, PermissionError):
            return False
        return True


def unlock_byte(file: int, byte: int) -> None:
    """Unlock a byte that this process has locked."""
    if sys.platform == "win32":
        handle, at = _handle_and_offset(file, byte)
        _kernel.UnlockFileEx(handle, 0, 1, 0, at)
    else:
        fcntl.lockf(file, fcntl.LOCK_UN, 1, byte)


if sys.platform == "win32":
    _kernel = ctypes.WinDLL("kernel32", use_last_error=True)

    class _Overlapped(ctypes.Structure):
        _fields_ = (
            ("internal", ctypes.c_void_p * 2),
            ("offset", ctypes.c_uint64),
            ("event", ctypes.c_void_p),
        )

    def _handle_and_offset(file: int, byte: int) -> tuple[Any, Any]:
        handle = ctypes.c_void_p(msvcrt.get_osfhandle(file))
        return handle, ctypes.byref(_Overlapped(offset=byte))


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold the lock on a folder during the block; wait for it."""
    # Windows cannot lock a folder: there it is a file of the user's temporary files.
    if sys.platform == "win32":
        import tempfile
        import zlib

        number = zlib.crc32(os.path.normcase(resolve_path(folder)).encode())
        name = Path(tempfile.gettempdir()) / f"vecall-{number:08x}.lock"
        file = open_private(name, os.O_RDWR)
    else:
        file = os.open(folder, os.O_RDONLY)
    try:
        if sys.platform == "win32":
            lock_byte(file, 0, wait=True)
        else:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


# Disks.

_MOUNTS = Path("/proc/self/mountinfo")
_DRIVES = {2: "removable disk", 3: "disk", 4: "network drive", 5: "CD", 6: "RAM disk"}


def filesystem_of(folder: Path) -> str | None:
    """Return the type of a folder's file system, such as "ext4"; None if unknown."""
    # On Windows it is the kind of the drive.
    if sys.platform == "win32":
        return _DRIVES.get(_kernel.GetDriveTypeW(resolve_path(folder).anchor))
    elif sys.platform == "darwin":
        return _filesystem_of_mac(folder)
    else:
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


# Time.

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

# `monotonic` returns seconds since an unspecified moment; they never go back. On Linux
# the monotonic clock stops while the machine sleeps; the boot clock does not. Other
# systems have the monotonic clock only.
if sys.platform == "win32":
    monotonic = time.monotonic
else:
    _PASSING = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    monotonic = partial(time.clock_gettime, _PASSING)


def boot_id() -> str:
    """Return an id of the moment that `monotonic` counts from; "" if unknown."""
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except OSError:
        return ""


def process_age() -> float:
    """Return how long the process exists, in seconds."""
    # Without Linux's /proc it is the time that it computed.
    if sys.platform == "linux":
        with suppress(OSError, ValueError, IndexError):
            line = Path("/proc/self/stat").read_text("utf-8", errors="replace")
            started = int(line.rpartition(")")[2].split()[19])
            return monotonic() - started / os.sysconf("SC_CLK_TCK")
    return time.process_time()


# Processes.


def at_fork(**hooks: Callable[[], object]) -> None:
    """As `os.register_at_fork`, on systems that fork."""
    if sys.platform != "win32":
        os.register_at_fork(**hooks)


class cached(Generic[_Result]):  # noqa: N801 - as functools.cached_property
    """A method as an attribute, which is computed at its first use.

    Several threads may each compute it. `functools.cached_property` keeps them apart by
    a lock in Python 3.11, which a fork meanwhile leaves locked for ever in the child.
    """

    def __init__(self, compute: Callable[[Any], _Result]) -> None:
        """Take the method."""
        self._compute = compute
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> _Result: ...

    def __get__(self, instance: object | None, owner: type) -> Self | _Result:
        """Compute the value; the next use finds it in the instance."""
        if instance is None:
            return self
        value = self._compute(instance)
        instance.__dict__[self._compute.__name__] = value
        return value


@contextmanager
def on_signals(numbers: Sequence[int], call: Callable[[], object]) -> Iterator[None]:
    """Call a function on the running event loop at signals, during the block."""
    loop = asyncio.get_running_loop()
    if sys.platform == "win32":  # its loops have no signal handlers
        before = [
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(call))
            for number in numbers
        ]
    else:
        for number in numbers:
            loop.add_signal_handler(number, call)
    try:
        yield
    finally:
        if sys.platform == "win32":
            for number, handler in zip(numbers, before, strict=True):
                signal.signal(number, signal.SIG_DFL if handler is None else handler)
        else:
            for number in numbers:
                loop.remove_signal_handler(number)


def socket_has_input(socket: int) -> bool:
    """Whether a socket has something to read, or is closed or broken."""
    if sys.platform == "win32":
        return bool(select.select([socket], [], [], 0)[0])
    else:  # select() refuses descriptors from 1,024 on
        asked = select.poll()
        asked.register(socket, select.POLLIN)
        return bool(asked.poll(0))


_trim = (
    getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
)


def trim_heap() -> None:
    """Return freed heap memory to the operating system, with `malloc_trim` of glibc."""
    # Does nothing with other allocators. Takes milliseconds; the GIL is released.
    if _trim is not None:
        _trim(0)


# The user's folders, shells and terminals.

DATA_FOLDER = "~/AppData/Local" if sys.platform == "win32" else "~/.local/share"
"""What `data_folder` returns unless a variable names another."""


def data_folder() -> str:
    """Return the folder for a user's data, which may begin with "~"."""
    return _user_folder("XDG_DATA_HOME", DATA_FOLDER)


def state_folder() -> str:
    """Return the folder for a user's logs, which may begin with "~"."""
    return _user_folder("XDG_STATE_HOME", "~/.local/state")


def cache_folder() -> str:
    """Return the folder for what can be made again, which may begin with "~"."""
    if sys.platform == "darwin":
        return "~/Library/Caches"
    return _user_folder("XDG_CACHE_HOME", "~/.cache")


def _user_folder(variable: str, usual: str) -> str:
    if sys.platform == "win32":
        variable, usual = "LOCALAPPDATA", DATA_FOLDER
    return os.environ.get(variable) or usual


def shell_words(words: Sequence[str]) -> str:
    """Return words quoted for a shell."""
    # On Windows it may be Git's bash, PowerShell or cmd. All take the result, if it
    # begins with a word without spaces: PowerShell runs no command in quotes.
    if sys.platform == "win32":
        return " ".join(
            word if re.fullmatch(r"[\w./:=~-]+", word) else f'"{word}"'
            for word in words
        )
    else:
        return shlex.join(words)


def silent_command(command: str, variable: str) -> str:
    """Return a quoted command of a shell that prints no error and always succeeds."""
    # On Windows it is unchanged, since its shells have no common syntax for that.
    if sys.platform == "win32":
        return command
    else:
        return f"{variable} {command} 2>/dev/null || exit 0"


def prepare_terminal() -> None:
    """Let Windows' standard streams have any character, and its consoles colours."""
    if sys.platform == "win32":
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(encoding="utf-8")
        for number in (-11, -12):  # standard output, standard error
            mode = ctypes.c_uint32()
            handle = ctypes.c_void_p(_kernel.GetStdHandle(number))
            if _kernel.GetConsoleMode(handle, ctypes.byref(mode)):
                # ENABLE_VIRTUAL_TERMINAL_PROCESSING
                _kernel.SetConsoleMode(handle, mode.value | 4)
