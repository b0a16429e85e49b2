"""`vecall serve`."""

from __future__ import annotations

import argparse
import logging
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn, get_args

from vecall.cli import tokens
from vecall.cli.embedders import chosen
from vecall.cli.options import add_file, add_on_write, named, refuse_database
from vecall.coding_agents.options import prepared
from vecall.errors import ConfigError
from vecall.limits import Eviction, Quota
from vecall.operations.options import WritePolicy
from vecall.service.memory_service import MemoryService
from vecall.validation import is_database_url

# The fields of HttpLimits, which cannot be imported without the extra.
LIMITS: dict[str, Callable[[str], float]] = {
    "max_body_bytes": int,
    "max_text_body_bytes": int,
    "max_small_body_bytes": int,
    "max_json_parts": int,
    "max_held_bytes": int,
    "max_batch": int,
    "max_answer_bytes": int,
    "max_header_bytes": int,
    "header_seconds": float,
    "body_seconds": float,
    "request_seconds": float,
    "max_connections": int,
    "writes_per_second": int,
    "reads_per_second": int,
    "body_bytes_per_second": int,
    "requests_at_once": int,
    "exports_at_once": int,
}
_COUNTED = {"inactivity": "inactivity_ms", "message_count": "message_count"}


def add_commands(commands: Any) -> None:
    """Add both commands."""
    serve = commands.add_parser(
        "serve",
        help="serve a file or a database over HTTP",
        description="Serve a file or a database over HTTP, by default to this machine "
        "only.",
    )
    add_file(serve)
    tokens.add_tokens(serve)
    serve.add_argument("--host", default="127.0.0.1", help="address (%(default)s)")
    serve.add_argument("--port", type=int, default=8765, help="port (%(default)s)")
    serve.add_argument("--tls-certificate", type=Path, help="PEM file of the chain")
    serve.add_argument("--tls-key", type=Path, help="PEM file of the private key")
    serve.add_argument(
        "--tls-client-ca",
        type=Path,
        help="PEM file of the CA that signs clients' certificates; others are refused",
    )
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
        help="a Host header to accept besides this machine's own; may be repeated",
    )
    serve.add_argument(
        "--allow-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="an Origin header to accept (default: none, so requests of web pages are "
        "refused); may be repeated",
    )
    serve.add_argument(
        "--session-loader",
        metavar="MODULE:NAME",
        help="async function of app_name, user_id and session_id that returns sessions",
    )
    add_on_write(serve)
    serve.add_argument(
        "--read-only", action="store_true", help="answer reads, refuse every write"
    )
    serve.add_argument(
        "--mcp",
        action="store_true",
        help="also serve the Model Context Protocol, at /mcp, to tokens of one user",
    )
    serve.add_argument(
        "--trigger",
        metavar="NAME[:NUMBER]",
        help="when observed sessions are stored: session_end, compaction, "
        "inactivity:MILLISECONDS or message_count:TURNS",
    )
    serve.add_argument("--ttl", help="default TTL of memories: seconds, or 12h or 30d")
    serve.add_argument(
        "--history-ttl",
        help="TTL of overwritten texts, which do not count towards the quota: seconds, "
        "or 12h or 30d (default: the lifetime of the memory)",
    )
    serve.add_argument(
        "--backups",
        type=Path,
        metavar="FOLDER",
        help="the folder for backups that an admin requests; created if missing",
    )
    quota = serve.add_argument_group("quota of each user, as in vecall.Quota")
    quota.add_argument(
        "--quota-memories",
        type=int,
        default=100_000,
        metavar="N",
        help="0 is any number (%(default)s)",
    )
    quota.add_argument(
        "--quota-bytes",
        type=int,
        default=256 * 1024 * 1024,
        metavar="N",
        help="bytes of text; 0 is any number (%(default)s)",
    )
    quota.add_argument(
        "--eviction",
        choices=get_args(Eviction),
        default="reject",
        help="what becomes of a write that exceeds it (%(default)s)",
    )
    limits = serve.add_argument_group("limits, as in vecall.server.HttpLimits")
    for name, kind in LIMITS.items():
        flag = f"--{name.replace('_', '-')}"
        limits.add_argument(flag, type=kind, metavar="N")
    serve.set_defaults(run=run_serve)

    tokens.add_commands(commands)


def run_serve(options: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT; return 2 if the server refuses to start."""
    file = tokens.token_file(options)
    from vecall.server import HttpLimits, create_app
    from vecall.server.leftovers import remove_old_exports
    from vecall.server.run import Binding, serve

    values = {name: getattr(options, name) for name in LIMITS}
    limits = HttpLimits(
        **{key: value for key, value in values.items() if value is not None}
    )
    try:
        binding = Binding(
            host=options.host,
            port=options.port,
            certificate=options.tls_certificate,
            key=options.tls_key,
            client_ca=options.tls_client_ca,
            insecure=options.insecure_bind,
            hosts=options.allow_host,
        )
        known = len(file.read())
        binding.check(tokens=known)
    except ConfigError as error:
        print(f"vecall: {error}", file=sys.stderr)
        return 2
    if not known:
        create = _creating_a_token(options)
        known_to_exist = options.path == ":memory:" or is_database_url(options.path)
        if not known_to_exist and not Path(options.path).exists():
            msg = f"path: there is no such file; begin a new one with {create}"
            print(f"vecall: {msg}", file=sys.stderr)
            return 2
        print(
            "vecall: there is no token yet, so every request is refused; make one with "
            + create,
            file=sys.stderr,
        )
    if options.backups is not None:
        refuse_database(
            options.path,
            "back it up by pg_dump, or by point-in-time recovery, not by --backups",
        )
    os.umask(0o077)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    over_mcp = _over_mcp() if options.mcp else None
    signal.signal(signal.SIGTERM, _end)  # so that the file is closed
    remove_old_exports()
    if options.backups is not None:
        _make_folder(options.backups)
    loader = named(options.session_loader, "session-loader")
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
        if over_mcp is not None:
            app = over_mcp(
                memory,
                tokens=file,
                beside=app,
                limits=limits,
                hosts=options.allow_host,
                origins=options.allow_origin,
            )
        serve(app, binding, limits, lambda url: print(f"serving {url}", flush=True))
    return 0


def _creating_a_token(options: argparse.Namespace) -> str:
    """Return the command that creates a token, without a password."""
    command = "vecall token create"
    if not is_database_url(options.path):
        command += f" --path {shlex.quote(options.path)}"
    command += " --app APP"
    if options.tokens is not None:
        command += f" --tokens {shlex.quote(str(options.tokens))}"
    return command


def _over_mcp() -> Callable[..., Any]:
    """Return `asgi_app`, before the server starts: it needs the extra."""
    from vecall.mcp.asgi import asgi_app

    # The messages of the SDK may hold texts of memories.
    logging.getLogger("mcp").setLevel(logging.CRITICAL + 1)
    return asgi_app


def _opened(options: argparse.Namespace) -> MemoryService:
    return MemoryService(
        prepared(options.path),
        embedder=chosen(options.embedder),
        read_only=options.read_only,
        trigger=trigger(options.trigger),
        ttl=options.ttl,
        writes=WritePolicy(
            on_write=named(options.on_write, "on-write"),
            history_ttl=options.history_ttl,
            quota=Quota(
                memories=options.quota_memories or None,
                bytes=options.quota_bytes or None,
                eviction=options.eviction,
            ),
        ),
    )


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        msg = f"backups: the folder cannot be made: {error.strerror}"
        raise ConfigError(msg) from error
    about = folder.stat()
    if about.st_uid != os.geteuid() or about.st_mode & 0o022:
        msg = "backups: the folder must be yours, and only you may write in it"
        raise ConfigError(msg)


def trigger(text: str | None) -> Mapping[str, object] | None:
    """Return the trigger of NAME or NAME:NUMBER, for the memory service.

    Raises:
        ConfigError: NUMBER is not a number, or the trigger takes no number.
    """
    if text is None:
        return None
    name, colon, number = text.partition(":")
    if not colon:
        return {"type": name}
    if name not in _COUNTED or not re.fullmatch("[0-9]{1,15}", number, re.ASCII):
        msg = "trigger: expected a name, or inactivity:NUMBER or message_count:NUMBER"
        raise ConfigError(msg)
    return {"type": name, _COUNTED[name]: int(number)}


def _end(*_: object) -> NoReturn:
    sys.exit(0)
