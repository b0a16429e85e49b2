"""Export: one JSON object per line, the header first."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Protocol

from vecall.concurrency.time_slices import in_slices
from vecall.errors import ConfigError, StorageError, VecallError
from vecall.store import Storage, free_lines


class LineTarget(Protocol):
    """A target for text, such as a file opened in text mode."""

    def write(self, text: str, /) -> object:
        """Write text."""


def export(
    storage: Storage,
    target: Path | LineTarget,
    *,
    vectors: bool,
    app: str | None,
    user: str | None,
    quarantined: bool = True,
) -> int:
    """Export memories to a new file or a stream; return the number of memories.

    The export is a snapshot: it does not contain concurrent writes.

    Args:
        storage: The file.
        target: The path of a new file, or a stream.
        vectors: Whether to export vectors.
        app: The only app to export; None exports all apps.
        user: The only user to export; None exports all users.
        quarantined: Whether to export quarantined memories.

    Raises:
        ConfigError: A file with the target's path exists.
        StorageError: The target cannot be written.
    """
    if not isinstance(target, Path):
        return _export(storage, target, vectors, app, user, quarantined)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        handle = os.open(target, flags, 0o600)
    except FileExistsError:
        msg = "path: there is a file of that name already"
        raise ConfigError(msg) from None
    except OSError as error:
        msg = f"path: the file cannot be created: {error.strerror}"
        raise StorageError(msg) from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            count = _export(storage, file, vectors, app, user, quarantined)
            file.flush()
            os.fsync(file.fileno())
    except BaseException as error:
        target.unlink(missing_ok=True)  # remove the incomplete export
        if isinstance(error, OSError) and not isinstance(error, VecallError):
            msg = f"path: the file cannot be written: {error.strerror}"
            raise StorageError(msg) from error
        raise
    return count


def _export(
    storage: Storage,
    file: LineTarget,
    vectors: bool,
    app: str | None,
    user: str | None,
    quarantined: bool,
) -> int:
    count = 0
    with storage.read() as reads:
        _write(file, reads.export_header(vectors))
        model = reads.active_model() if vectors else None
        number = None if model is None else model.id
        for part, in_app, of_user, made in reads.export_partitions(app, user):
            header = {"app": in_app, "user": of_user, "created_at": made}
            _write(file, {"part": header})
            lines = reads.export_lines(part, number)
            shown = lines if quarantined else free_lines(lines)
            for kind, values in in_slices(shown, gives_way=True):
                _write(file, {kind: values})
                count += kind == "mem"
            for values in in_slices(reads.export_items(part, vectors), gives_way=True):
                _write(file, {"item": values})
    return count


def _write(file: LineTarget, line: dict[str, Any]) -> None:
    # A stream may be a terminal or use another encoding than UTF-8.
    is_stream = getattr(file, "encoding", None) != "utf-8"
    text = json.dumps(line, ensure_ascii=is_stream, separators=(",", ":"))
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:  # a lone surrogate in an item
            text = json.dumps(line, separators=(",", ":"))
    try:
        file.write(text.replace("\x7f", "\\u007f"))
        file.write("\n")
    except BrokenPipeError:
        raise  # the reader closed the pipe
    except Exception as error:
        # A ValueError of the caller's stream does not mean that the file's data is bad.
        msg = f"path: it cannot be written: {_reason(error)}"
        raise StorageError(msg) from error


def _reason(error: Exception) -> str:
    """Return why a stream failed, without the written text."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__
