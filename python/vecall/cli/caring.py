"""`vecall doctor`, `backup`, `export`, `reembed`, `purge`: care of the file."""

from __future__ import annotations

import argparse
import dataclasses
import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vecall.cli.options import add_json, require_file
from vecall.cli.terminal import bold, dim
from vecall.errors import ConfigError
from vecall.service import MemoryService
from vecall.store import Finding, examine, recover, repair

_MARKS = {"ok": "ok", "note": "note", "warning": "WARNING", "error": "ERROR"}


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
        type=Path,
        help="check a folder of google-adk's agents, and the file of the URI",
    )
    doctor.add_argument(
        "--memory_service_uri",
        "--memory-service-uri",
        metavar="URI",
        help="with --agents: the URI that `adk web` is given",
    )
    doctor.add_argument(
        "--recover",
        metavar="NEW",
        type=Path,
        help="save what can be read of a file with damaged pages to a new file",
    )
    _add_path(doctor)
    doctor.set_defaults(run=run_doctor)

    backup = commands.add_parser("backup", help="copy a file while it is in use")
    backup.add_argument("target", help="the copy; must not exist")
    _add_path(backup)
    backup.set_defaults(run=run_backup)

    export = commands.add_parser("export", help="write memories as JSON lines")
    export.add_argument("target", help="the new file; `vecall import` reads it")
    export.add_argument("--app", help="only of this app")
    export.add_argument("--user", help="only of this user")
    export.add_argument(
        "--no-vectors", action="store_true", help="leave the vectors out"
    )
    _add_path(export)
    export.set_defaults(run=run_export)

    reembed = commands.add_parser(
        "reembed",
        help="move a file to another embedding model",
        description="Embed all memories anew. Servers go on searching with the old "
        "vectors until all new ones are there; restart them then. Interrupted, the "
        "same command goes on where it stopped.",
    )
    reembed.add_argument("--embedder", choices=("local",), required=True)
    _add_path(reembed)
    reembed.set_defaults(run=run_reembed)

    purge = commands.add_parser(
        "purge", help="rewrite a file so that nothing deleted is left in it"
    )
    _add_path(purge)
    purge.set_defaults(run=run_purge)


def _add_path(command: argparse.ArgumentParser) -> None:
    command.add_argument("--path", default="memory.db", help="the file (%(default)s)")
    add_json(command)


@contextmanager
def _opened(path: str) -> Iterator[MemoryService]:
    """Open a file for its care, which needs no embedder."""
    require_file(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        memory = MemoryService(path)
    with memory:
        yield memory


def run_doctor(options: argparse.Namespace) -> int:
    """Examine, and repair or recover if asked."""
    if options.agents is not None:
        return _run_doctor_of_agents(options)
    path = Path(options.path)
    require_file(options.path)
    done: list[str] = []
    if options.recover is not None:
        saved, lost = recover(path, options.recover)
        done.append(f"{saved} memories saved to {options.recover}, {lost} are lost")
    elif options.repair:
        done = repair(path)
    return _tell(options, done, examine(path))


def _run_doctor_of_agents(options: argparse.Namespace) -> int:
    if options.repair or options.recover is not None:
        msg = "--agents: changes nothing, so it goes without --repair and --recover"
        raise ConfigError(msg)
    from vecall.adk.doctor import examine_agents

    uri: str | None = options.memory_service_uri
    return _tell(options, [], examine_agents(options.agents, uri))


def _tell(options: argparse.Namespace, done: list[str], findings: list[Finding]) -> int:
    """Print what was done and seen; return 1 if something is bad."""
    bad = any(finding.level == "error" for finding in findings)
    if options.json:
        told = [dataclasses.asdict(finding) for finding in findings]
        print(json.dumps({"done": done, "findings": told, "damaged": bad}))
        return int(bad)
    for line in done:
        print(bold(line))
    for finding in findings:
        mark = _MARKS[finding.level]
        shown = dim(mark) if finding.level == "ok" else bold(mark)
        print(f"{finding.about:12} {shown}  {finding.message}")
    return int(bad)


def run_backup(options: argparse.Namespace) -> int:
    """Copy the file."""
    with _opened(options.path) as memory:
        memory.sync.backup(options.target)
    size = Path(options.target).stat().st_size
    _say(options, {"bytes": size}, f"{size:,} bytes in {options.target}")
    return 0


def run_export(options: argparse.Namespace) -> int:
    """Write the memories."""
    with _opened(options.path) as memory:
        count = memory.sync.export(
            options.target,
            vectors=not options.no_vectors,
            app_name=options.app,
            user_id=options.user,
        )
    _say(options, {"memories": count}, f"{count} memories in {options.target}")
    return 0


def run_reembed(options: argparse.Namespace) -> int:
    """Move the file to another model."""
    with _opened(options.path) as memory:
        count = memory.sync.reembed(options.embedder)
        model = memory.sync.stats()["model"]
    told = f"{count} memories embedded; the file's model is {model}"
    _say(options, {"memories": count, "model": model}, told)
    return 0


def run_purge(options: argparse.Namespace) -> int:
    """Rewrite the file."""
    with _opened(options.path) as memory:
        freed = memory.sync.purge()
    _say(options, {"bytes_freed": freed}, f"{freed:,} bytes freed")
    return 0


def _say(options: argparse.Namespace, facts: dict[str, Any], line: str) -> None:
    print(json.dumps(facts) if options.json else line)
