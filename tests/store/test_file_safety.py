"""Links, network disks, locks, disks that are full."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from helpers.memories import ALICE, BOB, texts
from vecall import (
    ConfigError,
    CorruptFileError,
    MemoryEntry,
    MemoryService,
    NetworkFilesystemError,
    StorageError,
    StorageFullError,
    VecallError,
    system,
)
from vecall.store import examine

BESIDE = ["", "-wal", "-shm", ".lock", ".snap", ".reserve"]


@pytest.mark.parametrize("suffix", BESIDE)
@pytest.mark.parametrize("target", ["file", "folder", "nothing"])
def test_a_symbolic_link_is_refused_and_not_followed(
    open_service, tmp_path, suffix, target
):
    """Nothing is read or written through it, whatever it points to."""
    elsewhere = tmp_path / "elsewhere"
    if target == "file":
        elsewhere.write_bytes(b"precious")
    elif target == "folder":
        elsewhere.mkdir()
    folder = tmp_path / "data"
    folder.mkdir()
    link = folder / f"m.db{suffix}"
    link.symlink_to(elsewhere)
    with pytest.raises(ConfigError):
        open_service(folder / "m.db")
    assert [part.name for part in folder.iterdir()] == [link.name]
    assert link.is_symlink()
    if target == "file":
        assert elsewhere.read_bytes() == b"precious"
    elif target == "folder":
        assert list(elsewhere.iterdir()) == []
    else:
        assert not elsewhere.exists()


@pytest.mark.parametrize("read_only", [False, True])
def test_a_name_that_no_file_can_have_is_refused_without_saying_it(
    open_service, tmp_path, read_only
):
    """An error holds no path."""
    with pytest.raises(ConfigError, match="path: cannot be used") as refused:
        open_service(tmp_path / ("n" * 300), read_only=read_only)
    assert "nnn" not in str(refused.value)


def test_a_folder_reached_by_a_link_is_fine(open_service, tmp_path):
    """Only the last name counts: a home or a mount may well be a link."""
    (tmp_path / "real").mkdir()
    (tmp_path / "way").symlink_to(tmp_path / "real")
    first = open_service(tmp_path / "way" / "m.db")
    second = open_service(tmp_path / "real" / "m.db")
    first.sync.add_memory(**ALICE, memories=["zebra"])
    second.sync.add_memory(**ALICE, memories=["zebra 2"])
    assert texts(first, "zebra") == texts(second, "zebra")


def mount(point: str, kind: str, *, id_: int = 30, parent: int = 1) -> str:
    """A line of /proc/self/mountinfo, as proc(5) has it."""
    return (
        f"{id_} {parent} 8:{id_} / {point} rw,relatime shared:{id_} - {kind} "
        f"/dev/x rw,errors=continue\n"
    )


ROOT = mount("/", "ext4", id_=1, parent=0)
REMOTE = "nfs nfs4 cifs smb3 smbfs fuse.sshfs fuse.gcsfuse fuse.s3fs afs ceph".split()
LOCAL = "ext4 xfs btrfs overlay tmpfs fuseblk zfs f2fs bcachefs fuse.ext2".split()


@pytest.mark.parametrize("kind", [*REMOTE, *LOCAL])
def test_a_file_on_another_machines_disk_is_refused(
    open_service, tmp_path, monkeypatch, kind
):
    """Bug class 26; at one's own risk it can be opened."""
    mounts = tmp_path / "mountinfo"
    folder = tmp_path / "with space" / "sub"
    folder.mkdir(parents=True)
    point = str(folder.parent.resolve()).replace(" ", "\\040")
    mounts.write_text(ROOT + mount("/proc", "proc", id_=2) + mount(point, kind))
    monkeypatch.setattr(system, "_MOUNTS", mounts)
    path = folder / "m.db"
    if kind in REMOTE:
        with pytest.raises(NetworkFilesystemError, match=rf"\({kind}\)"):
            open_service(path)
        assert list(folder.iterdir()) == []
        service = open_service(path, allow_network_filesystem=True)
    else:
        service = open_service(path)
    service.sync.add_memory(**ALICE, memories=["zebra"])
    assert texts(service, "zebra") == ["zebra"]


MOUNTS = (
    ROOT
    + mount("/data", "xfs", id_=2)
    + mount("/data/remote", "nfs4", id_=3, parent=2)
    + mount("/data/remote/back", "btrfs", id_=4, parent=3)
    + mount("/data/two\\040words\\134", "cifs", id_=5, parent=2)
    + mount("/over", "ext4", id_=6)
    + mount("/over", "nfs", id_=7, parent=6)
    + "garbage\n40 1 8:1 / /short\n"
)


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/home/x", "ext4"),
        ("/data", "xfs"),
        ("/data/remotely", "xfs"),
        ("/data/remote", "nfs4"),
        ("/data/remote/a/b", "nfs4"),
        ("/data/remote/back/c", "btrfs"),
        ("/data/two words\\", "cifs"),
        ("/data/two words\\/x", "cifs"),
        ("/data/two", "xfs"),
        ("/over", "nfs"),
        ("/over/x", "nfs"),
        ("/short", "ext4"),
    ],
)
def test_the_mount_that_a_folder_is_seen_through_counts(folder, kind):
    assert system.filesystem_in(MOUNTS, Path(folder)) == kind


def test_a_mount_hides_those_that_were_made_below_it_before():
    """What was mounted on /a/b cannot be seen once something is mounted on /a."""
    mounts = ROOT + mount("/a/b", "ext4", id_=2) + mount("/a", "nfs", id_=3)
    assert system.filesystem_in(mounts, Path("/a/b/c")) == "nfs"


def test_without_a_list_of_mounts_nothing_is_refused(
    open_service, tmp_path, monkeypatch
):
    monkeypatch.setattr(system, "_MOUNTS", tmp_path / "nothing")
    service = open_service(tmp_path / "m.db")
    service.sync.add_memory(**ALICE, memories=["zebra"])
    assert texts(service) == ["zebra"]


DESCRIPTORS = Path("/proc/self/fdinfo")


def locks_on(*paths: Path) -> list[str]:
    """This process's POSIX locks on files: kind and range.

    Not from /proc/locks: other processes' locks that come and go while it is read
    hide lines and show some twice.
    """
    inodes = {str(path.stat().st_ino) for path in paths if path.exists()}
    found = set()
    for descriptor in DESCRIPTORS.iterdir():
        with suppress(FileNotFoundError):
            lines = descriptor.read_text().splitlines()
            for fields in [line.split() for line in lines if line.startswith("lock:")]:
                inode = fields[6].rpartition(":")[2]
                if fields[2] == "POSIX" and inode in inodes:
                    found.add(" ".join([fields[4], inode, *fields[7:]]))
    return sorted(found)


@contextmanager
def in_transaction(service: MemoryService) -> Iterator[None]:
    """A write transaction of another thread, open during the block."""
    begun, done = threading.Event(), threading.Event()

    def work() -> None:
        with service._memory.storage._database.write_transaction() as connection:
            connection.execute("INSERT INTO meta VALUES ('test', 'x')")
            begun.set()
            assert done.wait(30)
            connection.execute("DELETE FROM meta WHERE key = 'test'")

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert begun.wait(20)
        yield
    finally:
        done.set()
        thread.join(20)


def _try(work: Callable[[], Any]) -> None:
    with suppress(VecallError):
        work()


@pytest.mark.skipif(not DESCRIPTORS.exists(), reason="needs /proc")
def test_no_call_drops_a_lock_that_another_connection_holds(open_service, tmp_path):
    """Bug class 27, finding 1: a stray open and close of the file would."""
    path = tmp_path / "m.db"
    service, second = open_service(path), open_service(path)
    many = [MemoryEntry(f"zebra {i}", id=f"m{i}") for i in range(600)]
    service.sync.add_memory(**ALICE, memories=many)
    service.sync.admin.export_jsonl(tmp_path / "export")
    (tmp_path / "link").hardlink_to(path)
    beside = [path.with_name(path.name + suffix) for suffix in BESIDE]
    own: list[Callable[[], Any]] = [
        lambda: service.sync.admin.backup(tmp_path / "b.db"),
        lambda: service.sync.admin.backup(path),
        lambda: service.sync.admin.export_jsonl(tmp_path / "e"),
        lambda: service.sync.admin.export_jsonl(path),
        service.sync.admin.stats,
        lambda: examine(path),
        lambda: service.sync.admin.warm(**ALICE),
        lambda: texts(service, "zebra"),
        lambda: second.sync.get_memory(**ALICE, memory_id="m1"),
        lambda: service.sync.admin.import_jsonl(tmp_path / "link"),
        *(lambda file=file: service.sync.admin.import_jsonl(file) for file in beside),
        lambda: MemoryService(tmp_path / "none" / "m.db", embedder=None),
    ]
    with in_transaction(second):
        before = locks_on(*beside)
        assert [lock for lock in before if lock.startswith("WRITE")]
        for number, work in enumerate(own):
            _try(work)
            held = locks_on(*beside)
            assert not set(before) - set(held), f"call {number} dropped locks"
    resting = [  # with byte 128 of the -shm
        lock
        for lock in locks_on(path, path.with_name("m.db-shm"))
        if lock.startswith("READ") and lock.endswith((" 1073742335", " 128"))
    ]
    assert len(resting) == 2
    for work in [
        service.sync.admin.purge,
        lambda: service.sync.delete_user(**BOB, forget=True),
        lambda: service.sync.admin.import_jsonl(tmp_path / "export"),
        (tmp_path / "link").unlink,
        lambda: open_service(path).close(),
    ]:
        work()
        held = locks_on(path, path.with_name("m.db-shm"))
        assert not set(resting) - set(held)


def test_an_error_that_is_kept_keeps_no_file_open(open_service, tmp_path):
    """After close() the file is one file, whoever still holds an exception."""
    path = tmp_path / "m.db"
    with open_service(path) as service:
        service.sync.add_memory(**ALICE, memories=[f"zebra {i}" for i in range(300)])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE mem SET text = 'lie' WHERE rid % 100 = 7")
        connection.commit()
    service = open_service(path)
    with pytest.raises(CorruptFileError) as caught:
        texts(service, "zebra")
    service.close()
    assert caught.value is not None
    assert not path.with_name("m.db-wal").exists()
    assert locks_on(path) == []


def test_a_write_without_its_folder_is_an_error_and_not_waited_for(
    open_service, tmp_path
):
    """The folder, or the share that it is on, may go while the file is in use."""
    folder = tmp_path / "folder"
    folder.mkdir()
    service = open_service(folder / "m.db")
    service.sync.add_memory(**ALICE, memories=["zebra 1"])
    folder.rename(tmp_path / "elsewhere")
    for text in ("zebra 2", "zebra 3"):
        with pytest.raises(StorageError) as told:
            service.sync.add_memory(**ALICE, memories=[text])
        assert "folder/" not in str(told.value)
    (tmp_path / "elsewhere").rename(folder)
    service.sync.add_memory(**ALICE, memories=["zebra 4"])
    assert texts(service, "zebra") == ["zebra 1", "zebra 4"]


def test_below_its_limit_of_free_space_a_file_only_shrinks(open_service, tmp_path):
    """Bug class 28: adding is refused before anything is stuck; deleting goes on."""
    path = tmp_path / "m.db"
    with open_service(path) as service:
        ids = service.sync.add_memory(**ALICE, memories=["zebra 1", "zebra 2"])
    full = open_service(path, min_free_bytes=2**60)
    turn = {"id": "e", "author": "user", "text": "zebra"}
    for work in (
        lambda: full.sync.add_memory(**ALICE, memories=["zebra 3"]),
        lambda: full.sync.add_events_to_memory(**ALICE, events=[turn]),
        lambda: full.sync.add_session_to_memory({**ALICE, "id": "s", "events": [turn]}),
    ):
        with pytest.raises(StorageFullError, match="min_free_bytes"):
            work()
    assert texts(full, "zebra") == ["zebra 1", "zebra 2"]
    full.sync.delete_memory(**ALICE, memory_id=ids[0])
    assert texts(full, "zebra") == ["zebra 2"]
    assert full.sync.delete_user(**ALICE, forget=True) == 1
    full.sync.admin.purge()
    with open_service(path) as service:
        assert service.sync.admin.stats()["memories"] == 0
        service.sync.add_memory(**ALICE, memories=["zebra again"])
        assert texts(service, "zebra") == ["zebra again"]


def written_from(open_service, place):
    """A service on place/m.db that has written once."""
    service = open_service(place / "m.db")
    service.sync.add_memory(**ALICE, memories=[f"zebra of {place.absolute().name}"])
    return service


@pytest.mark.parametrize("read_only", [False, True])
def test_a_link_that_moves_moves_no_open_service(open_service, tmp_path, read_only):
    """An open service stays with its file, also for connections that it opens later."""
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        written_from(open_service, tmp_path / name).close()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "old")
    service = open_service(link / "m.db", read_only=read_only)
    link.unlink()
    link.symlink_to(tmp_path / "new")
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: texts(service, "zebra"), range(32)))
    assert found == [["zebra of old"]] * 32
    if not read_only:
        service.sync.add_memory(**ALICE, memories=["zebra again"])
    service.close()
    again = open_service(tmp_path / "old" / "m.db")
    assert len(texts(again, "zebra")) == 2 - read_only


def test_a_change_of_the_working_folder_moves_no_open_service(
    open_service, tmp_path, monkeypatch
):
    """A relative path is that of the folder in which the service was opened."""
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    written_from(open_service, tmp_path / "new").close()
    monkeypatch.chdir(tmp_path / "old")
    service = written_from(open_service, Path())
    monkeypatch.chdir(tmp_path / "new")
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: texts(service, "zebra"), range(32)))
    assert found == [["zebra of old"]] * 32
    service.close()
    assert texts(open_service(tmp_path / "new" / "m.db"), "zebra") == ["zebra of new"]
