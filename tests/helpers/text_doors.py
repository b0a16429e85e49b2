"""Every door through which somebody else's text comes into vecall, as a function of it.

A door calls what the public method calls with the text. Errors of vecall are answers.
"""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from vecall import (
    Event,
    Filter,
    InMemoryMemoryService,
    Limits,
    MemoryEntry,
    MemoryService,
    Put,
    StorageOptions,
    VecallError,
)
from vecall.cli.console import CleanStream
from vecall.clock import to_seconds
from vecall.coding_agents.install import with_json
from vecall.coding_agents.transcript import read_turns
from vecall.lexical.statements import statement_key
from vecall.operations.consolidation import _words_and_signs
from vecall.prompts.render import remove_recalled, render
from vecall.server import create_app
from vecall.summaries.providers import read_summaries_of_answer, turns_of_session
from vecall.text import neutralise_for_adk, safe_label
from vecall.tools.for_models import RecallMemory
from vecall.tools.preload import PreloadMemory

from helpers.coding_agents import claude_line, codex_line, cursor_line
from helpers.http import ALICE as PATH
from helpers.http import Door, known

Doors = dict[str, Callable[[str], Any]]
OWNER = {"app_name": "hotel", "user_id": "alice"}
M = 1_000_000
LIMITS = Limits(
    max_text_bytes=M,
    max_metadata_bytes=M,
    max_name_bytes=M,
    max_query_chars=M,
    max_item_name_bytes=M,
)


@contextmanager
def open_doors(folder: Path) -> Iterator[Doors]:
    """Doors over services in memory."""
    memory = MemoryService(
        embedder=None, limits=LIMITS, storage=StorageOptions(maintenance_interval=None)
    )
    simple = InMemoryMemoryService()
    loop = asyncio.new_event_loop()
    bearer, tokens = known()
    http = Door(create_app(memory, tokens=tokens), bearer)
    try:
        doors = {
            **_service_doors(memory, simple),
            **_tool_doors(memory, loop),
            **_http_doors(http, loop),
            **_reading_doors(folder),
        }
        yield {name: _answered(door) for name, door in doors.items()}
    finally:
        loop.close()
        memory.sync.close()
        simple.sync.close()


def _answered(door: Callable[[str], Any]) -> Callable[[str], Any]:
    def call(text: str) -> Any:
        with suppress(VecallError):
            return door(text)

    return call


def _service_doors(memory: MemoryService, simple: InMemoryMemoryService) -> Doors:
    alice = memory.sync.user("hotel", "alice")
    alice.add([MemoryEntry("Zebra likes tea.", session_id="s", author="Nate")])
    simple.sync.add_memory(**OWNER, memories=["Zebra likes tea."])

    def add(text: str, **more: Any) -> None:
        """To a user of its own, so that searches stay what they are."""
        user = memory.sync.user("hotel", "writer")
        user.add([MemoryEntry(**{"content": text, **more})])
        user.delete_all(forget=True)

    def said(text: str) -> None:
        user = memory.sync.user("hotel", "speaker")
        user.add_events([Event(text, author="user")], session_id="s")
        user.add_events(messages=[{"role": "user", "content": text}], session_id="t")
        user.delete_all(forget=True)

    def recalled(text: str) -> None:
        user = memory.sync.user("hotel", "reader")
        user.add([f"zebra {text} zebra"])
        user.search("zebra okapi")
        user.delete_all(forget=True)

    def item(text: str) -> None:
        user = memory.sync.user("hotel", "keeper")
        user.items.write([Put(("a",), "k", {"text": text})])

    def item_named(text: str) -> None:
        user = memory.sync.user("hotel", "keeper")
        user.items.write([Put((text,), text, 1)])

    def imported(text: str) -> None:
        part = {"app": "hotel", "user": "porter", "created_at": 1.0}
        row = {"id": "1", "created_at": 1.0, "author": text, "text": text}
        lines = [
            {"vecall": "export", "format": 1, "model": None},
            {"part": part},
            {"mem": {**row, "updated_at": 1.0, "state": "live"}},
            {text: text},
        ]
        data = "".join(json.dumps(line) + "\n" for line in lines)
        try:
            memory.sync.admin.import_jsonl(io.BytesIO(data.encode()))
        finally:
            memory.sync.user("hotel", "porter").search("zebra")
            memory.sync.user("hotel", "porter").delete_all(forget=True)

    return {
        "search": alice.search,
        "search by metadata": lambda text: alice.search(
            "zebra", filter=Filter(metadata={"a": text})
        ),
        "list by names": lambda text: alice.list(
            filter=Filter(author=text, kind=text, session_id=text)
        ),
        "ids": lambda text: alice.get_many([text, text]),
        "propose_forget": alice.propose_forget,
        "add": add,
        "add events and messages": said,
        "add, author": lambda text: add("zebra", author=text, kind=text),
        "add, metadata": lambda text: add("zebra", custom_metadata={"a": text}),
        "add, key of metadata": lambda text: add("z", custom_metadata={text[:200]: 1}),
        "add, time": lambda text: add("zebra", timestamp=text, valid_until=text),
        "found in a search": recalled,
        "user name": lambda text: memory.sync.user("hotel", text).search("zebra"),
        "item": item,
        "item's names": item_named,
        "import": imported,
        "in-memory service": lambda text: simple.sync.search_memory(
            **OWNER, query=text
        ),
        "duplicates": lambda text: (_words_and_signs(text), statement_key(text)),
    }


def _tool_doors(memory: MemoryService, loop: asyncio.AbstractEventLoop) -> Doors:
    preload = PreloadMemory(memory, **OWNER, max_tokens=100)
    search = RecallMemory(memory, **OWNER, max_tokens=100)
    bob = memory.sync.user("hotel", "bob")
    bobs = RecallMemory(memory, "hotel", "bob", max_tokens=100)

    def shown(text: str) -> None:
        bob.add([f"zebra {text} zebra {text}"])
        loop.run_until_complete(bobs(query="zebra okapi"))
        bob.delete_all(forget=True)

    return {
        "preload": lambda text: loop.run_until_complete(preload.block(text)),
        "search tool": lambda text: loop.run_until_complete(search(query=text)),
        "snippets of a search tool": shown,
    }


def _http_doors(http: Door, loop: asyncio.AbstractEventLoop) -> Doors:
    def ask(method: str, path: str, **more: Any) -> None:
        loop.run_until_complete(http.ask_all([(method, PATH + path, more)]))

    def typed(data: bytes) -> dict[str, Any]:
        return {"content": data, "headers": {"content-type": "application/json"}}

    return {
        "HTTP search": lambda text: ask(
            "POST",
            "/memories/search",
            json={"query": text.encode(errors="replace").decode()},
        ),
        "HTTP body": lambda text: ask(
            "POST", "/memories/search", **typed(text.encode(errors="replace"))
        ),
        "HTTP query": lambda text: ask(
            "GET", "/memories", params={"limit": text[:2_000]}
        ),
    }


def _reading_doors(folder: Path) -> Doors:
    def transcript(text: str) -> None:
        path = folder / "transcript.jsonl"
        lines = [
            claude_line("u", "user", text),
            cursor_line("user", text),
            codex_line("event_msg", {"type": "user_message", "message": text}),
        ]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        read_turns(path)

    def rendered(text: str) -> None:
        entry = MemoryEntry(text, id="1", author=text, session_id=text[:80])
        for name in ("plain", "bullets", "past_conversations", "secure", "json"):
            render([entry], name)  # type: ignore[arg-type]

    def stripped(text: str) -> None:
        for before in ("", "<PAST_CONVERSATIONS>\n", '[\n{"id": "', "<recalled-"):
            remove_recalled(before + text)

    def printed(text: str) -> None:
        CleanStream(io.StringIO()).write(text)

    def summarized(text: str) -> None:
        read_summaries_of_answer(text)
        turns_of_session({"events": [{"content": text, "author": text}]})

    def settings(text: str) -> None:
        with_json(json.dumps({"a": text, "hooks": {}}), ["hooks", "b"], text)

    def moment(text: str) -> None:
        to_seconds(text, "timestamp")

    doors: Doors = {
        "google-adk's answer": neutralise_for_adk,
        "render": rendered,
        "strip": stripped,
        "label": safe_label,
        "terminal": printed,
        "transcript": transcript,
        "summary": summarized,
        "settings": settings,
        "time": moment,
    }
    try:
        from vecall.adk.artifacts import _strip_docx_tags, split_artifact_text
    except ImportError:
        return doors
    return {
        **doors,
        "artifact": lambda text: list(split_artifact_text(_strip_docx_tags(text))),
    }
