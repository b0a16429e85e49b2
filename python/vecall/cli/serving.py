"""`vecall serve` and `vecall token`."""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from vecall.cli.options import add_file, add_json
from vecall.errors import ConfigError
from vecall.service import MemoryService
from vecall.timestamps import to_seconds

if TYPE_CHECKING:
    from vecall.server.routing import SessionLoader
    from vecall.server.token_file import TokenFile

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_NEEDS = "this needs the extra vecall[server]: pip install 'vecall[server]'"
_LENGTH = re.compile(r"([0-9]{1,6})([smhd])", re.ASCII)

# The fields of HttpLimits, which cannot be imported without the extra.
LIMITS: dict[str, Callable[[str], float]] = {
    "max_body_bytes": int,
    "max_batch": int,
    "max_answer_bytes": int,
    "max_header_bytes": int,
    "header_seconds": float,
    "body_seconds": float,
    "request_seconds": float,
    "max_connections": int,
    "writes_per_second": int,
    "reads_per_second": int,
}
_COUNTED = {"inactivity": "inactivity_ms", "message_count": "message_count"}


def add_commands(commands: Any) -> None:
    """Add both commands."""
    serve = commands.add_parser(
        "serve",
        help="serve a file over HTTP",
        description="Serve a file over HTTP, to this machine unless told otherwise.",
    )
    add_file(serve)
    _add_tokens(serve)
    serve.add_argument("--host", default="127.0.0.1", help="address (%(default)s)")
    serve.add_argument("--port", type=int, default=8765, help="port (%(default)s)")
    serve.add_argument("--tls-certificate", type=Path, help="PEM file of the chain")
    serve.add_argument("--tls-key", type=Path, help="PEM file of the private key")
    serve.add_argument(
        "--insecure-bind",
        action="store_true",
        help="listen to other machines without TLS, behind a proxy that has it",
    )
    serve.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="HOST",
        help="a Host header to answer beside this machine's own; may be repeated",
    )
    serve.add_argument(
        "--allow-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="an Origin header to answer; without it no web page is; may be repeated",
    )
    serve.add_argument(
        "--session-loader",
        metavar="MODULE:NAME",
        help="async function of app_name, user_id and session_id that finds sessions",
    )
    serve.add_argument(
        "--read-only", action="store_true", help="answer questions, refuse every write"
    )
    serve.add_argument(
        "--trigger",
        metavar="NAME[:NUMBER]",
        help="when observed sessions are remembered: session_end, compaction, "
        "inactivity:MILLISECONDS or message_count:TURNS",
    )
    serve.add_argument(
        "--ttl", help="how long memories live if nobody says: seconds, or 12h or 30d"
    )
    serve.add_argument(
        "--backups",
        type=Path,
        metavar="FOLDER",
        help="where an admin may have the file copied to; made if it is not there",
    )
    limits = serve.add_argument_group("limits, as in vecall.server.HttpLimits")
    for name, kind in LIMITS.items():
        flag = f"--{name.replace('_', '-')}"
        limits.add_argument(flag, type=kind, metavar="N")
    serve.set_defaults(run=run_serve)

    token = commands.add_parser("token", help="let somebody in over HTTP")
    actions = token.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = actions.add_parser("create", help="make a token and print it, once")
    create.add_argument("--app", help="the app whose memories it opens")
    create.add_argument("--user", help="only this user's")
    create.add_argument("--read-only", action="store_true", help="it may not write")
    create.add_argument(
        "--admin", action="store_true", help="counts, backups, deleting; no memories"
    )
    create.add_argument(
        "--expires", help="after a time such as 12h or 30d, or at an ISO 8601 time"
    )
    listed = actions.add_parser("list", help="show whom tokens let in")
    revoke = actions.add_parser("revoke", help="let somebody in no more")
    revoke.add_argument("id", help="as `vecall token list` shows it")
    for action, run in (
        (create, run_create),
        (listed, run_list),
        (revoke, run_revoke),
    ):
        action.add_argument(
            "--path", default="memory.db", help="the file (%(default)s)"
        )
        _add_tokens(action)
        action.set_defaults(run=run)
    add_json(create)
    add_json(listed)


def _add_tokens(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--tokens", type=Path, help="the file of tokens (<path>.tokens)"
    )


def run_serve(options: argparse.Namespace) -> int:
    """Serve until the process is asked to end; 2 if it must not begin."""
    file = _token_file(options)
    from vecall.server import HttpLimits, create_app
    from vecall.server.run import Binding, serve

    given = {name: getattr(options, name) for name in LIMITS}
    limits = HttpLimits(
        **{key: value for key, value in given.items() if value is not None}
    )
    try:
        binding = Binding(
            host=options.host,
            port=options.port,
            certificate=options.tls_certificate,
            key=options.tls_key,
            insecure=options.insecure_bind,
            hosts=options.allow_host,
        )
        tokens = len(file.read())
        binding.check(tokens=tokens)
    except ConfigError as error:
        print(f"vecall: {error}", file=sys.stderr)
        return 2
    if not tokens:
        print("vecall: nobody is let in yet: vecall token create", file=sys.stderr)
    os.umask(0o077)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    signal.signal(signal.SIGTERM, _end)  # so that the file is closed
    if options.backups is not None:
        _make_folder(options.backups)
    loader = session_loader(options.session_loader)
    with _opened(options) as memory:
        app = create_app(
            memory,
            tokens=file,
            session_loader=loader,
            limits=limits,
            hosts=options.allow_host,
            origins=options.allow_origin,
            backups=options.backups,
        )
        serve(app, binding, limits, lambda url: print(f"serving {url}", flush=True))
    return 0


def _opened(options: argparse.Namespace) -> MemoryService:
    return MemoryService(
        options.path,
        embedder=None if options.embedder == "none" else options.embedder,
        warn_raw=False,
        read_only=options.read_only,
        trigger=trigger(options.trigger),
        ttl=options.ttl and (_length(options.ttl) or options.ttl),
    )


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        msg = f"backups: the folder cannot be made: {error.strerror}"
        raise ConfigError(msg) from error


def trigger(given: str | None) -> Mapping[str, object] | None:
    """Return what is told as NAME or NAME:NUMBER, as the memory service takes it.

    Raises:
        ConfigError: The number is none, or there is one where none belongs.
    """
    if given is None:
        return None
    name, colon, number = given.partition(":")
    if not colon:
        return {"type": name}
    if name not in _COUNTED or not re.fullmatch("[0-9]{1,15}", number, re.ASCII):
        msg = "trigger: expected a name, or inactivity:NUMBER or message_count:NUMBER"
        raise ConfigError(msg)
    return {"type": name, _COUNTED[name]: int(number)}


def _end(*_: object) -> NoReturn:
    sys.exit(0)


def run_create(options: argparse.Namespace) -> int:
    """Make a token; its file keeps only its hash."""
    file = _token_file(options)
    from vecall.server import mint

    bearer, token = mint(
        app=options.app,
        user=options.user,
        read_only=options.read_only,
        admin=options.admin,
        expires_at=_expiry(options.expires),
    )
    file.change(lambda tokens: [*tokens, token])
    print(json.dumps({"id": token.id, "token": bearer}) if options.json else bearer)
    return 0


def run_list(options: argparse.Namespace) -> int:
    """Show all tokens, but for what makes them tokens."""
    file = _token_file(options)
    from vecall.server.tokens import to_json

    told = [to_json(token) for token in file.read()]
    for item in told:
        del item["sha256"]
    if options.json:
        print(json.dumps({"tokens": told}))
        return 0
    for item in told:
        words = [f"{name}={value}" for name, value in item.items() if name != "id"]
        print(item["id"], *words)
    return 0


def run_revoke(options: argparse.Namespace) -> int:
    """Forget a token."""
    file = _token_file(options)
    known = {token.id for token in file.read()}
    if options.id not in known:
        msg = "id: there is no such token"
        raise ConfigError(msg)
    file.change(lambda tokens: [token for token in tokens if token.id != options.id])
    return 0


def _token_file(options: argparse.Namespace) -> TokenFile:
    try:
        from vecall.server import TokenFile
    except ImportError as error:
        raise ConfigError(_NEEDS) from error
    return TokenFile(options.tokens or f"{options.path}.tokens")


def _expiry(given: str | None) -> float | None:
    """Seconds since 1970 of a time, or of a length of time from now."""
    if given is None:
        return None
    length = _length(given)
    return to_seconds(given, "expires") if length is None else time.time() + length


def _length(given: str) -> int | None:
    """The seconds of a length of time such as 12h or 30d; None if it is none."""
    length = _LENGTH.fullmatch(given)
    return int(length[1]) * _UNITS[length[2]] if length else None


def session_loader(given: str | None) -> SessionLoader | None:
    """Return the function that is named as module:name.

    Raises:
        ConfigError: It cannot be imported.
    """
    if given is None:
        return None
    module, _, name = given.partition(":")
    try:
        loader: SessionLoader = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError):
        msg = "session-loader: expected MODULE:NAME of a function that can be imported"
        raise ConfigError(msg) from None
    return loader
