"""Memories of google-adk's artifacts."""

from __future__ import annotations

import codecs
import html
import inspect
import io
import json
import logging
import re
import zipfile
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import PurePath
from typing import Any

from google.adk.artifacts.base_artifact_service import BaseArtifactService
from google.adk.events.event import Event
from google.genai import types

from vecall.content import get_field
from vecall.errors import InvalidArgumentError, NotFoundError, WriteRejectedError
from vecall.service.memory_service import MemoryService
from vecall.store import make_memory_id
from vecall.text import strip_invisible
from vecall.types import Filter

# Measured on a million characters of documents and conversations. Each query has 40 %
# of a sentence's words. recall@5 is 88 % with pieces of 500 characters, and the same
# with 300. It is 87 % with 1,000 and 85 % with 2,000, which return 2 and 4 times the
# text.
PIECE = 500
"""The limit on the characters of a piece."""

_MAX_BYTES = 4_000_000  # bytes of a text: at least a million characters
_MAX_MARKUP = 10_000_000  # bytes of an unpacked document
_TEXT_TYPES = re.compile(
    r"text/.*|image/svg|(application|image)/([^;]*\+)?"
    r"(json|xml|csv|yaml|x-yaml|toml|sql|javascript|x-ndjson|jsonl|x-sh)"
)
_TEXT_NAMES = {".csv", ".htm", ".html", ".json", ".jsonl", ".md", ".srt", ".tsv"}
_TEXT_NAMES |= {".txt", ".vtt", ".xml", ".yaml", ".yml"}
_MARKUP = re.compile(r"text/html|application/xhtml\+xml")
_DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_UNKNOWN = {"", "application/octet-stream"}
# Python's other codecs are not character sets, and some take quadratic time.
_CHARSET = re.compile(
    r"(?:us-ascii|ascii|big5|cp|euc|gb|iso|koi8|latin|mac|shift|utf|windows)[\w:.-]{0,24}"
)

_TAG = re.compile("<[^<>]*>")
_TAG_NAME = re.compile(r"<(/?)(?:\w+:)?(\w*)")
_UNSEEN = {"script", "style"}
_LINES = {"br", "div", "h1", "h2", "h3", "h4", "h5", "h6", "li", "p", "title", "tr"}
_CELLS = {"tab", "td", "th"}
_MANY_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")
_ENDS = (("\n\n",), ("\n",), (". ", "! ", "? ", "\u3002"), (" ", "\t", ",", ";"))


def text_of(artifact: types.Part, name: str) -> str | None:
    """Return the text of an artifact; None for a type that vecall does not read."""
    # Bytes that cannot be decoded become U+FFFD; more than a third of it gives None.
    if artifact.text is not None:
        return artifact.text
    blob = artifact.inline_data
    data = None if blob is None else blob.data
    if blob is None or not isinstance(data, bytes):
        return None
    kind, _, parameters = (blob.mime_type or "").partition(";")
    kind = kind.strip().lower()
    suffix = PurePath(name).suffix.lower()
    if kind == _DOCX or (suffix == ".docx" and kind in _UNKNOWN):
        return _docx_artifact_text(data)
    known = kind in _UNKNOWN and suffix in _TEXT_NAMES
    if not (known or _TEXT_TYPES.fullmatch(kind)):
        return None
    text = _decode_artifact_text(data[:_MAX_BYTES], parameters)
    if _MARKUP.fullmatch(kind) or (known and suffix in {".htm", ".html"}):
        text = _strip_docx_tags(text)
    return None if 3 * text.count("\ufffd") > len(text) else text


def split_artifact_text(text: str) -> Iterator[str]:
    """Split a text after a paragraph, or else a line, a sentence or a word."""
    at = 0
    while at < len(text):
        end = _end_of_artifact_piece(text, at)
        piece = text[at:end].strip()
        if piece:
            yield piece
        at = end


def _end_of_artifact_piece(text: str, at: int) -> int:
    if len(text) - at <= PIECE:
        return len(text)
    for marks in _ENDS:
        found = [
            place + len(mark)
            for mark in marks
            if (place := text.rfind(mark, at + PIECE // 2, at + PIECE)) >= 0
        ]
        if found:
            return max(found)
    return at + PIECE


def _decode_artifact_text(data: bytes, parameters: str) -> str:
    charset = "utf-8"
    for each in parameters.split(";"):
        key, _, value = each.partition("=")
        if key.strip().lower() == "charset":
            charset = value.strip().strip("\"'").lower()
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        charset = "utf-16"
    if not _CHARSET.fullmatch(charset):
        charset = "utf-8"
    try:
        text = data.decode(charset, "replace")
    except LookupError:
        text = data.decode("utf-8", "replace")
    return text.removeprefix("\ufeff")


def _docx_artifact_text(data: bytes) -> str | None:
    """Return the text of a Word document; google-adk's reader takes quadratic time."""
    try:
        packed = zipfile.ZipFile(io.BytesIO(data))
        with packed, packed.open("word/document.xml") as document:
            markup = document.read(_MAX_MARKUP)
    except Exception:  # zipfile raises many types of error for a broken file
        return None
    return _strip_docx_tags(markup.decode("utf-8", "replace"))


def _strip_docx_tags(markup: str) -> str:
    """Return the text between tags, in linear time."""
    parts, at, unseen = [], 0, ""
    for tag in _TAG.finditer(markup):
        if not unseen:
            parts.append(markup[at : tag.start()])
        at = tag.end()
        found = _TAG_NAME.match(tag.group())
        closing, name = found.groups() if found else ("", "")
        name = name.lower()
        if unseen:
            unseen = "" if closing and name == unseen else unseen
        elif name in _UNSEEN:
            unseen = "" if closing else name
        elif name in _LINES:
            parts.append("\n")
        elif name in _CELLS:
            parts.append(" ")
    if not unseen:
        parts.append(markup[at:])
    text = _MANY_LINES.sub("\n\n", "".join(parts))
    try:
        return html.unescape(text)
    except ValueError:  # a character reference with thousands of digits
        return text


ArtifactText = Callable[[types.Part, str], str | None | Awaitable[str | None]]
"""Returns the text of an artifact, given the artifact and its name; None: no text."""

KIND = "document"
"""The kind of a memory that is a piece of an artifact."""

SOURCE = "artifact"
"""The source of such a memory."""

MOST_TEXT = 250_000
"""The limit on the characters of one artifact; the rest is not stored."""

_OF_THE_USER = "user:"  # the name prefix of artifacts that outlive their session
_MIME_TYPE = re.compile(r"[\w.+-]{1,64}/[\w.+-]{1,64}")

_log = logging.getLogger("vecall")


class SavedArtifacts:
    """The artifacts of a session that are not stored as memories yet."""

    def __init__(
        self, app_name: str, user_id: str, session_id: str, to_text: ArtifactText | None
    ) -> None:
        """Create the object without artifacts; without `to_text` it notes none."""
        self._user: dict[str, Any] = {"app_name": app_name, "user_id": user_id}
        self._session_id = session_id
        self._to_text = to_text
        self._due: dict[str, float | None] = {}

    def due_artifacts(self) -> list[str]:
        """Return the names of the artifacts to store."""
        return list(self._due)

    def note_artifacts(self, events: Iterable[Event]) -> None:
        """Record the artifacts that events saved."""
        for event in events if self._to_text is not None else ():
            for name in get_field(get_field(event, "actions"), "artifact_delta") or ():
                self._due[name] = event.timestamp

    async def index_artifact(
        self, name: str, service: BaseArtifactService, memory: MemoryService
    ) -> None:
        """Store the newest version, if due; after a temporary failure it stays due."""
        if name not in self._due:
            return
        try:
            await self._index_artifact_version(service, memory, name, self._due[name])
        except (InvalidArgumentError, WriteRejectedError) as error:
            _log.warning("an artifact was left out: %s", type(error).__name__)
        except Exception as error:
            _log.warning(
                "an artifact was not indexed: %s; tried again after the next turn of "
                "its session",
                type(error).__name__,
            )
            return
        del self._due[name]

    async def _index_artifact_version(
        self,
        service: BaseArtifactService,
        memory: MemoryService,
        name: str,
        timestamp: float | None,
    ) -> None:
        if not _is_showable_artifact_name(name):
            _log.warning("an artifact was left out: its name cannot be shown")
            return
        where = {**self._user, "session_id": self._session_id, "filename": name}
        # Not the event's version: another session may have saved a newer one.
        versions = await service.list_versions(**where)
        newest = max(versions, default=0)
        part = await service.load_artifact(**where, version=newest)
        entries: list[dict[str, Any]] = []
        if part is not None and _has_artifact_content(part):
            assert self._to_text is not None, "none is noted"
            text = self._to_text(part, name)
            if inspect.isawaitable(text):
                text = await text
            if text is not None and len(text) > MOST_TEXT:
                text = text[:MOST_TEXT]
                _log.warning("of an artifact %d characters are remembered", MOST_TEXT)
            entries = self._artifact_entries(name, newest, part, text or "", timestamp)
        for entry in entries:
            with suppress(NotFoundError):  # archived and quarantined ones count too
                await memory.memory_history(**self._user, memory_id=entry["id"])
                return
        session = entries[0]["session_id"] if entries else self._artifact_session(name)
        # One of the user is looked for in all sessions: its author has the prefix.
        of_this = Filter(
            session_id=session, author=f"artifact {name}", kind=KIND, source=SOURCE
        )
        await memory.delete_where(**self._user, filter=of_this)
        await memory.add_memory(**self._user, memories=entries, restore=False)

    def _artifact_entries(
        self,
        name: str,
        version: int,
        part: types.Part,
        text: str,
        timestamp: float | None,
    ) -> list[dict[str, Any]]:
        """Return the pieces, or only the name, with ids of their content."""
        session = self._artifact_session(name)
        texts = list(split_artifact_text(text)) or [""]
        head = [f"artifact {json.dumps(name, ensure_ascii=False)}, version {version}"]
        tail = []
        if session is not None:
            tail.append(f"in session {json.dumps(session, ensure_ascii=False)} only")
        if texts == [""] and (mime_type := _artifact_mime_type(part)):
            tail.append(mime_type)
        entries = []
        for at, piece in enumerate(texts, 1):
            place = [f"part {at} of {len(texts)}"] if len(texts) > 1 else []
            said = f"[{', '.join(head + place + tail)}]\n{piece}".rstrip()
            artifact = {"filename": name, "version": version}
            artifact |= {"part": at, "parts": len(texts)}
            entries.append(
                {
                    "content": said,
                    "id": make_memory_id("artifact", session, name, str(at), said),
                    "author": f"artifact {name}",
                    "kind": KIND,
                    "source": SOURCE,
                    "session_id": session,
                    "timestamp": timestamp,
                    "custom_metadata": {"artifact": artifact},
                }
            )
        return entries

    def _artifact_session(self, name: str) -> str | None:
        return None if name.startswith(_OF_THE_USER) else self._session_id


def _is_showable_artifact_name(name: object) -> bool:
    """Return whether a model can read and repeat a name unchanged."""
    return (
        isinstance(name, str)
        and strip_invisible(name) == name
        and not {"\n", "\t"} & set(name)
        and 0 < len(name.encode()) <= 255
    )


def _has_artifact_content(part: types.Part) -> bool:
    """Return whether an artifact has content; a rewind leaves an empty one."""
    blob = part.inline_data
    return bool(blob.data) if blob is not None else bool(part.text or part.file_data)


def _artifact_mime_type(part: types.Part) -> str | None:
    for each in (part.inline_data, part.file_data):
        given = (each.mime_type or "").partition(";")[0] if each else ""
        if _MIME_TYPE.fullmatch(given):
            return given
    return None
