from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home folder of its own, so that no settings of this machine are touched."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    for name in (
        "VECALL_PATH",
        "XDG_DATA_HOME",
        "XDG_STATE_HOME",
        "CLAUDE_CONFIG_DIR",
        "CODEX_HOME",
        "CURSOR_PROJECT_DIR",
        "GEMINI_CLI_HOME",
        "COPILOT_HOME",
        "OPENCODE_CONFIG_DIR",
        "CLINE_DATA_DIR",
    ):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def log(home):
    """The lines of the hooks' log."""

    def lines():
        path = home / ".local/state/vecall/hooks.log"
        return path.read_text().splitlines() if path.exists() else []

    return lines
