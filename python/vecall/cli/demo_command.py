"""`vecall demo`: ingest, kill the process, reopen the file, and search.

The first half runs in a subprocess. The demo kills it as soon as it has reported its
last acknowledged write. The second half opens the file that it wrote.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from vecall.cli import console as ui
from vecall.cli import options as cli
from vecall.demo import load_conversations
from vecall.embedders import has_local
from vecall.embedders.resolve import AUTO
from vecall.errors import ConfigError, StorageError
from vecall.limits import Limits
from vecall.service.memory_service import MemoryService
from vecall.types import MemoryEntry
from vecall.validation import check_top_k

# Users and their questions.
_QUESTIONS = (
    ("alice", "What kind of room do I prefer?"),
    ("bob", "What bird did I like?"),
    ("mei", "May I use git push --force?"),
    ("jonas", "What am I allergic to?"),
    ("jonas", "Wann heiratet meine Schwester?"),
)
_INTRUDER = "jonas"
_SECRET = "What kind of room do I prefer?"


command = cli.Commands()


@command("""demo: show recall on the conversations that ship with vecall
    Stores the conversations of four people in a file, kills the process, opens the file
    again, and searches it.

    --path PATH file  keep the file here (default: a temporary one)
    --top-k TOP_K int = 3  (%(default)s)
    --interactive  ask your own questions at the end
    --write-then-hang
    @embedder @json""")
def run(options: argparse.Namespace) -> int:
    """Run both halves."""
    if options.embedder == AUTO:
        options.embedder = "local" if has_local() else "none"
    if options.write_then_hang:
        return _write_then_hang(options)
    check_top_k(options.top_k, Limits())
    if options.path is not None:
        cli.refuse_database(options.path, "the demo creates a new file")
        if Path(options.path).exists():
            msg = f"{options.path}: exists already; the demo creates a new file"
            raise ConfigError(msg)
        return _both_halves(options, options.path)
    with tempfile.TemporaryDirectory(prefix="vecall-demo-") as folder:
        return _both_halves(options, str(Path(folder) / "memory.db"))


def _write_then_hang(options: argparse.Namespace) -> int:
    """Store everything, report it on one line, and wait to be killed."""
    data = load_conversations()
    begin = time.perf_counter()
    with cli.opened(options.path, options.embedder) as memory:
        turns = 0
        total = sum(len(session["events"]) for session in data["sessions"])
        progress = ui.Progress("storing", total)
        for session in data["sessions"]:
            turns += len(memory.sync.add_session_to_memory(session).stored)
            progress.add(len(session["events"]))
        progress.finish()
        seconds = time.perf_counter() - begin
        report = {"sessions": len(data["sessions"]), "turns": turns, "seconds": seconds}
        print(json.dumps(report), flush=True)
        sys.stdin.read()
    return 0


def _both_halves(options: argparse.Namespace, path: str) -> int:
    data = load_conversations()
    users = sorted({session["user_id"] for session in data["sessions"]})
    words = options.embedder == "none"
    mode = "words alone" if words else f"words + {options.embedder}"
    say = (lambda *_: None) if options.json else print
    say(ui.bold("1. Four people talk to their assistants, for more than a year"))
    written = _write_and_kill(options, path)
    say(
        f"   {written['turns']} turns of {written['sessions']} sessions "
        f"({', '.join(users)}) stored in {written['seconds']:.2f} s, by {mode}."
    )
    say(f"   {path}")
    say(ui.bold("2. kill -9") + ui.dim(f"   process {written['pid']} is gone"))
    with cli.opened(path, options.embedder) as memory:
        stored = memory.sync.admin.stats()["memories"]
        opens = ui.bold("3. A new process opens the file")
        say(f"{opens}   {stored} memories are there\n")
        app = data["app_name"]
        answers = [_ask(memory, app, *each, options) for each in _QUESTIONS]
        isolation = _show_isolation(memory, app, options)
        if options.json:
            report = {"written": written, "stored": stored, "answers": answers}
            ui.print_json({**report, "isolation": isolation})
        elif options.interactive:
            _ask_typed_questions(memory, app, users, options)
        else:
            say(ui.dim("\nYour own questions: vecall demo --interactive"))
    return 0 if stored == written["turns"] and not isolation["leaked"] else 1


def _write_and_kill(options: argparse.Namespace, path: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "vecall.cli.main", "demo", "--write-then-hang"]
    command += ["--path", path, "--embedder", options.embedder]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.kill()  # SIGKILL
        process.communicate()
    if not line:
        raise StorageError("the demo's first half failed; see its message above")
    written: dict[str, Any] = json.loads(line)
    return {**written, "pid": process.pid}


def _search(
    memory: MemoryService, app: str, user: str, question: str, top_k: int
) -> tuple[list[MemoryEntry], float]:
    """Search twice and time the second: the first loads the user and the model."""
    for _ in range(2):
        begin = time.perf_counter()
        found = memory.sync.search_memory(
            app_name=app, user_id=user, query=question, top_k=top_k
        )
        seconds = time.perf_counter() - begin
    return found.memories, seconds


def _ask(
    memory: MemoryService,
    app: str,
    user: str,
    question: str,
    options: argparse.Namespace,
) -> dict[str, Any]:
    memories, seconds = _search(memory, app, user, question, options.top_k)
    if not options.json:
        print(f"{ui.bold(user)} asks: {question}  {ui.dim(f'{1e6 * seconds:.0f} us')}")
        for rank, entry in enumerate(memories, 1):
            print(ui.show_memory(entry, rank))
        if not memories:
            print("     no memory found")
        print()
    return {
        "user": user,
        "question": question,
        "us": 1e6 * seconds,
        "memories": [
            {"event": entry.event_id, "author": entry.author, "text": entry.text}
            for entry in memories
        ],
    }


def _show_isolation(
    memory: MemoryService, app: str, options: argparse.Namespace
) -> dict[str, Any]:
    """Search for one user's memories as another user, and count leaked memories."""
    owner = _QUESTIONS[0][0]
    theirs, _ = _search(memory, app, owner, _SECRET, 1_000)
    found, _ = _search(memory, app, _INTRUDER, _SECRET, 1_000)
    leaked = {entry.id for entry in theirs} & {entry.id for entry in found}
    if not options.json:
        print(ui.bold("4. Users are isolated"))
        print(
            f"   {_INTRUDER} asks {owner}'s question: {len(found)} memories, all of "
            f"{_INTRUDER}'s own; of {owner}'s {len(theirs)}: {len(leaked)}."
        )
    return {"asked_by": _INTRUDER, "owner": owner, "leaked": len(leaked)}


def _ask_typed_questions(
    memory: MemoryService, app: str, users: list[str], options: argparse.Namespace
) -> None:
    user = users[0]
    print(
        f"\nAsk as {user}. Another name ({', '.join(users)}) changes who asks; an empty"
    )
    print("line ends.")
    for line in ui.typed_lines("query> "):
        if line in users:
            user = line
        else:
            _ask(memory, app, user, line, options)
