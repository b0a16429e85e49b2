"""The files by which registries and agents find vecall say the same."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from helpers.paths import ROOT
from vecall.cli.main import main
from vecall.coding_agents.hook_command import hook_parser
from vecall.coding_agents.install import AGENTS, MARK

SCRIPT = ROOT / ".ci/generate_places"
JSON = (
    "server.json",
    "gemini-extension.json",
    ".claude-plugin/marketplace.json",
    "clients/claude-code/.claude-plugin/plugin.json",
    "clients/mcpb/manifest.json",
)

if not SCRIPT.exists():
    pytest.skip("only a clone has the files", allow_module_level=True)


def read(name):
    return json.loads((ROOT / name).read_text("utf-8"))


def project(key):
    """A text of pyproject.toml, read without the parser that the script uses."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    return re.search(rf'^{key} = "(.*)"$', text, re.MULTILINE)[1]


def test_the_files_are_what_the_script_writes():
    command = [sys.executable, SCRIPT, "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("name", JSON)
def test_version_and_description_are_those_of_the_package(name):
    found = read(name)
    for each in (found, *found.get("plugins", []), *found.get("packages", [])):
        about = each.get("metadata", each)  # of a marketplace
        assert about["version"] == project("version")
        if "registryType" not in each:
            assert about["description"] == project("description")


def test_other_files_have_the_version_too():
    version = project("version")
    assert read("clients/typescript/package.json")["version"] == version
    recipe = (ROOT / "clients/conda/recipe.yaml").read_text()
    assert f'version: "{version}"' in recipe
    bundled = (ROOT / "clients/mcpb/pyproject.toml").read_text()
    assert f'dependencies = ["vecall[mcp,local]=={version}"]' in bundled


def test_the_registry_can_tell_that_the_package_is_ours():
    """The rules of its schema of 2025-12-11, and its marker in the README."""
    server = read("server.json")
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", server["name"])
    assert server["$schema"].split("/")[-2] == "2025-12-11"
    assert 1 <= len(server["description"]) <= 100
    assert re.fullmatch(r"\d+\.\d+\.\d+", server["version"])
    marker = f"mcp-name: {server['name']} "
    assert marker in (ROOT / "README.md").read_text("utf-8")
    (package,) = server["packages"]
    assert package["identifier"] == project("name")


def test_each_command_is_one_that_vecall_has(capsys):
    servers = [read(name)["mcpServers"]["vecall"] for name in (JSON[1], JSON[3])]
    assert [each["command"] for each in servers] == ["uvx"] * 2
    for each in servers:
        at = each["args"].index("vecall")
        with pytest.raises(SystemExit) as ended:
            main([*each["args"][at + 1 :], "--help"])
        assert ended.value.code == 0
    capsys.readouterr()
    hooks = read(JSON[3])["hooks"]
    assert list(hooks) == list(AGENTS["claude-code"].events)
    for event, (group,) in hooks.items():
        (hook,) = group["hooks"]
        line, _, end = hook["command"].partition(" 2>/dev/null ")
        words = shlex.split(line)
        assert words[1:4] == ["uvx", "vecall", "hook"]
        assert (
            hook_parser().parse_args(words[4:]).verb
            == AGENTS["claude-code"].events[event]
        )
        assert end == f"|| exit 0 {MARK}"


def test_the_skill_names_tools_that_the_server_has():
    """The guide's table of them is compared with the server in its own tests."""
    guide = (ROOT / "docs/guide/mcp.md").read_text("utf-8")
    table = guide.split("| tool |")[1].split("\n\n")[0]
    offered = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    text = (ROOT / "clients/claude-code/skills/memory/SKILL.md").read_text("utf-8")
    named = set(re.findall(r"`(\w+_memor\w+)`", text))
    assert len(named) == 4
    assert named <= offered
    assert re.match(r"---\nname: memory\ndescription: \S.{50,1000}\n---\n", text)


def test_a_bundle_is_the_same_each_time(tmp_path):
    made = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        command = [sys.executable, SCRIPT, "--bundle", tmp_path / name]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        made.append(done.stdout.strip())
    assert Path(made[0]).read_bytes() == Path(made[1]).read_bytes()
    with zipfile.ZipFile(made[0]) as bundle:
        names = set(bundle.namelist())
        manifest = json.loads(bundle.read("manifest.json"))
    assert names == {"manifest.json", "pyproject.toml", "server.py"}
    assert manifest["server"]["entry_point"] in names
