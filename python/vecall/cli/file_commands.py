"""`vecall doctor`, `backup`, `export`, `reembed`, `purge`: maintain the file."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vecall.cli.embedders import add_embedder, chosen, with_progress
from vecall.cli.failures import naming
from vecall.cli.findings import print_findings
from vecall.cli.options import (
    FILE_OR_URL,
    add_json,
    add_path,
    expanded,
    refuse_database,
    require_file,
    shown,
)
from vecall.cli.streams import one_line
from vecall.cli.terminal import Progress, counted, print_json
from vecall.embedders.resolve import resolve
from vecall.errors import ConfigError
from vecall.index.examination import examine_storage
from vecall.service.memory_service import MemoryService
from vecall.store import (
    Salvage,
    recover,
    repair,
    reset_clock,
)
from vecall.validation import is_database_url


def add_commands(commands: Any) -> None:
    """Add the commands."""
    doctor = commands.add_parser(
        "doctor",
        help="check a file, and recover what is damaged",
        description="Check a file. Without an option nothing is changed; nothing is "
        "ever deleted. Returns 1 if something is damaged. With --agents, check instead "
        "whether google-adk's server will have this memory; no agent is run.",
    )
    doctor.add_argument(
        "--repair",
        action="store_true",
        help="set damaged memories aside, so that the others can be used",
    )
    doctor.add_argument(
        "--agents",
        metavar="DIR",
        type=_path,
        help="check a folder of google-adk's agents, and the file of the URI",
    )
    doctor.add_argument(
        "--memory_service_uri",
        "--memory-service-uri",
        metavar="URI",
        help="with --agents: the URI that `adk web` is given",
    )
    doctor.add_argument(
        "--reset-clock",
        action="store_true",
        help="go on from the wall clock's time where that was wrong before and is "
        "right now; every ttl keeps the seconds that are left of it. Stop whatever "
        "uses the file first",
    )
    doctor.add_argument(
        "--recover",
        metavar="NEW",
        type=_path,
        help="save what can be read of a file with damaged pages to a new file",
    )
    _add_path(doctor)
    doctor.set_defaults(run=run_doctor)

    backup = commands.add_parser(
        "backup",
        help="copy a file while it is in use",
        description="Copy a file while it is in use. A database is backed up by its "
        "own tools.",
    )
    backup.add_argument("target", type=expanded, help="the copy; must not exist")
    _add_path(backup, "the file")
    backup.set_defaults(run=run_backup)

    export = commands.add_parser("export", help="write memories as JSON lines")
    export.add_argument(
        "target",
        type=expanded,
        help='the new file, or "-" for standard output; `vecall import` reads it',
    )
    export.add_argument("--app", help="only of this app")
    export.add_argument("--user", help="only of this user; needs --app")
    export.add_argument(
        "--no-vectors", action="store_true", help="leave the vectors out"
    )
    _add_path(export)
    export.set_defaults(run=run_export)

    reembed = commands.add_parser(
        "reembed",
        help="move a file to another embedding model",
        description="Embed all memories again. Servers go on searching with the old "
        "vectors until all new ones are there; restart them then. Interrupted, the "
        "same command goes on where it stopped.",
    )
    add_embedder(reembed)
    _add_path(reembed)
    reembed.set_defaults(run=run_reembed)

    purge = commands.add_parser(
        "purge", help="rewrite a file so that nothing deleted is left in it"
    )
    _add_path(purge)
    purge.set_defaults(run=run_purge)


def _add_path(command: argparse.ArgumentParser, what: str = FILE_OR_URL) -> None:
    add_path(command, what)
    add_json(command)


def _path(typed: str) -> Path:
    return Path(expanded(typed))


@contextmanager
def _opened(path: str) -> Iterator[MemoryService]:
    """Open a file or a database for maintenance, without an embedder."""
    require_file(path)
    with naming(shown(path)), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with MemoryService(path, embedder=None) as memory:
            yield memory


def recovered(found: Salvage, target: str) -> list[str]:
    """Return what a recovery did; items only if the file has any."""
    memories = counted(found.saved, "memory", "memories")
    done = [f"{memories} saved to {target}, {found.lost} lost"]
    if found.saved_items or found.lost_items:
        items = counted(found.saved_items, "item", "items")
        done.append(f"{items} saved to {target}, {found.lost_items} lost")
    return done


def run_doctor(options: argparse.Namespace) -> int:
    """Check the file; with the options also repair or recover it."""
    if options.agents is not None:
        return _run_doctor_of_agents(options)
    if is_database_url(options.path):
        return _run_doctor_of_database(options)
    path = Path(options.path)
    require_file(options.path)
    done: list[str] = []
    if options.recover is not None:
        with naming(options.recover):
            done = recovered(recover(path, options.recover), options.recover)
    elif options.repair:
        with naming(path):
            done = repair(path)
    if options.reset_clock:
        with naming(path):
            done += reset_clock(path)
    return print_findings(options, done, examine_storage(path))


def _run_doctor_of_database(options: argparse.Namespace) -> int:
    """Do what `vecall pg doctor` does."""
    if options.repair or options.reset_clock or options.recover is not None:
        refuse_database(
            options.path,
            "--repair, --recover and --reset-clock are for files; restore a backup",
        )
    with naming(shown(options.path)):
        findings = examine_storage(options.path)
    return print_findings(options, [], findings)


def _run_doctor_of_agents(options: argparse.Namespace) -> int:
    if options.repair or options.reset_clock or options.recover is not None:
        msg = (
            "--agents: changes nothing, so it goes without --repair, --recover and "
            "--reset-clock"
        )
        raise ConfigError(msg)
    from vecall.adk.doctor import examine_agents

    uri: str | None = options.memory_service_uri
    return print_findings(options, [], examine_agents(options.agents, uri))


def run_backup(options: argparse.Namespace) -> int:
    """Copy the file."""
    refuse_database(options.path, "back it up by pg_dump, or by point-in-time recovery")
    with _opened(options.path) as memory, naming(options.target):
        memory.sync.admin.backup(options.target)
    size = Path(options.target).stat().st_size
    _say(options, {"bytes": size}, f"{size:,} bytes in {options.target}")
    return 0


def run_export(options: argparse.Namespace) -> int:
    """Write the memories; report to standard error if they go to standard output."""
    if options.user is not None and options.app is None:
        msg = "--user: needs --app, the app of the user"
        raise ConfigError(msg)
    to_output = options.target == "-"
    with _opened(options.path) as memory, naming(options.target):
        count = memory.sync.admin.export_jsonl(
            sys.stdout if to_output else options.target,
            vectors=not options.no_vectors,
            app_name=options.app,
            user_id=options.user,
        )
    memories = counted(count, "memory", "memories")
    if to_output:
        print(f"{memories} exported", file=sys.stderr)
    else:
        _say(options, {"memories": count}, f"{memories} in {options.target}")
    return 0


def run_reembed(options: argparse.Namespace) -> int:
    """Move the file to another model."""
    embedder = resolve(chosen(options.embedder))
    with _opened(options.path) as memory:
        total = memory.sync.admin.stats()["memories"]
        progress = Progress("embedding", total)
        count = memory.sync.admin.reembed(with_progress(embedder, progress.add))
        progress.finish()
        facts = memory.sync.admin.stats()
    model, embedded = facts["model"], facts["embedded"]
    made = counted(count, "memory", "memories")
    there = counted(embedded, "memory has", "memories have")
    summary = f"{made} embedded; {there} vectors of {one_line(model)}"
    facts = {"memories": count, "embedded": embedded, "model": model}
    _say(options, facts, summary)
    return 0


def run_purge(options: argparse.Namespace) -> int:
    """Rewrite the file."""
    with _opened(options.path) as memory:
        freed = memory.sync.admin.purge()
    _say(options, {"bytes_freed": freed}, f"{counted(freed, 'byte')} freed")
    return 0


def _say(options: argparse.Namespace, facts: dict[str, Any], line: str) -> None:
    if options.json:
        print_json(facts)
    else:
        print(line)
