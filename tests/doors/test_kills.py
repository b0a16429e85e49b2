"""No acknowledged write of a door is lost when its process is killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from helpers import door_kills

pytestmark = pytest.mark.campaign


def has(module: str) -> bool:
    """Whether a framework is installed."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@pytest.mark.parametrize("door", door_kills.SCRIPTS)
def test_a_killed_process_loses_nothing_that_it_acknowledged(door, tmp_path):
    needs = door_kills.SCRIPTS[door].needs
    if not has(needs):
        pytest.skip(f"{needs} is not installed")
    count, export = door_kills.kill_script(door, tmp_path / "m.db", seed=3)
    assert count > 0
    assert list(door_kills.lost(count, export)) == []


def test_a_killed_hook_of_a_coding_agent_loses_and_doubles_nothing(
    tmp_path, monkeypatch
):
    """A later hook of the same transcript stores what a killed one has not."""
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / "m.db"
    count, export = door_kills.kill_hooks(path, tmp_path / "t.jsonl", seed=5)
    assert list(door_kills.lost(count, export)) == []
    assert all(export.count(door_kills.text_of(n)) == 1 for n in range(count))


@contextmanager
def over_stdio(path: Path) -> Iterator[tuple[Callable[[int], None], Any]]:
    """`vecall mcp`, and what calls its tool."""
    from helpers.mcp_clients import over_stdio as started

    with started(path) as client:

        def write(number: int) -> None:
            answer = client.call("add_memory", text=door_kills.text_of(number))
            assert answer["status"] == "remembered"

        def kill() -> None:
            client.begin(
                "tools/call", name="add_memory", arguments={"text": "in the middle"}
            )
            client.process.kill()

        yield write, kill


@contextmanager
def over_http(path: Path) -> Iterator[tuple[Callable[[int], None], Any]]:
    """`vecall serve --mcp`, and what calls its tool."""
    from helpers.http import serving

    with serving(path.parent, "--mcp") as (server, process), server.client() as client:

        def write(number: int) -> None:
            message = {
                "jsonrpc": "2.0",
                "id": number,
                "method": "tools/call",
                "params": {
                    "name": "add_memory",
                    "arguments": {"text": door_kills.text_of(number)},
                },
            }
            accept = {"Accept": "application/json, text/event-stream"}
            answer = client.post("/mcp", json=message, headers=accept)
            result = answer.json()["result"]
            assert result["structuredContent"]["status"] == "remembered"

        yield write, process.kill


@pytest.mark.parametrize("start", [over_stdio, over_http])
def test_a_killed_mcp_server_loses_nothing_that_it_answered(start, tmp_path):
    pytest.importorskip("mcp", reason="mcp is not installed")
    if start is over_http:
        pytest.importorskip("httptools", reason="the extra server is not installed")
    # The name that `serving` gives its file.
    count, export = door_kills.kill_server(start, tmp_path / "memory.db", seed=7)
    assert list(door_kills.lost(count, export)) == []
