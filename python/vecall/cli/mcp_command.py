"""`vecall mcp`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from vecall.cli.embedders import add_embedder, chosen
from vecall.cli.failures import naming
from vecall.cli.mcp_clients import CLIENTS
from vecall.cli.options import expanded, shown
from vecall.coding_agents.options import APP, DEFAULT, USER, default_path, prepared
from vecall.service.memory_service import MemoryService

MAX_TOKENS = 2_000
# Their messages may hold texts of memories.
_SILENT = ("mcp", "asyncio")


def add_commands(commands: Any) -> None:
    """Add the command."""
    command = commands.add_parser(
        "mcp",
        help="serve one user's memory to a client of the Model Context Protocol",
        description="Serve one user's memory to a client of the Model Context "
        "Protocol, over the standard input and output. The client starts the command. "
        "For clients over HTTP, see vecall serve --mcp.",
    )
    command.add_argument(
        "--path",
        type=expanded,
        metavar="FILE",
        help=f"the file (default: {DEFAULT})",
    )
    command.add_argument("--app", default=APP, help="app_name (%(default)s)")
    command.add_argument("--user", default=USER, help="user_id (%(default)s)")
    command.add_argument("--read-only", action="store_true", help="offer no writes")
    command.add_argument(
        "--max-tokens",
        type=int,
        default=MAX_TOKENS,
        metavar="N",
        help="the most tokens of an answer, at least 64 (%(default)s)",
    )
    command.add_argument("--ttl", help="TTL of new memories: seconds, or 12h or 30d")
    command.add_argument(
        "--config",
        choices=CLIENTS,
        metavar="CLIENT",
        help="serve nothing; print what to paste into the settings of a client: "
        + ", ".join(CLIENTS),
    )
    add_embedder(command)
    command.set_defaults(run=run_mcp)


def run_mcp(options: argparse.Namespace) -> int:
    """Serve until the client ends the input, or until SIGTERM or SIGINT."""
    if options.config is not None:
        client = CLIENTS[options.config]
        if find_spec("mcp") is None:
            msg = "vecall: the command needs the extra: pip install 'vecall[mcp]'"
            print(msg, file=sys.stderr)
        print(f"vecall: paste into {client.where}:", file=sys.stderr)
        print(client.settings(_command(options)))
        return 0
    from vecall.mcp import create_server, private_pipes, run_stdio

    for name in _SILENT:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    os.umask(0o077)
    path = prepared(default_path() if options.path is None else options.path)
    with (
        naming(shown(path)),
        private_pipes() as pipes,
        MemoryService(
            path,
            embedder=chosen(options.embedder),
            read_only=options.read_only,
            ttl=options.ttl,
        ) as memory,
    ):
        server = create_server(
            memory,
            options.app,
            options.user,
            write=not options.read_only,
            max_tokens=options.max_tokens,
        )
        asyncio.run(run_stdio(server, pipes))
    return 0


def _command(options: argparse.Namespace) -> list[str]:
    """Return the command with the options that differ from the defaults.

    Clients start it in a folder and with a PATH of their own, so both paths are
    absolute.
    """
    command = [*_program(), "mcp"]
    if options.path is not None:
        is_url = "://" in options.path
        path = options.path if is_url else str(Path(options.path).absolute())
        command += ["--path", path]
    for name, default in (
        ("app", APP),
        ("user", USER),
        ("max_tokens", MAX_TOKENS),
        ("ttl", None),
        ("embedder", "auto"),
    ):
        value = getattr(options, name)
        if value != default:
            command += [f"--{name.replace('_', '-')}", str(value)]
    if options.read_only:
        command.append("--read-only")
    return command


def _program() -> list[str]:
    started = Path(sys.argv[0])
    if started.name == "vecall" and started.exists():
        return [str(started.absolute())]
    return [sys.executable, "-m", "vecall.cli.main"]
