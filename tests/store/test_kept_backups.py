"""Backups that are kept by number, and a backup in the place of a file."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.memories import ALICE
from helpers.old_files import FIXTURES, OLD
from helpers.processes import child, said
from vecall import CorruptFileError, MemoryService, VecallError
from vecall.cli.main import main
from vecall.index.partition_cache import require_undamaged_copy
from vecall.store import keep_backups, restore_backup


def write(path: Path, *texts: str) -> None:
    """Add memories to a file."""
    with MemoryService(path, embedder=None) as memory:
        memory.sync.add_memory(**ALICE, memories=list(texts))


def texts(path: Path) -> list[str]:
    """What a file holds of Alice."""
    with MemoryService(path, embedder=None) as memory:
        return sorted(each.text for each in memory.sync.list_memories(**ALICE))


@pytest.fixture
def file(tmp_path):
    write(tmp_path / "memory.db", "Likes tea.")
    return tmp_path / "memory.db"


@pytest.fixture
def run(file, capsys):
    """Run a command; return its JSON, or the error."""

    def run_command(*arguments, code=0):
        given = [str(each) for each in arguments]
        assert main(given) == code
        printed = capsys.readouterr()
        return printed.err if code else json.loads(printed.out)

    def backup(*more, code=0):
        return run_command("backup", *more, "--path", file, "--json", code=code)

    run_command.backup = backup
    return run_command


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc what is open")
def test_nothing_is_renamed_while_it_is_open(run, file, tmp_path, monkeypatch):
    """Windows refuses that; a cursor that is not at its end keeps a file open."""
    renamed = []
    rename = os.replace

    def watched(source, target, **folders):
        path = os.path.realpath(source)
        numbers = Path("/proc/self/fd").iterdir()
        opened = {os.path.realpath(each) for each in numbers}
        renamed.append((Path(target).name, path in opened))
        rename(source, target, **folders)

    monkeypatch.setattr(os, "replace", watched)
    run.backup(tmp_path / "copy.db")
    run.backup("--keep", 1, tmp_path / "backups")
    main(["restore-backup", str(tmp_path / "copy.db"), str(file), "--replace"])
    assert len(renamed) >= 5
    assert [name for name, is_open in renamed if is_open] == []


def test_the_newest_backups_are_kept_and_each_is_whole(run, file, tmp_path):
    folder = tmp_path / "backups"
    made = []
    for n in range(5):
        write(file, f"Number {n}.")
        made.append(run.backup(folder, "--keep", "3"))
    assert [each["removed"] for each in made] == [0, 0, 0, 1, 1]
    kept = [Path(each["file"]) for each in made[-3:]]
    assert sorted(folder.iterdir()) == kept
    assert folder.stat().st_mode & 0o777 == 0o700
    for n, each in enumerate(kept, start=2):
        assert each.stat().st_mode & 0o777 == 0o600
        assert f"Number {n}." in texts(each)
        assert f"Number {n + 1}." not in texts(each)


def test_nothing_but_older_backups_of_the_file_is_deleted(run, file, tmp_path):
    """Neither another file's, nor what a person has put there."""
    folder = tmp_path / "backups"
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / "memory.db"
    write(other, "Likes coffee.")
    first = Path(run.backup(folder, "--keep", "1")["file"])
    id_ = first.name.split("-")[1]
    mine = folder / "memory.db"
    names = [
        "memory-2026.db",
        f"memory-{id_}-mine.db",
        f"memory-{id_}-20200101T000000.000000Z.db.gz",
        f"memory-{id_}-20200101T000000.000000Z.db-wal.txt",
        f"xmemory-{id_}-20200101T000000.000000Z.db",
    ]
    for each in (mine, *(folder / name for name in names)):
        each.write_text("keep")
    run("backup", folder, "--keep", "1", "--path", other, "--json")
    other_made = set(folder.iterdir()) - {first, mine, *(folder / n for n in names)}
    second = Path(run.backup(folder, "--keep", "1")["file"])
    left = {each.name for each in folder.iterdir()}
    assert left == {mine.name, *names, second.name, *(o.name for o in other_made)}


def test_a_newer_time_in_the_folder_does_not_delete_the_new_backup(run, tmp_path):
    """As after the clock went back."""
    folder = tmp_path / "backups"
    first = Path(run.backup(folder, "--keep", "2")["file"])
    id_ = first.name.split("-")[1]
    future = first.rename(folder / f"memory-{id_}-29990101T000000.000000Z.db")
    second = Path(run.backup(folder, "--keep", "1")["file"])
    assert list(folder.iterdir()) == [second]
    assert not future.exists()


def test_older_backups_stay_if_the_new_one_is_damaged(run, file, tmp_path):
    folder = tmp_path / "backups"
    kept = Path(run.backup(folder, "--keep", "1")["file"])

    def copy(target):
        shutil.copy(file, target)
        damage(target)

    with pytest.raises(CorruptFileError, match="the copy is damaged"):
        keep_backups(file, folder, 1, copy, require_undamaged_copy)
    assert list(folder.iterdir()) == [kept]


def damage(path: Path) -> None:
    """Change one letter of the text of a memory."""
    data = path.read_bytes()
    assert b"Likes tea." in data
    path.write_bytes(data.replace(b"Likes tea.", b"Likes sea."))


def test_what_a_killed_backup_left_is_removed_by_the_next(run, tmp_path):
    folder = tmp_path / "backups"
    first = Path(run.backup(folder, "--keep", "2")["file"])
    for rest in (".new", ".new.1a2b3c4d.part", ".new.1a2b3c4d.part-journal"):
        (folder / (first.name + rest)).write_text("half")
    second = Path(run.backup(folder, "--keep", "2")["file"])
    assert sorted(folder.iterdir()) == [first, second]


@pytest.mark.parametrize("keep", ["0", "-1"])
def test_at_least_one_backup_is_kept(run, tmp_path, keep):
    error = run.backup(tmp_path / "b", f"--keep={keep}", code=1)
    assert "keep: must be at least 1" in error


def test_a_backup_takes_the_place_of_a_file_that_is_kept(run, file, tmp_path):
    copy = tmp_path / "copy.db"
    run.backup(copy)
    before = copy.read_bytes()
    write(file, "Likes coffee.")
    said = run("restore-backup", copy, file, "--replace", "--json")
    assert texts(file) == ["Likes tea."]
    assert texts(Path(said["before"])) == ["Likes coffee.", "Likes tea."]
    assert copy.read_bytes() == before
    assert file.stat().st_mode & 0o777 == 0o600
    left = {each.name for each in tmp_path.iterdir() if each.stat().st_size}
    assert {name for name in left if ".new" in name} == set()
    again = run("restore-backup", copy, file, "--replace", "--json")
    assert again["before"] != said["before"]


def test_a_file_is_not_replaced_unless_it_is_said(run, file, tmp_path):
    copy = tmp_path / "copy.db"
    run.backup(copy)
    write(file, "Likes coffee.")
    assert "exists" in run("restore-backup", copy, file, code=1)
    assert texts(file) == ["Likes coffee.", "Likes tea."]
    said = run("restore-backup", copy, tmp_path / "new.db", "--json")
    assert said["before"] is None
    assert texts(tmp_path / "new.db") == ["Likes tea."]


READER = """
import sys
from vecall import MemoryService
with MemoryService(sys.argv[1], embedder=None, read_only=True) as memory:
    print("held", flush=True)
    sys.stdin.readline()
"""


def test_a_file_in_use_is_not_replaced(run, file, tmp_path):
    """By another process, and by this one."""
    copy = tmp_path / "copy.db"
    run.backup(copy)
    with child(READER.replace(", read_only=True", ""), file) as holder:
        assert said(holder) == "held"
        assert "in use" in run("restore-backup", copy, file, "--replace", code=1)
    with MemoryService(file, embedder=None) as memory:
        assert "in use" in run("restore-backup", copy, file, "--replace", code=1)
        memory.sync.add_memory(**ALICE, memories=["Likes coffee."])
    assert texts(file) == ["Likes coffee.", "Likes tea."]


def test_a_file_that_is_only_read_is_in_use_too(run, file, tmp_path):
    copy = tmp_path / "copy.db"
    run.backup(copy)
    with child(READER, file) as reader:
        assert said(reader) == "held"
        assert "in use" in run("restore-backup", copy, file, "--replace", code=1)
    run("restore-backup", copy, file, "--replace", "--json")


def test_a_damaged_backup_changes_nothing(run, file, tmp_path):
    copy = tmp_path / "copy.db"
    run.backup(copy)
    damage(copy)
    write(file, "Likes coffee.")
    names = {each.name for each in tmp_path.iterdir()}
    assert "damaged" in run("restore-backup", copy, file, "--replace", code=1)
    assert {each.name for each in tmp_path.iterdir()} == names
    assert texts(file) == ["Likes coffee.", "Likes tea."]


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" * 300])
def test_a_file_that_is_no_backup_is_refused(run, file, tmp_path, content):
    wrong = tmp_path / "wrong.db"
    wrong.write_bytes(content)
    run("restore-backup", wrong, file, "--replace", code=1)
    assert texts(file) == ["Likes tea."]


def test_a_backup_is_not_restored_over_itself(run, file):
    assert "itself" in run("restore-backup", file, file, "--replace", code=1)
    assert "no such file" in run(
        "restore-backup", "nowhere.db", file, "--replace", code=1
    )


def test_a_damaged_file_is_replaced_with_its_log_kept(run, file, tmp_path):
    """The log of a file that SQLite refuses must not meet the restored one."""
    copy = tmp_path / "copy.db"
    run.backup(copy)
    file.write_bytes(b"x" * 8192)
    log = file.with_name("memory.db-wal")
    log.write_bytes(b"a log")
    before = Path(run("restore-backup", copy, file, "--replace", "--json")["before"])
    assert texts(file) == ["Likes tea."]
    assert before.read_bytes() == b"x" * 8192
    assert before.with_name(before.name + "-wal").read_bytes() == b"a log"


def test_acknowledged_writes_of_a_killed_process_are_kept_aside(run, file, tmp_path):
    """They are in the log only."""
    copy = tmp_path / "copy.db"
    run.backup(copy)
    program = (
        "import os, sys\nfrom vecall import MemoryService\n"
        "memory = MemoryService(sys.argv[1], embedder=None)\n"
        f"memory.sync.add_memory(**{ALICE!r}, memories=['Likes coffee.'])\n"
        "os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(file)], check=True)
    before = Path(run("restore-backup", copy, file, "--replace", "--json")["before"])
    assert texts(file) == ["Likes tea."]
    assert texts(before) == ["Likes coffee.", "Likes tea."]


def test_a_restore_that_was_killed_can_be_repeated(run, file, tmp_path):
    """Between the second name of the file before and the new file."""
    copy = tmp_path / "copy.db"
    run.backup(copy)
    write(file, "Likes coffee.")
    os.link(file, f"{file}.before-20260101T000000.000000Z")
    with pytest.raises(VecallError, match="second name"):
        MemoryService(file, embedder=None)
    before = Path(run("restore-backup", copy, file, "--replace", "--json")["before"])
    assert texts(file) == ["Likes tea."]
    assert texts(before) == ["Likes coffee.", "Likes tea."]


@pytest.mark.parametrize("schema", OLD)
def test_a_backup_of_an_older_version_is_restored(schema, tmp_path):
    (old,) = FIXTURES.glob(f"*{schema}*.db")
    copy = shutil.copy(old, tmp_path / "copy.db")
    restore_backup(
        Path(copy), tmp_path / "new.db", require_undamaged_copy, replacing=False
    )
    assert (tmp_path / "new.db").stat().st_size >= old.stat().st_size
