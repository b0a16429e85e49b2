"""Commands about a whole file: `vecall doctor`, `backup`, `import`, `copy`, `pg`..."""

from __future__ import annotations

import argparse
import glob
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from vecall import store
from vecall.cli import console as ui
from vecall.cli import options as cli
from vecall.clock import to_datetime
from vecall.embedders.resolve import resolve
from vecall.errors import ConfigError, VecallError
from vecall.importing import import_job as imports
from vecall.importing.documents import EXPORTS, NOT_HELD, export_file
from vecall.importing.sources import Source, Tally
from vecall.index.partition_cache import examine_storage, require_undamaged_copy
from vecall.service.memory_service import MemoryService
from vecall.types import Imported
from vecall.validation import is_database_url

command = cli.Commands()
command.add_group("""pg: set up and check a PostgreSQL database
    Set up and check a PostgreSQL database. Other users of the machine can see the
    arguments of a command: leave the password out of the URL, and give it in PGPASSWORD
    or in a file of passwords (PGPASSFILE).""")


def recovered(found: store.Salvage, target: str) -> list[str]:
    """Return what a recovery did; items only if the file has any."""
    memories = ui.counted(found.saved, "memory")
    done = [f"{memories} saved to {target}, {found.lost} lost"]
    if found.saved_items or found.lost_items:
        items = ui.counted(found.saved_items, "item")
        done.append(f"{items} saved to {target}, {found.lost_items} lost")
    return done


@command("""doctor: check a file, and recover what is damaged
    Check a file. Without an option nothing is changed; nothing is ever deleted. Returns
    1 if something is damaged. With --agents, check instead whether google-adk's server
    will have this memory; no agent is run.

    --fix --repair  set damaged memories aside, so that the others can be used; count
      again, tidy up, and close the file to other users
    --agents DIR folder  check a folder of google-adk's agents, and the file of the URI
    --memory_service_uri --memory-service-uri URI  with --agents: the URI that `adk web`
      is given
    --reset-clock  go on from the wall clock's time where that was wrong before and is
      right now; every ttl keeps the seconds that are left of it. Stop whatever uses the
      file first
    --recover NEW folder  save what can be read of a file with damaged pages to a new
      file
    @path @json""")
def _run_doctor(options: argparse.Namespace) -> int:
    changes = options.fix or options.reset_clock or options.recover is not None
    if options.agents is not None:
        if changes:
            raise ConfigError(
                "--agents: changes nothing, so it goes without --fix, --recover and "
                "--reset-clock"
            )
        from vecall.adk.doctor import examine_agents

        uri: str | None = options.memory_service_uri
        return ui.print_findings(options, [], examine_agents(options.agents, uri))
    if is_database_url(options.path):
        if changes:
            cli.refuse_database_url(
                options.path,
                "--fix, --recover and --reset-clock are for files; restore a backup",
            )
        options.url = options.path
        return _run_pg_doctor(options)
    path = Path(options.path)
    cli.require_existing_file(options.path)
    done: list[str] = []
    if options.recover is not None:
        with ui.naming_path_in_errors(options.recover):
            done = recovered(store.recover_file(path, options.recover), options.recover)
    elif options.fix:
        with ui.naming_path_in_errors(path):
            done = store.repair_file(path)
    if options.reset_clock:
        with ui.naming_path_in_errors(path):
            done += store.reset_expiry_clock(path)
    return ui.print_findings(options, done, examine_storage(path))


def _file_megabytes(paths: Iterable[Path]) -> int:
    with suppress(OSError):  # it is not there yet, or any more
        return sum(each.stat().st_size for each in paths) // 1_000_000
    return 0


_OR_IN_TIME = "or by point-in-time recovery"


@command("""backup: copy a file while it is in use
    Copy a file while it is in use. A database is backed up by its own tools. With
    --keep, the target is a folder. The copy in it has a name with the time and is
    checked as `vecall doctor` does; then the oldest copies of this file are deleted.

    target file  the copy; must not exist. With --keep, a folder
    --keep N int  keep the newest N backups in the folder
    @file @json""")
def _run_backup(options: argparse.Namespace) -> int:
    cli.refuse_database_url(options.path, f"back it up by pg_dump, {_OR_IN_TIME}")
    file, target, removed = Path(options.path), Path(options.target), 0
    folder = target.parent if options.keep is None else target
    # What a backup writes to.
    parts = "*.part" if options.keep else f"{glob.escape(target.name)}.*.part"
    total = _file_megabytes([file])
    told = f"{target} is complete or not there; delete {folder / parts}"
    with (
        cli.open_without_embedder(options.path) as memory,
        ui.naming_path_in_errors(options.target),
        ui.Progress("MB copied:", after=told).watching(
            lambda: _file_megabytes(folder.glob(parts)), total
        ),
    ):
        backup = memory.sync.admin.backup
        if options.keep is None:
            backup(target)
        else:
            cli.make_private_folder(target, "target")
            target, removed = store.keep_backups(
                file, target, options.keep, backup, require_undamaged_copy
            )
    facts = {"bytes": target.stat().st_size, "file": str(target), "removed": removed}
    line = f"{facts['bytes']:,} bytes in {target}"
    if removed:
        line += f"; {ui.counted(removed, 'older backup')} deleted"
    return ui.print_facts(options, facts, line)


@command("""restore-backup: put a backup in the place of a file
    Put a copy of a backup in the place of a file, in one step, after checking it as
    `vecall doctor` does. The backup does not change. Stop whatever uses the file first.
    Persons erased after the backup come back: erase them again.

    backup file  the backup
    target file  the file
    --replace  the file may exist; it is kept aside under another name
    @json""")
def _run_restore_backup(options: argparse.Namespace) -> int:
    for path in (options.backup, options.target):
        cli.refuse_database_url(path, f"restore it by pg_restore, {_OR_IN_TIME}")
    backup, target = Path(options.backup), Path(options.target)
    cli.require_existing_file(options.backup)
    with ui.naming_path_in_errors(backup):  # the target is named in the message
        aside = store.restore_backup(
            backup, target, require_undamaged_copy, replacing=options.replace
        )
    line = f"{backup} is now {target}"
    if aside is not None:
        line += f"; the file before is {aside}"
    facts = {"file": str(target), "before": None if aside is None else str(aside)}
    return ui.print_facts(options, facts, line)


@command(f"""export: write memories to a file that `vecall import` reads
    Write memories to a file that `vecall import` reads. JSON lines have all of them.
    The other formats have no {NOT_HELD}.

    target file  the new file, for okf a folder; "-" is standard output, for jsonl
    --format {{jsonl,{",".join(EXPORTS)}}} = jsonl  JSON lines, one Markdown file, a
      table, or a folder of the Open Knowledge Format (default: %(default)s)
    --app APP  only of this app
    --user USER  only of this user, of --app or the only app
    --no-vectors  leave the vectors out
    @path @json""")
def _run_export(options: argparse.Namespace) -> int:
    """Write the memories; report to standard error if they go to standard output."""
    is_lines = options.format == "jsonl"
    to_output = options.target == "-"
    if to_output and not is_lines:
        msg = "--format: this one is written to a file, not to standard output"
        raise ConfigError(msg)
    with cli.open_without_embedder(options.path) as memory:
        app, user = options.app, options.user
        if (app, user) != (None, None):
            app = cli.choose_app(memory, app)
            user = user if user is None else cli.choose_user(memory, app, user)
        told = ui.Progress("MB exported:", after=f"{options.target} is not complete")
        target = Path(options.target)
        written = partial(_file_megabytes, [target])
        with ui.naming_path_in_errors(options.target), told.watching(written):
            only = {"app_name": app, "user_id": user}
            if is_lines:
                out = sys.stdout if to_output else options.target
                vectors = not options.no_vectors
                count = memory.sync.admin.export_jsonl(out, vectors=vectors, **only)
            else:
                form = options.format
                count = export_file(memory, options.target, format=form, **only)
    memories = ui.counted(count, "memory")
    if to_output:
        print(f"{memories} exported", file=sys.stderr)
        return 0
    without = {} if is_lines else {"without": NOT_HELD}
    line = f"{memories} in {options.target}" + f", without {NOT_HELD}" * bool(without)
    return ui.print_facts(options, {"memories": count, **without}, line)


@command("""reembed: move a file to another embedding model
    Embed all memories again. Servers go on searching with the old vectors until all new
    ones are there; restart them then. Interrupted, the same command goes on where it
    stopped.

    @embedder @path @json""")
def _run_reembed(options: argparse.Namespace) -> int:
    embedder = resolve(cli.parse_embedder(options.embedder))
    with cli.open_without_embedder(options.path) as memory:
        total = memory.sync.admin.stats()["memories"]
        with ui.Progress("embedding", total, "the same command goes on") as progress:
            count = memory.sync.admin.reembed(cli.with_progress(embedder, progress.add))
        facts = memory.sync.admin.stats()
    model, embedded = facts["model"], facts["embedded"]
    made = ui.counted(count, "memory")
    there = ui.counted(embedded, "memory has", "memories have")
    summary = f"{made} embedded; {there} vectors of {ui.one_line(model)}"
    facts = {"memories": count, "embedded": embedded, "model": model}
    return ui.print_facts(options, facts, summary)


@command("""purge: rewrite a file so that nothing deleted is left in it

    @path @json""")
def _run_purge(options: argparse.Namespace) -> int:
    told = ui.Progress("MB rewritten:", after="nothing is lost; purge again")
    total = _file_megabytes([Path(options.path)])  # all of it passes through the WAL
    written = partial(_file_megabytes, [Path(f"{options.path}-wal")])
    with (
        cli.open_without_embedder(options.path) as memory,
        told.watching(written, total),
    ):
        freed = memory.sync.admin.purge()
    return ui.print_facts(
        options, {"bytes_freed": freed}, f"{ui.counted(freed, 'byte')} freed"
    )


# `vecall copy`: copies a file or a database to another one.

_FACTS = "users memories items bytes unchanged different hidden changed".split()


@command("""copy: copy all memories between a file and a database
    Copy every user of a file or a database, with vectors, history, deletions, items and
    waiting turns. Each user is read in one state, written in one transaction, and read
    back and compared. Services may use both meanwhile. A copy that was interrupted
    continues when the command is repeated. Returns 1 if the target lacks something that
    the source has.

    source FROM file  a file, or the URL of a PostgreSQL database
    target TO file  a file, or the URL of a PostgreSQL database that `vecall pg init`
      has set up
    --app APP  copy this app only
    --user USER  copy this user only
    --replace  delete and copy again users who have other memories in the target
    --dry-run  write nothing; say what would be copied
    @json""")
def _run_copy(options: argparse.Namespace) -> int:
    cli.require_existing_file(options.source)
    progress = ui.Progress("copying users", after="the same command goes on")

    def show(report: store.CopyReport) -> None:
        done = report.users + report.unchanged + report.different + report.hidden
        progress.at(done, total, done)

    with ui.naming_path_in_errors(cli.shown_path(options.source)), progress:
        total = 0
        if not (is_database_url(options.source) or options.app or options.user):
            total = int(store.file_counts(Path(options.source)).get("users", 0))
        report = store.copy_storage(
            _path_or_url(options.source),
            _path_or_url(options.target),
            app=options.app,
            user=options.user,
            replace=options.replace,
            dry_run=options.dry_run,
            progress=show,
        )
    if options.json:
        ui.print_json({name: getattr(report, name) for name in _FACTS})
    else:
        _print_copy_report(options, report)
    return 0 if report.is_complete else 1


def _path_or_url(path: str) -> Path | str:
    return path if is_database_url(path) else Path(path)


def _print_copy_report(options: argparse.Namespace, report: store.CopyReport) -> None:
    verb = "would be copied" if options.dry_run else "copied and compared"
    print(
        f"{ui.counted(report.users, 'user')} {verb}: "
        f"{ui.counted(report.memories, 'memory')}, "
        f"{ui.counted(report.items, 'item')}, {report.bytes:,} bytes"
    )
    if report.unchanged:
        print(f"there already: {ui.counted(report.unchanged, 'user')}")
    if report.different:
        print(
            f"not copied: {ui.counted(report.different, 'user')} with other memories "
            "in the target; --replace deletes those and copies again"
        )
    if report.changed:
        print(
            "changed in the source during the copy: "
            f"{ui.counted(report.changed, 'user')}; stop its writers and repeat the "
            "command with --replace"
        )
    if report.hidden:
        print(
            f"not copied: {ui.counted(report.hidden, 'deleted user')} with tombstones "
            "only, because the target was not empty and has another key"
        )


# `vecall pg init`, `migrate`, `doctor`: set up and examine a PostgreSQL database.


@command("""pg init: create vecall's roles and schema
    Create vecall's roles and schema, unless they exist, and migrate the schema. The URL
    is that of an administrator, who may create roles.

    --login ROLE  the role that servers log in with; it exists, and is not the
      administrator
    url URL  postgresql://user@host/database
    @json""")
def _run_pg_init(options: argparse.Namespace) -> int:
    where = store.url_without_secrets(options.url)
    with ui.naming_path_in_errors(where):
        store.initialize_database(options.url, login=options.login)
    return ui.print_facts(options, {"url": where}, f"{where} is ready")


@command("""pg migrate: bring the schema to the number of this version
    Bring the schema to the number that this version of vecall reads. Servers need not
    be stopped: those that run go on with the number before. Upgrade all servers first,
    because an older version does not open the newer number.

    url URL  postgresql://user@host/database
    @json""")
def _run_pg_migrate(options: argparse.Namespace) -> int:
    where = store.url_without_secrets(options.url)
    with ui.naming_path_in_errors(where):
        before, now = store.migrate_database(options.url)
    done = "is at" if before == now else f"went from schema {before} to"
    return ui.print_facts(
        options, {"before": before, "now": now}, f"{where} {done} schema {now}"
    )


@command("""pg doctor: check the server, the schema, the rights and the rows
    Check the server, the schema, the rights and the rows; change nothing. The URL is
    the one that servers use. Returns 1 if something is damaged, or users are not held
    apart.

    url URL  postgresql://user@host/database
    @json""")
def _run_pg_doctor(options: argparse.Namespace) -> int:
    with ui.naming_path_in_errors(store.url_without_secrets(options.url)):
        findings = examine_storage(options.url)
    return ui.print_findings(options, [], findings)


# `vecall import`: memories from the files of vecall and of other programs.

_FORMATS = "\n".join(
    f"  {name:<14} {form.about}" for name, form in imports.FORMATS.items()
)
_IMPORT = f"""\
import: add memories from files of other programs, chats, tables, documents
Add memories from a file or a folder; a second time adds nothing.

file file  a file or a folder; "-" is standard input
--from {{auto,{",".join(imports.FORMATS)}}} FORMAT = auto  the format (default:
  recognised by the content)
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
    report = imports.ImportReport()
    with _open_import_sources(options, Tally(report.left_out, report.fields)) as given:
        first = next(given, None)
        if first is None:
            msg = f"{ui.one_line(options.file)}: there is no file of a known kind in it"
            raise ConfigError(msg)
        if first.head.startswith(imports.EXPORT_HEADER) and not options.dry_run:
            return _import_export(options, first)
        return _import_records(options, chain([first], given), report)


@contextmanager
def _open_import_sources(
    options: argparse.Namespace, tally: Tally
) -> Iterator[Iterator[Source]]:
    """Open the input; create no database."""
    columns = imports.parse_import_columns(options.map)
    more: Any = {"tally": tally, "columns": columns, "session": options.session}
    if options.file == "-":
        yield iter([Source("standard input", sys.stdin.buffer, document="-", **more)])
        return
    path = Path(options.file)
    if not path.exists():
        raise ConfigError(f"{options.file}: there is no such file")
    if not is_database_url(options.path) and path.is_file():
        with ui.naming_path_in_errors(options.file):
            store.require_unrelated_file(path, Path(options.path))
    with closing(imports.sources(path, options.file, options.format, **more)) as found:
        yield found


def _import_export(options: argparse.Namespace, source: Source) -> int:
    begin = time.perf_counter()
    lines = _CountingLines(source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the export has the vectors
        with (
            cli.open_service(
                options.path, options.embedder, options.on_write
            ) as memory,
            ui.naming_path_in_errors(source.name),
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


class _CountingLines:
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
    options: argparse.Namespace, given: Iterator[Source], report: imports.ImportReport
) -> int:
    progress = ui.Progress("importing", 0)
    with ExitStack() as stack:

        def memory() -> MemoryService:
            return stack.enter_context(
                cli.open_service(options.path, options.embedder, options.on_write)
            )

        opening = None if options.dry_run else memory
        job = imports.ImportJob(opening, options.app, options.user, report, progress.at)
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
        ui.print_note("interrupted; import again to go on")
        return 130
    ui.print_note(
        f"{error}\n{ui.counted(report.new, 'memory')} imported; "
        "correct it and import again, nothing will be there twice."
    )
    return 1


def _print_report(options: argparse.Namespace, report: imports.ImportReport) -> None:
    if options.json:
        ui.print_json(_import_report_facts(report))
        return
    if options.dry_run:
        _print_import_kinds(report)
    else:
        rate = report.memories / report.seconds if report.seconds else 0.0
        summary = f"{ui.counted(report.new, 'new memory')}, "
        summary += f"{report.known:,} known"
        if report.items:
            summary += f", {ui.counted(report.items, 'item')}"
        if report.left_out:
            reasons = sorted(report.left_out.items())
            counts = ", ".join(f"{count:,} {reason}" for reason, count in reasons)
            summary += f", left out: {counts}".replace("_", " ")
        records = ui.counted(report.records, "record")
        print(f"{summary}, from {records} in {report.seconds:.2f} s ({rate:,.0f}/s)")
    if +report.fields:
        names = sorted((+report.fields).items())
        shown = ", ".join(f"{ui.one_line(name)} ({count:,})" for name, count in names)
        print(f"fields left out: {shown}")
    for example in report.examples:
        print(f"invalid: {ui.one_line(example)}")


def _print_import_kinds(report: imports.ImportReport) -> None:
    formats = ", ".join(report.formats)
    rows = [[kind, *_found_cells(each)] for kind, each in sorted(report.kinds.items())]
    for reason, count in sorted(report.left_out.items()):
        rows.append([f"left out: {reason.replace('_', ' ')}", f"{count:,}", "", ""])
    print(f"{formats}: nothing is written")
    print(ui.format_table(["kind", "count", "first", "last"], rows))
    for kind, each in sorted(report.kinds.items()):
        names = ", ".join(ui.one_line(name) for name, _ in each.fields.most_common(40))
        print(f"fields of each {kind}: {names}")


def _found_cells(found: imports.Found) -> list[str]:
    times = [
        "" if each is None else to_datetime(each).strftime("%Y-%m-%d %H:%M")
        for each in (found.first, found.last)
    ]
    return [f"{found.count:,}", *times]


def _import_report_facts(report: imports.ImportReport) -> dict[str, Any]:
    names = "formats memories new known items left_out records seconds".split()
    facts = {name: getattr(report, name) for name in names}
    facts["fields_left_out"] = report.fields
    for kind, each in report.kinds.items():
        facts[kind] = {"count": each.count, "first": each.first, "last": each.last}
    return facts
