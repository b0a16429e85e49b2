"""`vecall erase`: removes all data of a user, and the user's name."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from vecall.cli.failures import naming
from vecall.cli.options import add_json, add_path, require_file, shown
from vecall.cli.streams import one_line
from vecall.cli.terminal import counted, print_json
from vecall.errors import ConfigError, NotFoundError
from vecall.operations.options import WritePolicy
from vecall.scopes import SHARED_APP, Scopes
from vecall.service.memory_service import MemoryService
from vecall.store import forget_hidden, name_traces, names_of
from vecall.validation import is_database_url

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


def add_commands(commands: Any) -> None:
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
    erase.add_argument("--yes", action="store_true", help="do not ask")
    add_path(erase)
    add_json(erase)
    erase.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Erase the user; return 1 if another user or app still has the name."""
    is_database = is_database_url(options.path)
    require_file(options.path)
    path, user = shown(options.path), options.user
    place = options.path if is_database else Path(options.path)
    with naming(path):
        found, hidden, parts = names_of(place, user, options.app)
    apps = [app for app in found if options.app in (None, app)]
    if not (apps or hidden):
        msg = f"user: the {'database' if is_database else 'file'} has no such user"
        raise NotFoundError(msg)
    where = [SHARED if app == SHARED_APP else app for app in apps]
    where += [HIDDEN] * len(hidden)
    _confirm(options, where)
    if hidden:
        with naming(path):
            forget_hidden(place, hidden)
    writes = WritePolicy(scopes=Scopes(read=("shared",), write=("shared",)))
    with (
        naming(path),
        MemoryService(options.path, embedder="none", writes=writes) as memory,
    ):
        erased = sum(_erase(memory, app, user) for app in apps)
        memory.sync.admin.purge()
    with naming(path):
        places = name_traces(place, user, parts)
    _report(options, where, erased, places)
    return int(bool(places) and len(apps) == len(found))


def _erase(memory: MemoryService, app: str, user: str) -> int:
    if app != SHARED_APP:
        return memory.sync.delete_user(app_name=app, user_id=user, forget=True)
    # The shared scope belongs to the user; any app name selects it.
    return memory.sync.delete_user(
        app_name="any", user_id=user, forget=True, scope="shared"
    )


def _confirm(options: argparse.Namespace, apps: list[str]) -> None:
    if options.yes:
        return
    if not sys.stdin.isatty():
        msg = "--yes: is required when standard input is not a terminal"
        raise ConfigError(msg)
    where = ", ".join(one_line(app) for app in apps)
    print(f"Erase {one_line(options.user)} in {where}? This cannot be undone. [y/N] ")
    if input().strip().lower() not in ("y", "yes"):
        msg = "nothing was erased"
        raise ConfigError(msg)


def _report(
    options: argparse.Namespace,
    apps: list[str],
    erased: int,
    places: list[tuple[Path | str, str]],
) -> None:
    files = list(dict.fromkeys(one_line(file) for file, _ in places))
    told = [f"{one_line(file)}: {place}" for file, place in places]
    is_database = is_database_url(options.path)
    if options.json:
        facts = {"memories": erased, "apps": apps, "name_is_in": files, "places": told}
        print_json({**facts, "not_reached": NOT_REACHED} if is_database else facts)
        return
    memories = counted(erased, "memory", "memories")
    where = counted(sum(app != SHARED for app in apps), "app")
    if SHARED in apps:
        where += f" and {SHARED}"
    print(f"erased {memories} of {one_line(options.user)} in {where}")
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
