"""The scripts that write generated code take the options they say, and no others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from helpers.paths import ROOT

NAMES = ("generate_places", "generate_stub", "generate_sync", "generate_typescript")

if not all((ROOT / ".ci" / name).exists() for name in NAMES):
    pytest.skip("only a clone has the scripts", allow_module_level=True)


def ran(name: str, option: str, folder: Path) -> subprocess.CompletedProcess[str]:
    script = ROOT / ".ci" / name
    shell = ["bash"] if script.read_text().startswith("#!/usr/bin/env bash") else []
    return subprocess.run(
        [*(shell or [sys.executable]), script, option],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("name", NAMES)
def test_help_is_printed_and_an_unknown_option_is_refused(name, tmp_path):
    """Neither is the name of a folder to write to."""
    done = ran(name, "--help", tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"Usage: .ci/{name}" in done.stdout
    done = ran(name, "--no-such-option", tmp_path)
    assert done.returncode == 2
    assert "--no-such-option" in done.stderr
    assert list(tmp_path.iterdir()) == []
