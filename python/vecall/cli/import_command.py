"""`vecall import`: memories from the files of vecall and of other programs."""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from vecall.cli import console as ui
from vecall.cli import options as cli
from vecall.clock import to_datetime
from vecall.errors import ConfigError, VecallError
from vecall.importing.import_job import (
    EXPORT_HEADER,
    FORMATS,
    Found,
    ImportJob,
    ImportReport,
    checked_columns,
    sources,
)
from vecall.importing.sources import Source, Tally
from vecall.service.memory_service import MemoryService
from vecall.store import require_unrelated
from vecall.types import Imported
from vecall.validation import is_database_url

command = cli.Commands()

_FORMATS = "\n".join(f"  {name:<14} {form.about}" for name, form in FORMATS.items())
_IMPORT = f"""\
import: add memories from files of other programs, chats, tables, documents
Add memories from a file or a folder; a second time adds nothing.

file file  a file or a folder; "-" is standard input
--from {{auto,{",".join(FORMATS)}}} FORMAT = auto  the format (default: recognised by
  the content)
--app APP  app_name of records without one
--user USER  user_id of records without one
--session SESSION  session of turns without one (default: the file's name)
--map FIELD=COLUMN,...  columns of a table, such as text=message,timestamp=date; others
  become metadata
--dry-run  write nothing; show what would come
@path
@embedder
@on-write
@json

formats (--from):
{_FORMATS}

Lines of vecall's own form are JSON objects: a whole session
  {{"app_name": ..., "user_id": ..., "id": ...,
   "events": [{{"id", "author", "timestamp", "text"}}, ...]}}
or one memory
  {{"app_name": ..., "user_id": ..., "text": ..., "author", "timestamp", "session_id",
   "event_id", "id", "custom_metadata", "importance", "kind": ... all optional}}.
The field names of chat messages work too: "messages" for "events", "role" for "author",
"created_at" for "timestamp", "metadata" for "custom_metadata", "memory" for "text".
Lines with the same owner and session_id are turns of one conversation, in their order.
A file that `vecall export` wrote is read with all its fields and vectors; --app and
--user then refuse lines of another app or user."""


@command(_IMPORT)
def _run_import(options: argparse.Namespace) -> int:
    """Import the file; stop at a bad record and report its place."""
    options.format = vars(options)["from"]
    options.on_write = cli.import_function(options.on_write, "on-write")
    report = ImportReport()
    with _open_sources(options, Tally(report.left_out, report.fields)) as given:
        first = next(given, None)
        if first is None:
            msg = f"{ui.one_line(options.file)}: there is no file of a known kind in it"
            raise ConfigError(msg)
        if first.head.startswith(EXPORT_HEADER) and not options.dry_run:
            return _import_export(options, first)
        return _import_records(options, chain([first], given), report)


@contextmanager
def _open_sources(
    options: argparse.Namespace, tally: Tally
) -> Iterator[Iterator[Source]]:
    """Open the input; create no database."""
    columns = checked_columns(options.map)
    more: Any = {"tally": tally, "columns": columns, "session": options.session}
    if options.file == "-":
        yield iter([Source("standard input", sys.stdin.buffer, document="-", **more)])
        return
    path = Path(options.file)
    if not path.exists():
        raise ConfigError(f"{options.file}: there is no such file")
    if not is_database_url(options.path) and path.is_file():
        with ui.naming(options.file):
            require_unrelated(path, Path(options.path))
    with closing(sources(path, options.file, options.format, **more)) as found:
        yield found


def _import_export(options: argparse.Namespace, source: Source) -> int:
    begin = time.perf_counter()
    lines = _Counting(source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the export has the vectors
        with (
            cli.open_service(
                options.path, options.embedder, options.on_write
            ) as memory,
            ui.naming(source.name),
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
        ui.print_json(facts)
        return
    memories = ui.counted(count, "memory")
    why = "known already or newer here" + (", or rejected" if reviewed else "")
    print(f"{memories} in {seconds:.2f} s, {others:,} {why}")
    if reviewed:
        counts = ", ".join(f"{number:,} {name}" for name, number in reviewed.items())
        print(f"of memories, former versions and waiting turns: {counts} by --on-write")


class _Counting:
    """The lines of an export; counts the memories among them."""

    def __init__(self, source: Source) -> None:
        self._stream = source.stream
        self.memories = 0

    def readline(self, limit: int) -> bytes:
        line = self._stream.readline(limit)
        self.memories += line.startswith(b'{"mem":')
        return line


# An import of another format than that of `vecall export`.


def _import_records(
    options: argparse.Namespace, given: Iterator[Source], report: ImportReport
) -> int:
    progress = ui.Progress("importing", 0)
    with ExitStack() as stack:

        def memory() -> MemoryService:
            return stack.enter_context(
                cli.open_service(options.path, options.embedder, options.on_write)
            )

        opening = None if options.dry_run else memory
        job = ImportJob(opening, options.app, options.user, report, progress.at)
        error: BaseException | None = None
        try:
            job.run(given, options.format)
        except (VecallError, KeyboardInterrupt) as raised:
            error = raised
        progress.finish()
    if isinstance(error, VecallError) and not report.memories + report.items:
        raise error
    _print_report(options, report)
    if error is None:
        return 0
    if isinstance(error, KeyboardInterrupt):
        print("vecall: interrupted; import again to go on", file=sys.stderr)
        return 130
    print(
        f"vecall: {error}\n{ui.counted(report.new, 'memory')} imported; "
        "correct it and import again, nothing will be there twice.",
        file=sys.stderr,
    )
    return 1


def _print_report(options: argparse.Namespace, report: ImportReport) -> None:
    if options.json:
        ui.print_json(_report_facts(report))
        return
    if options.dry_run:
        _print_kinds(report)
    else:
        rate = report.memories / report.seconds if report.seconds else 0.0
        summary = f"{ui.counted(report.new, 'new memory')}, "
        summary += f"{report.known:,} known"
        if report.items:
            summary += f", {ui.counted(report.items, 'item')}"
        if report.left_out:
            summary += f", left out: {cli.counted_reasons(report.left_out)}"
        records = ui.counted(report.records, "record")
        print(f"{summary}, from {records} in {report.seconds:.2f} s ({rate:,.0f}/s)")
    if +report.fields:
        names = sorted((+report.fields).items())
        shown = ", ".join(f"{ui.one_line(name)} ({count:,})" for name, count in names)
        print(f"fields left out: {shown}")
    for example in report.examples:
        print(f"invalid: {ui.one_line(example)}")


def _print_kinds(report: ImportReport) -> None:
    formats = ", ".join(report.formats)
    rows = [[kind, *_found_cells(each)] for kind, each in sorted(report.kinds.items())]
    for reason, count in sorted(report.left_out.items()):
        rows.append([f"left out: {reason.replace('_', ' ')}", f"{count:,}", "", ""])
    print(f"{formats}: nothing is written")
    print(ui.table(["kind", "count", "first", "last"], rows))
    for kind, each in sorted(report.kinds.items()):
        names = ", ".join(ui.one_line(name) for name, _ in each.fields.most_common(40))
        print(f"fields of each {kind}: {names}")


def _found_cells(found: Found) -> list[str]:
    times = [
        "" if each is None else to_datetime(each).strftime("%Y-%m-%d %H:%M")
        for each in (found.first, found.last)
    ]
    return [f"{found.count:,}", *times]


def _report_facts(report: ImportReport) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "formats": dict(report.formats),
        "memories": report.memories,
        "new": report.new,
        "known": report.known,
        "items": report.items,
        "left_out": dict(report.left_out),
        "fields_left_out": dict(report.fields),
        "records": report.records,
        "seconds": report.seconds,
    }
    for kind, each in report.kinds.items():
        facts[kind] = {"count": each.count, "first": each.first, "last": each.last}
    return facts
