"""Commands about one user: `vecall consolidate` and `vecall erase`."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Awaitable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from vecall.cli import console as ui
from vecall.cli import options as cli
from vecall.errors import ConfigError, NotFoundError
from vecall.limits import SHARED_APP, Scopes
from vecall.operations.options import WritePolicy
from vecall.service.memory_service import MemoryService
from vecall.store import forget_hidden, name_traces, names_of
from vecall.summaries import SessionSummary, SummaryProvider
from vecall.types import MemoryEntry
from vecall.validation import is_database_url

# `vecall consolidate`: merges duplicate memories and summarizes old ones.


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
    cli.add_owner(command)
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
    cli.flag(command, "--yes", "do it")
    cli.add_json(command)
    cli.add_file(command)
    command.set_defaults(run=run_consolidate)
    add_erase_command(commands)


def run_consolidate(options: argparse.Namespace) -> int:
    """Consolidate, or show the planned changes."""
    cli.require_file(options.path)
    summarizer = _import_summarizer(options.summarizer)
    only_shown = not options.yes
    told = ui.Progress("consolidating", after="what was merged stays merged")
    with cli.opened(options.path, options.embedder, read_only=only_shown) as memory:
        app = cli.app_of(memory, options.app)
        user = cli.user_of(memory, app, options.user)
        consolidate = partial(
            memory.sync.consolidate,
            app_name=app,
            user_id=user,
            older_than=options.older_than,
            similarity=options.similarity,
            fold=tuple(name.strip() for name in options.fold.split(",")),
        )
        with told.watching():
            done = consolidate(dry_run=only_shown or summarizer is not None)
        if options.yes and summarizer is not None:
            counting = _Counting(summarizer)
            with told.watching(lambda: counting.turns, done.folded):
                done = consolidate(summarizer=counting, dry_run=False)
        if options.json:
            ui.print_json(dataclasses.asdict(done))
            return 0
        if not options.yes:
            owner = memory.sync.user(app, user)
            for group in done.groups:
                how = "the same words"
                if group.similarity is not None:
                    how = f"cosine {group.similarity:.3f} or more"
                kept, *merged = owner.get_many([group.kept, *group.merged])
                print(f"{_line(kept)}  {ui.dim(how)}")
                for each in merged:
                    print(f"  = {_line(each)}")
    verb = "" if options.yes else "would be "
    made = f" into {len(done.summaries)} summaries" if options.yes else ""
    print(f"{done.merged} {verb}merged, {done.folded} {verb}summed up{made}")
    if not options.yes:
        print("nothing was changed; --yes does it")
    return 0


class _Counting:
    """A summarizer that counts the memories it was given."""

    def __init__(self, provider: SummaryProvider) -> None:
        self._provider = provider
        self.turns = 0

    def get_summaries(
        self, session: Any
    ) -> Sequence[SessionSummary] | Awaitable[Sequence[SessionSummary]]:
        self.turns += len(session["events"])
        return self._provider.get_summaries(session)


def _line(memory: MemoryEntry | None) -> str:
    text = "" if memory is None else ui.one_line(memory.text)
    return text if len(text) <= 80 else f"{text[:79]}…"


def _import_summarizer(name: str | None) -> SummaryProvider | None:
    """Import what --summarizer names, or raise ConfigError."""
    if name is None:
        return None
    expected = "MODULE:NAME of a function, or of an object with get_summaries,"
    found = cli.imported(name, "summarizer", expected)
    if isinstance(found, SummaryProvider):
        return found
    if not callable(found):
        msg = f"summarizer: expected {expected[:-1]}"
        raise ConfigError(msg)
    from vecall.summaries import LlmSummaryProvider

    return LlmSummaryProvider(found)


# `vecall erase`: removes all data of a user, and the user's name.


HIDDEN = "an app that a purge has hidden"
"""The label of an app that holds only tombstones of the user."""

SHARED = "the shared scope"
"""The label of the user's memories that all apps share."""

NOT_REACHED = (
    "deleted rows in the files of the server, until VACUUM has removed them and others "
    "have overwritten them; VACUUM FULL rewrites the files",
    "statistics of the planner, until ANALYZE; logs of the server",
    "the write-ahead log and its archive, until they are recycled",
    "replicas, until they have applied the deletion",
    "backups, dumps and exports: delete them yourself",
    "the memory of running servers, until their next call for the user, or their end",
    "tables outside of the schema, or that vecall_keeper may not read",
)
"""Where a database may still have the user's data, and no program of vecall sees it."""


def add_erase_command(commands: Any) -> None:
    """Add the command."""
    erase = commands.add_parser(
        "erase",
        help="erase a person: memories, tombstones and the name",
        description="Delete all memories of a user in every app, and the name, and "
        "rewrite the file so that no trace is left; in a database, delete the rows and "
        "VACUUM. Then search for the name, and return 1 if it remains somewhere. "
        "Backups and exports are not changed: delete them yourself. If an old session "
        "of the user is ingested later, it is stored again, because its tombstones are "
        "gone too.",
    )
    erase.add_argument("--user", required=True, help="user_id")
    erase.add_argument("--app", help="only in this app")
    cli.flag(erase, "--yes", "do not ask")
    cli.add_path(erase)
    cli.add_json(erase)
    erase.set_defaults(run=run_erase)


def run_erase(options: argparse.Namespace) -> int:
    """Erase the user; return 1 if another user or app still has the name."""
    is_database = is_database_url(options.path)
    cli.require_file(options.path)
    path, user = cli.shown_path(options.path), options.user
    place = options.path if is_database else Path(options.path)
    with ui.naming(path):
        found, hidden, parts = names_of(place, user, options.app)
    apps = [app for app in found if options.app in (None, app)]
    if not (apps or hidden):
        msg = f"user: the {'database' if is_database else 'file'} has no such user"
        raise NotFoundError(msg)
    where = [SHARED if app == SHARED_APP else app for app in apps]
    where += [HIDDEN] * len(hidden)
    _confirm_erase(options, where)
    if hidden:
        with ui.naming(path):
            forget_hidden(place, hidden)
    writes = WritePolicy(scopes=Scopes(read=("shared",), write=("shared",)))
    with (
        ui.naming(path),
        MemoryService(options.path, embedder="none", writes=writes) as memory,
    ):
        erased = sum(_erase_user_in_app(memory, app, user) for app in apps)
        memory.sync.admin.purge()
    with ui.naming(path):
        places = name_traces(place, user, parts)
    _print_erase_report(options, where, erased, places)
    return int(bool(places) and len(apps) == len(found))


def _erase_user_in_app(memory: MemoryService, app: str, user: str) -> int:
    if app != SHARED_APP:
        return memory.sync.delete_user(app_name=app, user_id=user, forget=True)
    # The shared scope belongs to the user; any app name selects it.
    return memory.sync.delete_user(
        app_name="any", user_id=user, forget=True, scope="shared"
    )


def _confirm_erase(options: argparse.Namespace, apps: list[str]) -> None:
    where = ", ".join(ui.one_line(app) for app in apps)
    question = f"Erase {ui.one_line(options.user)} in {where}? This cannot be undone."
    if not ui.confirmed(options, question):
        msg = "nothing was erased"
        raise ConfigError(msg)


def _print_erase_report(
    options: argparse.Namespace,
    apps: list[str],
    erased: int,
    places: list[tuple[Path | str, str]],
) -> None:
    files = list(dict.fromkeys(ui.one_line(file) for file, _ in places))
    told = [f"{ui.one_line(file)}: {place}" for file, place in places]
    is_database = is_database_url(options.path)
    if options.json:
        facts = {"memories": erased, "apps": apps, "name_is_in": files, "places": told}
        ui.print_json({**facts, "not_reached": NOT_REACHED} if is_database else facts)
        return
    memories = ui.counted(erased, "memory", "memories")
    where = ui.counted(sum(app != SHARED for app in apps), "app")
    if SHARED in apps:
        where += f" and {SHARED}"
    print(f"erased {memories} of {ui.one_line(options.user)} in {where}")
    if places:
        print(
            "the name is still in another app, or in a name or a text of another "
            "user, or rows of the user remain:\n"
            + "\n".join(f"  {each}" for each in told)
        )
    elif is_database:
        print("no row of the database has the name any more")
    else:
        print("the file no longer has the name")
    if is_database:
        print("what this command cannot reach:")
        print("\n".join(f"  {each}" for each in NOT_REACHED))
