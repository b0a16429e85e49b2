"""`adk api_server` as a process of its own, with vecall behind its memory endpoint."""

from __future__ import annotations

import json
import signal
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("google.adk")

from helpers.adk import PARROT, ROOM, a_trip
from helpers.processes import started
from vecall.adk import VecallMemoryService

ADK = Path(sys.executable).with_name("adk")
PATIENCE_S = 60.0
AGENT = """
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models import BaseLlm, LlmResponse
from google.genai import types
from vecall.adk import VecallMemoryPlugin, preload_memory

class Echo(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        said = llm_request.contents[-1].parts[0].text
        part = types.Part(text="echo " + said)
        yield LlmResponse(content=types.Content(role="model", parts=[part]))

root_agent = LlmAgent(name="hotel", model=Echo(model="echo"), tools=[preload_memory])
app = App(name="hotel", root_agent=root_agent, plugins=[VecallMemoryPlugin()])
"""
# What the command `adk` does, with what it prints in a file.
COMMAND = """
import os, sys
log = os.open(sys.argv.pop(1), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.dup2(log, 1)
os.dup2(log, 2)
sys.argv[0] = "adk"
from google.adk.cli import main
sys.exit(main())
"""
IMPORTS = "google.adk.cli.cli_tools_click google.adk.cli.fast_api vecall.adk"
YAML = """
services:
  - scheme: vecall
    type: memory
    class: vecall.adk.VecallMemoryService
"""


class Server:
    """One process of the server, for as long as it lives."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._log = folder.parent / "server.log"
        self._process = started(
            COMMAND,
            *(self._log, "api_server", "--host=127.0.0.1", f"--port={self.port}"),
            "--memory_service_uri=vecall:///memory.db?top_k=3&embedder=none",
            f"--session_service_uri=sqlite:///{folder.parent}/session.db",
            folder,
            imports=IMPORTS,
        )
        until = time.monotonic() + PATIENCE_S
        while self.ask("GET", "/list-apps")[0] != 200:
            assert self._process.poll() is None, self._said(folder)
            assert time.monotonic() < until, self._said(folder)
            time.sleep(0.1)

    def _said(self, folder: Path) -> str:
        return self._log.read_text()

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Send a request; return its status and what came back, 0 if nothing did."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            data,
            {"Content-Type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)
        except OSError:
            return 0, None

    def kill(self) -> None:
        """End the process with no chance to tidy up."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(PATIENCE_S)


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Path]:
    """A folder with one agent and the line that makes the scheme known."""
    if not ADK.exists():
        pytest.skip("the command adk is not installed beside this Python")
    folder = tmp_path / "agents"
    (folder / "hotel").mkdir(parents=True)
    (folder / "hotel" / "__init__.py").write_text("")
    (folder / "hotel" / "agent.py").write_text(AGENT)
    (folder / "services.yaml").write_text(YAML)
    return folder


def test_the_server_remembers_over_a_kill(agents: Path) -> None:
    """S0.47, S0.48, S0.50, S3.11: PATCH, its refusals, SIGKILL, and PATCH again."""
    user = "/apps/hotel/users/alice"
    events = json.loads(a_trip().model_dump_json(by_alias=True))["events"]
    first = Server(agents)
    try:
        _, session = first.ask("POST", f"{user}/sessions", {"events": events})
        wanted = {"sessionId": session["id"]}
        assert first.ask("PATCH", f"{user}/memory", wanted) == (200, None)
        gone = first.ask("PATCH", f"{user}/memory", {"sessionId": "no such"})
        assert gone == (404, {"detail": "Session not found"})
        assert first.ask("PATCH", f"{user}/memory", {})[0] == 422
        assert first.ask("PATCH", f"{user}/memory", b"no json")[0] == 422
        theirs = first.ask("PATCH", "/apps/hotel/users/bob/memory", wanted)
        assert theirs[0] == 404
    finally:
        first.kill()
    second = Server(agents)
    try:
        assert second.ask("PATCH", f"{user}/memory", wanted) == (200, None)
    finally:
        second.kill()
    with VecallMemoryService(agents / "memory.db", embedder=None).memory as memory:
        scope = {"app_name": "hotel", "user_id": "alice"}
        kept = memory.sync.list_memories(**scope)
        assert [each.text for each in kept] == [ROOM, "Noted.", PARROT]
        assert memory.sync.admin.stats()["memories"] == 3


def test_an_app_of_the_server_remembers_its_runs(agents: Path) -> None:
    """S0.52, S1.46, S3.24: said to one process, preloaded in the next."""
    user = "/apps/hotel/users/alice"
    wish = "I would like a quiet room."

    def reply(server: Server, said: str) -> str:
        _, session = server.ask("POST", f"{user}/sessions", {})
        names = {"appName": "hotel", "userId": "alice", "sessionId": session["id"]}
        message = {"role": "user", "parts": [{"text": said}]}
        status, events = server.ask("POST", "/run", {**names, "newMessage": message})
        assert status == 200
        return events[-1]["content"]["parts"][0]["text"]

    first = Server(agents)
    try:
        assert reply(first, wish) == f"echo {wish}"
        until = time.monotonic() + PATIENCE_S
        while f"user: {wish}" not in reply(first, "Which quiet room?"):
            assert time.monotonic() < until
    finally:
        first.kill()
    second = Server(agents)
    try:
        assert f"user: {wish}" in reply(second, "Which quiet room?")
        assert "user:" not in reply(second, "llamas")
    finally:
        second.kill()
