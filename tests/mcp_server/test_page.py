"""The page of the guide says what the server offers."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from helpers.paths import DOCS
from vecall import MemoryService
from vecall.cli import serve_commands
from vecall.cli.main import main
from vecall.cli.serve_commands import CLIENTS
from vecall.coding_agents.options import APP, USER

pytest.importorskip("mcp", reason="mcp is not installed")

from vecall.mcp import answers
from vecall.mcp.answers import Answers
from vecall.mcp.tools import Access

PATH = DOCS / "guide/mcp.md"

pytestmark = pytest.mark.skipif(not PATH.exists(), reason="no docs beside the tests")


@pytest.fixture
def page() -> str:
    return PATH.read_text()


def rows(page: str, first: str) -> list[list[str]]:
    table = page[page.index(f"\n| {first} |") + 1 :].split("\n\n")[0]
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table.splitlines()[2:]
    ]


def offered(*, write: bool) -> list[dict[str, Any]]:
    with MemoryService(":memory:", embedder=None) as memory:
        access = Access(app_name="hotel", user_id="alice", write=write)
        return Answers(memory, access).list_tools()["tools"]


def test_the_table_of_tools_is_that_of_the_server(page):
    tools = offered(write=True)
    table = rows(page, "tool")
    assert [name.strip("`") for name, *_ in table] == [each["name"] for each in tools]
    for (_, arguments, effect), tool in zip(table, tools, strict=True):
        named = re.findall(r"`(\w+)`", arguments)
        assert set(named) == set(tool["inputSchema"]["properties"])
        hints = tool["annotations"]
        assert effect.startswith("reads") == hints["readOnlyHint"]
        assert effect.startswith("destroys") == hints["destructiveHint"]
    reading = [each["name"] for each in offered(write=False)]
    assert reading == [name.strip("`") for name, *_ in table[:3]]


def test_the_table_of_resources_is_that_of_the_server(page):
    named = [row[0].strip("`") for row in rows(page, "resource or prompt")[:-1]]
    uris = [each["uri"] for each in answers.LISTED]
    assert named == uris + [each["uriTemplate"] for each in answers.TEMPLATES]
    assert f"the newest {answers._COUNT} memories" in page


def test_every_client_is_named_with_its_key(page, capsys):
    table = {row[0].strip("`"): row[2] for row in rows(page, "client")}
    assert set(table) == set(CLIENTS)
    for client, cell in table.items():
        assert f"vecall mcp --config {client}" in page
        assert main(["mcp", "--config", client]) == 0
        printed = capsys.readouterr().out
        keys = re.findall(r"`(\w+)`", cell)[:1]
        assert keys == (list(json.loads(printed)) if cell else [])


def test_the_settings_of_the_page_are_those_that_are_printed(page, capsys):
    (block,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    main("mcp --config cursor --path /data/memory.db --user alice".split())
    shown = json.loads(block)["mcpServers"]["memory"]
    printed = json.loads(capsys.readouterr().out)["mcpServers"]["memory"]
    at = printed["args"].index("mcp")
    assert shown["args"] == printed["args"][at:]


def test_the_defaults_of_the_page_are_those_of_the_command(page):
    assert f"`--app` (`{APP}`), `--user` (`{USER}`)" in page
    assert f"`--max-tokens` ({serve_commands.MAX_TOKENS})" in page
    access = Access(app_name="a", user_id="u")
    assert f'"{access.author}", "{access.source}"' in page
    assert f'| trust | "{access.trust}" |' in page
