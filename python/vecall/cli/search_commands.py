"""`vecall search`, `why`, `stats`, `demo`, and `vecall` alone."""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from vecall import __version__
from vecall.cli import console as ui
from vecall.cli import options as cli
from vecall.coding_agents.options import default_path
from vecall.demo import load_conversations
from vecall.embedders import has_local, why_words_only
from vecall.embedders.resolve import AUTO
from vecall.errors import ConfigError, StorageError
from vecall.limits import Limits
from vecall.service._user_sync import SyncUserMemory
from vecall.store import file_counts
from vecall.types import Filter, MemoryEntry
from vecall.validation import check_top_k, is_database_url

command = cli.Commands()


def _search_arguments(options: argparse.Namespace) -> dict[str, Any]:
    names = (
        *("after", "before", "author", "kind", "not_kind", "trust", "min_trust"),
        *("source", "session_prefix", "kind_prefix"),
    )
    given = {name: getattr(options, name) for name in names}
    metadata = cli.parse_metadata(options.metadata)
    return {
        "top_k": options.top_k,
        "min_similarity": options.min_similarity,
        "min_confidence": options.min_confidence,
        "filter": Filter(session_id=options.session, metadata=metadata, **given),
    }


@command("""search, ask: ask one user's memory, and show ids

    query ?  required without --interactive
    --interactive  ask for queries, line by line
    --explain  say what each score is made of
    @listing @owner @search @path @embedder""")
def _run_search(options: argparse.Namespace) -> int:
    if (options.query is None) != options.interactive:
        raise ConfigError("query: give one, or --interactive")
    arguments = {**_search_arguments(options), "explain": options.explain}
    with cli.open_user(options, writes=False) as user:
        queries = ui.typed_lines("query> ") if options.interactive else [options.query]
        for query in queries:
            memories, *times = _search_twice(user, query, **arguments)
            _print_found(options, memories, *(1000 * seconds for seconds in times))
    return 0


def _search_twice(
    user: SyncUserMemory, query: str, **arguments: Any
) -> tuple[list[MemoryEntry], float, float]:
    """Return what is found, and the seconds of a first and of a second search."""
    # The first one loads the user and embeds the query.
    begin = time.perf_counter()
    user.search(query, **arguments)
    middle = time.perf_counter()
    found = user.search(query, **arguments)
    return found.memories, middle - begin, time.perf_counter() - middle


def _print_found(
    options: argparse.Namespace, memories: list[MemoryEntry], cold: float, warm: float
) -> None:
    if options.json:
        entries = [dataclasses.asdict(entry) for entry in memories]
        ui.print_json({"memories": entries, "cold_ms": cold, "ms": warm})
    elif options.csv:
        ui.print_listing(options, memories=memories)
    else:
        for rank, entry in enumerate(memories, 1):
            print(ui.show_memory(entry, rank))
        count = len(memories)
        shown = ui.counted(count, "memory") if count else "no memories"
        print(ui.dim(f"{shown} in {warm:.2f} ms (cold {cold:.0f} ms)"))


_OUTCOMES = {
    "found": "found",
    "outranked": "not found: other memories rank higher; try a larger --top-k",
    "below_min_confidence": "not found: below --min-confidence",
    "below_min_similarity": "not found: below --min-similarity",
    "no_candidate": "not found: it has nothing in common with the query, or too little",
    "filtered": "not found: excluded by the conditions on",
    "expired": "not found: its time is over",
    "archived": "not found: it is archived, and vecall restore brings it back",
    "quarantined": "not found: it is held, and vecall restore --held releases it",
}


@command("""why: say why a search finds a memory, or does not
    Say for a query and a memory at which step the search loses it, and by what margin.
    The options are those of the search.

    query
    id ID  as vecall search and vecall ls show it
    --held  one held for review
    @json @owner @search @path @embedder""")
def _run_why(options: argparse.Namespace) -> int:
    with cli.open_user(options, writes=False) as user:
        told = user.explain(options.query, options.id, **_search_arguments(options))
    if options.json:
        ui.print_json(dataclasses.asdict(told))
        return 0
    outcome = " ".join([_OUTCOMES[told.outcome], ", ".join(told.failed)])
    facts = [told.why, told.by and f"by {told.by}"]
    if told.rank is not None:
        facts = [f"rank {told.rank:,} of {ui.counted(told.candidates, 'candidate')}"]
    if told.margin is not None:
        facts.append(f"margin {told.margin:+.3g}")
    print(ui.bold(ui.wrap_for_terminal(outcome)))
    if any(facts):
        print(ui.wrap_for_terminal(", ".join(filter(None, facts))))
    print(ui.show_memory(told.memory))
    if told.last is not None and told.last.id != told.memory.id:
        print(f"in the last place of the result:\n{ui.show_memory(told.last)}")
    return 0


_BEGIN = """\
how to begin:
  vecall demo                             see what it does
  vecall add "I prefer a quiet room"      remember something
  vecall import FILE --app A --user U     bring what you have
  vecall install claude-code              give a coding agent a memory"""
_GO_ON = """\
what to do next:
  vecall ls                               the apps; then their users, and so on
  vecall search QUERY --user USER         ask, and see the ids
  vecall show ID, edit ID TEXT, rm ID     see, correct and archive a memory
  vecall --help                           all commands"""


def run_overview(options: argparse.Namespace) -> int:
    """Say what the default file holds and what to do next, or how to begin."""
    path = options.path = default_path()
    is_there = is_database_url(path) or Path(path).exists()
    facts = _storage_statistics(path) if is_there else {}
    print(ui.bold(f"vecall {__version__}") + f"  {ui.one_line(cli.shown_path(path))}")
    if not facts.get("memories"):
        print(f"no memories yet\n{_BEGIN}")
        return 0
    users = ui.counted(facts["users"], "user")
    memories = ui.counted(facts["memories"], "memory")
    size = facts.get("file_bytes", 0) + facts.get("wal_bytes", 0)
    means = "words" if facts["words_only"] else f"words and {facts['model']}"
    by = f"{size / 1e6:,.1f} MB, " * bool(size) + f"searched by {means}"
    print(ui.wrap_for_terminal(f"{memories} of {users}, {by}"))
    print(_GO_ON)
    return 0


def _storage_statistics(path: str) -> dict[str, Any]:
    """Return the statistics; do not migrate a file of an older schema."""
    if is_database_url(path):
        facts = _database_statistics(path)
    else:
        with ui.naming_path_in_errors(path):
            facts = file_counts(Path(path))
    return {**facts, "words_only": _words_only_reason(facts)}


@command("stats: what a file holds\n\n@path @json")
def _run_stats(options: argparse.Namespace) -> int:
    cli.require_existing_file(options.path)
    facts = _storage_statistics(options.path)
    if options.json:
        ui.print_json(facts)
        return 0
    for name, value in facts.items():
        shown = f"{value:,}" if isinstance(value, int) else ui.one_line(value or "none")
        print(f"{name.replace('_', ' '):14} {shown}")
    return 0


def _words_only_reason(facts: dict[str, Any]) -> str | None:
    """Return why searches use words alone; None if all memories have vectors."""
    if facts.get("embedded", 0) >= facts.get("memories", 0):
        return None
    why = why_words_only(facts["model"])
    if why is None and facts["model"] is None:
        why = "no service with an embedder has opened it"
    return why


def _database_statistics(url: str) -> dict[str, Any]:
    """Return the statistics of a database, without those of this process."""
    with cli.open_service(url, "none") as memory:
        facts = memory.sync.admin.stats()
    own = ("loaded_", "cached_", "operations")
    return {name: value for name, value in facts.items() if not name.startswith(own)}


# `vecall demo`: ingest, kill the process, reopen the file, and search.
#
# The first half runs in a subprocess. The demo kills it as soon as it has reported its
# last acknowledged write. The second half opens the file that it wrote.

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


@command("""demo: show recall on the conversations that ship with vecall
    Stores the conversations of four people in a file, kills the process, opens the file
    again, and searches it.

    --path PATH file  keep the file here (default: a temporary one)
    --top-k TOP_K int = 3  (%(default)s)
    --interactive  ask your own questions at the end
    --write-then-hang
    @embedder @json""")
def _run_demo(options: argparse.Namespace) -> int:
    if options.embedder == AUTO:
        options.embedder = "local" if has_local() else "none"
    if options.write_then_hang:
        return _run_demo_writer(options)
    check_top_k(options.top_k, Limits())
    if options.path is not None:
        cli.refuse_database_url(options.path, "the demo creates a new file")
        if Path(options.path).exists():
            msg = f"{options.path}: exists already; the demo creates a new file"
            raise ConfigError(msg)
        return _run_demo_halves(options, options.path)
    with tempfile.TemporaryDirectory(prefix="vecall-demo-") as folder:
        return _run_demo_halves(options, str(Path(folder) / "memory.db"))


def _run_demo_writer(options: argparse.Namespace) -> int:
    """Store everything, report it on one line, and wait to be killed."""
    data = load_conversations()
    begin = time.perf_counter()
    with cli.open_service(options.path, options.embedder) as memory:
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


def _run_demo_halves(options: argparse.Namespace, path: str) -> int:
    data = load_conversations()
    users = sorted({session["user_id"] for session in data["sessions"]})
    words = options.embedder == "none"
    mode = "words alone" if words else f"words + {options.embedder}"
    say = (lambda *_: None) if options.json else print
    say(ui.bold("1. Four people talk to their assistants, for more than a year"))
    written = _kill_demo_writer(options, path)
    say(
        f"   {written['turns']} turns of {written['sessions']} sessions "
        f"({', '.join(users)}) stored in {written['seconds']:.2f} s, by {mode}."
    )
    say(f"   {path}")
    say(ui.bold("2. kill -9") + ui.dim(f"   process {written['pid']} is gone"))
    with cli.open_service(path, options.embedder) as memory:
        stored = memory.sync.admin.stats()["memories"]
        opens = ui.bold("3. A new process opens the file")
        say(f"{opens}   {stored} memories are there\n")
        people = {name: memory.sync.user(data["app_name"], name) for name in users}
        asked = [(people[name], question) for name, question in _QUESTIONS]
        answers = [_print_demo_answer(*each, options) for each in asked]
        isolation = _show_demo_isolation(people, options)
        if options.json:
            report = {"written": written, "stored": stored, "answers": answers}
            ui.print_json({**report, "isolation": isolation})
        elif options.interactive:
            _answer_typed_questions(people, options)
        else:
            say(ui.dim("\nYour own questions: vecall demo --interactive"))
    return 0 if stored == written["turns"] and not isolation["leaked"] else 1


def _kill_demo_writer(options: argparse.Namespace, path: str) -> dict[str, Any]:
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


def _print_demo_answer(
    user: SyncUserMemory, question: str, options: argparse.Namespace
) -> dict[str, Any]:
    memories, _, seconds = _search_twice(user, question, top_k=options.top_k)
    if not options.json:
        took = ui.dim(f"{1e6 * seconds:.0f} us")
        print(f"{ui.bold(user.user_id)} asks: {question}  {took}")
        for rank, entry in enumerate(memories, 1):
            print(ui.show_memory(entry, rank))
        if not memories:
            print("     no memory found")
        print()
    return {
        "user": user.user_id,
        "question": question,
        "us": 1e6 * seconds,
        "memories": [
            {"event": entry.event_id, "author": entry.author, "text": entry.text}
            for entry in memories
        ],
    }


def _show_demo_isolation(
    people: dict[str, SyncUserMemory], options: argparse.Namespace
) -> dict[str, Any]:
    """Search for one user's memories as another user, and count leaked memories."""
    owner = _QUESTIONS[0][0]
    theirs, found = (
        _search_twice(people[name], _SECRET, top_k=1_000)[0]
        for name in (owner, _INTRUDER)
    )
    leaked = {entry.id for entry in theirs} & {entry.id for entry in found}
    if not options.json:
        print(ui.bold("4. Users are isolated"))
        print(
            f"   {_INTRUDER} asks {owner}'s question: {len(found)} memories, all of "
            f"{_INTRUDER}'s own; of {owner}'s {len(theirs)}: {len(leaked)}."
        )
    return {"asked_by": _INTRUDER, "owner": owner, "leaked": len(leaked)}


def _answer_typed_questions(
    people: dict[str, SyncUserMemory], options: argparse.Namespace
) -> None:
    name, names = next(iter(people)), ", ".join(people)
    print(f"\nAsk as {name}. Another name ({names}) changes who asks; an empty")
    print("line ends.")
    for line in ui.typed_lines("query> "):
        if line in people:
            name = line
        else:
            _print_demo_answer(people[name], line, options)
