"""Which formats there are, and how one is recognised by its content."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

from vecall.coding_agents.transcript import turns_of_line
from vecall.errors import CorruptFileError, VecallError
from vecall.importing import chats, documents
from vecall.importing.sources import Record, Source, expected, open_source
from vecall.store import ForeignFile

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
    "vecall": Format("vecall's own lines", chats.own, is_verbatim=False),
    "openai": Format("chat messages of OpenAI's form", chats.openai),
    "chatgpt": Format("ChatGPT's export", chats.chatgpt, suffixes=(".json", ".zip")),
    "claude": Format("Claude's export", chats.claude, suffixes=(".json", ".zip")),
    "transcript": Format(
        "transcripts of Claude Code, Codex, Cursor",
        chats.transcript,
        suffixes=(".jsonl",),
    ),
    "mem0": Format("mem0's get_all, history.db", chats.mem0, is_database=True),
    "chroma": Format("Chroma's get, its folder", chats.chroma, is_database=True),
    "adk": Format("google-adk's databases", None, is_database=True),
    "langchain": Format("LangChain's histories", chats.langchain, is_database=True),
    "langgraph": Format("LangGraph's SqliteStore, as items", None, is_database=True),
    "openai-agents": Format("OpenAI Agents' SQLiteSession", None, is_database=True),
    "csv": Format("CSV and TSV", documents.table, suffixes=(".csv", ".tsv", ".tab")),
    "markdown": Format("Markdown", documents.markdown, suffixes=_MARKDOWN),
    "okf": Format("Open Knowledge Format", documents.markdown, suffixes=_MARKDOWN),
    "text": Format(
        "plain text", documents.text, suffixes=(".txt", ".text", ".rst", ".org")
    ),
}
_RESERVED = ("index.md", "log.md")  # of a bundle in the Open Knowledge Format


def detected(source: Source) -> str:
    """Return the name of the format of a source, or raise an error that names it."""
    head = source.head
    if not head.strip():
        expected(source.name, "some content; it is empty")
    if head.startswith(_SQLITE):
        with ForeignFile(source.need_path()) as file:
            found = chats.format_of_tables(file)
            if found is None:
                own = file.has("mem", "id text") or "part" in file.columns
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
    if _is_transcript(head):
        return "transcript"
    first = source.json.peek()
    if first is None:
        expected("line 1", "a JSON object; the array is empty")
    return _of_value(first.value)


def _is_transcript(head: bytes) -> bool:
    lines = filter(bytes.strip, head.split(b"\n", 50)[:50])
    return any(
        found.turns or (found.is_known and found.session_id is not None)
        for found in (turns_of_line(line, 0) for line in lines)
    )


def _of_value(value: Any) -> str:
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
        "chroma": "ids" in names and bool(names & _OF_CHROMA),
        "langchain": (isinstance(value.get("data"), dict) and "type" in names)
        or {"lc", "kwargs"} <= names,
        "mem0 entry": {"id", "memory"} <= names and "app_name" not in names,
        "vecall": is_own or {"id", "messages"} <= names,
        "openai": "messages" in names or {"role", "content"} <= names,
    }
    return next((each for each, fits in tests.items() if fits), "vecall").split()[0]


_OF_CHROMA = {"documents", "metadatas", "embeddings"}


def records(source: Source, name: str) -> Iterator[Record]:
    """Yield the records of a source in a format; an error has the place."""
    form = FORMATS[name]
    is_sqlite = source.head.startswith(_SQLITE)
    if form.is_database and (is_sqlite or form.reader is None):
        return chats.database(source, name)
    reader = form.reader
    assert reader is not None
    return reader(source)


Sources = Generator[Source, None, None]


def sources(path: Path, name: str, wanted: str, **more: Any) -> Sources:
    """Yield a file, those of a folder or an archive; count others."""
    if path.is_dir():
        yield from _of_folder(path, name, wanted, **more)
        return
    source = open_source(path, name, **more)
    if not source.head.startswith(_ZIP):
        with source.stream:
            yield source
        return
    source.stream.close()
    yield from _of_archive(path, name, **more)


def _of_archive(path: Path, name: str, **more: Any) -> Iterator[Source]:
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


def _of_folder(path: Path, name: str, wanted: str, **more: Any) -> Iterator[Source]:
    tally = more["tally"]
    inner = path / "chroma.sqlite3"
    if wanted in ("auto", "chroma") and inner.is_file():
        yield from sources(inner, f"{name}/chroma.sqlite3", wanted, **more)
        return
    known = set()
    for each in FORMATS.values() if wanted == "auto" else [FORMATS[wanted]]:
        known |= {*each.suffixes, *(_DATABASES if each.is_database else ())}
    files = list(_files_below(path))
    bundle = wanted == "okf" or any(map(_has_type, files[:20]))
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


def _files_below(path: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        for each in sorted(names):
            if not each.startswith("."):
                yield Path(folder, each)


def _has_type(path: Path) -> bool:
    """Whether a file is a concept of the Open Knowledge Format."""
    if path.suffix.lower() not in _MARKDOWN:
        return False
    with path.open("rb") as stream:
        head = stream.read(4_096).decode("utf-8", "replace")
    return head.startswith("---\n") and "\ntype:" in head.partition("\n---")[0] + "\n"


def checked_columns(text: str | None) -> dict[str, str] | None:
    """Return the columns of a table by field, from "text=column,author=column"."""
    if text is None:
        return None
    pairs = [each.partition("=") for each in text.split(",")]
    if not all(name and column for name, _, column in pairs):
        expected("map", "FIELD=COLUMN, such as text=message,timestamp=date")
    return {name.strip(): column.strip() for name, _, column in pairs}


def checked_format(name: str) -> str:
    """Return the name of a format, or "auto", or raise InvalidArgumentError."""
    if name != "auto" and name not in FORMATS:
        expected("from", f"one of auto, {', '.join(FORMATS)}")
    return name
