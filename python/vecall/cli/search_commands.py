"""`vecall search` and `vecall stats`."""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from pathlib import Path
from typing import Any

from vecall.cli.console import counted, dim, naming, one_line, print_json, show_memory
from vecall.cli.options import add_file, add_json, add_path, opened, require_file
from vecall.embedders import why_words_only
from vecall.errors import InvalidArgumentError
from vecall.filters.rights import TRUST_TIERS
from vecall.store import file_facts
from vecall.types import Filter
from vecall.validation import is_database_url


def add_commands(commands: Any) -> None:
    """Add both commands."""
    search = commands.add_parser("search", help="ask one user's memory")
    search.add_argument("query")
    search.add_argument("--app", required=True, help="app_name")
    search.add_argument("--user", required=True, help="user_id")
    search.add_argument("--top-k", type=int, default=5, help="at most (%(default)s)")
    search.add_argument(
        "--min-similarity", type=float, help="floor on the cosine, -1 to 1"
    )
    search.add_argument(
        "--min-confidence", type=float, help="floor on the confidence, 0 to 1"
    )
    search.add_argument(
        "--explain", action="store_true", help="say what each score is made of"
    )
    search.add_argument("--session", help="only this session")
    for name, what in (
        ("author", "only by this author"),
        ("kind", "only of this kind"),
        ("not-kind", "none of this kind"),
        ("trust", "only with this trust"),
        ("source", "only with this source"),
        ("session-prefix", "only of sessions whose id begins so"),
        ("kind-prefix", "only of kinds that begin so"),
    ):
        shown = f"{what}; given again, one more"
        search.add_argument(f"--{name}", action="append", help=shown)
    search.add_argument(
        "--min-trust", choices=TRUST_TIERS, help="only of this tier of trust or higher"
    )
    search.add_argument(
        "--metadata",
        help="only with these custom_metadata, as JSON: "
        '\'{"project": "atlas", "year": {"$gte": 2025}}\'',
        metavar="JSON",
    )
    search.add_argument("--after", help="only from this time on, ISO 8601 with offset")
    search.add_argument("--before", help="only before this time")
    add_file(search)
    add_json(search)
    search.set_defaults(run=run_search)

    stats = commands.add_parser("stats", help="what a file holds")
    add_path(stats)
    add_json(stats)
    stats.set_defaults(run=run_stats)


def run_search(options: argparse.Namespace) -> int:
    """Search and print the memories."""
    require_file(options.path)
    search_filter = Filter(
        session_id=options.session,
        after=options.after,
        before=options.before,
        author=options.author,
        kind=options.kind,
        not_kind=options.not_kind,
        trust=options.trust,
        min_trust=options.min_trust,
        source=options.source,
        session_prefix=options.session_prefix,
        kind_prefix=options.kind_prefix,
        metadata=_parse_metadata(options.metadata),
    )
    with opened(options.path, options.embedder, read_only=True) as memory:
        times = []
        for _ in range(2):  # the first search loads the user and embeds the query
            begin = time.perf_counter()
            found = memory.sync.search_memory(
                app_name=options.app,
                user_id=options.user,
                query=options.query,
                top_k=options.top_k,
                min_similarity=options.min_similarity,
                min_confidence=options.min_confidence,
                filter=search_filter,
                explain=options.explain,
            )
            times.append(1000 * (time.perf_counter() - begin))
    if options.json:
        memories = [dataclasses.asdict(entry) for entry in found.memories]
        print_json({"memories": memories, "cold_ms": times[0], "ms": times[1]})
        return 0
    for rank, entry in enumerate(found.memories, 1):
        print(show_memory(rank, entry))
    count = len(found.memories)
    cold, warm = times
    shown = counted(count, "memory", "memories") if count else "no memories"
    print(dim(f"{shown} in {warm:.2f} ms (cold {cold:.0f} ms)"))
    return 0


def _parse_metadata(typed: str | None) -> dict[str, Any] | None:
    if typed is None:
        return None
    try:
        found = json.loads(typed)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        msg = "--metadata: expected a JSON object"
        raise InvalidArgumentError(msg)
    return found


def run_stats(options: argparse.Namespace) -> int:
    """Print the statistics; do not migrate a file of an older schema."""
    require_file(options.path)
    if is_database_url(options.path):
        facts = _database_facts(options.path)
    else:
        with naming(options.path):
            facts = file_facts(Path(options.path))
    facts["words_only"] = _words_only(facts)
    if options.json:
        print_json(facts)
        return 0
    for name, value in facts.items():
        shown = f"{value:,}" if isinstance(value, int) else one_line(value or "none")
        print(f"{name.replace('_', ' '):14} {shown}")
    return 0


def _words_only(facts: dict[str, Any]) -> str | None:
    """Return why searches use words alone; None if all memories have vectors.

    A file of another model is searched by vectors too, by programs with its embedder.
    """
    if facts.get("embedded", 0) >= facts.get("memories", 0):
        return None
    why = why_words_only(facts["model"])
    if why is None and facts["model"] is None:
        why = "no service with an embedder has opened it"
    return why


def _database_facts(url: str) -> dict[str, Any]:
    """Return the statistics of a database, without those of this process."""
    with opened(url, "none") as memory:
        facts = memory.sync.admin.stats()
    own = (
        "loaded_users",
        "loaded_bytes",
        "loaded_item_bytes",
        "cached_text_bytes",
        "operations",
    )
    return {name: value for name, value in facts.items() if name not in own}
