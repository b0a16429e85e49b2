"""`vecall ui`: the page over a file, for the person at this machine."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import webbrowser
from pathlib import Path
from threading import Thread
from typing import Any, NoReturn

from vecall.cli import options as cli
from vecall.cli.serve_commands import NEEDS
from vecall.coding_agents.options import DEFAULT, default_path, prepared
from vecall.errors import ConfigError
from vecall.service.memory_service import MemoryService
from vecall.validation import is_database_url

_WEB = ("http://", "https://")


def add_commands(commands: Any) -> None:
    """Add the command."""
    command = commands.add_parser(
        "ui",
        help="look at memories in the browser",
        description="Look at memories in the browser. The page is served to this "
        "machine only, until Ctrl-C, to the first browser that opens the address.",
        epilog="example: vecall ui memory.db --write",
    )
    command.add_argument(
        "path",
        nargs="?",
        type=cli.expanded,
        default=default_path(),
        metavar="FILE|URL",
        help=f"{cli.FILE_OR_URL}, or the URL of a vecall server (default: {DEFAULT})",
    )
    cli.flag(command, "--write", "allow changes (default: only look)")
    cli.flag(command, "--no-browser", "print the address, open nothing")
    command.add_argument(
        "--port", type=int, default=0, help="port (default: one that is free)"
    )
    cli.add_embedder(command)
    command.set_defaults(run=run_ui)


def run_ui(options: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C or SIGTERM."""
    if options.path.startswith(_WEB):
        _show(options.path.rstrip("/") + "/ui", options)
        return 0
    try:
        from vecall.server import HttpLimits, create_app, mint
        from vecall.server.run import Binding, serve
        from vecall.server.tokens import OneHolder
    except ImportError as error:
        raise ConfigError(NEEDS) from error
    if not is_database_url(options.path) and not Path(options.path).exists():
        name = cli.shown_path(options.path)
        msg = f"path: there is no file {name}; vecall demo makes one"
        raise ConfigError(msg)
    key, token = mint(all_apps=True, review=True, read_only=not options.write)
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
    signal.signal(signal.SIGTERM, _end)  # so that the file is closed
    limits = HttpLimits()
    with MemoryService(
        prepared(options.path),
        embedder=cli.chosen(options.embedder),
        read_only=not options.write,
    ) as memory:
        app = create_app(memory, tokens=OneHolder([token]), limits=limits)
        try:
            serve(
                app,
                Binding(port=options.port),
                limits,
                lambda url: _show(f"{url}/ui#key={key}", options),
            )
        except KeyboardInterrupt:
            print("vecall: the page is closed", file=sys.stderr)
    return 0


def _show(url: str, options: argparse.Namespace) -> None:
    """Print the address, and open it in the browser."""
    print(url, flush=True)
    if not options.no_browser:
        # A browser in the terminal would not return.
        Thread(target=webbrowser.open, args=(url,), daemon=True).start()


def _end(*_: object) -> NoReturn:
    sys.exit(0)
