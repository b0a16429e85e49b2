"""Export and import: one JSON object a line, the header first."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, BinaryIO, TextIO, TypeVar

from vecall._import_lines import LineReader
from vecall._rules import bounds_of
from vecall.config import Limits
from vecall.errors import ConfigError, InvalidArgumentError, StorageError, VecallError
from vecall.store import (
    Change,
    Database,
    EmbeddingModel,
    ImportLines,
    WriteJob,
    active_model,
    adopt,
    export_header,
    export_lines,
    export_partitions,
    free_lines,
    require_same,
    require_unrelated,
)

T = TypeVar("T")

_LINES_AT_ONCE = 500
_JOBS_AHEAD = 64
_LINE_BYTES = 64 * 1024 * 1024  # the longest line that is read


def export(
    database: Database,
    path: Path,
    *,
    vectors: bool,
    app: str | None,
    user: str | None,
    quarantined: bool = True,
) -> int:
    """Write all memories, or some, to a new file; return how many.

    One state of the file is exported, whatever is written meanwhile.

    Raises:
        ConfigError: There is a file of that name.
        StorageError: It cannot be written.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        handle = os.open(path, flags, 0o600)
    except FileExistsError:
        msg = "path: there is a file of that name already"
        raise ConfigError(msg) from None
    except OSError as error:
        msg = f"path: the file cannot be created: {error.strerror}"
        raise StorageError(msg) from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            count = _export(database, file, vectors, app, user, quarantined)
            file.flush()
            os.fsync(file.fileno())
    except BaseException as error:
        path.unlink(missing_ok=True)  # half an export is none
        if isinstance(error, OSError) and not isinstance(error, VecallError):
            msg = f"path: the file cannot be written: {error.strerror}"
            raise StorageError(msg) from error
        raise
    return count


def _export(
    database: Database,
    file: TextIO,
    vectors: bool,
    app: str | None,
    user: str | None,
    quarantined: bool,
) -> int:
    count = 0
    with database.snapshot() as connection:
        _write(file, export_header(connection, vectors))
        model = active_model(connection) if vectors else None
        number = None if model is None else model.id
        for part, in_app, of_user, made in export_partitions(connection, app, user):
            told = {"app": in_app, "user": of_user, "created_at": made}
            _write(file, {"part": told})
            lines = export_lines(connection, part, number)
            for kind, values in lines if quarantined else free_lines(lines):
                _write(file, {kind: values})
                count += kind == "mem"
    return count


def _write(file: TextIO, line: dict[str, Any]) -> None:
    file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")))
    file.write("\n")


def import_(
    database: Database,
    submit: Callable[[WriteJob], Future[Change]],
    path: Path,
    limits: Limits,
    *,
    vectors: bool,
    restore: bool,
) -> int:
    """Read an export into the file; return how many memories were written.

    What is there already stays, unless the export has it newer. A second time, or after
    an interruption, nothing comes twice.

    Raises:
        InvalidArgumentError: A line that no export has; those before it are imported.
        EmbeddingMismatchError: The vectors come from another model than the file's.
    """
    require_unrelated(path, database.path)
    try:
        file = path.open("rb")
    except OSError as error:
        msg = f"path: the file cannot be read: {error.strerror}"
        raise ConfigError(msg) from error
    with file:
        reader = LineReader(limits)
        lines = _Lines(file)
        given = lines.read(reader.header) if lines.next() else reader.header({})
        model = None
        if vectors and given is not None:
            model = _agree(database, given)
        count = 0
        waiting: deque[Future[Change]] = deque()
        for job in _jobs(lines, reader, model, restore):
            job.bounds = bounds_of(limits)
            waiting.append(submit(job))  # so that many share one sync
            if len(waiting) == _JOBS_AHEAD:
                count += len(waiting.popleft().result().ids)
        count += sum(len(future.result().ids) for future in waiting)
    if lines.error is not None:
        raise lines.error
    return count


def _agree(database: Database, given: EmbeddingModel) -> int:
    with database.snapshot() as connection:
        stored = active_model(connection)
    if stored is None:
        with database.transaction() as connection:
            stored = adopt(connection, given)
    require_same(stored, given)
    return stored.id


class _Lines:
    """The lines of a file, up to the first that is bad."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._number = 0
        self._item: Any = None
        self.error: VecallError | None = None

    def next(self) -> bool:
        """Go to the next line; False at the end."""
        line = self._file.readline(_LINE_BYTES)
        self._number += 1
        try:
            self._item = json.loads(line) if line else None
        except (ValueError, RecursionError):
            self._item = None
        return bool(line)

    def read(self, take: Callable[[dict[str, Any]], T]) -> T:
        """Read the line; an error says which one it is."""
        try:
            if not isinstance(self._item, dict):
                msg = "expected a JSON object"
                raise InvalidArgumentError(msg)
            return take(self._item)
        except InvalidArgumentError as error:
            msg = f"line {self._number}: {error}"
            raise type(error)(msg) from None


def _jobs(
    lines: _Lines, reader: LineReader, model: int | None, restore: bool
) -> Iterator[ImportLines]:
    job: ImportLines | None = None
    some: list[tuple[str, dict[str, Any]]] = []
    while lines.next():
        try:
            kind, values = lines.read(reader.line)
            if job is None and kind != "part":
                lines.read(_too_early)
        except InvalidArgumentError as error:
            lines.error = error  # to be raised when those before it are in
            break
        if kind == "part":
            if job is not None:
                yield job
            some = []
            job = ImportLines(
                values["app"],
                values["user"],
                values["created_at"],
                some,
                model,
                restore,
            )
        elif job is not None:
            some.append((kind, values))
            if len(some) == _LINES_AT_ONCE:
                yield job
                some = []
                job = ImportLines(
                    job.app, job.user, job.created_at, some, model, restore
                )
    if job is not None:
        yield job


def _too_early(_: dict[str, Any]) -> None:
    msg = "comes before any partition"
    raise InvalidArgumentError(msg)
