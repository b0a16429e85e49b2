"""`vecall pg init`, `migrate`, `doctor`: set up and examine a PostgreSQL database."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from vecall.cli.failures import naming
from vecall.cli.findings import print_findings
from vecall.cli.options import add_json
from vecall.cli.terminal import print_json
from vecall.index.examination import examine_storage
from vecall.store import (
    initialize_database,
    migrate_database,
    public_url,
)

Run = Callable[[argparse.Namespace], int]


def add_commands(commands: Any) -> None:
    """Add the commands."""
    group = commands.add_parser(
        "pg",
        help="set up and check a PostgreSQL database",
        description="Set up and check a PostgreSQL database. Other users of the "
        "machine can see the arguments of a command: leave the password out of the "
        "URL, and give it in PGPASSWORD or in a file of passwords (PGPASSFILE).",
    ).add_subparsers(dest="pg", required=True, metavar="ACTION")

    init = group.add_parser(
        "init",
        help="create vecall's roles and schema",
        description="Create vecall's roles and schema, unless they exist, and migrate "
        "the schema. The URL is that of an administrator, who may create roles.",
    )
    init.add_argument(
        "--login",
        metavar="ROLE",
        help="the role that servers log in with; it exists, and is not the "
        "administrator",
    )
    _add_url(init, run_init)
    migrate = group.add_parser(
        "migrate",
        help="bring the schema to the number of this version",
        description="Bring the schema to the number that this version of vecall reads. "
        "Servers need not be stopped: those that run go on with the number before. "
        "Upgrade all servers first, because an older version does not open the newer "
        "number.",
    )
    _add_url(migrate, run_migrate)
    doctor = group.add_parser(
        "doctor",
        help="check the server, the schema, the rights and the rows",
        description="Check the server, the schema, the rights and the rows; change "
        "nothing. The URL is the one that servers use. Returns 1 if something is "
        "damaged, or users are not held apart.",
    )
    _add_url(doctor, run_doctor)


def _add_url(command: argparse.ArgumentParser, run: Run) -> None:
    command.add_argument("url", metavar="URL", help="postgresql://user@host/database")
    add_json(command)
    command.set_defaults(run=run)


def run_init(options: argparse.Namespace) -> int:
    """Create the roles and the schema."""
    where = public_url(options.url)
    with naming(where):
        initialize_database(options.url, login=options.login)
    _say(options, {"url": where}, f"{where} is ready")
    return 0


def run_migrate(options: argparse.Namespace) -> int:
    """Migrate the schema."""
    where = public_url(options.url)
    with naming(where):
        before, now = migrate_database(options.url)
    done = "is at" if before == now else f"went from schema {before} to"
    _say(options, {"before": before, "now": now}, f"{where} {done} schema {now}")
    return 0


def run_doctor(options: argparse.Namespace) -> int:
    """Check the database."""
    with naming(public_url(options.url)):
        findings = examine_storage(options.url)
    return print_findings(options, [], findings)


def _say(options: argparse.Namespace, facts: dict[str, Any], line: str) -> None:
    if options.json:
        print_json(facts)
    else:
        print(line)
