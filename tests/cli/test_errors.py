"""What a command that fails says: the name that was typed, the cause on request."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys

import pytest
from helpers.old_files import FIXTURES, OLD
from vecall import IncompatibleFileError, MemoryService
from vecall.cli.main import main

ALICE = {"app_name": "hotel", "user_id": "alice"}
EMBEDDER = """
def embed(texts):
    raise ConnectionError("no route to the model")

class Ones:
    model_id, dimensions = "ones", 4
    def embed(self, texts):
        return [[1.0] * 4 for _ in texts]
"""


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    """Run one command in its own folder; return its exit code and what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VECALL_PATH", "memory.db")

    def run_command(*arguments):
        code = main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return run_command


@pytest.fixture
def file(tmp_path):
    with MemoryService(tmp_path / "memory.db", embedder=None) as memory:
        memory.sync.add_memory(**ALICE, memories=["Keeps zebras."])
    return tmp_path / "memory.db"


def test_an_error_names_the_file_as_it_was_typed(run, file, tmp_path):
    (tmp_path / "copy.db-wal").write_bytes(b"left")
    code, said = run("backup", "./copy.db")
    assert code == 1
    assert "./copy.db: there is a file already: ./copy.db-wal" in said
    sqlite3.connect(tmp_path / "foreign.db").execute("CREATE TABLE t (x)")
    code, said = run("search", "x", "--app", "a", "--user", "u", "--path", "foreign.db")
    assert code == 1
    assert "foreign.db: this SQLite file belongs to another program" in said


def test_a_log_is_not_told_the_name(tmp_path):
    sqlite3.connect(tmp_path / "foreign.db").execute("CREATE TABLE t (x)")
    with pytest.raises(IncompatibleFileError) as caught:
        MemoryService(tmp_path / "foreign.db", embedder=None)
    assert "foreign" not in str(caught.value)


def test_the_cause_of_a_failing_embedder_is_shown_on_request(
    run, tmp_path, monkeypatch
):
    (tmp_path / "failing.py").write_text(EMBEDDER)
    (tmp_path / "in.jsonl").write_text('{"app_name":"a","user_id":"u","text":"t"}\n')
    command = ("import", "in.jsonl", "--embedder", "failing:embed")
    code, said = run(*command)
    assert code == 1
    assert "no route" not in said
    assert "VECALL_DEBUG=1 or --debug shows the cause" in said
    code, said = run("--debug", *command)
    assert code == 1
    assert "ConnectionError: no route to the model" in said
    monkeypatch.setenv("VECALL_DEBUG", "1")
    assert "ConnectionError: no route to the model" in run(*command)[1]


def test_an_embedder_of_a_module_embeds_and_moves_a_file(run, file, tmp_path):
    (tmp_path / "models.py").write_text(EMBEDDER)
    code, said = run("reembed", "--embedder", "models:Ones")
    assert (code, said) == (
        0,
        "1 memory embedded; 1 memory has vectors of ones\n",
    )
    asked = ("search", "animals", "--app", "hotel", "--user", "alice")
    code, said = run(*asked, "--embedder", "models:Ones", "--min-similarity", "0.5")
    assert code == 0
    assert "Keeps zebras." in said
    code, said = run(*asked, "--embedder", "models:absent")
    assert code == 1
    assert "MODULE:NAME" in said


def test_none_is_words_alone_and_an_unknown_name_lists_the_known_ones(run, file):
    asked = ("search", "zebras", "--app", "hotel", "--user", "alice", "--embedder")
    assert "Keeps zebras." in run(*asked, "none")[1]
    code, said = run(*asked, "telepathy")
    assert code == 1
    assert "'openai'" in said


@pytest.mark.parametrize("number", OLD)
def test_counting_does_not_migrate_a_file(run, tmp_path, number):
    before = (FIXTURES / f"schema-{number}.db").read_bytes()
    shutil.copy(FIXTURES / f"schema-{number}.db", tmp_path / "old.db")
    code, said = run("stats", "--path", "old.db")
    assert code == 0
    assert f"schema         {number}\n" in said
    assert (tmp_path / "old.db").read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["old.db"]


def test_counts_of_this_schema_are_those_of_the_service(run, file):
    with MemoryService(file, embedder=None) as memory:
        facts = memory.sync.admin.stats()
    said = run("stats")[1]
    for name in ("memories", "users", "sessions", "deleted_ids", "waiting_turns"):
        assert f"{name.replace('_', ' '):14} {facts[name]}\n" in said


def test_a_home_folder_may_be_written_with_its_sign(run, file, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir("/")
    assert run("stats", "--path", "~/memory.db")[0] == 0
    with MemoryService("~/other.db", embedder=None) as memory:
        memory.sync.add_memory(**ALICE, memories=["At home."])
    assert (tmp_path / "other.db").is_file()
    code, said = run("stats", "--path", "~nobody-has-this-name/x.db")
    assert code == 1
    assert "home" in said or "no such file" in said


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["ls", "--path", "folder"], "folder: not a file"),
        (["add", "x", "--path", ":memory:"], ":memory:: there is no such file"),
        (
            ["restore-backup", "empty.db", "memory.db", "--replace"],
            "empty.db: the file",
        ),
        (["restore-backup", "folder", "memory.db", "--replace"], "folder: not a file"),
        (["ls", ""], "an empty name is unknown"),
        (["doctor", "--fix", "--path", "postgresql://h/d"], "--fix, --recover"),
    ],
)
def test_what_was_typed_wrong_is_named(run, file, tmp_path, command, told):
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty.db").touch()
    code, said = run(*command)
    assert code == 1
    assert told in said
    assert "Traceback" not in said


@pytest.mark.parametrize("command", [["import", ""], ["ls", "--path", ""]])
def test_the_name_of_a_file_is_not_empty(run, tmp_path, capsys, command):
    """As of a variable that is not set: the name of this folder is a dot."""
    (tmp_path / "a.csv").write_text("text\nzebra\n")
    with pytest.raises(SystemExit) as caught:
        run(*command)
    assert caught.value.code == 2
    assert "not an empty text" in capsys.readouterr().err


@pytest.mark.parametrize("does", ["printf '\\377' > $1", "rm $1", "exit 3"])
@pytest.mark.skipif(os.name != "posix", reason="a script of a shell")
def test_an_editor_that_fails_changes_nothing(run, file, tmp_path, monkeypatch, does):
    (tmp_path / "editor").write_text(f"#!/bin/sh\n{does}\n")
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "sh editor")
    with MemoryService(file, embedder=None) as memory:
        (entry,) = memory.sync.list_memories(**ALICE)
    code, said = run("edit", entry.id)
    assert code == 1
    assert "EDITOR: failed with" in said
    assert run("show", entry.id)[1].count("Keeps zebras.") == 1


@pytest.mark.skipif(os.name != "posix", reason="has no /dev/full")
def test_no_command_fails_with_a_traceback_where_nothing_can_be_printed(file):
    for output in (">&-", "2>&-", "> /dev/full"):
        command = f"{sys.executable} -m vecall.cli.main ls --path {file} {output}"
        done = subprocess.run(
            ["sh", "-c", command], capture_output=True, text=True, check=False
        )
        assert done.returncode == int("full" in output)
        assert "Traceback" not in done.stderr
        assert ("No space left" in done.stderr) == ("full" in output)


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
def test_an_interrupt_before_anything_is_begun_prints_nothing():
    code = (
        "import os, sys\n"
        "from vecall.cli import main\n"
        "main.command_parser = lambda: os.kill(os.getpid(), 2)\n"
        "main.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")
