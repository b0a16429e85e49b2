"""What the commands say: no option that is refused, and the numbers that are meant."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys

import pytest
from vecall import MemoryService
from vecall.cli.main import main

MODEL = """
import numpy as np
from vecall import FunctionEmbedder

def vectors(texts):
    return np.ones((len(texts), 4), np.float32) + np.arange(4)

first = FunctionEmbedder(vectors, model_id="first", dimensions=4)
second = FunctionEmbedder(vectors, model_id="second", dimensions=4)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VECALL_PATH", "memory.db")
    (tmp_path / "own_models.py").write_text(MODEL)
    with MemoryService("memory.db", embedder=None) as service:
        alice = service.sync.user("hotel", "alice")
        alice.add([f"night {number}" for number in range(150)])
    return tmp_path


def _help(capsys, command: str) -> str:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    return " ".join(capsys.readouterr().out.split())


def test_a_command_for_files_offers_no_database(capsys):
    assert "PostgreSQL" not in _help(capsys, "backup")
    for command in ("export", "erase"):
        assert "PostgreSQL" in _help(capsys, command)


def test_an_export_of_a_user_names_the_option_that_lacks(folder, capsys):
    with MemoryService("memory.db", embedder=None) as service:
        service.sync.user("second", "alice").add("a night")
    assert main(["export", "out.jsonl", "--user", "alice"]) == 1
    told = capsys.readouterr().err
    assert "--app" in told
    assert "app_name" not in told
    assert not (folder / "out.jsonl").exists()


def test_a_reembedding_counts_what_it_embedded(folder, capsys):
    """Also the first model of a file, and then another one."""
    for model in ("first", "second"):
        command = ["reembed", "--embedder", f"own_models:{model}", "--json"]
        assert main(command) == 0
        facts = json.loads(capsys.readouterr().out)
        assert facts == {"memories": 150, "embedded": 150, "model": model}
    assert main(["reembed", "--embedder", "own_models:second"]) == 0
    assert capsys.readouterr().out == (
        "0 memories embedded; 150 memories have vectors of second\n"
    )


def test_a_reembedding_shows_its_progress_on_a_terminal(folder):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "vecall.cli.main", "reembed"]
    command += ["--embedder", "own_models:first"]
    done = subprocess.run(
        command, stderr=theirs, stdout=subprocess.PIPE, cwd=folder, check=True
    )
    os.close(theirs)
    told = os.read(ours, 65_536).decode()
    os.close(ours)
    assert re.search(r"embedding 150, [\d,]+/s, 100%, 0:00 left", told)
    assert b"150 memories embedded" in done.stdout


def test_settings_of_a_client_name_the_extra_that_they_need(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp", None)
    assert main(["mcp", "--config", "cursor"]) == 0
    assert "vecall[mcp]" in capsys.readouterr().err
