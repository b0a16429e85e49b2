"""Import of an export: one JSON object per line, the header first."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from vecall.errors import (
    ConfigError,
    InvalidArgumentError,
    LimitExceededError,
    VecallError,
)
from vecall.ingest.import_validation import LineReader
from vecall.limits import Limits
from vecall.operations.import_review import ImportReviewer
from vecall.store import (
    Change,
    EmbeddingModel,
    ImportLines,
    Storage,
    UserQuota,
    require_same,
)
from vecall.types import Imported

T = TypeVar("T")

_LINES_AT_ONCE = 500
_JOBS_AHEAD = 64
_BYTES_AT_ONCE = 8 << 20  # of lines
_LINE_TEXTS = 16  # the limit of a line, in multiples of max_text_bytes
_LINE_ITEMS = 6  # of an item's, in multiples of max_item_bytes; escapes are long
_ITEM = b'{"item"'


class LineSource(Protocol):
    """A source of lines, such as a file opened in binary mode."""

    def readline(self, limit: int, /) -> bytes:
        """Return at most `limit` bytes of the next line; b"" at the end."""


class ImportOptions(NamedTuple):
    """The options of an import.

    Attributes:
        vectors: Import the vectors.
        restore: Restore memories that were deleted in this file.
        app: The only app whose memories may be written; None allows any app.
        user: The only user whose memories may be written; None allows any user.
        gate: Call the write hook with every imported memory.
    """

    vectors: bool = True
    restore: bool = False
    app: str | None = None
    user: str | None = None
    gate: bool = False

    def check(self, values: Mapping[str, Any]) -> None:
        """Check that a partition of an export may be written.

        Args:
            values: The values of the partition's line.

        Raises:
            InvalidArgumentError: The partition is not of `app` or not of `user`.
        """
        for name, only in (("app", self.app), ("user", self.user)):
            if only is not None and values[name] != only:
                msg = f"part.{name}: is another one than this import is confined to"
                raise InvalidArgumentError(msg)


def import_(
    storage: Storage,
    source: Path | LineSource,
    limits: Limits,
    quota: UserQuota | None,
    how: ImportOptions,
    gate: ImportReviewer | None,
) -> Imported:
    """Import an export into the file; return the counts of memories.

    A memory that the file already has is overwritten only by a newer version. The
    import is idempotent: repeating it, also after an interruption, duplicates nothing.
    An update time in the future becomes the current time; otherwise the imported line
    would win against every later change.

    Args:
        storage: The file.
        source: The export.
        limits: The limits on texts, names and metadata.
        quota: The quota of each user; None is unlimited.
        how: The options of the import.
        gate: Calls the write hook; None imports memories without review.

    Raises:
        InvalidArgumentError: A line is invalid, or belongs to a partition outside
            `how.app` and `how.user`. The lines before it are imported.
        LimitExceededError: A line is too long. The lines before it are imported.
        EmbeddingMismatchError: The vectors and the file have different models.
        WriteHookError: The write hook failed. The lines before it are imported.
        ConfigError: The file at the path cannot be read.
    """
    if isinstance(source, Path):
        storage.maintenance.require_unrelated(source)
        try:
            opened = source.open("rb")
        except OSError as error:
            msg = f"path: the file cannot be read: {error.strerror}"
            raise ConfigError(msg) from error
    with opened if isinstance(source, Path) else nullcontext(source) as file:
        reader = LineReader(limits, storage.expiry_clock.wall())
        lines = _Lines(file, limits)
        export_model = lines.read(reader.header) if lines.next() else reader.header({})
        model = None
        if how.vectors and export_model is not None:
            model = _agree(storage, export_model)
        count = 0
        waiting: deque[Future[Change]] = deque()
        for job in _jobs(lines, reader, model, how):
            if gate is not None:
                try:
                    job.lines = gate.review(job.app, job.user, job.lines)
                except VecallError as error:
                    lines.error = error
                    break
            job.bounds = quota
            waiting.append(storage.submit(job))  # several jobs share one sync
            if len(waiting) == _JOBS_AHEAD:
                count += len(waiting.popleft().result().ids)
        count += sum(len(future.result().ids) for future in waiting)
    if lines.error is not None:
        raise lines.error
    if gate is None:
        return Imported(count)
    return Imported(count, gate.rejected, gate.quarantined)


def _agree(storage: Storage, export_model: EmbeddingModel) -> int:
    with storage.read() as reads:
        stored = reads.active_model()
    if stored is None:
        stored = storage.adopt_model(export_model)
    require_same(stored, export_model)
    return stored.id


class _Lines:
    """The lines of a file, up to the first invalid line."""

    def __init__(self, file: LineSource, limits: Limits) -> None:
        self._file = file
        self._limit = _LINE_TEXTS * limits.max_text_bytes
        self._item_limit = max(self._limit, _LINE_ITEMS * limits.max_item_bytes)
        self.size = 0  # of the current line
        self._number = 0
        self._item: Any = None
        self._is_long = False
        self.error: VecallError | None = None

    def next(self) -> bool:
        """Go to the next line; return False at the end."""
        limit = self._limit
        line = self._file.readline(limit + 1)
        if len(line) > limit and line.startswith(_ITEM):
            limit = self._item_limit
            line += self._file.readline(limit + 1 - len(line))
        self._number += 1
        self.size = len(line)
        self._is_long = len(line) > limit
        try:
            readable = line and not self._is_long
            self._item = json.loads(line) if readable else None
        except (ValueError, RecursionError):
            self._item = None
        return bool(line)

    def read(self, take: Callable[[dict[str, Any]], T]) -> T:
        """Parse the current line; add its number to an error."""
        try:
            if self._is_long:
                msg = f"longer than {self._limit} bytes, {_LINE_TEXTS} * max_text_bytes"
                raise LimitExceededError(msg)
            if not isinstance(self._item, dict):
                msg = "expected a JSON object"
                raise InvalidArgumentError(msg)
            return take(self._item)
        except InvalidArgumentError as error:
            msg = f"line {self._number}: {error}"
            raise type(error)(msg) from None


def _jobs(
    lines: _Lines,
    reader: LineReader,
    model: int | None,
    how: ImportOptions,
) -> Iterator[ImportLines]:
    job: ImportLines | None = None
    batch: list[tuple[str, dict[str, Any]]] = []
    size = 0
    while lines.next():
        try:
            kind, several = lines.read(reader.line)
            values = several[0]
            if job is None and kind != "part":
                lines.read(_too_early)
            if kind == "part":
                lines.read(lambda _, part=values: how.check(part))  # type: ignore[misc]
        except InvalidArgumentError as error:
            lines.error = error  # raised after the lines before it are imported
            break
        if kind == "part":
            if job is not None:
                yield job
            batch, size = [], 0
            job = ImportLines(
                values["app"],
                values["user"],
                values["created_at"],
                batch,
                model,
                how.restore,
            )
        elif job is not None:
            batch += [(kind, each) for each in several]
            size += lines.size
            if len(batch) >= _LINES_AT_ONCE or size > _BYTES_AT_ONCE:
                yield job
                batch, size = [], 0
                job = ImportLines(
                    job.app, job.user, job.created_at, batch, model, how.restore
                )
    if job is not None:
        yield job


def _too_early(_: dict[str, Any]) -> None:
    msg = "comes before any partition"
    raise InvalidArgumentError(msg)
