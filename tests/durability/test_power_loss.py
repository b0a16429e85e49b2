"""Files as a power cut leaves them, at many points, under four models of a crash."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.campaigns import SCALE, scaled
from helpers.folders import fast_folder
from helpers.power_loss import (
    MODELS,
    Disk,
    Record,
    ShimError,
    build_shim,
    crash_points,
    read_log,
    shimmed,
)
from helpers.storage_work import (
    APP,
    FILE,
    Run,
    acknowledged,
    calls_there,
    found_by_search,
    roomy,
    stored,
)

USERS, CALLS = 3, 100  # some 4 checkpoints
POINTS = 34  # of one run; three runs, more at a larger scale
RUNS = max(1, int(SCALE) // 4)


@pytest.fixture(scope="module")
def shim(tmp_path_factory) -> Path:
    try:
        return build_shim(tmp_path_factory.mktemp("shim"))
    except ShimError as error:
        pytest.skip(str(error))


@pytest.fixture
def disk_folder() -> Iterator[Path]:
    with fast_folder() as folder:
        yield folder


def log_of(run: Run, shim: Path, folder: Path) -> list[Record]:
    """All that a run did to its files."""
    work, log = folder / "work", folder / "log"
    work.mkdir()
    subprocess.run(
        run.command(work),
        env=shimmed(shim, work, log),
        timeout=120,
        check=True,
    )
    records = read_log(log)
    shutil.rmtree(work)
    log.unlink()
    return records


@pytest.mark.campaign
@pytest.mark.parametrize("repeat", range(RUNS))
@pytest.mark.parametrize(
    "how",
    [
        Run(1, USERS, CALLS, "full"),
        Run(0, USERS, CALLS, "process"),
        Run(2, 1, 2 * CALLS, "process", most_bytes=100, most_at_once=200),
    ],
    ids=["full", "process", "with snapshots"],
)
def test_a_power_cut_tears_no_call_and_damages_no_file(
    shim, disk_folder, open_service, how, repeat
):
    """Guarantees 1, 2 and 8, at 100 crash points.

    "full" keeps every call that was acknowledged. "process" keeps them up to some
    moment before the cut, and all of them when only the process dies.
    """
    run = how._replace(seed=how.seed + 1000 * repeat)
    records = log_of(run, shim, disk_folder)
    snapshots = any(".snap/" in record.path for record in records)
    assert snapshots == (run.most_at_once > 100)
    calls = run.plans()
    points = crash_points(records, scaled(POINTS) // RUNS, run.seed)
    disk = Disk()
    replayed = 0
    for number, point in enumerate(points):
        model = MODELS[number % len(MODELS)]
        told = f"{run}, {point} of {len(records)} records, {model}"
        disk.replay(records[replayed:point])
        replayed = point
        folder = disk_folder / "crashed"
        folder.mkdir()
        disk.write_to(folder, model, random.Random(f"{run.seed}/{number}"))
        promised = acknowledged(disk.marks, list(calls))
        service = open_service(folder / FILE, **roomy())
        asked = f"u{number % run.users}"
        # A search would replace a snapshot that outlived the changes in it.
        found = None if snapshots else found_by_search(service, asked)
        service.close()
        texts = stored(folder / FILE)
        if found is not None:
            assert found == texts.get(asked, frozenset()), told
        for user, planned in calls.items():
            kept = texts.get(user, frozenset())
            there = calls_there(planned, kept, promised[user] + 1)
            assert there is not None, f"a call is torn: {told}"
            if run.durability == "full" or model == "kill":
                assert there >= promised[user], f"a call was lost: {told}"
        before = texts.get(asked, frozenset())
        goes_on(open_service, folder, asked, before, 1500 if snapshots else 3)
        shutil.rmtree(folder)


def goes_on(
    open_service, folder: Path, user: str, found: frozenset[str], count: int
) -> None:
    """Adds; the numbers of changes that the cut took back are given out again.

    A snapshot may have them, too: it must not be taken for one of the new changes.
    """
    new = [f"zebra after the cut {number}" for number in range(count)]
    service = open_service(folder / FILE, **roomy())
    service.sync.add_memory(app_name=APP, user_id=user, memories=new)
    service.close()
    service = open_service(folder / FILE, **roomy())
    assert found_by_search(service, user) == found | {*new}
    service.close()


def test_the_log_of_a_run_leads_to_its_files(shim, disk_folder, open_service):
    """The replay itself: all records together give what the process left behind."""
    work, log = disk_folder / "work", disk_folder / "log"
    work.mkdir()
    subprocess.run(
        Run(5, 1, 20, "full").command(work),
        env=shimmed(shim, work, log),
        timeout=60,
        check=True,
    )
    disk = Disk()
    disk.replay(read_log(log))
    assert disk.marks[-1] == "done"
    folder = disk_folder / "replayed"
    folder.mkdir()
    disk.write_to(folder, "kill", random.Random(1))
    left = {path.name for path in work.iterdir() if not path.name.endswith("-shm")}
    assert {path.name for path in folder.iterdir()} == left
    for name in left:
        assert (folder / name).read_bytes() == (work / name).read_bytes(), name


def test_what_was_not_synced_is_gone_after_a_power_cut(tmp_path):
    """The replay itself: contents and names come back to their last sync."""
    data = memoryview(b"a" * 600)
    kept = [
        Record(5, 1, 0, "f", memoryview(b"")),
        Record(1, 1, 0, "f", data),
        Record(2, 1, 1, "f", memoryview(b"")),
        Record(1, 1, 600, "f", memoryview(b"late")),  # while the sync ran
        Record(3, 1, 1, "f", memoryview(b"")),
        Record(2, 0, 2, "", memoryview(b"")),
        Record(3, 0, 2, "", memoryview(b"")),
    ]
    unsynced = [
        Record(1, 1, 10, "f", memoryview(b"b" * 600)),
        Record(4, 1, 700, "f", memoryview(b"")),
        Record(7, 0, 0, "f", memoryview(b"g")),
    ]
    disk = Disk()
    disk.replay(kept + unsynced)
    left = {}
    for model in MODELS:
        folder = tmp_path / model
        folder.mkdir()
        disk.write_to(folder, model, random.Random(3))
        left[model] = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert left["dropped"] == {"f": b"a" * 600}
    whole = (b"a" * 10 + b"b" * 600).ljust(700, b"\0")
    assert left["kill"] == {"g": whole}
    for model in ("sectors", "junk"):
        ((name, contents),) = left[model].items()
        assert name in {"f", "g"}
        assert contents[:10] == b"a" * 10
        assert len(contents) in {600, 604, 610, 700}
