"""The options of a hook: which file, which app and user, how much to recall."""

from __future__ import annotations

import argparse
import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vecall.errors import ConfigError
from vecall.system import DATA_FOLDER, data_folder, open_to_read

APP = "coding-agents"
"""The app of all coding agents, so that one knows what another was told."""

USER = "me"
MAX_TOKENS = 1_500
EMBEDDERS = ("none", "auto", "local")


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a hook."""

    path: Path
    app: str
    user: str | None  # None: one of the project's folder
    max_tokens: int  # of a block
    min_confidence: float | None  # None: the default of `PreloadMemory`
    embedder: str  # "none" searches by words, without loading a model


MARK = "# vecall install"
"""The end of every command that `vecall install` writes; nothing else has it."""

DEFAULT = f"$VECALL_PATH, else {DATA_FOLDER}/vecall/memory.db"
"""The default path of all commands, in words."""


def default_path() -> str:
    """Return `$VECALL_PATH`, else `memory.db` in the folder of the user's data."""
    given = os.environ.get("VECALL_PATH")
    if given and "://" in given:
        return given  # the URL of a database
    return str(Path(given or f"{data_folder()}/vecall/memory.db").expanduser())


def prepared_path(path: str) -> str:
    """Return a path to write to; of the default path, create the folder."""
    if "://" not in path and path == default_path():
        Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def add_agent_options(command: argparse.ArgumentParser) -> None:
    """Add the options to a command."""
    command.add_argument(
        "--path", metavar="FILE", help=f"the file (default: {DEFAULT})"
    )
    command.add_argument("--app", default=APP, help="app_name (%(default)s)")
    who = command.add_mutually_exclusive_group()
    who.add_argument("--user", default=USER, help="user_id (%(default)s)")
    who.add_argument(
        "--user-from",
        choices=["cwd"],
        help="cwd: one user for each repository, so that projects share nothing",
    )
    command.add_argument(
        "--max-tokens",
        type=_parse_positive_option,
        default=MAX_TOKENS,
        metavar="N",
        help="the most tokens that a prompt gets (%(default)s)",
    )
    command.add_argument(
        "--min-confidence",
        type=_parse_share_option,
        metavar="P",
        help="the least confidence of a memory, 0 to 1; without it, a prompt that asks "
        "nothing of the memory gets none, and any other the best memories",
    )
    command.add_argument(
        "--embedder",
        choices=EMBEDDERS,
        default="none",
        help="none: search by words, without loading a model (%(default)s)",
    )


def agent_options_of(parsed: argparse.Namespace) -> Options:
    """Return the options that were parsed."""
    path = default_path() if parsed.path is None else parsed.path
    if "://" in path:
        msg = "path: hooks need a file, not a database; name it with --path"
        raise ConfigError(msg)
    return Options(
        path=Path(path).expanduser(),
        app=parsed.app,
        user=None if parsed.user_from else parsed.user,
        max_tokens=parsed.max_tokens,
        min_confidence=parsed.min_confidence,
        embedder=parsed.embedder,
    )


def as_arguments(parsed: argparse.Namespace, *, of_server: bool = False) -> list[str]:
    """Return the options that differ from the defaults; a server has fewer of them."""
    given: list[str] = []
    if of_server and (parsed.user_from or parsed.min_confidence is not None):
        msg = (
            "user-from, min-confidence: only hooks have them; this agent gets a server"
        )
        raise ConfigError(msg)
    path = agent_options_of(parsed).path
    if parsed.path is not None:
        given += ["--path", path.absolute().as_posix()]
    return given + changed_agent_options(
        parsed,
        app=APP,
        user_from=None,
        user=USER,
        max_tokens=MAX_TOKENS,
        min_confidence=None,
        embedder="none",
    )


def changed_agent_options(parsed: argparse.Namespace, **defaults: object) -> list[str]:
    """Return the options that differ from their defaults, as arguments."""
    values = {name: getattr(parsed, name) for name in defaults}
    return [
        word
        for name, value in values.items()
        if value != defaults[name]
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]


def _parse_positive_option(typed: str) -> int:
    if typed.isdecimal() and len(typed) < 20 and int(typed) > 0:
        return int(typed)
    raise argparse.ArgumentTypeError("must be an integer of at least 1")


def _parse_share_option(typed: str) -> float:
    with suppress(ValueError):
        if 0 <= (number := float(typed)) <= 1:
            return number
    raise argparse.ArgumentTypeError("must be a number from 0 to 1")


_GITDIR = "gitdir:"
_WORKTREES = "worktrees"


def user_of_project(folder: str) -> str:
    """Return a hash of the root of a folder's repository, or else of the folder.

    Worktrees share it, if their main repository names them as well: anybody can write
    the name of another repository into a folder that is to be unpacked.
    """
    root = _project_root(Path(os.path.realpath(folder)))
    digest = hashlib.blake2b(os.fsencode(root), digest_size=8)
    return f"project-{digest.hexdigest()}"


def _project_root(folder: Path) -> Path:
    for each in (folder, *folder.parents):
        mark = each / ".git"
        if mark.is_dir():
            return each
        if mark.is_file():
            return _repository_of_worktree(mark) or each
    return folder


def _repository_of_worktree(mark: Path) -> Path | None:
    """Return the repository of a worktree, if both name each other as git requires."""
    line = _first_line_of_file(mark)
    if not line.startswith(_GITDIR):
        return None
    named = mark.parent / line.removeprefix(_GITDIR).strip()
    folder = Path(os.path.realpath(named))
    if folder.parent.name != _WORKTREES or folder.parents[1].name != ".git":
        return None
    back = _first_line_of_file(folder / "gitdir").strip()
    if not back or os.path.realpath(folder / back) != os.path.realpath(mark):
        return None
    return folder.parents[2]


def _first_line_of_file(path: Path) -> str:
    """Return the first line of a small file; "" if there is none."""
    try:
        file = open_to_read(path)
        with os.fdopen(file, encoding="utf-8") as stream:
            return stream.readline(8_192)
    except (OSError, ValueError):
        return ""
