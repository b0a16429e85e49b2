"""kill -9 of processes that write through a door, such as a framework's store.

A child writes the n-th text through the door and acknowledges n on its output. It is
killed after some acknowledgements, and the next child goes on with the same file. It
writes the first text again that was not acknowledged, which may be there already. An
export of the file then has every acknowledged text.
"""

from __future__ import annotations

import io
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from vecall import MemoryService

from helpers.campaigns import scaled
from helpers.coding_agents import claude_line, run_hook, write_lines
from helpers.processes import child, run, said

KILLS = 3
MOST_HEARD = 12  # acknowledgements before a kill

_BEGIN = """
import asyncio, itertools, os, sys
path, first = sys.argv[1], int(sys.argv[2])
WHO = {"app_name": "app", "user_id": "alice"}
def text(n): return f"okapi{n}x is remembered"
def go(write):
    for n in itertools.count(first):
        write(n)
        os.write(1, b"%d\\n" % n)
def go_async(write):
    async def all():
        for n in itertools.count(first):
            await write(n)
            os.write(1, b"%d\\n" % n)
    asyncio.run(all())
def service():
    from vecall import MemoryService
    return MemoryService(path, embedder=None)
"""


@dataclass(frozen=True)
class Script:
    """A door that a child process opens.

    Attributes:
        needs: The module of the framework.
        body: What the child runs, after `_BEGIN`.
    """

    needs: str
    body: str


SCRIPTS = {
    "langgraph": Script(
        "langgraph.store.base",
        """
from vecall.langgraph import VecallStore
store = VecallStore(path)
go(lambda n: store.put(("notes", str(n % 3)), f"k{n}", {"text": text(n)}))
""",
    ),
    "langchain": Script(
        "langchain_core.vectorstores",
        """
from langchain_core.embeddings import DeterministicFakeEmbedding
from vecall.langchain import VecallVectorStore
store = VecallVectorStore(DeterministicFakeEmbedding(size=8), path)
go(lambda n: store.add_texts([text(n)], ids=[f"k{n}"]))
""",
    ),
    "langchain history": Script(
        "langchain_core.chat_history",
        """
from langchain_core.messages import HumanMessage
from vecall.langchain import VecallChatMessageHistory
history = VecallChatMessageHistory("s", service(), *WHO.values())
go(lambda n: history.add_messages([HumanMessage(text(n))]))
""",
    ),
    "langchain middleware": Script(
        "langchain.agents",
        """
from langchain.agents import create_agent
from langchain_core.language_models import FakeListChatModel
from vecall.langchain.middleware import VecallMemoryMiddleware
memory = VecallMemoryMiddleware(service(), *WHO.values())
agent = create_agent(FakeListChatModel(responses=["yes"]), middleware=[memory])
go(lambda n: agent.invoke({"messages": text(n)}))
""",
    ),
    "openai session": Script(
        "agents",
        """
from vecall.openai_agents import VecallSession
session = VecallSession("s", service(), **WHO)
go_async(lambda n: session.add_items([{"role": "user", "content": text(n)}]))
""",
    ),
    "openai ingesting": Script(
        "agents",
        """
from vecall.openai_agents import IngestingSession, VecallSession
memory = service()
session = IngestingSession(VecallSession("s", memory, **WHO), memory, **WHO)
go_async(lambda n: session.add_items([{"role": "user", "content": text(n)}]))
""",
    ),
    "crewai": Script(
        "crewai.memory.types",
        """
from crewai.memory.types import MemoryRecord
from vecall.crewai import VecallStorage
storage = VecallStorage(path)
go(lambda n: storage.save([MemoryRecord(content=text(n), embedding=[n + 1.0, 1.0])]))
""",
    ),
    "llama-index": Script(
        "llama_index.core.schema",
        """
from llama_index.core.schema import TextNode
from vecall.llama_index import VecallVectorStore
store = VecallVectorStore(path)
go(lambda n: store.add([TextNode(text=text(n), embedding=[n + 1.0, 1.0])]))
""",
    ),
    "haystack": Script(
        "haystack",
        """
from haystack import Document
from haystack.document_stores.types import DuplicatePolicy
from vecall.haystack import VecallDocumentStore
store = VecallDocumentStore(path)
policy = DuplicatePolicy.OVERWRITE
go(lambda n: store.write_documents([Document(content=text(n))], policy))
""",
    ),
    "autogen": Script(
        "autogen_core.memory",
        """
from autogen_core.memory import MemoryContent, MemoryMimeType
from vecall.autogen import VecallMemory
memory = VecallMemory(path, **WHO, embedder=None)
kind = MemoryMimeType.TEXT
go_async(lambda n: memory.add(MemoryContent(content=text(n), mime_type=kind)))
""",
    ),
    "strands": Script(
        "strands.memory",
        """
from vecall.strands import VecallMemoryStore
store = VecallMemoryStore(service(), **WHO)
go_async(lambda n: store.add(text(n), {"n": n}))
""",
    ),
    "anthropic": Script(
        "anthropic",
        """
from vecall.anthropic import VecallMemoryTool
tool = VecallMemoryTool(path, **WHO)
def write(n):
    path = f"/memories/{n}-{first}-{os.getpid()}.txt"
    tool.call({"command": "create", "path": path, "file_text": text(n)})
go(write)
""",
    ),
    "agent framework history": Script(
        "agent_framework",
        """
from agent_framework import Message
from vecall.agent_framework import VecallHistoryProvider
history = VecallHistoryProvider(service(), *WHO.values())
go_async(lambda n: history.save_messages("s", [Message("user", [text(n)])]))
""",
    ),
    "agent framework context": Script(
        "agent_framework",
        """
from agent_framework import AgentSession, Message, SessionContext
from vecall.agent_framework import VecallContextProvider
provider = VecallContextProvider(service(), *WHO.values())
session = AgentSession(session_id="s")
async def write(n):
    message = Message("user", [text(n)], message_id=str(n))
    context = SessionContext(session_id="s", input_messages=[message])
    await provider.after_run(agent=None, session=session, context=context, state={})
go_async(write)
""",
    ),
    "mem0": Script(
        "vecall",
        """
from vecall.mem0 import Memory
memory = Memory(path, embedder=None)
go(lambda n: memory.add(text(n), user_id="alice", infer=False))
""",
    ),
    "pydantic-ai": Script(
        "pydantic_ai",
        """
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel
from vecall.pydantic_ai import VecallMemory
def model(messages, info): return ModelResponse([TextPart("yes")])
memory = VecallMemory(service(), *WHO.values())
agent = Agent(FunctionModel(model), capabilities=[memory])
go_async(lambda n: agent.run(text(n)))
""",
    ),
    "pydantic-ai harness": Script(
        "pydantic_ai_harness",
        """
from vecall.pydantic_ai.harness_store import VecallMemoryStore
store = VecallMemoryStore(service(), *WHO.values())
async def write(n):
    path = f"main/{n}.md"
    file = await store.read(path, max_chars=99)
    await store.write(path, text(n), expected_version=file and file.version)
go_async(write)
""",
    ),
}
"""By door."""

_DOCTOR = "from vecall.cli.main import main; raise SystemExit(main())"

Opened = Callable[[Path], AbstractContextManager["tuple[Callable[[int], None], Kill]"]]
Kill = Callable[[], None]


def text_of(number: int) -> str:
    """The text of a call, as the scripts write it."""
    return f"okapi{number}x is remembered"


def kill_script(door: str, path: Path, seed: int) -> tuple[int, str]:
    """Kill children of a script; return the acknowledgements, and an export.

    Returns:
        The number of acknowledged texts: those of 0 to one less. And the file as an
        export.
    """
    choose = random.Random(f"{seed}/{door}")
    count = 0
    for _ in range(scaled(KILLS)):
        with child(_BEGIN + SCRIPTS[door].body, path, count) as process:
            for _ in range(choose.randint(1, MOST_HEARD)):
                assert int(said(process)) == count, "acknowledged out of order"
                count += 1
            process.kill()
            assert process.stdout is not None
            count += len(process.stdout.read().split())
    return count, exported(path)


def kill_server(start: Opened, path: Path, seed: int) -> tuple[int, str]:
    """Kill servers after some answers; return as `kill_script` does.

    Args:
        start: Serves the file; gives what writes the n-th text and waits for the
            answer, and what kills the server in the middle of the next one.
        path: The file.
        seed: Of the number of answers before each kill.
    """
    choose = random.Random(seed)
    count = 0
    for _ in range(scaled(KILLS)):
        with start(path) as (write, kill):
            for _ in range(choose.randint(1, MOST_HEARD)):
                write(count)
                count += 1
            kill()
    return count, exported(path)


def kill_hooks(path: Path, transcript: Path, seed: int) -> tuple[int, str]:
    """Kill `vecall hook retain` at any moment; the hook that ends well acknowledges."""
    choose = random.Random(seed)
    count = 0
    for _ in range(scaled(KILLS)):
        first = count
        lines = [
            claude_line(f"u{n}", "user", text_of(n)) for n in range(first + MOST_HEARD)
        ]
        write_lines(transcript, lines)
        payload = {
            "hook_event_name": "Stop",
            "session_id": "s1",
            "transcript_path": str(transcript),
        }
        _kill_hook(path, payload, choose.uniform(0.1, 0.4))
        done = run_hook("retain", payload, "--path", path)
        assert (done.returncode, done.stderr) == (0, "")
        count = first + MOST_HEARD
    return count, exported(path)


def _kill_hook(path: Path, payload: dict[str, str], after_s: float) -> None:
    """Begin a hook, and kill it before it is done, wherever it is by then."""
    command = [sys.executable, "-m", "vecall.cli.main", "hook", "retain"]
    with subprocess.Popen([*command, "--path", path], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps(payload).encode())
        process.stdin.close()
        time.sleep(after_s)
        process.kill()


def exported(path: Path) -> str:
    """All of a file, in which `vecall doctor` finds no fault."""
    run(_DOCTOR, "doctor", "--path", path)
    target = io.StringIO()
    with MemoryService(path, embedder=None) as memory:
        memory.sync.admin.export_jsonl(target)
    return target.getvalue()


def lost(count: int, export: str) -> Iterator[int]:
    """The acknowledged texts that an export lacks."""
    for number in range(count):
        if text_of(number) not in export:
            yield number
