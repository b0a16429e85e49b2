"""How commands declare their arguments, and the service that they open."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from inspect import cleandoc
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any

from vecall.cli.console import naming_path_in_errors, one_line
from vecall.coding_agents.options import APP, DEFAULT, USER, default_path, prepared_path
from vecall.embedders.base import is_async
from vecall.embedders.resolve import AUTO, NAMES, EmbedderLike, resolve
from vecall.errors import ConfigError, InvalidArgumentError, NotFoundError
from vecall.filters.rights import TRUST_TIERS, Rights
from vecall.hooks import WriteHook
from vecall.index.embedding import model_of_embedder
from vecall.operations.options import WritePolicy
from vecall.service._user_sync import SyncUserMemory
from vecall.service.memory_service import MemoryService
from vecall.store import url_without_secrets
from vecall.system import is_file_of_user, rights_of_others
from vecall.validation import is_database_url


def expand_home(typed: str) -> str:
    """Return a file name with a leading "~" or "~user" as the home folder."""
    if not typed:
        msg = "expected the name of a file, not an empty text"
        raise argparse.ArgumentTypeError(msg)
    return os.path.expanduser(typed)  # noqa: PTH111 - pathlib would remove "./"


_TYPES: dict[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "path": Path,
    "file": expand_home,
    "folder": lambda typed: Path(expand_home(typed)),
}
"""How the value of an argument is read, by the word in its declaration."""

_FILE = f"--path PATH file = $VECALL_PATH  {{}} (default: {DEFAULT})"
_SHARED = {
    "file": _FILE.format("the file"),
    "path": _FILE.format("the file, or the URL of a PostgreSQL database"),
    "json": "--json  print JSON",
    "listing": "--json  print JSON\n| --csv  print CSV",
    "id": "id ID  as vecall search shows it\n--held  one held for review",
    "ids": "id ID +  as vecall search shows it\n--held  one held for review",
    "owner": """\
--app APP  the app (default: the only one)
--user USER  the user (default: the app's only one)""",
    "tokens": """\
--tokens TOKENS path  the file of tokens (<path>.tokens); required with a database""",
    "on-write": """\
--on-write MODULE:NAME  function that judges every write, as on_write of
  MemoryService""",
    "embedder": """\
--embedder EMBEDDER = auto  auto (the model of the file, else local if it is installed,
  else none), none (words alone), local, NAME or NAME:MODEL such as
  openai:text-embedding-3-small, or MODULE:NAME of a function from texts to vectors or
  of an embedder (default: %(default)s)""",
    "fields": """\
--author AUTHOR  its author
--kind KIND  its kind
--source SOURCE  its source
--importance IMPORTANCE float  0 to 1
--metadata JSON  its custom_metadata""",
    "search": f"""\
--top-k TOP_K int = 5  at most (%(default)s)
--min-similarity MIN_SIMILARITY float  floor on the cosine, -1 to 1
--min-confidence MIN_CONFIDENCE float  floor on the confidence, 0 to 1
--session SESSION  only this session
--author AUTHOR ...  only by this author; given again, one more
--kind KIND ...  only of this kind; given again, one more
--not-kind NOT_KIND ...  none of this kind; given again, one more
--trust TRUST ...  only with this trust; given again, one more
--source SOURCE ...  only with this source; given again, one more
--session-prefix SESSION_PREFIX ...  only of sessions whose id begins so; given again,
  one more
--kind-prefix KIND_PREFIX ...  only of kinds that begin so; given again, one more
--min-trust {{{",".join(TRUST_TIERS)}}}  only of this tier of trust or higher
--metadata JSON  only with these custom_metadata, as JSON: '{{"project": "atlas",
  "year": {{"$gte": 2025}}}}'
--after AFTER  only from this time on, ISO 8601 with offset
--before BEFORE  only before this time""",
}
"""The arguments of several commands, each named by a line with "@"."""


_Run = Callable[[argparse.Namespace], int]
_Also = Callable[[argparse.ArgumentParser], None]
_Declared = tuple[str, _Run | None, _Also | None]


class Commands(dict[str, _Declared]):
    """Commands by their names, each declared by a text.

    backup, copy: what it does, in the list of commands
    What it does, in its own help. This paragraph may be missing.

    target FILE file  an argument that `expand_home` reads; FILE is its name in help
    --keep N int = 3  an option with a value and a default
    --user USER !  an option that is required
    --label NAME ...  an option that may be given again; of an argument, all others
    --mode {a,b}  an option with two values
    --fast  an option without a value; without a help, it is not shown
    | --careful  another one, not together with the one before
      whose help goes on here
    [of each user]  the title of the arguments that follow
    @path @json  arguments of several commands

    What is told at the end of its help. This paragraph may be missing, too.
    """

    def __call__(self, text: str, also: _Also | None = None) -> Callable[[_Run], _Run]:
        """Return a decorator of what a command runs; `also` adds arguments first."""

        def add(run: _Run) -> _Run:
            self._declare_command(text, run, also)
            return run

        return add

    def add_group(self, text: str) -> None:
        """Add a group of commands, whose names begin with that of the group."""
        self._declare_command(text, None, None)

    def _declare_command(self, text: str, run: _Run | None, also: _Also | None) -> None:
        shown = cleandoc(text)
        self[re.split("[,:]", shown, maxsplit=1)[0]] = (shown, run, also)


def add_commands(
    commands: Any, table: Mapping[str, _Declared], names: Iterable[str]
) -> None:
    """Add commands of a table, in the order of their names, to a parser."""
    groups = {"": commands}
    for each in names:
        text, run, also = table[each]
        top, arguments, epilog = [*text.split("\n\n", 2), "", ""][:3]
        head, *told = top.splitlines()
        named, _, about = head.partition(": ")
        group, _, name = each.rpartition(" ")
        made = groups[group].add_parser(
            name,
            aliases=named.split(", ")[1:],
            help=about,
            description=" ".join(told) or None,
            epilog=epilog,
            formatter_class=_HelpFormatter,
            add_help=not arguments.endswith(" ..."),
        )
        if run is None:
            groups[each] = made.add_subparsers(required=True, metavar="ACTION")
            continue
        made.set_defaults(run=run)
        if also is not None:
            also(made)
        _add_declared_arguments(made, arguments)


class _HelpFormatter(argparse.HelpFormatter):
    """Fills paragraphs, but those that have indented lines."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill = super()._fill_text
        return "\n\n".join(
            each if "\n " in each else fill(each, width, indent)
            for each in text.split("\n\n")
        )


def _add_declared_arguments(parser: argparse.ArgumentParser, text: str) -> None:
    def shared(line: re.Match[str]) -> str:
        return "\n".join(_SHARED[name] for name in re.findall(r"@(\S+)", line[0]))

    text = re.sub("^@.+$", shared, text, flags=re.MULTILINE)
    lines = re.sub("\n +", " ", text).splitlines()
    titled: argparse._ActionsContainer = parser
    group = titled
    for line, following in pairwise([*lines, ""]):
        if line.startswith("["):
            group = titled = parser.add_argument_group(line.strip("[]"))
            continue
        if not line.startswith("| "):
            is_either = following.startswith("| ")
            group = titled.add_mutually_exclusive_group() if is_either else titled
        declared, _, about = line.removeprefix("| ").partition("  ")
        _add_declared_argument(group, declared.split(), about.strip() or None)


def _add_declared_argument(
    group: argparse._ActionsContainer, words: list[str], about: str | None
) -> None:
    names = [word for word in words if word.startswith("-")] or words[:1]
    is_option = names[0].startswith("-")
    values = words[len(names) :]
    settings: dict[str, Any] = {"help": about}
    if is_option and not values:
        settings = {"help": about or argparse.SUPPRESS, "action": "store_true"}
    while values:
        word = values.pop(0)
        if word == "=":
            default = values.pop(0).strip('"')
            settings["default"] = settings.get("type", str)(default)
            if default == "$VECALL_PATH":
                settings["default"] = default_path()
        elif word in _TYPES:
            settings["type"] = _TYPES[word]
        elif word == "!":
            settings["required"] = True
        elif word == "..." and is_option:
            settings["action"] = "append"
        elif word in ("?", "+", argparse.REMAINDER):
            settings["nargs"] = word
        elif word.startswith("{"):
            settings["choices"] = word.strip("{}").split(",")
        else:
            settings["metavar"] = word
    group.add_argument(*names, **settings)


def parse_embedder(given: str) -> EmbedderLike:
    """Return the `embedder` argument of a service, of the value of --embedder."""
    if given == "none":
        return None
    module, colon, _ = given.partition(":")
    if not colon or module in NAMES:
        return given
    names = ", ".join(NAMES)
    known = f"auto, none, one of {names}, NAME:MODEL of one of these, or MODULE:NAME"
    found = import_object(given, "embedder", known)
    made: EmbedderLike = found() if isinstance(found, type) else found
    return made


def with_progress(embedder: Any, add: Callable[[int], None]) -> Any:
    """Return an embedder that calls `add` with how many texts it has embedded."""
    if embedder is None or is_async(embedder.embed):
        return embedder

    class Reporting:
        def embed(self, texts: Sequence[str]) -> Any:
            made = embedder.embed(texts)
            add(len(texts))
            return made

        def __getattr__(self, name: str) -> Any:
            return getattr(embedder, name)

    return Reporting()


def import_object(given: str, option: str, expected: str) -> Any:
    """Import MODULE:NAME, also from the current folder, or raise ConfigError."""
    module, _, name = given.partition(":")
    # A script's sys.path has the script's folder only.
    sys.path.append(str(Path.cwd()))
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        why = f"and its import raises {type(error).__name__}"
        msg = f"{option}: expected {expected} that can be imported, {why}"
        raise ConfigError(msg) from error
    finally:
        sys.path.pop()
    return found


def import_function(given: str | None, option: str) -> Any:
    """Import the function MODULE:NAME, or raise ConfigError; return None for None."""
    if given is None:
        return None
    expected = "MODULE:NAME of a function"
    found = import_object(given, option, expected)
    if not callable(found):
        raise ConfigError(f"{option}: expected {expected}")
    return found


_NAMES_READ = 1_000  # for the nearest ones
_NAMES_SHOWN = 10


def choose_app(memory: MemoryService, given: str | None) -> str:
    """Return an app of the file: the given one, or the only one; or raise an error."""
    listed = memory.sync.admin.list_apps
    return _choose_known_name("app", given, listed, attrgetter("app_name"))


def choose_user(
    memory: MemoryService, app: str, given: str | None, also: Iterable[str] = ()
) -> str:
    """Return a user of an app as `choose_app`; `also` are names that may be meant."""
    listed = partial(memory.sync.admin.list_users, app_name=app)
    return _choose_known_name("user", given, listed, attrgetter("user_id"), also)


def choose_session(user: SyncUserMemory, given: str, also: Iterable[str]) -> str:
    """Return a session of a user, as `choose_user` returns a user."""
    named = attrgetter("session_id")
    return _choose_known_name("session", given, user.list_sessions, named, also)


def _choose_known_name(
    what: str,
    given: str | None,
    listed: Callable[..., Iterable[Any]],
    name_of: Callable[[Any], str],
    also: Iterable[str] = (),
) -> str:
    def names(**page: Any) -> list[str]:
        return list(map(name_of, listed(**page)))

    if given is not None:
        if given in names(prefix=given, limit=1):
            return given
        known = {*also, *names(limit=_NAMES_READ)}
        known |= {*names(prefix=given[:1], limit=_NAMES_READ)}
        near = get_close_matches(given, sorted(known)) or sorted(known)[:_NAMES_SHOWN]
        shown = one_line(given) or "an empty name"
        msg = f"{what}: {shown} is unknown; the nearest names: "
        raise NotFoundError(msg + (", ".join(map(one_line, near)) or "none"))
    found = names(limit=_NAMES_SHOWN + 1)
    if len(found) == 1:
        return found[0]
    if not found:
        raise ConfigError("there are no memories yet; `vecall add TEXT` stores one")
    some = [*map(one_line, found[:_NAMES_SHOWN]), *["…"][: len(found) > _NAMES_SHOWN]]
    raise ConfigError(f"--{what}: there are several, name one: {', '.join(some)}")


@contextmanager
def open_without_embedder(
    path: str, *, read_only: bool = False
) -> Iterator[MemoryService]:
    """Open a file or a database that exists, without an embedder and its warnings."""
    require_existing_file(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with open_service(path, "none", read_only=read_only) as memory:
            yield memory


@contextmanager
def open_user(
    options: argparse.Namespace, *, writes: bool = True, is_new: bool = False
) -> Iterator[SyncUserMemory]:
    """Open the memory of the named user; without --held, nothing that is held."""
    if not is_new or options.path == ":memory:":  # which would end with the command
        require_existing_file(options.path)
    embedder = getattr(options, "embedder", None)
    with (
        open_without_embedder(options.path, read_only=not writes)
        if embedder is None
        else open_service(options.path, embedder, read_only=not writes)
    ) as memory:
        app, user = options.app, options.user
        if is_new and not memory.sync.admin.list_apps(limit=1):
            app, user = app or APP, user or USER
        if not is_new or app is None:
            app = choose_app(memory, app)
        if not is_new or user is None:
            user = choose_user(memory, app, user)
        rights = Rights(review=getattr(options, "held", False))
        yield memory.restricted(rights).sync.user(app, user)


def shown_path(path: str) -> str:
    """Return a path for messages: a URL without user, password and options."""
    return url_without_secrets(path) if is_database_url(path) else path


def require_existing_file(path: str) -> None:
    """Require an existing file: a read must not create one. A URL creates nothing."""
    if not is_database_url(path) and not Path(path).is_file():
        is_there = Path(path).exists()
        msg = f"{path}: {'not a file' if is_there else 'there is no such file'}"
        if path == default_path() and Path("memory.db").is_file():
            msg += "; for the one in this folder, write --path memory.db"
        raise ConfigError(msg)


def make_private_folder(folder: Path, option: str) -> None:
    """Make a folder for this user alone; raise ConfigError if others may write."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        msg = f"{option}: the folder cannot be made: {error.strerror}"
        raise ConfigError(msg) from error
    about = folder.stat()
    if not is_file_of_user(about) or rights_of_others(about) & 0o022:
        msg = f"{option}: the folder must be yours, and only you may write in it"
        raise ConfigError(msg)


def refuse_database_url(path: str, means: str) -> None:
    """Raise ConfigError for the URL of a database; `means` says what to use."""
    if is_database_url(path):
        raise ConfigError(f"{shown_path(path)}: is a database; {means}")


@contextmanager
def open_service(
    path: str,
    embedder: str,
    on_write: WriteHook | None = None,
    *,
    read_only: bool = False,
) -> Iterator[MemoryService]:
    """Open a service and close it after the block; reading makes no vectors."""
    given = parse_embedder(embedder)
    is_new = not is_database_url(path) and not Path(path).exists()
    if given not in (None, AUTO) and is_new:
        given = resolve(given)
        if given is not None:
            model_of_embedder(given)  # if the embedder fails, create no file
    with (
        naming_path_in_errors(shown_path(path)),
        MemoryService(
            path if read_only else prepared_path(path),
            embedder=given,
            read_only=read_only,
            writes=WritePolicy(on_write=on_write),
        ) as memory,
    ):
        yield memory


def parse_metadata(typed: str | None) -> dict[str, Any] | None:
    """Return the value of --metadata, which must be a JSON object."""
    if typed is None:
        return None
    try:
        found = json.loads(typed)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InvalidArgumentError("--metadata: expected a JSON object")
    return found
