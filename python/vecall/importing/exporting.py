"""Exports that people and other programs read, and that come in again."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from vecall.clock import to_iso, to_seconds
from vecall.errors import ConfigError, InvalidArgumentError, StorageError
from vecall.importing.documents import MARK, TITLE
from vecall.importing.sources import expected
from vecall.ingest.drafts import EPISODE
from vecall.ingest.fields import ENTRY
from vecall.limits import Owner
from vecall.service.memory_service import MemoryService
from vecall.store import memory_id
from vecall.types import MemoryEntry

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
    rows = _rows(memory, app_name, user_id)
    try:
        if format == "okf":
            target.mkdir()
            return _write_bundle(target, rows)
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


def _rows(
    memory: MemoryService, app: str | None, user: str | None
) -> Iterator[tuple[Row, MemoryEntry]]:
    """Yield the fields of every memory, user by user, in order of creation."""
    service, admin = memory.sync, memory.sync.admin
    apps = (each.app_name for each in _all(admin.list_apps, "after"))
    for app_name in apps if app is None else [app]:
        listed = partial(admin.list_users, app_name=app_name)
        users = (each.user_id for each in _all(listed, "after"))
        for user_id in users if user is None else [user]:
            owner: Owner = {"app_name": app_name, "user_id": user_id}
            for entry in _all(partial(service.list_memories, **owner), "cursor"):
                yield _fields({**owner}, entry), entry


def _all(listed: Callable[..., Any], following: str) -> Iterator[Any]:
    """Yield what all pages of a list have; the argument `following` names a page."""
    after = None
    while True:
        page = listed(**{following: after}, limit=_PAGE)
        yield from page
        after = page.next
        if after is None:
            return


def _fields(row: Row, entry: MemoryEntry) -> Row:
    """Return the fields that an import needs; a turn's id follows from the others."""
    for name in _NAMES[2:]:
        value = getattr(entry, name)
        if value is not None:
            row[name] = value
    derived = (
        memory_id(entry.session_id, entry.event_id)
        if entry.event_id is not None
        else memory_id(entry.session_id, entry.author, entry.timestamp, entry.text)
    )
    is_turn = entry.kind == EPISODE and entry.session_id is not None
    if is_turn and entry.id == derived:
        del row["id"]
    if entry.custom_metadata:
        row["custom_metadata"] = entry.custom_metadata
    return row


def _write_csv(out: TextIO, rows: Iterator[tuple[Row, MemoryEntry]]) -> int:
    names = [*_NAMES, "text", "custom_metadata"]
    table = csv.writer(out, lineterminator="\n")
    table.writerow(names)
    count = 0
    for row, entry in rows:
        count += 1
        for name in ("timestamp", "valid_until"):
            if name in row:
                row[name] = _time_text(row[name])
        if "custom_metadata" in row:
            row["custom_metadata"] = json.dumps(row["custom_metadata"])
        row["text"] = entry.text
        table.writerow([row.get(name, "") for name in names])
    return count


def _time_text(seconds: float) -> str:
    text = to_iso(seconds)
    return text if to_seconds(text, "timestamp") == seconds else repr(seconds)


def _write_markdown(out: TextIO, rows: Iterator[tuple[Row, MemoryEntry]]) -> int:
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


def _write_bundle(folder: Path, rows: Iterator[tuple[Row, MemoryEntry]]) -> int:
    count = 0
    for row, entry in rows:
        count += 1
        title = " ".join(entry.text.split())[:80]
        slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:40] or "memory"
        digest = memory_id(row["app_name"], row["user_id"], entry.id)[:12]
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
    "csv": _write_csv,
    "md": _write_markdown,
    "okf": _write_bundle,
}
"""The formats of `export_file`."""
