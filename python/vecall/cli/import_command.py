"""`vecall import`: memories from JSON Lines."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from vecall.cli.console import Progress, counted, naming, one_line, print_json
from vecall.cli.options import (
    Line,
    OwnerBatches,
    add_file,
    add_json,
    add_on_write,
    counted_reasons,
    expanded,
    is_entry,
    is_session,
    named,
    opened,
)
from vecall.content import get_field
from vecall.errors import (
    ConfigError,
    InvalidArgumentError,
    LimitExceededError,
    VecallError,
    WriteRejectedError,
)
from vecall.limits import Limits
from vecall.service.memory_service import MemoryService
from vecall.store import require_unrelated
from vecall.types import AddedIds, Imported
from vecall.validation import is_database_url

_FORMAT = """\
Each line is a JSON object: a whole session
  {"app_name": ..., "user_id": ..., "id": ...,
   "events": [{"id", "author", "timestamp", "text"}, ...]}
or one memory
  {"app_name": ..., "user_id": ..., "text": ..., "author", "timestamp", "session_id",
   "event_id", "id", "custom_metadata", "importance", "kind": ... all optional}.
The field names of chat messages work too: "messages" for "events", "role" for "author",
"created_at" for "timestamp", "metadata" for "custom_metadata", "memory" for "text".
Lines with the same owner and session_id are turns of one conversation, in their order.
A file that `vecall export` wrote is read with all its fields and vectors; --app and
--user then refuse lines of another app or user."""

_LINE_TEXTS = 16  # the limit of a line, in texts of the maximum length
_HEADER = b'{"vecall":"export"'


class _Source(NamedTuple):
    """The input of an import.

    Attributes:
        name: The path as the user typed it.
        stream: The bytes after the first line.
        first: The first line.
        size: Bytes in total; 0 if unknown.
    """

    name: str
    stream: BinaryIO
    first: bytes
    size: int

    @property
    def is_export(self) -> bool:
        """Whether the first line is the header of `vecall export`."""
        return self.first.startswith(_HEADER)

    def readline(self, limit: int) -> bytes:
        """Return the next line, cut to `limit` bytes."""
        return self.stream.readline(limit)


def add_commands(commands: Any) -> None:
    """Add the command."""
    command = commands.add_parser(
        "import",
        help="add memories from a JSON Lines file",
        description="Add memories from a JSON Lines file; a second time adds nothing.",
        epilog=_FORMAT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument(
        "file", type=expanded, help='one JSON object a line; "-" is standard input'
    )
    command.add_argument("--app", help="app_name of lines without one")
    command.add_argument("--user", help="user_id of lines without one")
    add_file(command)
    add_on_write(command)
    add_json(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Import the file; stop at a bad line and report its number."""
    options.on_write = named(options.on_write, "on-write")
    with _open_source(options) as source:
        if source.is_export:
            return _import_export(options, source)
        return _Import(options, source).run()


@contextmanager
def _open_source(options: argparse.Namespace) -> Iterator[_Source]:
    """Open the input and read its first line; create no database."""
    limit = _LINE_TEXTS * Limits().max_text_bytes + 1
    if options.file == "-":
        stream = sys.stdin.buffer
        yield _Source("standard input", stream, stream.readline(limit), 0)
        return
    path = Path(options.file)
    if path.is_dir() or not path.exists():
        msg = f"{options.file}: there is no such file"
        raise ConfigError(msg)
    if not is_database_url(options.path):
        _require_other_file(options, path)
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        yield _Source(options.file, file, file.readline(limit), size)


def _require_other_file(options: argparse.Namespace, path: Path) -> None:
    with naming(options.file):
        require_unrelated(path, Path(options.path))


def _import_export(options: argparse.Namespace, source: _Source) -> int:
    begin = time.perf_counter()
    lines = _Counting(source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the export has the vectors
        with (
            opened(options.path, options.embedder, options.on_write) as memory,
            naming(source.name),
        ):
            count = memory.sync.admin.import_jsonl(
                lines,
                app_name=options.app,
                user_id=options.user,
                gate=options.on_write is not None,
            )
    _report_export(options, count, lines.memories - count, time.perf_counter() - begin)
    return 0


def _report_export(
    options: argparse.Namespace, count: Imported, others: int, seconds: float
) -> None:
    reviewed = {"rejected": count.rejected, "quarantined": count.quarantined}
    reviewed = reviewed if options.on_write is not None else {}
    if options.json:
        facts = {"memories": count, "known": others, **reviewed, "seconds": seconds}
        print_json(facts)
        return
    memories = counted(count, "memory", "memories")
    why = "known already or newer here" + (", or rejected" if reviewed else "")
    print(f"{memories} in {seconds:.2f} s, {others:,} {why}")
    if reviewed:
        counts = ", ".join(f"{number:,} {name}" for name, number in reviewed.items())
        print(f"of memories, former versions and waiting turns: {counts} by --on-write")


class _Counting:
    """The lines of an export; counts the memories among them."""

    def __init__(self, source: _Source) -> None:
        self._source = source
        self._first: bytes | None = source.first
        self.memories = 0

    def readline(self, limit: int) -> bytes:
        line, self._first = self._first, None
        if line is None:
            line = self._source.readline(limit)
        self.memories += line.startswith(b'{"mem":')
        return line


class _Import:
    """An import of lines in a format other than that of `vecall export`."""

    def __init__(self, options: argparse.Namespace, source: _Source) -> None:
        self._options = options
        self._source = source
        self._progress = Progress("importing", source.size)
        self._stored = 0
        self._left_out: Counter[str] = Counter()
        self._last = 0

    def run(self) -> int:
        """Import all lines."""
        begin = time.perf_counter()
        lines = self._lines()
        first = next(lines, None)  # a refused file must not create a database
        given = self._options
        with opened(given.path, given.embedder, given.on_write) as memory:
            before = _memory_count(memory)
            failed = self._write_all(memory, first, lines)
            new = max(0, _memory_count(memory) - before)
        self._progress.finish()
        if failed is not None:
            print(
                f"vecall: {one_line(self._source.name)}, {failed}\n"
                f"{counted(new, 'memory', 'memories')} imported; correct the line and "
                "import again, nothing will be there twice.",
                file=sys.stderr,
            )
            return 1
        self._report(new, time.perf_counter() - begin)
        return 0

    def _report(self, new: int, seconds: float) -> None:
        known = max(0, self._stored - new)
        if self._options.json:
            facts = {
                "memories": self._stored,
                "new": new,
                "known": known,
                "left_out": dict(self._left_out),
                "lines": self._last,
                "seconds": seconds,
            }
            print_json(facts)
            return
        rate = self._stored / seconds if seconds else 0.0
        summary = f"{counted(new, 'new memory', 'new memories')}, {known:,} known"
        if self._left_out:
            summary += f", left out: {counted_reasons(self._left_out)}"
        lines = counted(self._last, "line")
        print(f"{summary}, from {lines} in {seconds:.2f} s ({rate:,.0f}/s)")

    def _write_all(
        self, memory: MemoryService, first: Line | None, lines: Iterator[Line]
    ) -> VecallError | None:
        """Write all lines before the first bad one; return the error of that one."""
        batches = OwnerBatches()
        bad: VecallError | None = None
        line = first
        try:
            while line is not None:
                for batch in batches.add(line):
                    self._write(memory, batch)
                line = next(lines, None)
        except VecallError as error:
            bad = error
        for batch in batches.rest():
            try:
                self._write(memory, batch)
            except VecallError as error:
                bad = bad or error
        return bad

    def _write(self, memory: MemoryService, batch: list[Line]) -> None:
        """Write the lines of one group; on an error, all lines before the bad one.

        Raises:
            VecallError: The message names the line.
        """
        try:
            ids = _add(memory, batch)
        except VecallError as error:
            refused = isinstance(error, WriteRejectedError)
            if len(batch) > 1 and (refused or isinstance(error, InvalidArgumentError)):
                for line in batch:
                    self._write(memory, [line])
                return
            if refused:
                self._left_out["rejected"] += 1
                return
            first, last = batch[0].number, batch[-1].number
            where = f"line {first}" if first == last else f"lines {first} to {last}"
            error.args = (f"{where}: {error}",)
            raise
        self._stored += sum(id_ is not None for id_ in ids)
        self._left_out.update(one.reason for one in ids.left_out)
        self._progress.add(sum(line.size for line in batch))

    def _lines(self) -> Iterator[Line]:
        limit = _LINE_TEXTS * Limits().max_text_bytes
        raw, number = self._source.first, 1
        while raw:
            if len(raw) > limit:
                msg = f"line {number}: at most {limit:,} bytes; split a long session"
                raise LimitExceededError(msg)
            if raw.strip():
                item = self._item(raw, number)
                self._last = number
                yield Line(number, item, len(raw))
            raw, number = self._source.readline(limit + 1), number + 1

    def _item(self, raw: bytes, number: int) -> dict[str, Any]:
        try:
            item = json.loads(raw)
        except (ValueError, RecursionError):
            item = None
        if not isinstance(item, dict):
            msg = f"line {number}: expected a JSON object"
            raise InvalidArgumentError(msg)
        for name, option in (("app_name", "app"), ("user_id", "user")):
            given = getattr(self._options, option)
            if get_field(item, name) is None:
                if given is None:
                    msg = f"line {number} has no {name}; give --{option}"
                    raise InvalidArgumentError(msg)
                item[name] = given
        return item


def _memory_count(memory: MemoryService) -> int:
    """Return the number of memories in all states."""
    facts = memory.sync.admin.stats()
    return sum(int(facts[name]) for name in ("memories", "archived", "quarantined"))


def _add(memory: MemoryService, batch: list[Line]) -> AddedIds:
    first = batch[0].item
    if is_session(first):
        return memory.sync.add_session_to_memory(first)
    items = [line.item for line in batch]
    app, user = get_field(first, "app_name"), get_field(first, "user_id")
    if is_entry(first):
        # Memories deleted since an earlier import stay deleted.
        return memory.sync.add_memory(
            app_name=app, user_id=user, memories=items, restore=False
        )
    events = [{**item, "id": get_field(item, "event_id")} for item in items]
    return memory.sync.add_events_to_memory(
        app_name=app,
        user_id=user,
        events=events,
        session_id=get_field(first, "session_id"),
    )
