"""How others reach a memory: `vecall serve`, `ui`, `token`, `mcp`, `install`..."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import signal
import sys
import time
import webbrowser
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, NoReturn, get_args

from vecall.cli import console as ui
from vecall.cli import options as cli
from vecall.clock import to_iso, to_seconds, ttl_seconds
from vecall.coding_agents import install as agents
from vecall.coding_agents.hook_command import main as run_hook
from vecall.coding_agents.options import (
    APP,
    DEFAULT,
    USER,
    add_agent_options,
    as_arguments,
    changed_agent_options,
    default_path,
    prepared_path,
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

command = cli.Commands()
command.add_group("token: manage tokens for the HTTP server")


@command("""token create: make a token and print it, once

    --app APP  the app whose memories the token may access
    --user USER  only this user's
    --all-apps  those of all apps
    --read-only  it may not write
    --review  it sees what is quarantined, and may release it
    --trust TRUST  the highest tier of trust of what it writes
    --min-trust MIN_TRUST  the lowest tier of trust of what it reads
    --source SOURCE  the source of all that it writes
    --author AUTHOR  the author of all that it writes
    --admin  counts, backups, deleting; no memories
    --label LABEL  what it is for, shown by `vecall token list`
    --expires EXPIRES  after a time such as 12h or 30d, or at an ISO 8601 time
    @file
    @tokens
    @json""")
def _run_token_create(options: argparse.Namespace) -> int:
    """Create a token. The file stores only its hash."""
    file = token_file_of_options(options)
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


@command("""token list: show whom tokens let in, and when each was last used

    @file
    @tokens
    @listing""")
def _run_token_list(options: argparse.Namespace) -> int:
    """Show all tokens without their hashes."""
    file = token_file_of_options(options)
    from vecall.server.tokens import token_to_json

    listed = [token_to_json(token) for token in file.read()]
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


@command("""token revoke: revoke a token

    id  as `vecall token list` shows it; or the label
    @file
    @tokens""")
def _run_token_revoke(options: argparse.Namespace) -> int:
    file = token_file_of_options(options)
    tokens = file.read()
    ids = {each.id for each in tokens if options.id in (each.id, each.label)}
    if len(ids) != 1:
        several = "several tokens have this label; name one by its id"
        raise ConfigError(f"id: {several if ids else 'there is no such token'}")
    file.change(lambda tokens: [token for token in tokens if token.id not in ids])
    print(f"{ids.pop()} opens nothing any more")
    return 0


def token_file_of_options(options: argparse.Namespace) -> TokenFile:
    """Return the token file that the options name."""
    from vecall.server import TokenFile

    if options.tokens is None:
        cli.refuse_database_url(options.path, "name the file of tokens with --tokens")
    return TokenFile(options.tokens or f"{prepared_path(options.path)}.tokens")


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


_LIMITS = "\n".join(
    f"    --{each.name.replace('_', '-')} N {type(each.default).__name__}"
    for each in fields(HttpLimits)
)


@command(f"""serve: serve a file or a database over HTTP
    Serve a file or a database over HTTP, by default to this machine only.

    @path @embedder
    @tokens
    --host HOST = 127.0.0.1  address (%(default)s)
    --port PORT int = 8765  port (%(default)s)
    --tls-certificate TLS_CERTIFICATE path  PEM file of the chain
    --tls-key TLS_KEY path  PEM file of the private key
    --tls-client-ca TLS_CLIENT_CA path  PEM file of the CA that signs clients'
      certificates; others are refused
    --insecure-bind  listen to other machines without TLS, behind a proxy that has it
    --allow-host HOST ...  a Host header to accept besides this machine's own; may be
      repeated
    --allow-origin ORIGIN ...  an Origin header to accept (default: none, so requests of
      web pages are refused); may be repeated
    --session-loader MODULE:NAME  async function of app_name, user_id and session_id
      that returns sessions
    @on-write
    --read-only  answer reads, refuse every write
    --mcp  also serve the Model Context Protocol, at /mcp, to tokens of one user
    --trigger NAME[:NUMBER]  when observed sessions are stored: session_end, compaction,
      inactivity:MILLISECONDS or message_count:TURNS
    --ttl TTL  default TTL of memories: seconds, or 12h or 30d
    --history-ttl HISTORY_TTL  TTL of overwritten texts, which do not count towards the
      quota: seconds, or 12h or 30d (default: the lifetime of the memory)
    --drain SECONDS float = 0  after SIGTERM, answer requests for so long while /readyz
      gives 503, so that a load balancer sends no more (%(default)g)
    --log-format {{text,json}} = text  lines for people, or one JSON object a line
      (%(default)s)
    --backups FOLDER path  the folder for backups that an admin requests; created if
      missing
    [quota of each user, as in vecall.Quota]
    --quota-memories N int = 100_000  0 is any number (%(default)s)
    --quota-bytes N int = 268_435_456  bytes of text; 0 is any number (%(default)s)
    --eviction {{{",".join(get_args(Eviction))}}} = reject  what becomes of a write that
      exceeds it (%(default)s)
    [limits, as in vecall.server.HttpLimits]
{_LIMITS}""")
def _run_serve(options: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT; return 2 if the server refuses to start."""
    file = token_file_of_options(options)
    from vecall.server import create_app
    from vecall.server.run import Binding, Drain, JsonLines, serve

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
            hosts=options.allow_host or (),
        )
        drain = Drain(options.drain)
        known = len(file.read())
        binding.check_address(tokens=known)
    except ConfigError as error:
        ui.print_note(error)
        return 2
    if not known:
        create = _token_create_command(options)
        known_to_exist = options.path == ":memory:" or is_database_url(options.path)
        if not known_to_exist and not Path(options.path).exists():
            ui.print_note(f"path: there is no such file; begin a new one with {create}")
            return 2
        what = "there is no token yet, so every request is refused"
        ui.print_note(f"{what}; make one with {create}")
    if options.backups is not None:
        cli.refuse_database_url(
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
    if options.mcp:  # before the server starts: it needs the extra
        from vecall.mcp.asgi import asgi_app

        # The messages of the SDK may hold texts of memories.
        logging.getLogger("mcp").setLevel(logging.CRITICAL + 1)
    signal.signal(signal.SIGTERM, _exit_server_process)  # so that the file is closed
    if options.backups is not None:
        cli.make_private_folder(options.backups, "backups")
    loader = cli.import_function(options.session_loader, "session-loader")
    with _open_served_memory(options) as memory:
        shared: dict[str, Any] = {
            "tokens": file,
            "limits": limits,
            "hosts": options.allow_host or (),
            "origins": options.allow_origin or (),
        }
        app = create_app(
            memory,
            **shared,
            session_loader=loader,
            backups=options.backups,
            accepting=drain.is_accepting,
        )
        if options.mcp:
            app = asgi_app(memory, beside=app, **shared)

        def started(url: str) -> None:
            print(f"serving {url}", flush=True)

        try:
            serve(app, binding, limits, started, drain)
        finally:
            file.save_uses()
    return 0


def _token_create_command(options: argparse.Namespace) -> str:
    """Return the command that creates a token, without a password."""
    command = "vecall token create"
    if not is_database_url(options.path):
        command += f" --path {shell_words([options.path])}"
    command += " --app APP"
    if options.tokens is not None:
        command += f" --tokens {shell_words([str(options.tokens)])}"
    return command


def _open_served_memory(options: argparse.Namespace) -> MemoryService:
    return MemoryService(
        prepared_path(options.path),
        embedder=cli.parse_embedder(options.embedder),
        read_only=options.read_only,
        trigger=options.trigger and trigger_from_text(options.trigger),
        ttl=options.ttl,
        writes=WritePolicy(
            on_write=cli.import_function(options.on_write, "on-write"),
            history_ttl=options.history_ttl,
            quota=Quota(
                memories=options.quota_memories or None,
                bytes=options.quota_bytes or None,
                eviction=options.eviction,
            ),
        ),
    )


def _exit_server_process(*_: object) -> NoReturn:
    sys.exit(0)


# `vecall mcp`.
#
# What to paste into the settings of a client, so that it starts `vecall mcp`.
#
# The formats are those of the clients' documentation in November 2026.

_NAME = "memory"


# Where to paste them, and the key of the servers; without a key, a shell.
CLIENTS = {
    "claude-desktop": (
        "claude_desktop_config.json, from Settings, Developer, Edit Config",
        "mcpServers",
    ),
    "claude-code": ("a shell", ""),
    "cursor": ("~/.cursor/mcp.json, or .cursor/mcp.json of a project", "mcpServers"),
    "vscode": (
        ".vscode/mcp.json, or the file of the command MCP: Open User Configuration",
        "servers",
    ),
    "zed": ("settings.json, from the command zed: open settings", "context_servers"),
}
"""The clients, by the name on the command line."""


MAX_TOKENS = 2_000
# Their messages may hold texts of memories.
_SILENT = ("mcp", "asyncio")


@command(f"""mcp: serve one user's memory to a client of the Model Context Protocol
    Serve one user's memory to a client of the Model Context Protocol, over the standard
    input and output. The client starts the command. For clients over HTTP, see vecall
    serve --mcp.

    --path FILE file  the file (default: {DEFAULT})
    --app APP = {APP}  app_name (%(default)s)
    --user USER = {USER}  user_id (%(default)s)
    --read-only  offer no writes
    --max-tokens N int = {MAX_TOKENS}  the most tokens of an answer, at least 64
      (%(default)s)
    --ttl TTL  TTL of new memories: seconds, or 12h or 30d
    --config {{{",".join(CLIENTS)}}} CLIENT  serve nothing; print what to paste into the
      settings of a client: {", ".join(CLIENTS)}
    @embedder""")
def _run_mcp(options: argparse.Namespace) -> int:
    """Serve until the client ends the input, or until SIGTERM or SIGINT."""
    if options.config is not None:
        where, key = CLIENTS[options.config]
        line = _mcp_server_command(options)
        more = {"type": "stdio"} if options.config == "vscode" else {}
        server = {**more, "command": line[0], "args": line[1:]}
        settings = {key: {_NAME: server}}
        shown = json.dumps(settings, indent=2, ensure_ascii=False)
        if not key:
            shown = f"claude mcp add --scope user {_NAME} -- {shell_words(line)}"
        if find_spec("mcp") is None:
            ui.print_note("the command needs the extra: pip install 'vecall[mcp]'")
        ui.print_note(f"paste into {where}:")
        print(shown)
        return 0
    from vecall.mcp import create_server, private_pipes, run_stdio

    for name in _SILENT:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    os.umask(0o077)
    path = prepared_path(default_path() if options.path is None else options.path)
    with (
        ui.naming_path_in_errors(cli.shown_path(path)),
        private_pipes() as pipes,
        MemoryService(
            path,
            embedder=cli.parse_embedder(options.embedder),
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
    command = [*agents.vecall_command(), "mcp"]
    if options.path is not None:
        is_url = "://" in options.path
        path = options.path if is_url else str(Path(options.path).absolute())
        command += ["--path", path]
    defaults = {"app": APP, "user": USER, "max_tokens": MAX_TOKENS, "ttl": None}
    command += changed_agent_options(options, **defaults, embedder="auto")
    if options.read_only:
        command.append("--read-only")
    return command


# `vecall ui`: the page over a file, for the person at this machine.

_WEB = ("http://", "https://")


@command(f"""ui: look at memories in the browser
    Look at memories in the browser. The page is served to this machine only, until
    Ctrl-C, to the first browser that opens the address.

    path FILE|URL file ? = $VECALL_PATH  the file, or the URL of a PostgreSQL database,
      or the URL of a vecall server (default: {DEFAULT})
    --write  allow changes (default: only look)
    --no-browser  print the address, open nothing
    --port PORT int = 0  port (default: one that is free)
    @embedder""")
def _run_ui(options: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C or SIGTERM."""
    if options.path.startswith(_WEB):
        _print_and_open(options.path.rstrip("/") + "/ui", options)
        return 0
    from vecall.server import HttpLimits, create_app, mint
    from vecall.server.run import Binding, serve
    from vecall.server.tokens import OneHolder

    if not is_database_url(options.path) and not Path(options.path).exists():
        name = cli.shown_path(options.path)
        raise ConfigError(f"path: there is no file {name}; vecall demo makes one")
    key, token = mint(all_apps=True, review=True, read_only=not options.write)
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
    signal.signal(signal.SIGTERM, _exit_server_process)  # so that the file is closed
    limits = HttpLimits()
    with MemoryService(
        prepared_path(options.path),
        embedder=cli.parse_embedder(options.embedder),
        read_only=not options.write,
    ) as memory:
        app = create_app(memory, tokens=OneHolder([token]), limits=limits)
        try:
            serve(
                app,
                Binding(port=options.port),
                limits,
                lambda url: _print_and_open(f"{url}/ui#key={key}", options),
            )
        except KeyboardInterrupt:
            ui.print_note("the page is closed")
    return 0


def _print_and_open(url: str, options: argparse.Namespace) -> None:
    """Print the address, and open it in the browser."""
    print(url, flush=True)
    if not options.no_browser:
        # A browser in the terminal would not return.
        Thread(target=webbrowser.open, args=(url,), daemon=True).start()


# `vecall hook`, `vecall install` and `vecall uninstall`.


# main.py runs it before this is read, unless another option is before it.
@command("hook: recall or remember for a coding agent\n\narguments ...")
def _run_given_hook(options: argparse.Namespace) -> int:
    return run_hook(options.arguments)


@command(
    f"""install: add memory to a coding agent
    Add hooks to the settings of a coding agent: it recalls and remembers without a tool
    call. An agent whose hooks cannot add to a prompt gets the server vecall mcp.

    agent {{{",".join(agents.AGENTS)}}}  the coding agent
    --settings FILE path  the agent's settings (default: those of the user)
    --print  print the hooks, and change nothing
    --uninstall  the same as vecall uninstall""",
    add_agent_options,
)
def _run_install(options: argparse.Namespace) -> int:
    if options.uninstall:
        return _run_uninstall(options)
    agent = agents.AGENTS[options.agent]
    arguments = as_arguments(options, of_server=not agent.events)
    hooks = agent.hooks(agents.vecall_command(), arguments)
    if options.print:
        print(agents.installed_settings_text(agent, hooks), end="")
        return 0
    changed = _change_settings(options, partial(agents.install, hooks=hooks), "added")
    if changed and agent.name == "codex":
        print("Codex asks you to trust new hooks: type /hooks in a session.")
    return 0


@command(f"""uninstall: take memory out of a coding agent; the memories stay

    agent {{{",".join(agents.AGENTS)}}}  the coding agent
    --settings FILE path  the agent's settings (default: those of the user)""")
def _run_uninstall(options: argparse.Namespace) -> int:
    _change_settings(options, agents.uninstall_hooks, "removed")
    return 0


def _change_settings(
    options: argparse.Namespace, change: Callable[[agents.Agent, Path], bool], done: str
) -> bool:
    """Change the settings of an agent; say and return whether that was needed."""
    agent = agents.AGENTS[options.agent]
    path = options.settings or agent.settings()
    with ui.naming_path_in_errors(path):
        try:
            changed = change(agent, path)
        except OSError as error:
            msg = f"path: {error.strerror}; the settings were not changed"
            raise ConfigError(msg) from error
    what = f"hooks were {done}" if agent.events else f"the server was {done}"
    print(f"{ui.one_line(path)}: {what if changed else 'no change'}")
    return changed
