"""The user name of a project: one for all folders and worktrees of a repository."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

_GITDIR = "gitdir:"
_WORKTREES = "worktrees"


def project_user(folder: str) -> str:
    """Return the user name of the project that a folder belongs to.

    The name is a hash of the repository's root, or of the folder outside a repository.
    It does not reveal the path. A git worktree has the name of its main repository, if
    that names the worktree as well: anybody can write the name of another repository
    into a folder that is to be unpacked.
    """
    root = _root(Path(os.path.realpath(folder)))
    digest = hashlib.blake2b(os.fsencode(root), digest_size=8)
    return f"project-{digest.hexdigest()}"


def _root(folder: Path) -> Path:
    for each in (folder, *folder.parents):
        mark = each / ".git"
        if mark.is_dir():
            return each
        if mark.is_file():
            return _main_repository(mark) or each
    return folder


def _main_repository(mark: Path) -> Path | None:
    """Return the repository of a worktree, whose `.git` is a file with a path.

    The repository's folder for the worktree must name that file in its turn, as git
    itself requires.
    """
    line = _first_line(mark)
    if not line.startswith(_GITDIR):
        return None
    named = mark.parent / line.removeprefix(_GITDIR).strip()
    folder = Path(os.path.realpath(named))
    if folder.parent.name != _WORKTREES or folder.parents[1].name != ".git":
        return None
    back = _first_line(folder / "gitdir").strip()
    if not back or os.path.realpath(folder / back) != os.path.realpath(mark):
        return None
    return folder.parents[2]


def _first_line(path: Path) -> str:
    """Return the first line of a small file; "" if there is none."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(file, encoding="utf-8") as stream:
            return stream.readline(8_192)
    except (OSError, ValueError):
        return ""
