"""`vecall ui` shows a file to the person at this machine, and ends when told to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httptools")
pytest.importorskip("httpx")

import httpx
from helpers.pages import ALICE, HOME, QUIET, fill
from vecall import MemoryService

FILES_ONLY = pytest.mark.skipif(os.name != "posix", reason="sends signals")


@contextmanager
def command(*words: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The running command, and the address that it prints."""
    line = [sys.executable, "-m", "vecall.cli.main", "ui", *map(str, words)]
    with subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


HOLDER = "a-secret-of-the-browser-that-is-long-enough"


def asked(
    address: str, method: str, path: str, *, holder: str = f"~{HOLDER}", **more: Any
) -> httpx.Response:
    url, _, key = address.partition("/ui#key=")
    headers = {"Authorization": f"Bearer {key}{holder}"}
    return httpx.request(method, url + path, headers=headers, trust_env=False, **more)


@FILES_ONLY
def test_it_only_looks_and_ends_by_ctrl_c(tmp_path):
    path = tmp_path / "memory.db"
    fill(path)
    with command(path, "--no-browser", "--embedder", "none") as (process, address):
        assert address.startswith("http://127.0.0.1:")
        assert asked(address, "GET", "/ui").status_code == 200
        told = asked(address, "GET", "/token").json()
        assert told.keys() == {"id", "all_apps", "read_only", "review"}
        found = asked(address, "GET", f"{HOME}/memories/quiet").json()
        assert found["content"] == QUIET
        change = {"json": {"content": "x"}}
        refused = asked(address, "PATCH", f"{HOME}/memories/quiet", **change)
        assert refused.status_code == 403
        for other in (f"~{HOLDER}x", f"~{HOLDER[::-1]}", "~", ""):
            second = asked(address, "GET", "/apps", holder=other)
            assert second.status_code == 401
        assert asked(address + "x", "GET", "/apps").status_code == 401
        assert asked(address, "GET", "/apps").is_success
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        assert (process.returncode, out) == (0, "")
        assert err.strip() == "vecall: the page is closed"


@FILES_ONLY
def test_with_write_it_changes_the_file_and_each_run_has_a_token_of_its_own(tmp_path):
    path = tmp_path / "memory.db"
    fill(path)
    words = (path, "--no-browser", "--write", "--embedder", "none")
    with command(*words) as (_, first), command(*words) as (process, second):
        change = {"json": {"content": "Alice sleeps well."}}
        assert asked(first, "PATCH", f"{HOME}/memories/quiet", **change).is_success
        found = asked(second, "GET", f"{HOME}/memories/quiet").json()
        assert found["content"] == "Alice sleeps well."
        url, token = first.partition("/ui")[0], second.partition("=")[2]
        crossed = asked(f"{url}/ui#key={token}", "GET", "/apps")
        assert crossed.status_code == 401
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
        assert process.returncode == 0
    with MemoryService(path, embedder=None) as memory:
        entry = memory.sync.get_memory(**ALICE, memory_id="quiet")
        assert entry.text == "Alice sleeps well."


@FILES_ONLY
def test_its_address_opens_in_one_browser_window_alone(tmp_path, browser):
    path = tmp_path / "memory.db"
    fill(path)
    with command(path, "--no-browser", "--embedder", "none") as (process, address):
        browser.go(address)
        browser.says("hotel")
        browser.ask("POST", "/refresh")
        browser.says("hotel")
        browser.go("about:blank")
        browser.go(address)
        browser.says("This address opens once, and was used.")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)


def test_a_file_that_is_not_there_is_not_made(tmp_path):
    path = Path(tmp_path / "absent.db")
    with command(path, "--no-browser") as (process, address):
        _, err = process.communicate(timeout=20)
        assert (process.returncode, address) == (1, "")
        assert "there is no file" in err
        assert "vecall demo" in err
    assert not path.exists()


def test_a_server_is_opened_at_its_page():
    url = "http://127.0.0.1:9"
    with command(url + "/", "--no-browser") as (process, address):
        process.communicate(timeout=20)
        assert (process.returncode, address) == (0, f"{url}/ui")
