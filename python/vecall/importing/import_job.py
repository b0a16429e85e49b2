"""An import: finds the files and their formats, and writes in few large writes."""

from __future__ import annotations

import json
import os
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast

from vecall.coding_agents.transcript import turns_of_transcript_line
from vecall.content import get_field
from vecall.errors import (
    CorruptFileError,
    InvalidArgumentError,
    VecallError,
    WriteRejectedError,
)
from vecall.importing import chats, documents
from vecall.importing.sources import Record, Source, Tally, expected, open_import
from vecall.ingest.drafts import Given, entry_drafts, event_drafts
from vecall.ingest.fields import CallMetadata
from vecall.limits import Limits
from vecall.service.memory_service import MemoryService
from vecall.store import Draft, ForeignFile
from vecall.types import AddedIds

EXPORT_HEADER = b'{"vecall":"export"'
"""The beginning of what `vecall export` writes as JSON lines."""

Reader = Callable[[Source], Iterator[Record]]

_SQLITE = b"SQLite format 3\0"
_ZIP = b"PK\x03\x04"


class Format(NamedTuple):
    """A format that can be imported."""

    about: str  # in a few words
    reader: Reader | None  # of its JSON or text
    is_database: bool = False  # also, or only, a SQLite file
    suffixes: tuple[str, ...] = (".json", ".jsonl")  # of its files in a folder
    is_verbatim: bool = True  # every key of the metadata is stored as it is


_DATABASES = (".db", ".sqlite", ".sqlite3")
_MARKDOWN = (".md", ".markdown")

FORMATS = {
    "vecall": Format("vecall's own lines", chats.read_own_lines, is_verbatim=False),
    "openai": Format("chat messages of OpenAI's form", chats.read_openai_chats),
    "chatgpt": Format("ChatGPT's export", chats.of_chatgpt, suffixes=(".json", ".zip")),
    "claude": Format("Claude's export", chats.read_claude, suffixes=(".json", ".zip")),
    "transcript": Format(
        "transcripts of Claude Code, Codex, Cursor",
        chats.read_transcript,
        suffixes=(".jsonl",),
    ),
    "mem0": Format("mem0's get_all, history.db", chats.read_mem0, is_database=True),
    "chroma": Format("Chroma's get, its folder", chats.read_chroma, is_database=True),
    "adk": Format("google-adk's databases", None, is_database=True),
    "langchain": Format("LangChain's histories", chats.of_langchain, is_database=True),
    "langgraph": Format("LangGraph's SqliteStore, as items", None, is_database=True),
    "openai-agents": Format("OpenAI Agents' SQLiteSession", None, is_database=True),
    "csv": Format("CSV and TSV", documents.read_csv, suffixes=(".csv", ".tsv", ".tab")),
    "markdown": Format("Markdown", documents.read_markdown, suffixes=_MARKDOWN),
    "okf": Format("Open Knowledge Format", documents.read_markdown, suffixes=_MARKDOWN),
    "text": Format(
        "plain text", documents.read_text, suffixes=(".txt", ".text", ".rst", ".org")
    ),
}
_RESERVED = ("index.md", "log.md")  # of a bundle in the Open Knowledge Format


def detect_import_format(source: Source) -> str:
    """Return the name of the format of a source, or raise an error that names it."""
    head = source.head
    if not head.strip():
        expected(source.name, "some content; it is empty")
    if head.startswith(_SQLITE):
        with ForeignFile(source.require_source_path()) as file:
            found = chats.format_of_tables(file)
            if found is None:
                own = file.has_table("mem", "id text") or "part" in file.columns
                use = "a vecall file; use `vecall copy`" if own else "known tables"
                expected(source.name, f"{use if own else f'a database with {use}'}")
            return found
    if b"\0" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
        expected(source.name, "text, JSON, a SQLite file or a zip archive")
    for name in ("csv", "markdown", "text"):
        if source.suffix in FORMATS[name].suffixes or (
            name == "csv" and source.columns is not None
        ):
            return name
    if head.startswith(EXPORT_HEADER):
        return "vecall"
    if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"["):
        if source.suffix in (".json", ".jsonl", ".ndjson"):
            return "vecall"  # whose reader names the line
        names = ", ".join(FORMATS)
        expected(source.name, f"a format that is recognised; use --from {names}")
    if _is_transcript_head(head):
        return "transcript"
    first = source.json_values.peek_json_value()
    if first is None:
        expected("line 1", "a JSON object; the array is empty")
    return _format_of_value(first.value)


def _is_transcript_head(head: bytes) -> bool:
    lines = filter(bytes.strip, head.split(b"\n", 50)[:50])
    return any(
        found.turns or (found.is_known and found.session_id is not None)
        for found in (turns_of_transcript_line(line, 0) for line in lines)
    )


def _format_of_value(value: Any) -> str:
    """Return the format of the first JSON value."""
    if not isinstance(value, dict):
        return "openai" if isinstance(value, list) else "vecall"
    names = value.keys()
    page = value.get("results", value.get("memories"))
    has_names = bool(names & {"app_name", "user_id", "appName", "userId"})
    is_own = has_names or bool(names & {"session_id", "sessionId", "events"})
    tests = {
        "chatgpt": "mapping" in names,
        "claude": "chat_messages" in names,
        "mem0": isinstance(page, list) and "text" not in names,
        "chroma": "ids" in names
        and bool(names & {"documents", "metadatas", "embeddings"}),
        "langchain": (isinstance(value.get("data"), dict) and "type" in names)
        or {"lc", "kwargs"} <= names,
        "mem0 entry": {"id", "memory"} <= names and "app_name" not in names,
        "vecall": is_own or {"id", "messages"} <= names,
        "openai": "messages" in names or {"role", "content"} <= names,
    }
    return next((each for each, fits in tests.items() if fits), "vecall").split()[0]


def read_import_records(source: Source, name: str) -> Iterator[Record]:
    """Yield the records of a source in a format; an error has the place."""
    form = FORMATS[name]
    is_sqlite = source.head.startswith(_SQLITE)
    if form.is_database and (is_sqlite or form.reader is None):
        return chats.read_chat_database(source, name)
    reader = form.reader
    assert reader is not None
    return reader(source)


Sources = Generator[Source, None, None]


def sources(path: Path, name: str, wanted: str, **more: Any) -> Sources:
    """Yield a file, those of a folder or an archive; count others."""
    if path.is_dir():
        yield from _find_sources_in_folder(path, name, wanted, **more)
        return
    source = open_import(path, name, **more)
    if not source.head.startswith(_ZIP):
        with source.stream:
            yield source
        return
    source.stream.close()
    yield from _find_sources_in_archive(path, name, **more)


def _find_sources_in_archive(path: Path, name: str, **more: Any) -> Iterator[Source]:
    tally = more["tally"]
    found = False
    try:
        with zipfile.ZipFile(path) as archive:
            for member in sorted(archive.infolist(), key=lambda each: each.filename):
                base = member.filename.rpartition("/")[2]
                if member.is_dir():
                    continue
                if not (base.startswith("conversations") and base.endswith(".json")):
                    tally.left_out["other_file"] += 1
                    continue
                found = True
                with archive.open(member) as stream:
                    yield Source(
                        f"{name}: {base}",
                        cast("Any", stream),
                        document=base,
                        total=member.file_size,
                        **more,
                    )
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError) as error:
        if isinstance(error, VecallError):
            raise
        msg = f"{name}: the zip archive is damaged, or encrypted"
        raise CorruptFileError(msg) from error
    if not found:
        expected(name, "a zip archive with conversations.json")


def _find_sources_in_folder(
    path: Path, name: str, wanted: str, **more: Any
) -> Iterator[Source]:
    tally = more["tally"]
    inner = path / "chroma.sqlite3"
    if wanted in ("auto", "chroma") and inner.is_file():
        yield from sources(inner, f"{name}/chroma.sqlite3", wanted, **more)
        return
    known = set()
    for each in FORMATS.values() if wanted == "auto" else [FORMATS[wanted]]:
        known |= {*each.suffixes, *(_DATABASES if each.is_database else ())}
    files = list(_import_files_below(path))
    bundle = wanted == "okf" or any(map(_is_okf_concept, files[:20]))
    for file in files:
        document = file.relative_to(path).as_posix()
        if file.suffix.lower() not in known or file.is_symlink():
            tally.left_out["other_file"] += 1
        elif bundle and wanted in ("auto", "okf") and file.name in _RESERVED:
            tally.left_out["index_or_log"] += 1
        elif not file.stat().st_size:
            tally.left_out["empty_file"] += 1
        else:
            own = {**more, "document": document}
            yield from sources(file, f"{name}/{document}", wanted, **own)


def _import_files_below(path: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        for each in sorted(names):
            if not each.startswith("."):
                yield Path(folder, each)


def _is_okf_concept(path: Path) -> bool:
    """Whether a file is a concept of the Open Knowledge Format."""
    if path.suffix.lower() not in _MARKDOWN:
        return False
    with path.open("rb") as stream:
        head = stream.read(4_096).decode("utf-8", "replace")
    return head.startswith("---\n") and "\ntype:" in head.partition("\n---")[0] + "\n"


def parse_import_columns(text: str | None) -> dict[str, str] | None:
    """Return the columns of a table by field, from "text=column,author=column"."""
    if text is None:
        return None
    pairs = [each.partition("=") for each in text.split(",")]
    if not all(name and column for name, _, column in pairs):
        expected("map", "FIELD=COLUMN, such as text=message,timestamp=date")
    return {name.strip(): column.strip() for name, _, column in pairs}


# The writes.

RECORDS_AT_ONCE = 500  # the maximum for one write
_WRITES_AT_ONCE = 16  # which share one transaction of the storage
_RECORDS_HELD = 50_000
_BYTES_HELD = 32 * 1024 * 1024
_EXAMPLES = 3

_Group = tuple[object, ...]


def is_session_record(item: Mapping[str, Any]) -> bool:
    """Whether a record holds a whole session."""
    return "events" in item or "messages" in item


def is_memory_record(item: Mapping[str, Any]) -> bool:
    """Whether a record holds a memory, not a turn of a session."""
    return get_field(item, "id") is not None or get_field(item, "session_id") is None


class OwnerBatches:
    """Groups records by owner and session, since each write costs a sync of the disk.

    Records of one group keep their order. A whole session, and a memory that supersedes
    another one, are written after all earlier records of the same owner.
    """

    def __init__(self) -> None:
        """Create an empty batch."""
        self._groups: dict[_Group, list[Record]] = {}
        self._records = 0
        self._bytes = 0

    def add_record(self, record: Record) -> Iterator[list[Record]]:
        """Add a record; yield the groups of records to write now, in this order."""
        item = record.item
        owner = (get_field(item, "app_name"), get_field(item, "user_id"))
        if is_session_record(item) or get_field(item, "supersedes") is not None:
            yield from self._take([key for key in self._groups if key[:2] == owner])
        if is_session_record(item):
            yield [record]
            return
        key: _Group = owner
        if "item" in item:
            key = (*owner, "item", None)
        elif not is_memory_record(item):
            key = (*owner, get_field(item, "session_id"))
        group = self._groups.setdefault(key, [])
        group.append(record)
        self._records += 1
        self._bytes += record.size
        if len(group) == RECORDS_AT_ONCE:
            yield from self._take([key])
        elif self._records >= _RECORDS_HELD or self._bytes >= _BYTES_HELD:
            yield from self.rest_of_groups()

    def rest_of_groups(self) -> Iterator[list[Record]]:
        """Yield the remaining groups of records."""
        yield from self._take(list(self._groups))

    def _take(self, keys: list[_Group]) -> Iterator[list[Record]]:
        for key in keys:
            group = self._groups.pop(key)
            self._records -= len(group)
            self._bytes -= sum(record.size for record in group)
            yield group


@dataclass(slots=True)
class Found:
    """What a dry run found of one kind."""

    count: int = 0
    first: float | None = None  # in seconds since 1970
    last: float | None = None
    fields: Counter[str] = field(default_factory=Counter)  # names, also of metadata


@dataclass(slots=True)
class ImportReport:
    """What an import did, up to now or up to an error.

    Attributes:
        formats: How many files had each format.
        records: How many records were read: lines, messages, rows, passages.
        memories: How many memories are stored now that are of these records.
        new: How many of them were not stored before.
        items: How many items of a store were written.
        left_out: How many records are not stored, by reason.
        fields: How many values of records are not stored, by the name of the field.
        examples: Places and reasons of the first records with an invalid field.
        kinds: What a dry run found: "turn", "memory" and "item".
        seconds: How long it took.
    """

    formats: Counter[str] = field(default_factory=Counter)
    records: int = 0
    memories: int = 0
    new: int = 0
    items: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    fields: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    kinds: dict[str, Found] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def known(self) -> int:
        """How many memories were stored before."""
        return max(0, self.memories - self.new)


def import_file(
    memory: MemoryService | None,
    path: str | Path,
    *,
    format: str = "auto",
    app_name: str | None = None,
    user_id: str | None = None,
    session_id: str | None = None,
    columns: Mapping[str, str] | None = None,
    report: ImportReport | None = None,
) -> ImportReport:
    """Import a file or a folder of another program; a second time adds nothing.

    It blocks: with an event loop, call it by `asyncio.to_thread`.

    Args:
        memory: The service; None for a dry run, which reads and checks everything.
        path: The file or folder.
        format: A key of `FORMATS`; "auto" recognises it by the content.
        app_name: The app of records without one.
        user_id: The user of records without one.
        session_id: The session of turns without one; default: the name of the file.
        columns: Of a table, the column of each field; others become metadata.
        report: Is filled meanwhile, so that it is complete after an error, too.

    Returns:
        What was stored, and what was left out.

    Raises:
        VecallError: A record or the file is invalid; the message has the place. All
            records before it are stored.
    """
    more = {"columns": columns, "session": session_id}
    opening = None if memory is None else lambda: memory
    job = ImportJob(opening, app_name, user_id, report or ImportReport())
    path = Path(path)
    return job.run(sources(path, path.name, format, tally=job.tally, **more), format)


class ImportJob:
    """One import, of one or several sources."""

    def __init__(
        self,
        opening: Callable[[], MemoryService] | None,
        app: str | None,
        user: str | None,
        report: ImportReport,
        progress: Callable[[int, int, int], None] | None = None,
    ) -> None:
        """Read and write nothing yet; `opening` is None for a dry run."""
        # `progress` gets how much of a source was written, of how much, and the number
        # of records of the import that were written.
        self._opening = opening
        self._memory: MemoryService | None = None
        self._before = 0
        self._names = (("app_name", "app", app), ("user_id", "user", user))
        self.report = report
        self.tally = Tally(report.left_out, report.fields)
        self._progress = progress
        self._is_verbatim = True
        self._written = 0
        self._window: list[list[Record]] = []  # what is written together
        self._lock = threading.Lock()  # of the report; writes go on in threads

    def run(self, given: Iterable[Source], wanted: str) -> ImportReport:
        """Import all sources, of a format or "auto"."""
        if wanted != "auto" and wanted not in FORMATS:
            expected("from", f"one of auto, {', '.join(FORMATS)}")
        begin = time.perf_counter()
        try:
            for source in given:
                with naming_source_in_errors(source):
                    self._import_source(source, wanted)
        finally:
            if self._memory is not None:
                self.report.new = max(0, _memory_count(self._memory) - self._before)
            self.report.seconds = time.perf_counter() - begin
        return self.report

    def _open_target(self) -> None:
        if self._memory is None and self._opening is not None:
            self._memory = self._opening()
            self._before = _memory_count(self._memory)

    def _import_source(self, source: Source, wanted: str) -> None:
        name = detect_import_format(source) if wanted == "auto" else wanted
        self.report.formats[name] += 1
        self._is_verbatim = FORMATS[name].is_verbatim
        if name == "vecall" and source.head.startswith(EXPORT_HEADER):
            self._import_export(source.stream)
            return
        with ThreadPoolExecutor(_WRITES_AT_ONCE, "vecall-import") as self._pool:
            self._write_source_records(source, read_import_records(source, name))

    def _import_export(self, stream: Any) -> None:
        self._open_target()
        if self._memory is None:
            found = self.report.kinds.setdefault("memory", Found())
            found.count += sum(line.startswith(b'{"mem":') for line in stream)
            return
        (_, _, app), (_, _, user) = self._names
        done = self._memory.sync.admin.import_jsonl(stream, app_name=app, user_id=user)
        self.report.memories += done

    def _write_source_records(self, source: Source, found: Iterator[Record]) -> None:
        """Write all records before the first bad one, then raise the error of it."""
        batches = OwnerBatches()
        errors: list[VecallError] = []

        @contextmanager
        def going_on() -> Iterator[None]:
            try:
                yield
            except VecallError as error:
                errors.append(error)

        with going_on():
            for record in found:
                self.report.records += 1
                for batch in batches.add_record(self._record_with_owner(record)):
                    self._add_to_window(source, batch)
        for batch in batches.rest_of_groups():
            with going_on():
                self._add_to_window(source, batch)
        with going_on():
            self._write_import_window(source)
        if errors:
            raise errors[0]

    def _record_with_owner(self, record: Record) -> Record:
        """Return a record with an app and a user."""
        for name, option, value in self._names:
            if get_field(record.item, name) is None:
                if value is None:
                    msg = f"{record.place} has no {name}; give --{option}"
                    raise InvalidArgumentError(msg)
                record.item[name] = value
        return record

    def _add_to_window(self, source: Source, batch: list[Record]) -> None:
        """Add a batch to those that are written together, each by its own thread."""
        key = _import_session(batch[0].item)
        alone = any(get_field(record.item, "supersedes") for record in batch)
        if alone or any(_import_session(each[0].item) == key for each in self._window):
            self._write_import_window(source)
        self._window.append(batch)
        if alone or len(self._window) == _WRITES_AT_ONCE:
            self._write_import_window(source)

    def _write_import_window(self, source: Source) -> None:
        batches, self._window = self._window, []
        if batches:
            self._open_target()
        if len(batches) < 2:
            errors = [self._write_or_report(batch) for batch in batches]
        else:
            errors = list(self._pool.map(self._write_or_report, batches))
        self._written += sum(map(len, batches))
        if self._progress is not None and batches:
            share = self._written / self.report.records  # what is read ahead waits
            self._progress(round(share * source.done), source.total, self._written)
        for error in errors:
            if error is not None:
                raise error

    def _write_or_report(self, batch: list[Record]) -> VecallError | None:
        """Write a batch, or the records before a bad one; return the error of that."""
        try:
            ids = self._write_import_batch(batch)
        except VecallError as error:
            refused = isinstance(error, WriteRejectedError)
            if len(batch) > 1 and (refused or isinstance(error, InvalidArgumentError)):
                return next(
                    filter(None, (self._write_or_report([each]) for each in batch)),
                    None,
                )
            if refused:
                with self._lock:
                    self.report.left_out["rejected"] += 1
                return None
            first, last = batch[0].place, batch[-1].place
            where = first if first == last else f"{first} to {last}"
            error.args = (f"{where}: {error}",)
            return error
        with self._lock:
            self.report.memories += sum(id_ is not None for id_ in ids)
            self.report.left_out.update(one.reason for one in ids.left_out)
            for one in ids.left_out:
                if one.reason == "invalid" and len(self.report.examples) < _EXAMPLES:
                    at = batch[one.index if len(batch) > one.index else 0].place
                    self.report.examples.append(f"{at}: {one.detail}")
        return None

    def _write_import_batch(self, batch: list[Record]) -> AddedIds:
        first = batch[0].item
        app, user = get_field(first, "app_name"), get_field(first, "user_id")
        if self._memory is None:
            return self._count_import_batch(batch, app, user)
        memory = self._memory.sync
        if "item" in first:
            memory.admin.import_jsonl(_ItemLines(app, user, batch))
            with self._lock:
                self.report.items += len(batch)
            return AddedIds()
        if is_session_record(first):
            return memory.add_session_to_memory(first)
        if is_memory_record(first):
            # Memories deleted since an earlier import stay deleted.
            return memory.add_memory(
                app_name=app,
                user_id=user,
                memories=[record.item for record in batch],
                restore=False,
                verbatim=self._is_verbatim,
            )
        return memory.add_events_to_memory(
            app_name=app,
            user_id=user,
            events=_events_of_batch(batch),
            session_id=get_field(first, "session_id"),
            verbatim=self._is_verbatim,
        )

    def _count_import_batch(self, batch: list[Record], app: str, user: str) -> AddedIds:
        """Read a batch as the intake does, without storing it; count what it has."""
        first, limits = batch[0].item, Limits()
        if "item" in first:
            self._count_found("item", batch, [])
            return AddedIds()
        scope = CallMetadata({}, app=app, user=user, verbatim=self._is_verbatim)
        if not is_session_record(first) and is_memory_record(first):
            items = [record.item for record in batch]
            given = entry_drafts(items, scope, limits)
            self._count_found("memory", batch, given)
            return AddedIds()
        session = get_field(first, "session_id") or get_field(first, "id")
        events: Any = _events_of_batch(batch)
        if is_session_record(first):
            events = get_field(first, "events") or get_field(first, "messages") or []
        given = event_drafts(events, session, scope, limits)
        self._count_found("turn", batch, given)
        reasons = (each if isinstance(each, str) else "invalid" for each in given
                   if isinstance(each, str | InvalidArgumentError))  # fmt: skip
        self.report.left_out.update(reasons)
        return AddedIds()

    def _count_found(self, kind: str, batch: list[Record], given: list[Given]) -> None:
        found = self.report.kinds.setdefault(kind, Found())
        drafts = [each[0] if isinstance(each, list) else each for each in given]
        kept = [each for each in drafts if isinstance(each, Draft)]
        found.count += len(kept) if given else len(batch)
        times = [each.ts for each in kept if each.ts is not None]
        if times:
            found.first = min([*times, *([] if found.first is None else [found.first])])
            found.last = max([*times, *([] if found.last is None else [found.last])])
        items = [record.item.get("item", record.item) for record in batch]
        if is_session_record(items[0]):
            items = items[0].get("events") or items[0].get("messages") or []
        for item in items:
            inner = item.get("custom_metadata") or {}
            found.fields.update(
                name for name, value in [*item.items(), *inner.items()]
                if value is not None and name != "custom_metadata"
            )  # fmt: skip


def _memory_count(memory: MemoryService) -> int:
    """Return the number of memories in all states."""
    facts = memory.sync.admin.stats()
    return sum(int(facts[name]) for name in ("memories", "archived", "quarantined"))


@contextmanager
def naming_source_in_errors(source: Source) -> Iterator[None]:
    """Add the name of a source to an error that has none."""
    try:
        yield
    except VecallError as error:
        message = str(error).removeprefix("path: ")
        if not message.startswith(source.name):
            error.args = (f"{source.name}, {message}",)
        raise


def _import_session(item: Mapping[str, Any]) -> _Group:
    session = get_field(item, "id" if is_session_record(item) else "session_id")
    return (
        get_field(item, "app_name"),
        get_field(item, "user_id"),
        session if is_session_record(item) or not is_memory_record(item) else None,
    )


def _events_of_batch(batch: list[Record]) -> list[dict[str, Any]]:
    return [{**each.item, "id": get_field(each.item, "event_id")} for each in batch]


class _ItemLines:
    """Items as the lines of an export, which keep their times."""

    def __init__(self, app: str, user: str, batch: list[Record]) -> None:
        begun = min(each.item["item"]["created_at"] for each in batch)
        header = {"vecall": "export", "format": 1, "model": None}
        part = {"part": {"app": app, "user": user, "created_at": begun}}
        items = ({"item": each.item["item"]} for each in batch)
        self._lines = iter([header, part, *items])

    def readline(self, limit: int, /) -> bytes:  # noqa: ARG002
        """Return the next line."""
        line = next(self._lines, None)
        return b"" if line is None else json.dumps(line).encode() + b"\n"
