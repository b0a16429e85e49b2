"""Every Python block of README and docs runs: alone if marked so, else among names."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import textwrap
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import vecall
from helpers.paths import ROOT

pytest.importorskip("google.adk")
if find_spec("openai") is None:  # imported where it is used: that takes a second
    pytest.skip("openai is not installed", allow_module_level=True)
pytest.importorskip("starlette")

import vecall.adk
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService

registry = pytest.importorskip("google.adk.cli.service_registry")
ALICE = {"app_name": "hotel", "user_id": "alice"}
RUNNABLE = "<!-- runnable -->\n"
BLOCK = re.compile(r"^( *)```python\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
PAGES = [
    ROOT / "README.md",
    *sorted(ROOT.glob("docs/guide/*.md")),
    *sorted(ROOT.glob("docs/reference/*.md")),
]
# Tests of their own run the programs of these pages.
OWN = (
    "agent-framework",
    "anthropic",
    "autogen",
    "coming-from-hnswlib-and-usearch",
    "crewai",
    "haystack",
    "langchain",
    "langgraph",
    "llama-index",
    "openai-agents",
    "pydantic-ai",
    "strands",
)
PAGES = [page for page in PAGES if page.stem not in OWN]

pytestmark = pytest.mark.skipif(
    not (ROOT / "docs").exists(), reason="the documentation is not beside the tests"
)


def blocks(page: Path, *, runnable: bool) -> list[str]:
    text = page.read_text("utf-8") if page.exists() else ""
    return [
        textwrap.dedent(found[2])
        for found in BLOCK.finditer(text)
        if text[: found.start()].endswith(RUNNABLE) == runnable
    ]


ALONE = [(page, n) for page in PAGES for n in range(len(blocks(page, runnable=True)))]
AMONG_NAMES = [page for page in PAGES if blocks(page, runnable=False)]


@pytest.mark.parametrize(
    ("page", "n"), ALONE, ids=[f"{page.stem}-{n}" for page, n in ALONE]
)
def test_a_program_that_is_marked_runnable_runs(
    page: Path, n: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program = blocks(page, runnable=True)[n]
    exec(compile(program, page.name, "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("page", AMONG_NAMES, ids=lambda page: page.stem)
def test_the_other_programs_of_a_page_run_one_after_the_other(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "a key that is not used")
    (tmp_path / "backups").mkdir()
    services = registry.get_service_registry()
    factories = dict(services._memory_factories)
    monkeypatch.setattr(services, "_memory_factories", factories)
    asyncio.run(run_all(page))


async def run_all(page: Path) -> None:
    names = await names_for(page)
    opened = [names["memory"], names["service"]]
    for program in blocks(page, runnable=False):
        code = compile(program, page.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        result = eval(code, names)
        if inspect.isawaitable(result):
            await result
        opened += [names[name] for name in ("memory", "service")]
        if runner := names.get("runner"):
            opened.append(runner.memory_service)
            await with_a_session(runner.session_service)
    for each in opened:
        each.close()


async def names_for(page: Path) -> dict[str, Any]:
    """What the text around the programs says is there."""
    memory = vecall.MemoryService(embedder=None)
    await memory.add_memory(**ALICE, memories=["Prefers a quiet room."])
    sessions = await with_a_session(InMemorySessionService())
    fact = SimpleNamespace(fact="Likes tea.", name="m1", update_time="2026-01-02")
    return {
        "vecall": vecall,
        "alice": memory.sync.user(**ALICE),
        "ask": lambda prompt: "A summary.",
        "memory": memory.sync if page.stem == "quickstart" else memory,
        "service": vecall.adk.VecallMemoryService(embedder=None),
        "session": await sessions.get_session(**ALICE, session_id="trip-1"),
        "sessions": sessions,
        "session_service": sessions,
        "root_agent": LlmAgent(name="concierge", model="gemini-3.5-flash"),
        "memories": [fact],
        "LlmAgent": LlmAgent,
        "App": App,
        "Runner": Runner,
        "VecallMemoryPlugin": vecall.adk.VecallMemoryPlugin,
    }


async def with_a_session(service: Any) -> Any:
    if await service.get_session(**ALICE, session_id="trip-1") is None:
        await service.create_session(**ALICE, session_id="trip-1")
    return service
