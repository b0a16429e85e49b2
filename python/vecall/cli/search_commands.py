"""`vecall search`, `why`, `stats`, and `vecall` alone."""

from __future__ import annotations

import argparse
import dataclasses
import time
from pathlib import Path
from typing import Any

from vecall import __version__
from vecall.cli import console as ui
from vecall.cli import options as cli
from vecall.coding_agents.options import default_path
from vecall.embedders import why_words_only
from vecall.errors import ConfigError
from vecall.store import file_facts
from vecall.types import Filter, MemoryEntry
from vecall.validation import is_database_url

command = cli.Commands()


def _search_arguments(options: argparse.Namespace) -> dict[str, Any]:
    names = (
        *("after", "before", "author", "kind", "not_kind", "trust", "min_trust"),
        *("source", "session_prefix", "kind_prefix"),
    )
    given = {name: getattr(options, name) for name in names}
    metadata = cli.parsed_metadata(options.metadata)
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
def run_search(options: argparse.Namespace) -> int:
    """Search and print the memories."""
    if (options.query is None) != options.interactive:
        raise ConfigError("query: give one, or --interactive")
    arguments = {**_search_arguments(options), "explain": options.explain}
    with cli.opened_user(options, writes=False) as user:
        queries = ui.typed_lines("query> ") if options.interactive else [options.query]
        for query in queries:
            times = []
            for _ in range(2):  # the first loads the user and embeds the query
                begin = time.perf_counter()
                found = user.search(query, **arguments)
                times.append(1000 * (time.perf_counter() - begin))
            _print_found(options, found.memories, times)
    return 0


def _print_found(
    options: argparse.Namespace, memories: list[MemoryEntry], times: list[float]
) -> None:
    cold, warm = times
    if options.json:
        entries = [dataclasses.asdict(entry) for entry in memories]
        ui.print_json({"memories": entries, "cold_ms": cold, "ms": warm})
    elif options.csv:
        ui.print_listing(options, memories=memories)
    else:
        for rank, entry in enumerate(memories, 1):
            print(ui.show_memory(entry, rank))
        count = len(memories)
        shown = ui.counted(count, "memory", "memories") if count else "no memories"
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
def run_why(options: argparse.Namespace) -> int:
    """Explain what a search does with one memory."""
    with cli.opened_user(options, writes=False) as user:
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
    print(ui.bold(ui.wrapped(outcome)))
    if any(facts):
        print(ui.wrapped(", ".join(filter(None, facts))))
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
    facts = _facts(path) if is_there else {}
    print(ui.bold(f"vecall {__version__}") + f"  {ui.one_line(cli.shown_path(path))}")
    if not facts.get("memories"):
        print(f"no memories yet\n{_BEGIN}")
        return 0
    users = ui.counted(facts["users"], "user")
    memories = ui.counted(facts["memories"], "memory", "memories")
    size = facts.get("file_bytes", 0) + facts.get("wal_bytes", 0)
    means = "words" if facts["words_only"] else f"words and {facts['model']}"
    by = f"{size / 1e6:,.1f} MB, " * bool(size) + f"searched by {means}"
    print(ui.wrapped(f"{memories} of {users}, {by}"))
    print(_GO_ON)
    return 0


def _facts(path: str) -> dict[str, Any]:
    """Return the statistics; do not migrate a file of an older schema."""
    if is_database_url(path):
        facts = _database_facts(path)
    else:
        with ui.naming(path):
            facts = file_facts(Path(path))
    return {**facts, "words_only": _words_only(facts)}


@command("stats: what a file holds\n\n@path @json")
def run_stats(options: argparse.Namespace) -> int:
    """Print the statistics."""
    cli.require_file(options.path)
    facts = _facts(options.path)
    if options.json:
        ui.print_json(facts)
        return 0
    for name, value in facts.items():
        shown = f"{value:,}" if isinstance(value, int) else ui.one_line(value or "none")
        print(f"{name.replace('_', ' '):14} {shown}")
    return 0


def _words_only(facts: dict[str, Any]) -> str | None:
    """Return why searches use words alone; None if all memories have vectors."""
    if facts.get("embedded", 0) >= facts.get("memories", 0):
        return None
    why = why_words_only(facts["model"])
    if why is None and facts["model"] is None:
        why = "no service with an embedder has opened it"
    return why


def _database_facts(url: str) -> dict[str, Any]:
    """Return the statistics of a database, without those of this process."""
    with cli.opened(url, "none") as memory:
        facts = memory.sync.admin.stats()
    own = (
        "loaded_users",
        "loaded_bytes",
        "loaded_item_bytes",
        "cached_text_bytes",
        "operations",
    )
    return {name: value for name, value in facts.items() if name not in own}
