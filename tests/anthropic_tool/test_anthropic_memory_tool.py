"""Anthropic's memory tool, against a dictionary of files."""

from __future__ import annotations

import asyncio
import random
import re
import threading
import time
from typing import Any

import pytest

pytest.importorskip("anthropic.lib.tools")

from anthropic.lib.tools import ToolError
from helpers.door_programs import refuses_wrong_names
from helpers.paths import ROOT
from vecall import MemoryService
from vecall.anthropic import AsyncVecallMemoryTool, VecallMemoryTool

GUIDE = ROOT / "docs/guide/anthropic.md"
WHOSE = {"app_name": "hotel", "user_id": "alice"}


@pytest.fixture
def tool(tmp_path):
    made = VecallMemoryTool(tmp_path / "m.db", **WHOSE)
    yield made
    made.close()


def call(tool: Any, command: str, **more: Any) -> Any:
    """As the runner of the SDK calls it, with the input of a model."""
    return tool.call({"command": command, **more})


def create(tool: Any, path: str, text: str = "x") -> Any:
    return call(tool, "create", path=f"/memories/{path}", file_text=text)


def listed(tool: Any, path: str = "/memories") -> list[str]:
    lines = call(tool, "view", path=path).split("\n")[2:]
    return [line.partition("\t")[2].removeprefix("/memories/") for line in lines]


def content(tool: Any, path: str) -> str:
    lines = call(tool, "view", path=f"/memories/{path}").split("\n")[1:]
    return "\n".join(line[7:] for line in lines)


def test_a_directory_is_not_moved_below_itself(tool):
    create(tool, "a/b")
    paths = {"old_path": "/memories/a", "new_path": "/memories/a/c"}
    with pytest.raises(ToolError, match="is below"):
        call(tool, "rename", **paths)
    assert content(tool, "a/b") == "x"


def test_the_definition_is_the_one_of_the_api(tool):
    assert tool.to_dict() == {"type": "memory_20250818", "name": "memory"}


def test_random_commands_do_what_a_dictionary_does(tool, tmp_path):
    """Also after the file is opened again."""
    choose = random.Random(7)
    files: dict[str, str] = {}
    paths = ["a", "b", "d/a", "d/b", "d/e/a", "d/e", "f%2e/\u00e9 \\", "a/x"]

    def is_there(path: str) -> bool:
        return any(each == path or each.startswith(path + "/") for each in files)

    def may_be(path: str) -> bool:
        parts = path.split("/")
        above = ["/".join(parts[:n]) for n in range(1, len(parts))]
        return not is_there(path) and not any(each in files for each in above)

    for step in range(400):
        path, other = choose.choice(paths), choose.choice(paths)
        kind = choose.choice(["create", "delete", "rename", "str_replace", "insert"])
        there = f"/memories/{path}"
        if kind == "create":
            does = may_be(path)
            given: dict[str, Any] = {"path": there, "file_text": f"one {step}\n"}
            after = {**files, path: f"one {step}\n"}
        elif kind == "delete":
            does, given = is_there(path), {"path": there}
            after = {
                each: text
                for each, text in files.items()
                if each != path and not each.startswith(path + "/")
            }
        elif kind == "rename":
            does = is_there(path) and may_be(other)
            does = does and not f"{other}/".startswith(f"{path}/")
            given = {"old_path": there, "new_path": f"/memories/{other}"}
            after = {
                other + each[len(path) :]
                if f"{each}/".startswith(f"{path}/")
                else each: t
                for each, t in files.items()
            }
        elif kind == "str_replace":
            does = files.get(path, "").count("one") == 1
            given = {"path": there, "old_str": "one", "new_str": f"{step} one"}
            after = {**files, path: files.get(path, "").replace("one", f"{step} one")}
        else:
            does = path in files
            given = {"path": there, "insert_line": 0, "insert_text": f"{step}\n"}
            after = {**files, path: f"{step}\n{files.get(path, '')}"}
        if does:
            call(tool, kind, **given)
            files = after
        else:
            with pytest.raises(ToolError):
                call(tool, kind, **given)
        if step % 20 == 0:
            for each in paths:
                if each in files:
                    assert content(tool, each) == files[each]
    tool.close()
    again = VecallMemoryTool(tmp_path / "m.db", **WHOSE)
    assert files
    assert {each: content(again, each) for each in files} == files
    shown = {each for each in listed(again) if not each.endswith("/")}
    assert shown == {each for each in files if each.count("/") < 2}
    again.close()


@pytest.mark.parametrize(
    "path",
    [
        "/memories/..",
        "/memories/../x",
        "/memories/a/../../x",
        "/memories/./../../etc/passwd",
        "/memoriesx/a",
        "/etc/passwd",
        "memories/a",
        "",
        "/memories/a\0b",
        "/memories/\ud800",
        "/memories/" + "n" * 5000,
    ],
)
def test_a_path_outside_or_impossible_is_refused(tool, path):
    """By every command, as an error of the tool, and nothing changes."""
    create(tool, "a", "kept")
    commands: list[dict[str, Any]] = [
        {"command": "view", "path": path},
        {"command": "create", "path": path, "file_text": "x"},
        {"command": "str_replace", "path": path, "old_str": "k", "new_str": "x"},
        {"command": "insert", "path": path, "insert_line": 0, "insert_text": "x"},
        {"command": "delete", "path": path},
        {"command": "rename", "old_path": path, "new_path": "/memories/new"},
        {"command": "rename", "old_path": "/memories/a", "new_path": path},
    ]
    for command in commands:
        with pytest.raises(ToolError):
            tool.call(command)
    assert listed(tool) == ["a"]
    assert content(tool, "a") == "kept"


@pytest.mark.parametrize(
    "command",
    [
        {"command": "view"},
        {"command": "view", "path": 5},
        {"command": "view", "path": "/memories/a", "view_range": "1"},
        {"command": "view", "path": "/memories/a", "view_range": ["a", 2]},
        {"command": "create", "path": "/memories/b"},
        {"command": "create", "path": "/memories/b", "file_text": 5},
        {"command": "str_replace", "path": "/memories/a", "old_str": "k"},
        {"command": "insert", "path": "/memories/a", "insert_line": "x",
         "insert_text": "x"},
        {"command": "insert", "path": "/memories/a", "insert_line": 0},
        {"command": "delete"},
        {"command": "rename", "old_path": "/memories/a"},
    ],
)  # fmt: skip
def test_a_field_that_is_missing_or_of_another_type_is_refused(tool, command):
    """The SDK passes the input of a model as it is."""
    create(tool, "a", "kept")
    with pytest.raises(ToolError, match="Invalid `"):
        tool.call(command)
    assert listed(tool) == ["a"]
    assert content(tool, "a") == "kept"


@pytest.mark.parametrize("kind", [VecallMemoryTool, AsyncVecallMemoryTool])
def test_a_wrong_name_opens_no_file(kind, tmp_path):
    refuses_wrong_names(kind, tmp_path)


def test_users_and_apps_do_not_see_each_other(tmp_path):
    with MemoryService(tmp_path / "m.db", embedder=None) as memory:
        whose = [("hotel", "alice"), ("hotel", "bob"), ("bar", "alice")]
        tools = [VecallMemoryTool(memory, app_name=a, user_id=u) for a, u in whose]
        for number, each in enumerate(tools):
            create(each, "same", f"secret {number}")
        call(tools[0], "delete", path="/memories/same")
        tools[1].clear_all_memory()
        assert [listed(each) for each in tools] == [[], [], ["same"]]
        assert content(tools[2], "same") == "secret 2"
        memory.sync.user("bar", "alice").delete_all()
        assert listed(tools[2]) == []


def test_commands_at_the_same_time_lose_nothing(tmp_path):
    """Inserts into one file, and a directory that is renamed while files are made."""
    with MemoryService(tmp_path / "m.db", embedder=None) as memory:
        tools = [VecallMemoryTool(memory, **WHOSE) for _ in range(4)]
        create(tools[0], "log", "")
        create(tools[0], "d0/first")
        errors = []

        def work(number: int) -> None:
            try:
                for step in range(8):
                    line = f"{number} {step}"
                    path = "/memories/log"
                    call(tools[number], "insert", path=path, insert_line=0,
                         insert_text=line)  # fmt: skip
                    create(tools[number], f"d{number}/{step}", line)
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(each,)) for each in range(4)]
        for thread in threads:
            thread.start()
        for step in range(5):
            names = f"/memories/d0{'x' * step}", f"/memories/d0{'x' * (step + 1)}"
            call(tools[0], "rename", old_path=names[0], new_path=names[1])
        for thread in threads:
            thread.join()
        assert errors == []
        lines = content(tools[0], "log").split("\n")[:-1]
        assert sorted(lines) == sorted(f"{n} {s}" for n in range(4) for s in range(8))
        files = [each for each in listed(tools[0]) if re.search(r"/\d$", each)]
        assert len(files) == 32


def test_a_text_that_is_too_large_is_an_error_of_the_tool(tool):
    with pytest.raises(ToolError, match="at most 1048576 bytes"):
        create(tool, "large", "zebra" * 300_000)
    with pytest.raises(ToolError, match="lone surrogate"):
        create(tool, "odd", "zebra \ud800")
    assert listed(tool) == []


def test_hidden_files_are_not_listed_and_sizes_have_units(tool):
    create(tool, ".hidden")
    create(tool, "d/.h/x")
    create(tool, "d/e/f", "x" * 1536)
    answer = call(tool, "view", path="/memories")
    assert answer.split("\n")[1:] == [
        "1.5K\t/memories",
        "1.5K\t/memories/d/",
        "1.5K\t/memories/d/e/",
    ]


def test_the_asynchronous_tool_does_the_same(tmp_path):
    async def program() -> str:
        tool = AsyncVecallMemoryTool(tmp_path / "m.db", **WHOSE)
        await create(tool, "a", "one\n")
        await call(
            tool, "str_replace", path="/memories/a", old_str="one", new_str="two"
        )
        await call(tool, "insert", path="/memories/a", insert_line=1, insert_text="x")
        await call(tool, "rename", old_path="/memories/a", new_path="/memories/b/c")
        with pytest.raises(ToolError):
            await call(tool, "delete", path="/memories/a")
        shown = await call(tool, "view", path="/memories/b/c", view_range=[2, 2])
        await call(tool, "delete", path="/memories/b")
        await tool.clear_all_memory()
        await tool.aclose()
        return str(shown)

    shown = asyncio.run(program())
    assert shown.endswith("line numbers:\n     2\tx")


def test_the_program_of_the_guide_makes_a_tool(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (program,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.S)
    names: dict[str, Any] = {}
    exec(program.partition("\nclient")[0], names)
    assert "successfully" in create(names["tool"], "a")
    names["tool"].close()


def test_a_text_that_occurs_often_is_refused_with_a_short_answer(tool):
    create(tool, "a", "a\n" * 50_000)
    begin = time.process_time()
    with pytest.raises(ToolError) as refused:
        call(tool, "str_replace", path="/memories/a", old_str="\n", new_str="b")
    assert time.process_time() - begin < 0.5
    told = str(refused.value)
    assert told.endswith("98, 99, 100, .... Please ensure it is unique")
    assert len(told) < 1_000
    for old in ("a\n" * 25_000, "c" * 50_000):
        with pytest.raises(ToolError) as refused:
            call(tool, "str_replace", path="/memories/a", old_str=old, new_str="b")
        assert len(str(refused.value)) < 3_000
