"""A disk that fails: any call of the operating system, at any moment, and no space."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from helpers.campaigns import SCALE, scaled
from helpers.folders import fast_folder
from helpers.paths import TESTS
from helpers.power_loss import ShimError, build_shim, shimmed
from helpers.storage_work import APP, FILE, found_by_search, roomy, stored
from vecall import MemoryEntry, MemoryService, StorageFullError

# At how many calls of a kind each error comes: all of them in a long campaign.
CALLS_OF_A_KIND = scaled(2) if SCALE < 20 else 10**9
MOUNT_BYTES = 10 * 1024 * 1024
BALLAST_BYTES = 6 * 1024 * 1024  # more than the reserve takes back
DELETED = 100  # five times as many as fit into the log that is there
USER = "alice"
SCOPE = {"app_name": APP, "user_id": USER}


def run(shim: Path, folder: Path, call: str, timeout_s: float) -> str:
    """Runs a function of helpers.storage_faults in a process of its own."""
    tests = str(TESTS)
    script = (
        f"import sys; sys.path.insert(0, {tests!r}); "
        f"from helpers import storage_faults; storage_faults.{call}"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=shimmed(shim, folder),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    last = done.stdout.strip().rsplit("\n", 1)[-1][:200]
    assert done.returncode == 0, f"{last}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def trials(tmp_path_factory) -> list[dict[str, Any]]:
    """What became of a service at each fault; the process survived them all."""
    try:
        shim = build_shim(tmp_path_factory.mktemp("shim"))
    except ShimError as error:
        pytest.skip(str(error))
    with fast_folder() as folder:
        base, runs = folder / "base", folder / "runs"
        base.mkdir()
        runs.mkdir()
        run(shim, base, f"make_base({str(base)!r})", 60)
        call = f"sweep({str(base)!r}, {str(runs)!r}, {CALLS_OF_A_KIND}, {SCALE >= 0.5})"
        lines = run(shim, runs, call, 120 * max(1, SCALE)).splitlines()
    return [json.loads(line) for line in lines if not line.startswith("#")]


@pytest.mark.campaign
def test_whatever_fails_nothing_acknowledged_is_lost(trials):
    """Guarantees 1, 2 and 6: typed errors, whole calls, and a service that goes on.

    Each trial has had its file checked: all that was acknowledged is there, nothing
    that was refused is, no call is torn, SQLite finds the file whole, and the search
    finds what the file holds. The same service then added, deleted and searched.
    """
    wrong = {trial["fault"]: trial["problems"] for trial in trials if trial["problems"]}
    told = "\n".join(f"{fault}: {problems}" for fault, problems in wrong.items())
    assert not wrong, f"{len(wrong)} of {len(trials)}\n{told[:5000]}"


@pytest.mark.campaign
def test_the_faults_were_met(trials):
    """The sweep itself: nearly every fault that was planned did happen."""
    meant = [trial for trial in trials if not trial["fault"].endswith("0 half once")]
    assert len(meant) > scaled(100)
    assert sum(trial["failed"] > 0 for trial in meant) > 0.9 * len(meant)
    assert any(trial["errors"] for trial in trials)


@pytest.mark.campaign
def test_the_error_says_what_failed(trials):
    """StorageFullError where there is no space, StorageError otherwise."""
    for trial in trials:
        kinds = {error.split("(")[0] for error in trial["errors"]}
        if trial["kind"] == "short":
            assert kinds == set(), trial  # the rest is written by another call
        elif trial["kind"] == "read":
            assert kinds <= {"StorageError", "CorruptFileError"}, trial
        elif trial["error"] != errno.ENOSPC:
            assert kinds <= {"StorageError"}, trial
        elif trial["kind"] == "write" and trial["fault"].startswith("work"):
            assert kinds <= {"StorageFullError"}, trial
        else:
            assert kinds <= {"StorageError", "StorageFullError"}, trial


@pytest.mark.campaign
def test_no_fault_leaks_a_descriptor(trials):
    """Bug class: each failure to open costs a descriptor, until there are none."""
    counts = [trial["descriptors"] for trial in trials]
    assert max(counts) == counts[0], [
        trial["fault"] for trial in trials if trial["descriptors"] > counts[0]
    ]


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A disk of 10 MB, 6 of them taken by a file that can be removed."""
    point = tmp_path / "disk"
    point.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={MOUNT_BYTES}", "tmpfs", str(point)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
    except OSError as error:
        pytest.skip(f"no mount: {error}")
    if done.returncode != 0:
        pytest.skip(f"only root may mount: {done.stderr.strip()}")
    try:
        (point / "ballast").write_bytes(bytes(BALLAST_BYTES))
        yield point
    finally:
        subprocess.run(["umount", "-l", str(point)], check=True)


def fill(service: MemoryService, batch: int, name: str = "n") -> list[str]:
    """Adds until the disk is full; returns what was acknowledged."""
    padding = "x" * (1000 if batch == 200 else 4000)
    done: list[str] = []
    while len(done) < 5000:
        numbers = range(len(done), len(done) + batch)
        new = [f"zebra {name}{number} {padding}" for number in numbers]
        try:
            service.sync.add_memory(**SCOPE, memories=new)
        except StorageFullError:
            return done
        done += new
    pytest.fail("the disk never was full")


def take_all(disk: Path) -> None:
    """Leaves not one free byte."""
    with (disk / "filler").open("ab", buffering=0) as file:
        for size in (65_536, 4096, 512, 1):
            with suppress(OSError):
                while file.write(bytes(size)):
                    pass
    assert os.statvfs(disk).f_bavail == 0


def fill_wholly(service: MemoryService, disk: Path, batch: int) -> list[str]:
    """Leaves no free byte on the disk, and none in the log: it may have spare ones."""
    done = fill(service, batch)
    take_all(disk)
    return sorted(done + fill(service, 1, "single"))


def free_again(disk: Path) -> None:
    (disk / "ballast").unlink()
    (disk / "filler").unlink(missing_ok=True)


def texts(service: MemoryService) -> list[str]:
    return sorted(found_by_search(service, USER))


def some_of(service: MemoryService, count: int) -> Sequence[MemoryEntry]:
    answer = service.sync.search_memory(**SCOPE, query="zebra", top_k=count)
    assert answer.memories
    return answer.memories


def file_holds(service: MemoryService, disk: Path) -> list[str]:
    service.close()
    return sorted(stored(disk / FILE).get(USER, frozenset()))


@pytest.mark.parametrize("batch", [1, 20, 200])
def test_a_full_disk_keeps_what_was_acknowledged(small_disk, open_service, batch):
    """Bug class 28: all or nothing of each call, and it goes on when there is room."""
    service = open_service(small_disk / FILE, **roomy())
    done = fill_wholly(service, small_disk, batch)
    assert texts(service) == done
    assert len(done) >= batch
    free_again(small_disk)
    service.sync.add_memory(**SCOPE, memories=["zebra later"])
    done = sorted([*done, "zebra later"])
    assert texts(service) == done
    assert file_holds(service, small_disk) == done
    assert texts(open_service(small_disk / FILE, **roomy())) == done


@pytest.mark.parametrize("batch", [1, 20, 200])
def test_deleting_works_on_a_full_disk(small_disk, open_service, batch):
    """Bug class 28: the way out of a full disk is to delete, so that must work."""
    service = open_service(small_disk / FILE, **roomy())
    done = fill_wholly(service, small_disk, batch)
    for memory in some_of(service, DELETED):
        service.sync.delete_memory(**SCOPE, memory_id=memory.id)
        done.remove(memory.text)
    assert texts(service) == done
    free_again(small_disk)
    service.sync.add_memory(**SCOPE, memories=["zebra later"])
    assert file_holds(service, small_disk) == sorted([*done, "zebra later"])


@pytest.mark.parametrize(("calls", "batch"), [(1, 2000), (60, 1), (10, 50)])
def test_all_can_be_deleted_when_another_program_fills_the_disk(
    small_disk, open_service, calls, batch
):
    """Nothing of the log is in the file yet, and nothing that is freed stays free."""
    (small_disk / "ballast").unlink()
    service = open_service(small_disk / FILE, **roomy())
    for call in range(calls):
        new = [
            {"id": f"{call} {n}", "content": f"zebra {call} {n}"} for n in range(batch)
        ]
        service.sync.add_memory(**SCOPE, memories=new)
    gone = some_of(service, 150)
    for n, memory in enumerate(gone):
        if n % 10 == 0:
            take_all(small_disk)
        assert service.sync.delete_memory(**SCOPE, memory_id=memory.id)
    left = calls * batch - len(gone)
    assert len(texts(service)) == left
    take_all(small_disk)
    assert service.sync.delete_user(**SCOPE) == left
    assert texts(service) == []


def test_deleting_works_each_time_that_a_disk_is_full(small_disk, open_service):
    """Also where less became free in between than is reserved for deletions."""
    service = open_service(small_disk / FILE, **roomy())
    done = fill_wholly(service, small_disk, 1)
    for ballast in ("ballast", "filler"):
        (small_disk / ballast).unlink(missing_ok=True)
        for memory in some_of(service, 3):
            service.sync.delete_memory(**SCOPE, memory_id=memory.id)
            done.remove(memory.text)
        done += fill(service, 1, ballast)
    for memory in some_of(service, 3):
        service.sync.delete_memory(**SCOPE, memory_id=memory.id)
        done.remove(memory.text)
    assert file_holds(service, small_disk) == sorted(done)


@pytest.mark.parametrize("batch", [1, 20, 200])
def test_a_file_opens_on_a_full_disk(small_disk, open_service, batch):
    """Bug class 28: after a restart nothing is lost and deleting works."""
    service = open_service(small_disk / FILE, **roomy())
    done = fill_wholly(service, small_disk, batch)
    service.close()
    take_all(small_disk)
    service = open_service(small_disk / FILE, **roomy())
    assert texts(service) == done
    (memory,) = some_of(service, 1)
    service.sync.delete_memory(**SCOPE, memory_id=memory.id)
    done.remove(memory.text)
    assert file_holds(service, small_disk) == done


@pytest.mark.parametrize("batch", [1, 20])
def test_adding_stops_before_the_disk_is_full(small_disk, open_service, batch):
    """Bug class 28: room is left for deletions, and for the log to go into the file."""
    least = 512 * 1024
    service = open_service(small_disk / FILE, **roomy(least))
    done = sorted(fill(service, batch))
    about = os.statvfs(small_disk)
    assert about.f_bavail * about.f_frsize > least // 4
    for memory in some_of(service, 3):
        service.sync.delete_memory(**SCOPE, memory_id=memory.id)
        done.remove(memory.text)
    with pytest.raises(StorageFullError):
        service.sync.add_memory(**SCOPE, memories=["zebra later"])
    assert texts(service) == done
    free_again(small_disk)
    service.sync.add_memory(**SCOPE, memories=["zebra later"])
    assert file_holds(service, small_disk) == sorted([*done, "zebra later"])
