"""`vecall serve`, `ui`, `token` and `mcp`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
import time
import webbrowser
from collections.abc import Callable
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, NoReturn, get_args

from vecall.cli import console as ui
from vecall.cli import options as cli
from vecall.cli.coding_agent_commands import CLIENTS
from vecall.clock import to_iso, to_seconds, ttl_seconds
from vecall.coding_agents.install import vecall_command
from vecall.coding_agents.options import (
    APP,
    DEFAULT,
    USER,
    changed_options,
    default_path,
    prepared,
)
from vecall.errors import ConfigError, InvalidArgumentError
from vecall.limits import Eviction, HttpLimits, Quota, trigger_from_text
from vecall.operations.options import WritePolicy
from vecall.service.memory_service import MemoryService
from vecall.system import shell_words
from vecall.validation import is_database_url

if TYPE_CHECKING:
    from vecall.server.tokens import TokenFile


# `vecall token`.


NEEDS = "this needs the extra vecall[server]: pip install 'vecall[server]'"


def add_token_commands(commands: Any) -> None:
    """Add the command."""
    token = commands.add_parser("token", help="manage tokens for the HTTP server")
    actions = token.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = actions.add_parser("create", help="make a token and print it, once")
    create.add_argument("--app", help="the app whose memories the token may access")
    create.add_argument("--user", help="only this user's")
    cli.flag(create, "--all-apps", "those of all apps")
    cli.flag(create, "--read-only", "it may not write")
    cli.flag(create, "--review", "it sees what is quarantined, and may release it")
    create.add_argument("--trust", help="the highest tier of trust of what it writes")
    create.add_argument("--min-trust", help="the lowest tier of trust of what it reads")
    create.add_argument("--source", help="the source of all that it writes")
    create.add_argument("--author", help="the author of all that it writes")
    cli.flag(create, "--admin", "counts, backups, deleting; no memories")
    create.add_argument("--label", help="what it is for, shown by `vecall token list`")
    create.add_argument(
        "--expires", help="after a time such as 12h or 30d, or at an ISO 8601 time"
    )
    listed = actions.add_parser(
        "list", help="show whom tokens let in, and when each was last used"
    )
    revoke = actions.add_parser("revoke", help="revoke a token")
    revoke.add_argument("id", help="as `vecall token list` shows it; or the label")
    for action, run in ((create, run_create), (listed, run_list), (revoke, run_revoke)):
        cli.add_path(action, "the file")
        add_tokens(action)
        action.set_defaults(run=run)
    cli.add_json(create)
    cli.add_listing(listed)


def add_tokens(command: argparse.ArgumentParser) -> None:
    """Add --tokens."""
    command.add_argument(
        "--tokens",
        type=Path,
        help="the file of tokens (<path>.tokens); required with a database",
    )


def run_create(options: argparse.Namespace) -> int:
    """Create a token. The file stores only its hash."""
    file = token_file(options)
    from vecall.server import mint

    flags = ("all_apps", "read_only", "review", "admin")
    names = ("app", "user", "trust", "min_trust", "source", "author", "label")
    bearer, token = mint(
        **{name: getattr(options, name) for name in (*flags, *names)},
        expires_at=_token_expiry(options.expires),
    )
    file.change(lambda tokens: [*tokens, token])
    if options.json:
        ui.print_json({"id": token.id, "token": bearer})
    else:
        print(bearer)
    return 0


def run_list(options: argparse.Namespace) -> int:
    """Show all tokens without their hashes."""
    file = token_file(options)
    from vecall.server.tokens import to_json

    listed = [to_json(token) for token in file.read()]
    uses = file.last_uses()
    for token in listed:
        del token["sha256"]
        token["last_used"] = uses.get(token["id"])
    if options.json:
        ui.print_json({"tokens": listed})
    elif options.csv:
        names = dict.fromkeys(name for token in listed for name in token)
        ui.print_csv([{name: token.get(name) for name in names} for token in listed])
    else:
        for token in listed:
            used = token["last_used"]
            token["last_used"] = "never" if used is None else to_iso(used)
            words = [f"{name}={ui.one_line(value)}" for name, value in token.items()]
            print(words.pop(0).removeprefix("id="), *words)
        if not listed:
            print("no tokens")
    return 0


def run_revoke(options: argparse.Namespace) -> int:
    """Remove a token from the file."""
    file = token_file(options)
    tokens = file.read()
    ids = {each.id for each in tokens if options.id in (each.id, each.label)}
    if len(ids) != 1:
        several = "several tokens have this label; name one by its id"
        raise ConfigError(f"id: {several if ids else 'there is no such token'}")
    file.change(lambda tokens: [token for token in tokens if token.id not in ids])
    print(f"{ids.pop()} opens nothing any more")
    return 0


def token_file(options: argparse.Namespace) -> TokenFile:
    """Return the token file that the options name."""
    try:
        from vecall.server import TokenFile
    except ImportError as error:
        raise ConfigError(NEEDS) from error
    if options.tokens is None:
        cli.refuse_database(options.path, "name the file of tokens with --tokens")
    return TokenFile(options.tokens or f"{prepared(options.path)}.tokens")


def _token_expiry(text: str | None) -> float | None:
    """Return seconds since 1970, from a time or from a duration from now."""
    if text is None:
        return None
    if text[-1:].isdigit():  # a number alone may be meant as a time
        return to_seconds(text, "expires")
    try:
        return time.time() + ttl_seconds(text, "expires")
    except InvalidArgumentError:
        return to_seconds(text, "expires")


def add_commands(commands: Any) -> None:
    """Add both commands."""
    serve = commands.add_parser(
        "serve",
        help="serve a file or a database over HTTP",
        description="Serve a file or a database over HTTP, by default to this machine "
        "only.",
    )
    cli.add_file(serve)
    add_tokens(serve)
    serve.add_argument("--host", default="127.0.0.1", help="address (%(default)s)")
    serve.add_argument("--port", type=int, default=8765, help="port (%(default)s)")
    serve.add_argument("--tls-certificate", type=Path, help="PEM file of the chain")
    serve.add_argument("--tls-key", type=Path, help="PEM file of the private key")
    serve.add_argument(
        "--tls-client-ca",
        type=Path,
        help="PEM file of the CA that signs clients' certificates; others are refused",
    )
    cli.flag(
        serve,
        "--insecure-bind",
        "listen to other machines without TLS, behind a proxy that has it",
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
    cli.add_on_write(serve)
    cli.flag(serve, "--read-only", "answer reads, refuse every write")
    cli.flag(
        serve,
        "--mcp",
        "also serve the Model Context Protocol, at /mcp, to tokens of one user",
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
        "--drain",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="after SIGTERM, answer requests for so long while /readyz gives 503, so "
        "that a load balancer sends no more (%(default)g)",
    )
    serve.add_argument(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="lines for people, or one JSON object a line (%(default)s)",
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
    for field in fields(HttpLimits):
        flag = f"--{field.name.replace('_', '-')}"
        limits.add_argument(flag, type=type(field.default), metavar="N")
    serve.set_defaults(run=run_serve)

    add_token_commands(commands)
    add_mcp_command(commands)


def run_serve(options: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT; return 2 if the server refuses to start."""
    file = token_file(options)
    from vecall.server import create_app
    from vecall.server.run import Binding, Drain, JsonLines, remove_old_exports, serve

    values = {each.name: getattr(options, each.name) for each in fields(HttpLimits)}
    chosen = {name: value for name, value in values.items() if value is not None}
    limits = HttpLimits(**chosen)
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
        drain = Drain(options.drain)
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
        cli.refuse_database(
            options.path,
            "back it up by pg_dump, or by point-in-time recovery, not by --backups",
        )
    os.umask(0o077)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    if options.log_format == "json":
        for handler in logging.getLogger().handlers:
            handler.setFormatter(JsonLines())
    over_mcp = _over_mcp() if options.mcp else None
    signal.signal(signal.SIGTERM, _end)  # so that the file is closed
    remove_old_exports()
    if options.backups is not None:
        cli.make_folder(options.backups, "backups")
    loader = cli.named(options.session_loader, "session-loader")
    with _opened(options) as memory:
        shared: dict[str, Any] = {
            "tokens": file,
            "limits": limits,
            "hosts": options.allow_host,
            "origins": options.allow_origin,
        }
        app = create_app(
            memory,
            **shared,
            session_loader=loader,
            backups=options.backups,
            accepting=drain.is_accepting,
        )
        if over_mcp is not None:
            app = over_mcp(memory, beside=app, **shared)

        def started(url: str) -> None:
            print(f"serving {url}", flush=True)

        try:
            serve(app, binding, limits, started, drain)
        finally:
            file.save_uses()
    return 0


def _creating_a_token(options: argparse.Namespace) -> str:
    """Return the command that creates a token, without a password."""
    command = "vecall token create"
    if not is_database_url(options.path):
        command += f" --path {shell_words([options.path])}"
    command += " --app APP"
    if options.tokens is not None:
        command += f" --tokens {shell_words([str(options.tokens)])}"
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
        embedder=cli.chosen(options.embedder),
        read_only=options.read_only,
        trigger=options.trigger and trigger_from_text(options.trigger),
        ttl=options.ttl,
        writes=WritePolicy(
            on_write=cli.named(options.on_write, "on-write"),
            history_ttl=options.history_ttl,
            quota=Quota(
                memories=options.quota_memories or None,
                bytes=options.quota_bytes or None,
                eviction=options.eviction,
            ),
        ),
    )


def _end(*_: object) -> NoReturn:
    sys.exit(0)


# `vecall mcp`.


MAX_TOKENS = 2_000
# Their messages may hold texts of memories.
_SILENT = ("mcp", "asyncio")


def add_mcp_command(commands: Any) -> None:
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
        type=cli.expanded,
        metavar="FILE",
        help=f"the file (default: {DEFAULT})",
    )
    command.add_argument("--app", default=APP, help="app_name (%(default)s)")
    command.add_argument("--user", default=USER, help="user_id (%(default)s)")
    cli.flag(command, "--read-only", "offer no writes")
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
    cli.add_embedder(command)
    command.set_defaults(run=run_mcp)


def run_mcp(options: argparse.Namespace) -> int:
    """Serve until the client ends the input, or until SIGTERM or SIGINT."""
    if options.config is not None:
        client = CLIENTS[options.config]
        if find_spec("mcp") is None:
            msg = "vecall: the command needs the extra: pip install 'vecall[mcp]'"
            print(msg, file=sys.stderr)
        print(f"vecall: paste into {client.where}:", file=sys.stderr)
        print(client.settings(_mcp_server_command(options)))
        return 0
    from vecall.mcp import create_server, private_pipes, run_stdio

    for name in _SILENT:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    os.umask(0o077)
    path = prepared(default_path() if options.path is None else options.path)
    with (
        ui.naming(cli.shown_path(path)),
        private_pipes() as pipes,
        MemoryService(
            path,
            embedder=cli.chosen(options.embedder),
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


def _mcp_server_command(options: argparse.Namespace) -> list[str]:
    """Return the command for a client: paths absolute, only changed options."""
    command = [*vecall_command(), "mcp"]
    if options.path is not None:
        is_url = "://" in options.path
        path = options.path if is_url else str(Path(options.path).absolute())
        command += ["--path", path]
    defaults = {"app": APP, "user": USER, "max_tokens": MAX_TOKENS, "ttl": None}
    command += changed_options(options, **defaults, embedder="auto")
    if options.read_only:
        command.append("--read-only")
    return command


# `vecall ui`: the page over a file, for the person at this machine.


_WEB = ("http://", "https://")


def add_ui_command(commands: Any) -> None:
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
        raise ConfigError(f"path: there is no file {name}; vecall demo makes one")
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
