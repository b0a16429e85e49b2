"""Exporting and importing users and items as JSON lines."""

from __future__ import annotations

import contextvars
import json
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from vecall import errors, store
from vecall.concurrency.join import run_sync
from vecall.concurrency.time_slices import in_slices
from vecall.ingest.import_validation import LineReader
from vecall.ingest.passages import SUMMARY
from vecall.limits import APP_WIDE, SHARED_APP, Limits
from vecall.operations.runtime import Runtime, WriteReviewer
from vecall.operations.session_triggers import compaction_event, drafts_of, event_of
from vecall.scalars import is_utf8
from vecall.store import Draft, parse_stored_object
from vecall.summaries import compaction_of
from vecall.system import open_private
from vecall.types import Imported

# Export: one JSON object per line, the header first.


class LineTarget(Protocol):
    """A target for text, such as a file opened in text mode."""

    def write(self, text: str, /) -> object:
        """Write text."""


@contextmanager
def _open_new_file(path: Path) -> Iterator[LineTarget]:
    """Make a file, which must not exist; remove it if the block fails."""
    try:
        handle = open_private(path, os.O_WRONLY | os.O_EXCL)
    except FileExistsError:
        raise errors.ConfigError("path: there is a file of that name already") from None
    except OSError as error:
        msg = f"path: the file cannot be created: {error.strerror}"
        raise errors.StorageError(msg) from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, OSError) and not isinstance(error, errors.VecallError):
            msg = f"path: the file cannot be written: {error.strerror}"
            raise errors.StorageError(msg) from error
        raise


def export_lines(
    storage: store.Storage,
    target: Path | LineTarget,
    *,
    vectors: bool,
    app: str | None,
    user: str | None,
    quarantined: bool = True,
) -> int:
    """Export a snapshot to a new file or a stream; return the number of memories."""
    opened = _open_new_file(target) if isinstance(target, Path) else nullcontext(target)
    count = 0
    with opened as file, storage.read() as reads:
        _write_export_line(file, reads.export_header(vectors))
        model = reads.active_model() if vectors else None
        number = None if model is None else model.id
        for part, in_app, of_user, made in reads.export_partitions(app, user):
            header = {"app": in_app, "user": of_user, "created_at": made}
            _write_export_line(file, {"part": header})
            lines = reads.export_lines(part, number)
            shown = lines if quarantined else store.unheld_lines(lines)
            for kind, values in in_slices(shown, gives_way=True):
                _write_export_line(file, {kind: values})
                count += kind == "mem"
            for values in in_slices(reads.export_items(part, vectors), gives_way=True):
                _write_export_line(file, {"item": values})
    return count


def _write_export_line(file: LineTarget, line: dict[str, Any]) -> None:
    # A stream may be a terminal or use another encoding than UTF-8.
    is_stream = getattr(file, "encoding", None) != "utf-8"
    text = json.dumps(line, ensure_ascii=is_stream, separators=(",", ":"))
    if not is_utf8(text):  # a lone surrogate in an item
        text = json.dumps(line, separators=(",", ":"))
    try:
        file.write(text.replace("\x7f", "\\u007f"))
        file.write("\n")
    except BrokenPipeError:
        raise  # the reader closed the pipe
    except Exception as error:
        # A ValueError of the caller's stream does not mean that the file's data is bad.
        why = error.strerror if isinstance(error, OSError) else None
        msg = f"path: it cannot be written: {why or type(error).__name__}"
        raise errors.StorageError(msg) from error


# Calls a service's write hook with the memories of an import.

Lines = Sequence[tuple[str, dict[str, Any]]]

_SAME = (
    "author kind source trust content meta importance ts session event valid_until "
    "supersedes"
).split()
_REVIEWED = ("author", "kind", "source", "trust", "content", "ts")


class ImportReviewer:
    """Reviews the lines of one import, on one thread without a running event loop."""

    def __init__(self, gate: WriteReviewer) -> None:
        """Copy the caller's context, which detects nested calls of the hook."""
        self._gate = gate
        self._context = contextvars.copy_context()
        self._owner: tuple[str, str] | None = None
        self._refused: set[str] = set()
        self.rejected = self.quarantined = 0

    def review_lines(self, app: str, user: str, lines: Lines) -> Lines:
        """Return the lines that the hook accepts, with its changes."""
        # The former versions of a rejected memory are omitted too. A rejected buffered
        # turn is kept as a turn that makes no memory.
        if self._owner != (app, user):
            self._owner, self._refused = (app, user), set()
        drafts = [_draft_of_line(kind, values) for kind, values in lines]
        present = [draft for draft in drafts if draft is not None]
        scope = "shared" if app == SHARED_APP else "app" if user == APP_WIDE else "user"
        work = self._gate.review_each_draft((app, user), present, scope)
        verdicts = iter(self._context.run(run_sync, work))
        passed: list[tuple[str, dict[str, Any]]] = []
        for (kind, values), draft in zip(lines, drafts, strict=True):
            if draft is None:
                passed.append((kind, values))
                continue
            reviewed = next(verdicts)
            if reviewed is not None:
                self.quarantined += reviewed.quarantined and not draft.quarantined
            else:
                self.rejected += 1
                if kind == "mem":
                    self._refused.add(values["id"])
            if reviewed is not None or kind == "told":
                passed.append((kind, _reviewed_line(kind, values, draft, reviewed)))
        return [
            (kind, values)
            for kind, values in passed
            if kind != "hist" or values["id"] not in self._refused
        ]


def _draft_of_line(kind: str, values: dict[str, Any]) -> Draft | None:
    """Return the draft of a line; None for a line without text."""
    if kind == "mem":
        fields: dict[str, Any] = {name: values.get(name) for name in _SAME}
        held = values["state"] == "quarantined"
        ordered = values.get("pos") is not None
        return Draft(
            values["id"], values["text"], **fields, ordered=ordered, quarantined=held
        )
    if kind == "hist":
        old = parse_stored_object(values["old"])
        if "text" not in old:
            return None
        fields = {name: old.get(name) for name in (*_REVIEWED, "meta", "importance")}
        return Draft(
            values["id"],
            old["text"],
            **fields,
            quarantined=old.get("state") is not None,
        )
    if kind == "told" and values.get("event") is not None:
        event = parse_stored_object(values["event"])
        summary = compaction_of(event)
        if "content" in event:
            return drafts_of(
                [store.BufferedTurn(values["id"], event)], values["session"]
            )[0]
        if summary is not None:
            session = values["session"]
            return Draft(values["id"], summary.summary, session=session, kind=SUMMARY)
    return None


def _reviewed_line(
    kind: str, values: dict[str, Any], original: Draft, reviewed: Draft | None
) -> dict[str, Any]:
    if reviewed == original:
        return values
    if kind == "told":
        event = reviewed and json.dumps(_reviewed_import_event(values, reviewed))
        return {**values, "event": event}
    assert reviewed is not None
    redacted = reviewed.text != original.text
    changed = {
        "text": reviewed.text,
        "content": reviewed.content,
        "trust": reviewed.trust,
    }
    if reviewed.quarantined:
        changed["state"] = "quarantined"
    if kind == "hist":
        old = {**parse_stored_object(values["old"]), **changed}
        return {**values, "old": json.dumps(old)}
    if redacted:
        changed["vec"] = None  # the vector belongs to the text before the redaction
    return {k: v for k, v in {**values, **changed}.items() if v is not None}


def _reviewed_import_event(values: dict[str, Any], reviewed: Draft) -> dict[str, Any]:
    summary = compaction_of(parse_stored_object(values["event"]))
    if summary is not None:
        return compaction_event(replace(summary, summary=reviewed.text))
    return event_of(reviewed)


# Import of an export: one JSON object per line, the header first.

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
    """The options of an import, which may write only what is of `app` and `user`."""

    vectors: bool = True
    restore: bool = False
    app: str | None = None
    user: str | None = None
    gate: bool = False

    def check_partition_names(self, values: Mapping[str, Any]) -> None:
        """Check that a partition of an export may be written."""
        for name, only in (("app", self.app), ("user", self.user)):
            if only is not None and values[name] != only:
                msg = f"part.{name}: is another one than this import is confined to"
                raise errors.InvalidArgumentError(msg)


def import_lines(
    runtime: Runtime,
    source: Path | LineSource,
    how: ImportOptions,
    gate: ImportReviewer | None,
) -> Imported:
    """Import an export into the file; return the counts of memories.

    A memory that the file already has is overwritten only by a newer version. The
    import is idempotent: repeating it, also after an interruption, duplicates nothing.
    An update time in the future becomes the current time; otherwise the imported line
    would win against every later change. What comes before a line with an error is
    imported.
    """
    storage, limits = runtime.storage, runtime.limits
    if isinstance(source, Path):
        storage.maintenance.require_unrelated(source)
        try:
            opened = source.open("rb")
        except OSError as error:
            msg = f"path: the file cannot be read: {error.strerror}"
            raise errors.ConfigError(msg) from error
    with opened if isinstance(source, Path) else nullcontext(source) as file:
        reader = LineReader(limits, storage.expiry_clock.wall())
        lines = _Lines(file, limits)
        export_model = (
            lines.parse_line(reader.header) if lines.advance() else reader.header({})
        )
        model = None
        if how.vectors and export_model is not None:
            model = _adopt_or_match_model(storage, export_model)
        count = 0
        waiting: deque[Future[store.Change]] = deque()
        for job in _jobs_of_import_lines(lines, reader, model, how):
            if gate is not None:
                try:
                    job.lines = gate.review_lines(job.app, job.user, job.lines)
                except errors.VecallError as error:
                    lines.error = error
                    break
            job.bounds = runtime.quota
            waiting.append(storage.submit(job))  # several jobs share one sync
            if len(waiting) == _JOBS_AHEAD:
                count += len(waiting.popleft().result().ids)
        count += sum(len(future.result().ids) for future in waiting)
    if lines.error is not None:
        raise lines.error
    if gate is None:
        return Imported(count)
    return Imported(count, gate.rejected, gate.quarantined)


def _adopt_or_match_model(
    storage: store.Storage, export_model: store.EmbeddingModel
) -> int:
    with storage.read() as reads:
        stored = reads.active_model()
    if stored is None:
        stored = storage.adopt_model(export_model)
    store.require_same_model(stored, export_model)
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
        self.error: errors.VecallError | None = None

    def advance(self) -> bool:
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

    def parse_line(self, take: Callable[[dict[str, Any]], T]) -> T:
        """Parse the current line; add its number to an error."""
        try:
            if self._is_long:
                msg = f"longer than {self._limit} bytes, {_LINE_TEXTS} * max_text_bytes"
                raise errors.LimitExceededError(msg)
            if not isinstance(self._item, dict):
                raise errors.InvalidArgumentError("expected a JSON object")
            return take(self._item)
        except errors.InvalidArgumentError as error:
            raise type(error)(f"line {self._number}: {error}") from None


def _jobs_of_import_lines(
    lines: _Lines, reader: LineReader, model: int | None, how: ImportOptions
) -> Iterator[store.ImportLines]:
    part: dict[str, Any] | None = None
    batch: list[tuple[str, dict[str, Any]]] = []
    size = 0

    def checked(line: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
        kind, several = reader.read_line(line)
        if kind == "part":
            how.check_partition_names(several[0])
        elif part is None:
            raise errors.InvalidArgumentError("comes before any partition")
        return kind, several

    def job(of: dict[str, Any]) -> store.ImportLines:
        names = of["app"], of["user"]
        return store.ImportLines(*names, of["created_at"], batch, model, how.restore)

    while lines.advance():
        try:
            kind, several = lines.parse_line(checked)
        except errors.InvalidArgumentError as error:
            lines.error = error  # raised after the lines before it are imported
            break
        if kind == "part":
            if part is not None:
                yield job(part)
            part, batch, size = several[0], [], 0
            continue
        batch += [(kind, each) for each in several]
        size += lines.size
        if part is not None and (len(batch) >= _LINES_AT_ONCE or size > _BYTES_AT_ONCE):
            yield job(part)
            batch, size = [], 0
    if part is not None:
        yield job(part)
