"""`vecall token`."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vecall.cli.options import add_json, expanded, refuse_database
from vecall.cli.terminal import print_json
from vecall.coding_agents.options import DEFAULT, default_path, prepared
from vecall.errors import ConfigError, InvalidArgumentError
from vecall.timestamps import to_seconds, ttl_seconds

if TYPE_CHECKING:
    from vecall.server.token_file import TokenFile

_NEEDS = "this needs the extra vecall[server]: pip install 'vecall[server]'"


def add_commands(commands: Any) -> None:
    """Add the command."""
    token = commands.add_parser("token", help="manage tokens for the HTTP server")
    actions = token.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = actions.add_parser("create", help="make a token and print it, once")
    create.add_argument("--app", help="the app whose memories the token may access")
    create.add_argument("--user", help="only this user's")
    create.add_argument("--read-only", action="store_true", help="it may not write")
    create.add_argument(
        "--review",
        action="store_true",
        help="it sees what is quarantined, and may release it",
    )
    create.add_argument("--trust", help="the highest tier of trust of what it writes")
    create.add_argument("--min-trust", help="the lowest tier of trust of what it reads")
    create.add_argument("--source", help="the source of all that it writes")
    create.add_argument("--author", help="the author of all that it writes")
    create.add_argument(
        "--admin", action="store_true", help="counts, backups, deleting; no memories"
    )
    create.add_argument(
        "--expires", help="after a time such as 12h or 30d, or at an ISO 8601 time"
    )
    listed = actions.add_parser("list", help="show whom tokens let in")
    revoke = actions.add_parser("revoke", help="revoke a token")
    revoke.add_argument("id", help="as `vecall token list` shows it")
    for action, run in (
        (create, run_create),
        (listed, run_list),
        (revoke, run_revoke),
    ):
        action.add_argument(
            "--path",
            type=expanded,
            default=default_path(),
            help=f"the file (default: {DEFAULT})",
        )
        add_tokens(action)
        action.set_defaults(run=run)
    add_json(create)
    add_json(listed)


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

    bearer, token = mint(
        app=options.app,
        user=options.user,
        read_only=options.read_only,
        review=options.review,
        admin=options.admin,
        trust=options.trust,
        source=options.source,
        author=options.author,
        min_trust=options.min_trust,
        expires_at=_expiry(options.expires),
    )
    file.change(lambda tokens: [*tokens, token])
    if options.json:
        print_json({"id": token.id, "token": bearer})
    else:
        print(bearer)
    return 0


def run_list(options: argparse.Namespace) -> int:
    """Show all tokens without their hashes."""
    file = token_file(options)
    from vecall.server.tokens import to_json

    shown = [to_json(token) for token in file.read()]
    for fields in shown:
        del fields["sha256"]
    if options.json:
        print_json({"tokens": shown})
        return 0
    for fields in shown:
        words = [f"{name}={value}" for name, value in fields.items() if name != "id"]
        print(fields["id"], *words)
    return 0


def run_revoke(options: argparse.Namespace) -> int:
    """Remove a token from the file."""
    file = token_file(options)
    known = {token.id for token in file.read()}
    if options.id not in known:
        msg = "id: there is no such token"
        raise ConfigError(msg)
    file.change(lambda tokens: [token for token in tokens if token.id != options.id])
    return 0


def token_file(options: argparse.Namespace) -> TokenFile:
    """Return the token file that the options name."""
    try:
        from vecall.server import TokenFile
    except ImportError as error:
        raise ConfigError(_NEEDS) from error
    if options.tokens is None:
        refuse_database(options.path, "name the file of tokens with --tokens")
    return TokenFile(options.tokens or f"{prepared(options.path)}.tokens")


def _expiry(text: str | None) -> float | None:
    """Return seconds since 1970, from a time or from a duration from now."""
    if text is None:
        return None
    if text[-1:].isdigit():  # a number alone may be meant as a time
        return to_seconds(text, "expires")
    try:
        return time.time() + ttl_seconds(text, "expires")
    except InvalidArgumentError:
        return to_seconds(text, "expires")
