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
    It does not reveal the path. A git worktree has the name of its main repository.
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
    """Return the repository of a worktree, whose `.git` is a file with a path."""
    try:
        with mark.open(encoding="utf-8") as file:
            line = file.readline(8_192)
    except (OSError, ValueError):
        return None
    if not line.startswith(_GITDIR):
        return None
    named = mark.parent / line.removeprefix(_GITDIR).strip()
    folder = Path(os.path.realpath(named))
    if folder.parent.name != _WORKTREES or folder.parents[1].name != ".git":
        return None
    return folder.parents[2]
