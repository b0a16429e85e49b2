"""The page of the guide says what the commands do."""

from __future__ import annotations

import argparse
import re
import shlex

import pytest
from helpers.paths import DOCS
from vecall.cli.main import main
from vecall.coding_agents import hook_command as hook
from vecall.coding_agents import options, transcript
from vecall.coding_agents.install import AGENTS

PATH = DOCS / "guide/coding-agents.md"

pytestmark = pytest.mark.skipif(not PATH.exists(), reason="no docs beside the tests")


@pytest.fixture
def page():
    return PATH.read_text()


def rows(page, first):
    table = page[page.index(f"\n| {first} |") + 1 :].split("\n\n")[0]
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table.splitlines()[2:]
    ]


def test_the_commands_of_the_page_run(page, home, capsys):
    (block,) = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    commands = [line for line in block.splitlines() if line.startswith("vecall ")]
    commands += re.findall(r"`(vecall uninstall [a-z-]+)`", page)
    assert len(commands) == 2
    for command in commands:
        assert main(shlex.split(command)[1:]) == 0
        capsys.readouterr()
    assert list((home / ".claude").iterdir()) == []


def test_the_table_of_agents_is_that_of_the_commands(page):
    verbs = ("recall", "retain", "start")
    for agent, row in zip(AGENTS.values(), rows(page, "agent"), strict=True):
        name, where, *cells = row
        assert name == f"`{agent.name}`"
        folder, variable, file = agent.place
        assert f"`{folder}/{file}`" in where
        assert variable is None or f"`${variable}`" in where
        for verb, cell in zip(verbs, cells, strict=True):
            named = re.findall(r"`([\w.]+)`", cell)
            assert named == [e for e, each in agent.events.items() if each == verb]


def test_the_table_of_options_is_that_of_the_command(page):
    parser = argparse.ArgumentParser()
    options.add_agent_options(parser)
    known = {action.option_strings[0] for action in parser._actions} - {"-h"}
    named = {row[0].strip("`").split()[0] for row in rows(page, "option")}
    assert named - {"--settings", "--print"} == known
    assert f"| {options.MAX_TOKENS} |" in page
    assert f"`{options.APP}`" in page
    assert f"{transcript.MOST_TEXT_CHARACTERS:,} characters" in page
    assert f"{hook.MOST_CHARACTERS:,} characters" in page
