"""`vecall copy`: copies a file or a database to another one."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from vecall.cli.failures import naming
from vecall.cli.options import add_json, expanded, require_file, shown
from vecall.cli.streams import ERASE, RETURN
from vecall.cli.terminal import counted, print_json
from vecall.store import CopyReport, copy_storage
from vecall.validation import is_database_url

_FACTS = "users memories items bytes unchanged different hidden changed".split()


def add_commands(commands: Any) -> None:
    """Add the command."""
    copy = commands.add_parser(
        "copy",
        help="copy all memories between a file and a database",
        description="Copy every user of a file or a database, with vectors, history, "
        "deletions, items and waiting turns. Each user is read in one state, written "
        "in one transaction, and read back and compared. Services may use both "
        "meanwhile. A copy that was interrupted continues when the command is "
        "repeated. Returns 1 if the target lacks something that the source has.",
    )
    place = "a file, or the URL of a PostgreSQL database"
    copy.add_argument("source", metavar="FROM", type=expanded, help=place)
    copy.add_argument(
        "target",
        metavar="TO",
        type=expanded,
        help=f"{place} that `vecall pg init` has set up",
    )
    copy.add_argument("--app", help="copy this app only")
    copy.add_argument("--user", help="copy this user only")
    copy.add_argument(
        "--replace",
        action="store_true",
        help="delete and copy again users who have other memories in the target",
    )
    copy.add_argument(
        "--dry-run", action="store_true", help="write nothing; say what would be copied"
    )
    add_json(copy)
    copy.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Copy the storage."""
    require_file(options.source)
    shows = sys.stderr.isatty() and not options.json

    def show(report: CopyReport) -> None:
        done = report.users + report.unchanged + report.different + report.hidden
        if shows and done % 10 == 0:
            print(f"{RETURN}{done:,} users", end="", file=sys.stderr, flush=True)

    with naming(shown(options.source)):
        report = copy_storage(
            _place(options.source),
            _place(options.target),
            app=options.app,
            user=options.user,
            replace=options.replace,
            dry_run=options.dry_run,
            progress=show,
        )
    if shows:
        print(f"{RETURN}{ERASE}", end="", file=sys.stderr, flush=True)
    if options.json:
        print_json({name: getattr(report, name) for name in _FACTS})
    else:
        _print(options, report)
    return 0 if report.is_complete else 1


def _place(path: str) -> Path | str:
    return path if is_database_url(path) else Path(path)


def _print(options: argparse.Namespace, report: CopyReport) -> None:
    verb = "would be copied" if options.dry_run else "copied and compared"
    print(
        f"{counted(report.users, 'user')} {verb}: "
        f"{counted(report.memories, 'memory', 'memories')}, "
        f"{counted(report.items, 'item')}, {report.bytes:,} bytes"
    )
    if report.unchanged:
        print(f"there already: {counted(report.unchanged, 'user')}")
    if report.different:
        print(
            f"not copied: {counted(report.different, 'user')} with other memories in "
            "the target; --replace deletes those and copies again"
        )
    if report.changed:
        print(
            f"changed in the source during the copy: {counted(report.changed, 'user')}"
            "; stop its writers and repeat the command with --replace"
        )
    if report.hidden:
        print(
            f"not copied: {counted(report.hidden, 'deleted user')} with tombstones "
            "only, because the target was not empty and has another key"
        )
