"""`vecall import`: memories from JSON Lines."""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from vecall._duck import read
from vecall.cli.options import add_file, add_json, opened
from vecall.cli.terminal import Progress
from vecall.errors import ConfigError, InvalidArgumentError, VecallError
from vecall.service import MemoryService
from vecall.store import require_unrelated

_FORMAT = """\
Each line is a JSON object: a whole session
  {"app_name": ..., "user_id": ..., "id": ...,
   "events": [{"id", "author", "timestamp", "text"}, ...]}
or one memory
  {"app_name": ..., "user_id": ..., "text": ..., "author", "timestamp", "session_id",
   "event_id", "id", "custom_metadata", "importance", "kind": ... all optional}.
Lines with the same session_id that follow one another are turns of one conversation.
--app and --user stand in where a line names none.
A file that `vecall export` wrote is read with all its fields and vectors."""

_BATCH = 500  # lines in one write


class _Line(NamedTuple):
    number: int
    item: dict[str, Any]
    size: int


def add_commands(commands: Any) -> None:
    """Add the command."""
    command = commands.add_parser(
        "import",
        help="add memories from a JSON Lines file",
        description="Add memories from a JSON Lines file; a second time adds nothing.",
        epilog=_FORMAT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("file", type=Path, help="one JSON object a line")
    command.add_argument("--app", help="app_name of lines without one")
    command.add_argument("--user", help="user_id of lines without one")
    add_file(command)
    add_json(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Import the file; on a bad line stop and say which."""
    if not options.file.is_file():
        msg = f"{options.file}: there is no such file"
        raise ConfigError(msg)
    require_unrelated(options.file, Path(options.path))
    if _is_export(options.file):
        return _import_export(options)
    total = options.file.stat().st_size
    progress = Progress("importing", total)
    begin = time.perf_counter()
    memories = 0
    last = 0
    with opened(options.path, options.embedder) as memory:
        try:
            for batch in _batches(_lines(options)):
                last = batch[-1].number
                memories += _add(memory, batch)
                progress.add(sum(line.size for line in batch))
        except VecallError as error:
            progress.finish()
            print(
                f"vecall: {options.file}, at or before line {last or 1}: {error}\n"
                f"{memories} memories were imported; mend the line and import again, "
                "nothing will be there twice.",
                file=sys.stderr,
            )
            return 1
    progress.finish()
    seconds = time.perf_counter() - begin
    rate = memories / seconds if seconds else 0.0
    if options.json:
        print(json.dumps({"memories": memories, "lines": last, "seconds": seconds}))
    else:
        print(
            f"{memories} memories from {last} lines in {seconds:.2f} s ({rate:,.0f}/s)"
        )
    return 0


def _is_export(path: Path) -> bool:
    """Whether the first line is the header that `vecall export` writes."""
    with path.open("rb") as file:
        return file.readline(4096).startswith(b'{"vecall":"export"')


def _import_export(options: argparse.Namespace) -> int:
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # its vectors come with it
        with opened(options.path, options.embedder) as memory:
            count = memory.sync.import_(options.file)
    seconds = time.perf_counter() - begin
    if options.json:
        print(json.dumps({"memories": count, "seconds": seconds}))
    else:
        print(f"{count} memories in {seconds:.2f} s")
    return 0


def _lines(options: argparse.Namespace) -> Iterator[_Line]:
    with options.file.open("rb") as file:
        for number, raw in enumerate(file, 1):
            if not raw.strip():
                continue
            try:
                item = json.loads(raw)
            except (ValueError, RecursionError):
                item = None
            if not isinstance(item, dict):
                msg = f"line {number}: expected a JSON object"
                raise InvalidArgumentError(msg)
            for name, given in (("app_name", options.app), ("user_id", options.user)):
                if read(item, name) is None and given is not None:
                    item[name] = given
            yield _Line(number, item, len(raw))


def _kind(item: dict[str, Any]) -> tuple[object, ...]:
    """What lines must share to be written together."""
    if "events" in item:
        return ("session", id(item))
    session = read(item, "session_id")
    owner = (read(item, "app_name"), read(item, "user_id"))
    explicit = read(item, "id") is not None or session is None
    return ("entries", *owner) if explicit else ("turns", *owner, session)


def _batches(lines: Iterator[_Line]) -> Iterator[list[_Line]]:
    batch: list[_Line] = []
    for line in lines:
        if batch and (len(batch) == _BATCH or _kind(line.item) != _kind(batch[0].item)):
            yield batch
            batch = []
        batch.append(line)
    if batch:
        yield batch


def _add(memory: MemoryService, batch: list[_Line]) -> int:
    first = batch[0].item
    if "events" in first:
        return len(memory.sync.add_session_to_memory(first))
    items = [line.item for line in batch]
    app, user = read(first, "app_name"), read(first, "user_id")
    if _kind(first)[0] == "entries":
        ids = memory.sync.add_memory(app_name=app, user_id=user, memories=items)
        return len(ids)
    events = [{**item, "id": read(item, "event_id")} for item in items]
    ids = memory.sync.add_events_to_memory(
        app_name=app, user_id=user, events=events, session_id=read(first, "session_id")
    )
    return len(ids)
