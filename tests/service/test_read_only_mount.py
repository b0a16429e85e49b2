"""A service that only reads, where nothing can be made beside the file.

Two real obstacles: a tmpfs that is mounted read-only in a namespace of its own, and a
folder in which this process may not write.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.embedders import Recorder
from helpers.memories import ALICE
from helpers.paths import ROOT
from vecall import MemoryService

ON_A_MOUNT = """
set -e
mount -t tmpfs tmpfs {mount}
cp -a {source}/. {mount}/
mount -o remount,ro {mount}
if touch {mount}/probe 2>/dev/null; then exit 9; fi
exec {python} {program}
"""

HEAD = """
import sys
sys.path[:0] = {paths!r}
from pathlib import Path
from helpers.embedders import Recorder
from helpers.memories import ALICE, BOB
from vecall import *

path = Path({folder!r}) / "m.db"


def opened(**more):
    more = dict(embedder=Recorder(16), read_only=True) | more
    return MemoryService(path, **more)


def texts(service, query="zebra", **more):
    found = service.sync.search_memory(**ALICE, query=query, **more).memories
    return sorted(memory.text for memory in found)


def expect(error, call, words=""):
    try:
        call()
    except error as raised:
        assert words in str(raised), raised
    else:
        raise AssertionError(error)

before = sorted(p.name for p in path.parent.iterdir())
"""

TAIL = """
assert sorted(p.name for p in path.parent.iterdir()) == before
print("done")
"""


def namespace() -> list[str] | None:
    """How to run something that may mount, if that is permitted here."""
    for flags in ("-m", "-rm"):
        command = ["unshare", flags, "sh", "-c", "mount -t tmpfs tmpfs /mnt"]
        try:
            tried = subprocess.run(
                command, check=False, capture_output=True, timeout=20
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        if tried.returncode == 0:
            return command[:2]
    return None


NAMESPACE = namespace()
needs_mount = pytest.mark.skipif(NAMESPACE is None, reason="may not mount")


def program(tmp_path: Path, folder: Path, body: str) -> Path:
    paths = [path for path in sys.path if path] + [str(ROOT / "tests")]
    head = HEAD.format(paths=paths, folder=str(folder))
    made = tmp_path / "program.py"
    made.write_text(head + textwrap.dedent(body) + TAIL)
    return made


def passes(command: list[str]) -> None:
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("done\n")
    assert "was not written" not in done.stderr


def on_a_mount(tmp_path: Path, source: Path, body: str) -> None:
    """Run a program that has a copy of a folder on a read-only mount."""
    assert NAMESPACE is not None
    mount = tmp_path / "mount"
    mount.mkdir()
    script = ON_A_MOUNT.format(
        mount=mount,
        source=source,
        python=sys.executable,
        program=program(tmp_path, mount, body),
    )
    passes([*NAMESPACE, "sh", "-c", script])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file of 700 memories, and nothing else."""
    made = tmp_path / "source"
    made.mkdir()
    with MemoryService(made / "m.db", embedder=Recorder(16)) as service:
        texts = ["zebra one", *(f"number {n}" for n in range(699))]
        service.sync.add_memory(**ALICE, memories=texts)
    shutil.rmtree(made / "m.db.snap", ignore_errors=True)
    for name in ("m.db.lock", "m.db.reserve"):
        (made / name).unlink(missing_ok=True)
    assert [each.name for each in made.iterdir()] == ["m.db"]
    return made


EVERYTHING = """
with opened() as service:
    assert texts(service, top_k=1) == ["zebra one"]
    vector = Recorder(16).vector("zebra one")
    assert texts(service, "", vector=vector, top_k=1) == ["zebra one"]
    assert service.sync.admin.stats()
    (entry,) = service.sync.list_memories(**ALICE, limit=1)
    assert service.sync.get_memory(**ALICE, memory_id=entry.id) == entry
    assert service.sync.admin.warm(**ALICE) is not False
    assert service.sync.memory_history(**ALICE, memory_id=entry.id)
    assert not service.sync.search_memory(**BOB, query="zebra").memories
    expect(ReadOnlyError, lambda: service.sync.add_memory(**ALICE, memories=["x"]))
    expect(ReadOnlyError, service.sync.admin.purge)
with opened(embedder="auto", storage=StorageOptions(durability="process")) as service:
    assert texts(service)
"""


@needs_mount
def test_a_file_on_a_read_only_mount_is_read_by_every_call(tmp_path, folder):
    on_a_mount(tmp_path, folder, EVERYTHING)


@needs_mount
def test_without_read_only_such_a_file_is_refused(tmp_path, folder):
    body = """
    expect(StorageError, lambda: opened(read_only=False))
    path = path.with_name("new.db")
    expect(StorageError, lambda: opened())
    """
    on_a_mount(tmp_path, folder, body)


@needs_mount
def test_what_is_only_in_the_log_is_read_too(tmp_path, folder):
    copy = tmp_path / "copy"
    with MemoryService(folder / "m.db", embedder=Recorder(16)) as service:
        service.sync.add_memory(**ALICE, memories=["zebra two"])
        shutil.copytree(folder, copy)
    assert (copy / "m.db-wal").stat().st_size > 0
    body = 'with opened() as s: assert texts(s, top_k=2) == ["zebra one", "zebra two"]'
    on_a_mount(tmp_path, copy, body)


@needs_mount
def test_a_log_that_cannot_be_read_is_said_and_not_passed_over(tmp_path, folder):
    copy = tmp_path / "copy"
    with MemoryService(folder / "m.db", embedder=Recorder(16)) as service:
        service.sync.add_memory(**ALICE, memories=["zebra two"])
        shutil.copytree(folder, copy)
    (copy / "m.db-shm").unlink()
    on_a_mount(tmp_path, copy, 'expect(StorageError, opened, "log")')


def without_rights(program: Path) -> list[str]:
    """How to run a program that may not write in a folder with mode 0555."""
    command = [sys.executable, str(program)]
    if os.geteuid() != 0:
        return command
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("root may write everywhere")
    rights = "-dac_override,-dac_read_search"
    return [setpriv, f"--bounding-set={rights}", f"--inh-caps={rights}", *command]


@pytest.fixture
def closed(folder: Path) -> Iterator[Path]:
    """The folder, in which nothing can be made."""
    folder.chmod(0o555)
    yield folder
    folder.chmod(0o755)


def test_a_file_in_a_folder_without_rights_is_read_by_every_call(tmp_path, closed):
    passes(without_rights(program(tmp_path, closed, EVERYTHING)))


def test_a_new_file_in_a_folder_without_rights_is_a_storage_error(tmp_path, closed):
    body = """
    path = path.with_name("new.db")
    expect(StorageError, lambda: opened(read_only=False))
    """
    passes(without_rights(program(tmp_path, closed, body)))


def test_a_file_without_rights_in_a_folder_with_rights_is_read(tmp_path, folder):
    (folder / "m.db").chmod(0o444)
    passes(without_rights(program(tmp_path, folder, EVERYTHING)))


def test_an_older_schema_is_named(tmp_path, closed):
    with sqlite3.connect(closed / "m.db") as connection:
        connection.execute("PRAGMA user_version = 3")
    connection.close()
    body = "expect((IncompatibleFileError, CorruptFileError), opened)"
    passes(without_rights(program(tmp_path, closed, body)))


def test_what_another_process_writes_meanwhile_is_found(tmp_path, folder):
    """The writer opens, writes and closes the file while the reader has it open."""
    body = """
    def turn(step):
        print(step, flush=True)
        sys.stdin.readline()

    with opened() as service:
        words = dict(ranking=Ranking(fusion="words"), top_k=50)
        assert texts(service, **words) == ["zebra one"]
        for step in range(1, 4):
            turn("write")
            assert len(texts(service, **words)) == 1 + step
            listed = service.sync.list_memories(**ALICE, limit=1000)
            assert len(listed) == 700 + step
        turn("open")
        assert len(texts(service, **words)) == 5
        turn("close")
        assert len(texts(service, **words)) == 5
    before = sorted(p.name for p in path.parent.iterdir())
    """
    command = without_rights(program(tmp_path, folder, body))
    folder.chmod(0o555)
    reader = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert reader.stdin is not None
    assert reader.stdout is not None
    path, count = folder / "m.db", 0
    writer = None
    try:
        for line in reader.stdout:
            if line == "done\n":
                break
            folder.chmod(0o755)
            if line in ("write\n", "open\n"):
                count += 1
                writer = MemoryService(path, embedder=Recorder(16))
                writer.sync.add_memory(**ALICE, memories=[f"zebra more {count}"])
            if line != "open\n" and writer is not None:
                writer.close()
            folder.chmod(0o555)
            reader.stdin.write("\n")
            reader.stdin.flush()
        _, errors = reader.communicate(timeout=60)
        assert reader.returncode == 0, errors
    finally:
        folder.chmod(0o755)
        reader.kill()
        reader.communicate()
    assert count == 4
