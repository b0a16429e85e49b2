"""`vecall mcp --config`, its defaults, and the program of the page."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.mcp_clients import LineClient
from vecall.cli.main import main
from vecall.cli.serve_commands import CLIENTS

KEYS = {
    "claude-desktop": "mcpServers",
    "cursor": "mcpServers",
    "vscode": "servers",
    "zed": "context_servers",
}


def command_of(client: str, printed: str) -> list[str]:
    """The command that a client runs, as its documentation says."""
    if client == "claude-code":
        words = shlex.split(printed)
        assert words[:6] == ["claude", "mcp", "add", "--scope", "user", "memory"]
        assert words[6] == "--"
        return words[7:]
    (server,) = json.loads(printed)[KEYS[client]].values()
    assert server.pop("type", "stdio") == "stdio"
    assert set(server) == {"command", "args"}
    return [server["command"], *server["args"]]


@pytest.mark.parametrize("client", CLIENTS)
def test_what_is_printed_is_a_command_with_absolute_paths(
    client, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    given = ["--path", "a folder/m.db", "--user", "Zoë's", "--embedder", "none"]
    assert main(["mcp", "--config", client, *given, "--read-only"]) == 0
    printed = capsys.readouterr()
    assert "paste" in printed.err
    command = command_of(client, printed.out)
    assert Path(command[0]).is_absolute()
    at = command.index("mcp")
    expected = ["--path", str(tmp_path / "a folder/m.db"), "--user", "Zoë's"]
    assert command[at + 1 :] == [*expected, "--embedder", "none", "--read-only"]
    assert list(tmp_path.iterdir()) == []


def test_the_printed_command_serves_the_default_file(tmp_path, monkeypatch, capsys):
    pytest.importorskip("mcp", reason="mcp is not installed")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("VECALL_PATH", raising=False)
    main(["mcp", "--config", "zed", "--embedder", "none"])
    command = command_of("zed", capsys.readouterr().out)
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    try:
        client = LineClient(process)
        client.initialize()
        client.call("add_memory", text="an okapi")
        process.communicate(timeout=20)
    finally:
        process.kill()
    path = tmp_path / "vecall/memory.db"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_the_extra_is_named_where_it_is_missing(tmp_path, monkeypatch, capsys):
    for name in [name for name in sys.modules if name.startswith("vecall.mcp")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    assert main(["mcp", "--path", str(tmp_path / "memory.db")]) == 1
    assert 'pip install "vecall[mcp]"' in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
