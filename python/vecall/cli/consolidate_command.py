"""`vecall consolidate`: merges duplicate memories and summarizes old ones."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
from collections.abc import Sequence
from typing import Any

from vecall.cli.options import add_file, add_json, opened, require_file
from vecall.cli.terminal import dim, print_json
from vecall.errors import ConfigError
from vecall.service.memory_service import MemoryService
from vecall.summaries import SummaryProvider
from vecall.types import DuplicateGroup


def add_commands(commands: Any) -> None:
    """Add the command."""
    command = commands.add_parser(
        "consolidate",
        help="merge a user's duplicates, sum up what is old",
        description="Merge memories that say the same, and with --similarity those "
        "that mean the same; with --older-than and --summarizer sum up what is old. "
        "Without --yes nothing is changed, and what would be merged is shown. What is "
        "merged or summed up is archived, and restore_memory brings it back.",
    )
    command.add_argument("--app", required=True, help="the app")
    command.add_argument("--user", required=True, help="the user")
    command.add_argument(
        "--similarity",
        type=float,
        metavar="COSINE",
        help="also merge facts whose vectors have at least this cosine, such as 0.95",
    )
    command.add_argument(
        "--older-than", metavar="TIME", help='sum up what is older, such as "30d"'
    )
    command.add_argument(
        "--fold",
        default="sessions",
        metavar="WHAT",
        help="what is summed up: comma-separated sessions, summaries, facts "
        "(%(default)s)",
    )
    command.add_argument(
        "--summarizer",
        metavar="MODULE:NAME",
        help="a function from a prompt to a text, or an object with get_summaries",
    )
    command.add_argument("--yes", action="store_true", help="do it")
    add_json(command)
    add_file(command)
    command.set_defaults(run=run_consolidate)


def run_consolidate(options: argparse.Namespace) -> int:
    """Consolidate, or show the planned changes."""
    require_file(options.path)
    summarizer = _summarizer(options.summarizer)
    only_shown = not options.yes
    with opened(options.path, options.embedder, read_only=only_shown) as memory:
        done = memory.sync.consolidate(
            app_name=options.app,
            user_id=options.user,
            older_than=options.older_than,
            summarizer=summarizer,
            similarity=options.similarity,
            fold=tuple(name.strip() for name in options.fold.split(",")),
            dry_run=only_shown,
        )
        if options.json:
            print_json(dataclasses.asdict(done))
            return 0
        if not options.yes:
            texts = _texts(memory, options.app, options.user, done.groups)
            for group in done.groups:
                how = "the same words"
                if group.similarity is not None:
                    how = f"cosine {group.similarity:.3f} or more"
                print(f"{_line(texts, group.kept)}  {dim(how)}")
                for id_ in group.merged:
                    print(f"  = {_line(texts, id_)}")
    verb = "" if options.yes else "would be "
    made = f" into {len(done.summaries)} summaries" if options.yes else ""
    print(f"{done.merged} {verb}merged, {done.folded} {verb}summed up{made}")
    if not options.yes:
        print("nothing was changed; --yes does it")
    return 0


def _texts(
    memory: MemoryService, app: str, user: str, groups: Sequence[DuplicateGroup]
) -> dict[str, str]:
    """The texts of the groups' memories by their ids."""
    ids = [id_ for group in groups for id_ in (group.kept, *group.merged)]
    entries = memory.sync.get_memories(app_name=app, user_id=user, memory_ids=ids)
    return {
        id_: entry.text
        for id_, entry in zip(ids, entries, strict=True)
        if entry is not None
    }


def _line(texts: dict[str, str], id_: str) -> str:
    text = " ".join(texts.get(id_, "").split())
    shown = "".join(char for char in text if char.isprintable())
    return shown if len(shown) <= 80 else f"{shown[:79]}…"


def _summarizer(name: str | None) -> SummaryProvider | None:
    """Import the summarizer that --summarizer names; None without the option.

    Raises:
        ConfigError: The name cannot be imported, or is not a summarizer.
    """
    if name is None:
        return None
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        msg = "--summarizer: expected MODULE:NAME"
        raise ConfigError(msg)
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        msg = f"--summarizer: {type(error).__name__}: {error}"
        raise ConfigError(msg) from None
    if isinstance(found, SummaryProvider):
        return found
    if not callable(found):
        msg = "--summarizer: expected a function, or an object with get_summaries"
        raise ConfigError(msg)
    from vecall.summaries import LlmSummaryProvider

    return LlmSummaryProvider(found)
