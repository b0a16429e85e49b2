"""Documents: tables, Markdown with or without front matter, plain text; exports too.

A document becomes memories of its sections, split after a paragraph, a line, a sentence
or a word. The metadata of each one says where in the document it was.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from itertools import chain, compress
from pathlib import Path
from typing import Any, TextIO

from vecall.clock import to_iso, to_seconds
from vecall.errors import ConfigError, InvalidArgumentError, StorageError
from vecall.importing import sources
from vecall.importing.chats import chained_id, require_json_object
from vecall.importing.sources import Record, Source, expected
from vecall.ingest.drafts import EPISODE
from vecall.ingest.fields import ENTRY
from vecall.ingest.passages import split_into_passages
from vecall.limits import Owner
from vecall.service.memory_service import MemoryService
from vecall.store import make_memory_id
from vecall.types import MemoryEntry

PASSAGE_BYTES = 2_000
"""Bytes in UTF-8 of one memory of a document: what a small embedding model reads."""

TITLE = "<!-- vecall export -->"
"""The first line of the Markdown of `vecall export`."""

MARK = "<!-- vecall {"
"""The beginning of the line before a memory in the Markdown of `vecall export`."""

_BLOCK = 1 << 20  # characters of a section that are held
_ROW = 200


def _read_text_lines(source: Source, most: int = _BLOCK) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text with their numbers; a very long one in pieces."""
    number = 1
    text = source.decoded_text()
    try:
        while line := text.readline(most):
            yield number, line
            number += line.endswith("\n")
    except UnicodeError:
        sources.refuse_binary_source(f"after line {number}")


_COLUMNS = {**ENTRY.spellings, "message": "content", "body": "content", "parts": None}


def read_csv(source: Source) -> Iterator[Record]:
    """Read a table with a line of names: "a,b", "a;b", or tabs."""
    csv.field_size_limit(max(csv.field_size_limit(), sources.MOST_CHARACTERS))
    lines = (line for _, line in _read_text_lines(source, sources.MOST_CHARACTERS))
    first = next(lines, "")
    marks = {mark: first.count(mark) for mark in "\t,;"}
    rows = csv.reader(
        lines, delimiter=max(marks, key=lambda mark: marks[mark]), strict=True
    )
    names = next(csv.reader([first], rows.dialect), [])
    fields = _fields_of_columns(source, names)
    is_text = [field == "content" for field in fields]
    has_ids = "id" in fields or "event_id" in fields
    chains: dict[object, str] | None = None if has_ids else {}
    number = 1
    try:
        for number, cells in enumerate(rows, 2):
            if not any(cells):
                continue
            place = f"record {number - 1} (line {rows.line_num + 1})"
            if len(cells) > len(names):
                expected(place, f"at most {len(names)} cells, as in the first line")
            if not any(map(str.strip, compress(cells, is_text))):
                source.tally.left_out["no_text"] += 1
                continue
            yield _table_record(place, zip(fields, names, cells, strict=False), chains)
    except csv.Error as error:
        msg = f"line {rows.line_num + 1}: not a row of a table: {error}"
        raise InvalidArgumentError(msg) from None


def _fields_of_columns(source: Source, names: list[str]) -> list[str | None]:
    """Return the field of each column; None for one that is metadata."""
    if source.columns is None:
        spelled = [name.strip().lower() for name in names]
        fields = [_COLUMNS.get(name) for name in spelled]
        remedy = ""
    else:
        unknown = sorted(set(source.columns.values()) - set(names))
        if unknown:
            msg = f"map: {len(unknown)} of its columns are not in the first line"
            raise InvalidArgumentError(msg)
        of = {column: _field_of_column(name) for name, column in source.columns.items()}
        fields = [of.get(name) for name in names]
        remedy = " as the field text"
    # Of two columns for one field, the second one is metadata.
    fields = [
        None if field in fields[:at] else field for at, field in enumerate(fields)
    ]
    if "content" not in fields:
        expected("line 1", f"a column{remedy or ' named text'}; use --map text=NAME")
    return fields


def _field_of_column(name: str) -> str:
    field = ENTRY.spellings.get(name)
    if field is None:
        expected("map", f"fields of {', '.join([*ENTRY.names, *ENTRY.aliases])}")
    return field


def _table_record(
    place: str,
    cells: Iterator[tuple[str | None, str, str]],
    chains: dict[object, str] | None,
) -> Record:
    item: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    size = _ROW
    for field, name, cell in cells:
        size += len(cell)
        if cell == "":
            continue
        if field is None:
            metadata[name] = cell
        elif field in ("timestamp", "valid_until"):
            item[field] = sources.imported_time(cell, place, field)
        elif field == "custom_metadata":
            metadata |= require_json_object(cell, place)
        elif field == "importance":
            item[field] = _parse_importance_cell(cell, place)
        else:
            item[field] = cell
    if metadata:
        item["custom_metadata"] = metadata
    session = item.get("session_id")
    if session is not None and chains is not None:
        head = chains.get(session, session)
        item["event_id"] = chained_id(head, item.get("author"), item.get("content", ""))
        chains[session] = item["event_id"]
    return Record(place, item, size)


def _parse_importance_cell(cell: str, place: str) -> float:
    try:
        return float(cell)
    except ValueError:
        expected(place, "importance as a number from 0 to 1")


def read_text(source: Source) -> Iterator[Record]:
    """Read plain text as passages."""
    start = 0
    for block in _read_text_blocks(line for _, line in _read_text_lines(source)):
        yield from _passages_of_block(source, block, start, "", {})
        start += len(block)


def _read_text_blocks(lines: Iterator[str]) -> Iterator[str]:
    """Yield consecutive lines together, a bounded number of characters at once."""
    held: list[str] = []
    size = 0
    for line in lines:
        held.append(line)
        size += len(line)
        if size >= _BLOCK and line.endswith("\n"):
            yield "".join(held)
            held, size = [], 0
    yield "".join(held)


def _passages_of_block(
    source: Source, block: str, start: int, heading: str, front: Mapping[str, Any]
) -> Iterator[Record]:
    """Yield the passages of a block that begins at a character of the document."""
    at = 0
    for passage in split_into_passages(block, PASSAGE_BYTES):
        at = block.index(passage, at)
        begin = start + at
        at += len(passage)
        place = {
            "document": source.document,
            **sources.drop_missing_fields(heading=heading),
            "start": begin,
            "end": start + at,
        }
        for name in front.keys() & place.keys():
            source.tally.fields[f"front matter {name}"] += 1
        item: dict[str, Any] = {
            "id": make_memory_id(source.document, heading, passage),
            "text": passage,
            "kind": "document",
            "source": source.document,
            "custom_metadata": {**front, **place},
        }
        if isinstance(front.get("timestamp"), str):
            with suppress(InvalidArgumentError):  # which is metadata only
                item["timestamp"] = sources.imported_time(front["timestamp"], "")
        yield Record(f"character {begin}", item, _ROW + len(passage))


_HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*\s*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


def read_markdown(source: Source) -> Iterator[Record]:
    """Read Markdown by its headings; what `vecall export` wrote, as the memories."""
    lines = _read_text_lines(source)
    front: dict[str, Any] = {}
    start = 0
    held: list[str] = []
    size = 0
    headings: list[tuple[int, str]] = []
    fence = ""
    first = next(lines, (1, ""))[1]
    if first.rstrip() == TITLE:
        yield from _read_exported_memories(lines)
        return
    whole = list(_read_front_matter(lines)) if first.rstrip() == "---" else []
    if whole and whole[-1].rstrip() == "---":
        front = parse_front_matter("".join(whole[:-1]))
        if "vecall" in front:
            body = (line for _, line in lines)
            yield _read_exported_memory(front["vecall"], body, "front matter")
            return
        start = len(first) + sum(map(len, whole))
        yield from _passages_of_front_matter(source, front)
        whole = []
    else:
        whole.insert(0, first)
    for line in chain(whole, (line for _, line in lines)):
        opening = _FENCE.match(line)
        if opening and (not fence or opening[1].startswith(fence)):
            fence = "" if fence else opening[1]
        heading = None if fence else _HEADING.match(line)
        if heading or (size >= _BLOCK and line.endswith("\n")):
            block = "".join(held)
            yield from _section_passages(source, block, start, headings, front, heading)
            start += len(block)
            held, size = [], 0
        if heading:
            level = len(heading[1])
            headings = [*(each for each in headings if each[0] < level)]
            headings.append((level, heading[2]))
        held.append(line)
        size += len(line)
    yield from _section_passages(source, "".join(held), start, headings, front, None)


def _section_passages(
    source: Source,
    block: str,
    start: int,
    headings: list[tuple[int, str]],
    front: Mapping[str, Any],
    following: re.Match[str] | None,
) -> Iterator[Record]:
    """Yield a section; a heading with only deeper headings below is their path."""
    own_line, _, rest = block.partition("\n")
    is_bare = not rest.strip() and _HEADING.match(own_line) is not None
    if following and headings and is_bare and len(following[1]) > headings[-1][0]:
        return
    path = " > ".join(title for _, title in headings)
    yield from _passages_of_block(source, block, start, path, front)


def _passages_of_front_matter(
    source: Source, front: Mapping[str, Any]
) -> Iterator[Record]:
    """Yield the title and the description of the front matter, to be found by them."""
    about = [front.get(name) for name in ("title", "name", "description")]
    texts = [each for each in about if isinstance(each, str) and each]
    if texts:
        for record in _passages_of_block(source, "\n".join(texts), 0, "", front):
            place = {"start": 0, "end": 0}  # of the front matter, not of the body
            record.item["custom_metadata"] |= place
            yield record._replace(place="front matter")


def _read_front_matter(lines: Iterator[tuple[int, str]]) -> Iterator[str]:
    """Yield the lines up to the second "---", or a bounded number of characters."""
    taken = 0
    for _, line in lines:
        taken += len(line)
        yield line
        if line.rstrip() == "---" or taken > _BLOCK:
            return


_PAIR = re.compile(r"([\w.\-]+):(?:\s+(.*))?$")
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}
_NUMBER = re.compile(r"-?\d{1,15}(\.\d{1,15})?")


def parse_front_matter(text: str) -> dict[str, Any]:
    """Return scalars, lists and blocks of YAML; else all as the text "front_matter"."""
    found: dict[str, Any] = {}
    lines = [line.rstrip() for line in text.split("\n")]
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if not line or line.startswith("#"):
            continue
        pair = _PAIR.match(line)
        below = at
        while below < len(lines) and (not lines[below] or lines[below][0] in " -"):
            below += 1
        raw = [each for each in lines[at:below] if each]
        inner = [each.strip() for each in raw]
        value = (pair[2] or "") if pair else ""
        if pair is None or (inner and value not in ("", "|", ">", "|-", ">-")):
            return {**found, "front_matter": text}
        at = below
        if value[:1] in ("|", ">"):
            found[pair[1]] = ("\n" if value[0] == "|" else " ").join(inner)
        elif inner and all(each.startswith("- ") for each in inner):
            found[pair[1]] = [_yaml_scalar(each[2:].strip()) for each in inner]
        elif inner:
            nested = parse_front_matter("\n".join(inner))
            if "front_matter" in nested or any(each[:3] == "   " for each in raw):
                return {**found, "front_matter": text}
            found[pair[1]] = nested
        else:
            found[pair[1]] = _yaml_scalar(value)
    return {name: value for name, value in found.items() if value is not None}


def _yaml_scalar(value: str) -> Any:
    if value[:1] in ('"', "{", "["):
        with suppress(ValueError, RecursionError):
            return json.loads(value)  # what YAML and JSON write alike
    if value.startswith("[") and value.endswith("]"):
        return [
            _yaml_scalar(each.strip())
            for each in value[1:-1].split(",")
            if each.strip()
        ]
    if value.startswith("'") and value.endswith("'") and len(value) > 1:
        return value[1:-1].replace("''", "'")
    value = value.partition(" #")[0].strip()
    if value.lower() in _WORDS:
        return _WORDS[value.lower()]
    if _NUMBER.fullmatch(value):
        return float(value) if "." in value else int(value)
    return value


def _read_exported_memory(fields: object, body: Iterator[str], place: str) -> Record:
    if not isinstance(fields, dict):
        expected(place, "the fields of a memory after vecall:")
    item = {**fields, "text": "".join(body).removesuffix("\n")}
    return Record(place, item, _ROW + len(item["text"]))


def _read_exported_memories(lines: Iterator[tuple[int, str]]) -> Iterator[Record]:
    """Yield the memories below their marks, which say how many lines a text has."""
    for number, line in lines:
        if not line.startswith(MARK):
            continue
        place = f"line {number}"
        fields = require_json_object(
            "{" + line.rstrip()[len(MARK) :].removesuffix("-->"), place
        )
        count = fields.pop("lines", None)
        if type(count) is not int or count < 1:
            expected(place, "the number of lines of the memory")
        body: list[str] = []
        while count and (found := next(lines, None)) is not None:
            body.append(found[1])
            count -= found[1].endswith("\n")
        if count:
            expected(place, "a memory of as many lines as its mark says")
        yield _read_exported_memory(fields, iter(body), place)


# Exports that people and other programs read, and that come in again.

NOT_HELD = (
    "vectors, TTLs, former versions, deletions, archived and quarantined memories, "
    "shared scopes, use counts, parts of contents, items and waiting turns"
)
"""What these formats cannot hold, and JSON lines can."""

_PAGE = 1_000
_NAMES = ("app_name", "user_id", *(n for n in ENTRY.names if n not in (
    "app_name", "user_id", "content", "parts", "custom_metadata")))  # fmt: skip

Row = dict[str, Any]


def export_file(
    memory: MemoryService,
    path: str | Path,
    *,
    format: str,
    app_name: str | None = None,
    user_id: str | None = None,
) -> int:
    """Write the live memories to a new file or folder; return their number.

    `import_file` reads them with the same ids, texts, times, authors, sessions and
    metadata. `NOT_HELD` is what they lack; `admin.export_jsonl` has all of it.

    Args:
        memory: The service.
        path: A file, or for "okf" a folder, that does not exist yet.
        format: "csv"; "md", one Markdown file; "okf", a folder of the Open Knowledge
            Format with a Markdown file for each memory.
        app_name: Only this app.
        user_id: Only this user; needs `app_name`.

    Raises:
        InvalidArgumentError: An unknown format, or a user without an app.
        ConfigError: The file exists.
        StorageError: It cannot be written.
    """
    if format not in EXPORTS:
        expected("format", f"one of {', '.join(EXPORTS)}")
    if user_id is not None and app_name is None:
        raise InvalidArgumentError("user_id: needs app_name, the app of the user")
    target = Path(path)
    rows = _read_rows_to_export(memory, app_name, user_id)
    try:
        if format == "okf":
            target.mkdir()
            return _write_export_bundle(target, rows)
        with ExitStack() as undo, target.open("x", encoding="utf-8", newline="") as out:
            undo.callback(target.unlink, missing_ok=True)  # an incomplete export
            count = EXPORTS[format](out, rows)
            undo.pop_all()
            return count
    except FileExistsError:
        raise ConfigError("path: there is a file of that name already") from None
    except OSError as error:
        msg = f"path: the file cannot be written: {error.strerror}"
        raise StorageError(msg) from error


def _read_rows_to_export(
    memory: MemoryService, app: str | None, user: str | None
) -> Iterator[tuple[Row, MemoryEntry]]:
    """Yield the fields of every memory, user by user, in order of creation."""
    service, admin = memory.sync, memory.sync.admin
    apps = (each.app_name for each in _all_pages(admin.list_apps, "after"))
    for app_name in apps if app is None else [app]:
        listed = partial(admin.list_users, app_name=app_name)
        users = (each.user_id for each in _all_pages(listed, "after"))
        for user_id in users if user is None else [user]:
            owner: Owner = {"app_name": app_name, "user_id": user_id}
            for entry in _all_pages(partial(service.list_memories, **owner), "cursor"):
                yield _exported_fields({**owner}, entry), entry


def _all_pages(listed: Callable[..., Any], following: str) -> Iterator[Any]:
    """Yield what all pages of a list have; the argument `following` names a page."""
    after = None
    while True:
        page = listed(**{following: after}, limit=_PAGE)
        yield from page
        after = page.next
        if after is None:
            return


def _exported_fields(row: Row, entry: MemoryEntry) -> Row:
    """Return the fields that an import needs; a turn's id follows from the others."""
    for name in _NAMES[2:]:
        value = getattr(entry, name)
        if value is not None:
            row[name] = value
    derived = (
        make_memory_id(entry.session_id, entry.event_id)
        if entry.event_id is not None
        else make_memory_id(entry.session_id, entry.author, entry.timestamp, entry.text)
    )
    is_turn = entry.kind == EPISODE and entry.session_id is not None
    if is_turn and entry.id == derived:
        del row["id"]
    if entry.custom_metadata:
        row["custom_metadata"] = entry.custom_metadata
    return row


def _write_export_csv(out: TextIO, rows: Iterator[tuple[Row, MemoryEntry]]) -> int:
    names = [*_NAMES, "text", "custom_metadata"]
    table = csv.writer(out, lineterminator="\n")
    table.writerow(names)
    count = 0
    for row, entry in rows:
        count += 1
        for name in ("timestamp", "valid_until"):
            if name in row:
                text = to_iso(row[name])
                exact = to_seconds(text, "timestamp") == row[name]
                row[name] = text if exact else repr(row[name])
        if "custom_metadata" in row:
            row["custom_metadata"] = json.dumps(row["custom_metadata"])
        row["text"] = entry.text
        table.writerow([row.get(name, "") for name in names])
    return count


def _write_export_markdown(out: TextIO, rows: Iterator[tuple[Row, MemoryEntry]]) -> int:
    out.write(f"{TITLE}\n")
    count = 0
    owner: tuple[str, str] | None = None
    for row, entry in rows:
        count += 1
        if owner != (owner := (row["app_name"], row["user_id"])):
            out.write(f"\n# {' '.join(' / '.join(owner).split())}\n")
        fields = json.dumps({"lines": entry.text.count("\n") + 1, **row})
        # A comment ends at the first "-->".
        fields = fields.replace(">", "\\u003e")
        out.write(f"\n{MARK}{fields[1:]} -->\n{entry.text}\n")
    return count


def _write_export_bundle(folder: Path, rows: Iterator[tuple[Row, MemoryEntry]]) -> int:
    count = 0
    for row, entry in rows:
        count += 1
        title = " ".join(entry.text.split())[:80]
        slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:40] or "memory"
        digest = make_memory_id(row["app_name"], row["user_id"], entry.id)[:12]
        head = {
            "type": entry.kind or "memory",
            "title": title,
            "timestamp": None if entry.timestamp is None else to_iso(entry.timestamp),
            "vecall": row,
        }
        lines = [f"{k}: {json.dumps(v)}\n" for k, v in head.items() if v is not None]
        path = folder / f"{slug}-{digest}.md"
        with path.open("x", encoding="utf-8", newline="") as out:
            out.write(f"---\n{''.join(lines)}---\n{entry.text}\n")
    return count


EXPORTS: dict[str, Callable[[Any, Iterator[tuple[Row, MemoryEntry]]], int]] = {
    "csv": _write_export_csv,
    "md": _write_export_markdown,
    "okf": _write_export_bundle,
}
"""The formats of `export_file`."""
