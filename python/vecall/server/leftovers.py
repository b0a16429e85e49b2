"""Deletes exports that a killed server of an older version left in the temp folder.

Older versions created `vecall-????????/export.jsonl` in that folder. This version
creates no named file.
"""

from __future__ import annotations

import logging
import os
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

_log = logging.getLogger("vecall.server")

_FOLDERS = "vecall-????????"
_FILE = "export.jsonl"
_AGE_S = 86_400.0  # a server of an older version may still be running


def remove_old_exports(folder: Path | None = None) -> int:
    """Delete abandoned exports; return how many.

    A folder is deleted if it belongs to this user, only this user may enter it, the
    export is its only file, and it is at least a day old.

    Args:
        folder: The folder to search; None: the system's folder of temporary files.
    """
    count = 0
    for each in (folder or Path(tempfile.gettempdir())).glob(_FOLDERS):
        with suppress(OSError):  # another user's file, or a file that was just deleted
            if _is_leftover(each):
                (each / _FILE).unlink()
                each.rmdir()
                count += 1
    if count:
        _log.info("%d exports of a killed server were deleted", count)
    return count


def _is_leftover(folder: Path) -> bool:
    about = folder.lstat()
    own = stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid()
    if not own or about.st_mode & 0o077 or time.time() - about.st_mtime < _AGE_S:
        return False
    if [each.name for each in folder.iterdir()] != [_FILE]:
        return False
    file = (folder / _FILE).lstat()
    return stat.S_ISREG(file.st_mode) and time.time() - file.st_mtime >= _AGE_S
