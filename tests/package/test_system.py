"""What differs between operating systems is in one module, and does what it says."""

from __future__ import annotations

import ast
import errno
import os
import re
import resource
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import vecall
from vecall import system

PACKAGE = Path(vecall.__file__).parent
# Python's documentation marks each of these "Availability: Unix", or Windows alone.
MODULES = set(
    "ctypes fcntl grp msvcrt posix pwd resource select termios winreg".split()
)
NAMES = set(
    "CLOCK_BOOTTIME CLOCK_MONOTONIC O_BINARY O_CLOEXEC O_DIRECTORY O_NOFOLLOW "
    "O_NOINHERIT O_NONBLOCK SIGHUP SIGKILL SIGUSR1 add_signal_handler chown "
    "clock_gettime dir_fd dst_dir_fd fchmod fork geteuid getuid killpg mkfifo pread "
    "pwrite register_at_fork src_dir_fd statvfs sysconf".split()
)
TEXTS = ("/proc/", "/dev/", "XDG_", "LOCALAPPDATA", "~/.local")
WANTED = re.compile(rf"\b({'|'.join(MODULES | NAMES)})\b|{'|'.join(TEXTS)}")


def system_names(source: str) -> set[str]:
    """What a module names that not every operating system has."""
    found: set[str] = set()
    if not WANTED.search(source):
        return found  # it takes ten times as long to parse it
    tree = ast.parse(source)
    prose = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)
    }  # docstrings
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {each.name.split(".")[0] for each in node.names} & MODULES
        elif isinstance(node, ast.ImportFrom):
            found |= {str(node.module).split(".")[0]} & MODULES
            found |= {each.name for each in node.names} & NAMES
        elif isinstance(node, ast.Attribute):
            found |= {node.attr} & NAMES
        elif isinstance(node, ast.keyword):
            found |= {str(node.arg)} & NAMES
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node.value in NAMES:  # of getattr
                found.add(node.value)
            if id(node) not in prose:
                found |= {text for text in TEXTS if text in node.value}
    return found


def test_one_module_names_what_not_every_system_has():
    found = {
        path.relative_to(PACKAGE).as_posix(): system_names(path.read_text("utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
    }
    assert len(found.pop("system.py")) > 15
    assert {name: names for name, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "line",
    [
        "import fcntl",
        "from fcntl import flock",
        "import os.path, msvcrt",
        "from os import geteuid",
        "flags = os.O_RDONLY | os.O_DIRECTORY",
        "os.open(name, 0, dir_fd=folder)",
        "getattr(os, 'register_at_fork')",
        "path = '/proc/self/stat'",
    ],
)
def test_the_check_sees_each_way_to_name_it(line):
    assert system_names(line)


@pytest.mark.parametrize("follow", [True, False])
def test_a_link_is_followed_only_where_it_may_be(tmp_path, follow):
    (tmp_path / "file").write_bytes(b"zebra\r\n\x1a")
    (tmp_path / "link").symlink_to("file")
    if follow:
        file = system.open_to_read(tmp_path / "link")
        assert os.read(file, 99) == b"zebra\r\n\x1a"
        os.close(file)
        return
    for refused in (
        lambda: system.open_to_read(tmp_path / "link", follow=False),
        lambda: system.open_private(tmp_path / "link", os.O_WRONLY),
    ):
        with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
            refused()


def test_a_private_file_is_for_its_owner_alone(tmp_path):
    before = os.umask(0)
    try:
        os.close(system.open_private(tmp_path / "file", os.O_WRONLY))
    finally:
        os.umask(before)
    about = (tmp_path / "file").stat()
    assert stat.S_IMODE(about.st_mode) == 0o600
    assert system.rights_of_others(about) == 0
    assert system.is_file_of_user(about)
    (tmp_path / "file").chmod(0o640)
    assert system.rights_of_others((tmp_path / "file").stat()) == 0o040


def test_a_pipe_in_place_of_a_file_holds_nobody(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    os.close(system.open_to_read(tmp_path / "pipe"))
    with pytest.raises(OSError, match=os.strerror(errno.ENXIO)):
        system.open_private(tmp_path / "pipe", os.O_WRONLY)


def test_a_folder_stays_the_one_that_was_opened(tmp_path):
    """What is put in its place afterwards is another folder."""
    (tmp_path / "folder").mkdir()
    with system.OpenFolder(tmp_path / "folder") as folder:
        (tmp_path / "folder").rename(tmp_path / "moved")
        (tmp_path / "folder").mkdir()
        os.close(folder.open_private("new", os.O_WRONLY))
        folder.replace("new", "file")
        folder.sync()
        assert folder.file_names() == ["file"]
        assert folder.file_size("file") == 0
        os.close(folder.open_to_read("file"))
        assert (tmp_path / "moved" / "file").exists()
        folder.unlink("file")
    assert list((tmp_path / "moved").iterdir()) == []
    (tmp_path / "link").symlink_to("folder")
    with pytest.raises(OSError, match=os.strerror(errno.ENOTDIR)):
        system.OpenFolder(tmp_path / "link")


HOLDER = """
import os, sys
from vecall import system
file = system.open_private(sys.argv[1], os.O_RDWR)
print(system.lock_byte(file, 0), system.lock_byte(file, 1), flush=True)
for _ in range(2):
    sys.stdin.readline()
    system.unlock_byte(file, 1)
    print("unlocked", flush=True)
"""


def test_a_byte_is_locked_until_it_is_unlocked_or_its_process_is_killed(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, tmp_path / "lock"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout.readline() == "True True\n"
        file = system.open_private(tmp_path / "lock", os.O_RDWR)
        assert not system.lock_byte(file, 0)
        assert not system.lock_byte(file, 1)
        holder.stdin.write("\n")
        holder.stdin.flush()
        assert holder.stdout.readline() == "unlocked\n"
        assert system.lock_byte(file, 1)
        assert not system.lock_byte(file, 0)
        holder.kill()
        assert system.lock_byte(file, 0, wait=True)
        os.close(file)


def test_a_socket_above_the_first_thousand_is_asked():
    """What select() cannot take."""
    many = 1_500
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < many + 10:
        pytest.skip("the limit of open files is too low")
    one, other = socket.socketpair()
    high = os.dup2(one.fileno(), many)
    try:
        assert not system.socket_has_input(high)
        other.sendall(b"1")
        assert system.socket_has_input(high)
        one.recv(1)
        assert not system.socket_has_input(high)
        other.close()
        assert system.socket_has_input(high)
    finally:
        os.close(high)
        one.close()
        other.close()
