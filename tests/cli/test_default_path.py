"""All commands have one default file: `$VECALL_PATH`, else that of the user's data."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from vecall import MemoryService
from vecall.cli.main import main
from vecall.coding_agents.options import default_path

OWNER = ("--app", "hotel", "--user", "alice")
LINE = {"app_name": "hotel", "user_id": "alice", "text": "a zebra"}


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.delenv("VECALL_PATH", raising=False)
    (tmp_path / "in.jsonl").write_text(json.dumps(LINE) + "\n")
    return tmp_path / "home"


def searched(capsys, *more: str) -> str:
    assert main(["search", "zebra", *OWNER, *more]) == 0
    return capsys.readouterr().out


def test_what_one_command_writes_another_reads(home, capsys):
    path = home / ".local/share/vecall/memory.db"
    assert main(["import", "in.jsonl", "--embedder", "none"]) == 0
    capsys.readouterr()
    assert path.exists()
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert "a zebra" in searched(capsys)
    assert main(["stats", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["memories"] == 1
    assert not Path("memory.db").exists()


@pytest.mark.parametrize("given", ["own.db", "~/own.db"])
def test_the_variable_names_the_file_of_every_command(home, capsys, monkeypatch, given):
    home.mkdir()
    monkeypatch.setenv("VECALL_PATH", given)
    assert main(["import", "in.jsonl", "--embedder", "none"]) == 0
    assert "a zebra" in searched(capsys)
    assert Path(given).expanduser().exists()
    assert main(["token", "create", *OWNER]) == 0
    assert Path(given + ".tokens").expanduser().exists()


def test_a_file_in_this_folder_is_named_where_there_is_no_other(home, capsys):
    with MemoryService("memory.db", embedder=None) as service:
        service.sync.user("hotel", "alice").add("a zebra")
    assert main(["search", "zebra", *OWNER]) == 1
    assert "--path memory.db" in capsys.readouterr().err
    assert "a zebra" in searched(capsys, "--path", "memory.db")
    assert not home.exists()  # a command that reads creates nothing


def test_hooks_refuse_a_database(home, capsys, monkeypatch):
    monkeypatch.setenv("VECALL_PATH", "postgresql://u:secret@localhost/d")
    assert default_path() == "postgresql://u:secret@localhost/d"
    assert main(["hook", "start"]) == 0  # a hook never stops an agent
    told = capsys.readouterr()
    assert "secret" not in told.out + told.err
    assert not Path("postgresql:").exists()
