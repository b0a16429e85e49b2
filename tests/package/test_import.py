"""What `import vecall` loads: nothing; a name when it is used, and what it needs.

Each program runs in an interpreter of its own: a fork of one that has imported vecall
would not show what an import loads.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import vecall

SOURCE = ast.parse(Path(vecall.__file__).read_text("utf-8"))


def loaded(statement: str) -> set[str]:
    """The modules of a fresh interpreter after a statement, with those above them."""
    path = [str(Path(vecall.__file__).parent.parent)]
    program = (
        f"import json, sys\nsys.path[:0] = {path}\n{statement}\n"
        "print(json.dumps(list(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", program],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(done.stdout))


def declared() -> dict[str, str]:
    """The module of each name by the imports that a type checker reads."""
    (block,) = [node for node in SOURCE.body if isinstance(node, ast.If)][:1]
    return {
        alias.name: str(node.module)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_import_vecall_loads_nothing_else() -> None:
    """Neither NumPy nor asyncio, nor what they bring, nor a part of vecall."""
    found = loaded("import vecall")
    parts = {name for name in found if name.startswith("vecall.")}
    assert parts == set()
    for name in (
        "numpy", "asyncio", "sqlite3", "ssl", "socket", "http", "urllib", "email",
        "logging", "dataclasses", "re", "inspect", "threading", "pathlib", "psycopg",
    ):  # fmt: skip
        assert name not in found - loaded("import typing"), name


def test_the_errors_load_no_part_that_works() -> None:
    found = loaded("from vecall import VecallError")
    assert {name for name in found if name.startswith("vecall.")} == {"vecall.errors"}
    assert not found & {"numpy", "asyncio", "sqlite3"}


def test_a_service_loads_no_door_and_no_database() -> None:
    """Nor what only they need."""
    found = loaded("from vecall import MemoryService")
    for name in (
        "http", "email", "urllib.request", "psycopg", "starlette", "uvicorn", "mcp",
        "google", "httpx", "multiprocessing", "unittest", "vecall.server", "vecall.mcp",
        "vecall.tools", "vecall.cli", "vecall.importing", "vecall.evaluation",
        "vecall.demo", "vecall.adk", "vecall.coding_agents", "vecall.store.postgres",
    ):  # fmt: skip
        assert name not in found, name


def test_each_name_is_the_one_that_a_type_checker_sees() -> None:
    names = declared()
    assert set(names) == set(vecall.__all__)
    for name, module in names.items():
        __import__(module)
        assert getattr(vecall, name) is getattr(sys.modules[module], name)
    lines = [line.partition(": ") for line in vecall._PLACES.split("\n") if line]
    places = {n: f"vecall.{module}" for module, _, many in lines for n in many.split()}
    assert places.items() <= names.items()
    assert {names[n] for n in names.keys() - places} == {
        "vecall.errors",
        "vecall.types",
    }


def test_parts_are_there_without_an_import_of_their_own() -> None:
    """As `vecall.errors.BusyError`; a part that needs an extra is imported by name."""
    program = "import vecall\nassert vecall.errors.BusyError is vecall.BusyError"
    assert "vecall.errors" in loaded(program)
    for name in vecall._MODULES.split():
        assert isinstance(getattr(vecall, name), ModuleType)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'MemoryServise'"):
        vecall.MemoryServise  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ImportError, match="MemoryServise"):
        exec("from vecall import MemoryServise")
    assert not hasattr(vecall, "__wrapped__")
    assert dir(vecall) == sorted(vecall.__all__)


def test_threads_that_use_a_name_at_once_get_the_same() -> None:
    program = """
import threading, vecall
seen, go = [], threading.Barrier(8)
def use():
    go.wait()
    seen.append(vecall.MemoryService)
threads = [threading.Thread(target=use) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert len(seen) == 8 and len(set(seen)) == 1
"""
    assert "vecall.service.memory_service" in loaded(program)


def test_an_extra_that_is_missing_is_installed_and_one_that_is_too_old_upgraded():
    from vecall.errors import needs_extra

    with (
        pytest.raises(ImportError, match=r'^x needs y: pip install "vecall\[z\]"$'),
        needs_extra("x", "y", "z"),
    ):
        import no_such_module  # type: ignore[import-not-found]  # noqa: F401
    told = r'^x needs a newer y: pip install --upgrade "vecall\[z\]"$'
    with pytest.raises(ImportError, match=told), needs_extra("x", "y", "z"):
        from json import no_such_name  # type: ignore[attr-defined]  # noqa: F401
