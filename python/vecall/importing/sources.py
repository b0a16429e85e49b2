"""What an import reads: a file or a pipe, as bytes, lines and JSON values."""

from __future__ import annotations

import codecs
import io
import json
import os
import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn

from vecall.clock import utc_seconds
from vecall.errors import ConfigError, InvalidArgumentError, LimitExceededError
from vecall.system import cached

HEAD_BYTES = 4 << 20
"""Bytes that a format is recognised by: at least one line of most transcripts."""

MOST_CHARACTERS = 64 << 20
"""Of one JSON value: a conversation, or all columns of a collection."""

_CHUNK = 1 << 20
_NEAR_END = 16  # characters of the longest cut token, `"\\ud83d\\ude00`
_SPACE = re.compile(r"[ \t\r\n]*")
_decoded = json.JSONDecoder().raw_decode


class Record(NamedTuple):
    """What a reader found: a memory, a turn, a session with its events, an item."""

    place: str  # "line 3", or "record 2, message 5"
    item: dict[str, Any]
    size: int  # bytes, about


@dataclass(slots=True)
class Tally:
    """What the readers of an import left out."""

    left_out: Counter[str] = field(default_factory=Counter)  # records by reason
    fields: Counter[str] = field(default_factory=Counter)  # values by field

    def count_other(
        self, source: Mapping[str, Any], known: Collection[str], where: str = ""
    ) -> None:
        """Count the fields of a record that its reader does not know."""
        for name, value in source.items():
            if name not in known and value not in (None, "", [], {}, False):
                self.fields[f"{where}{name}"] += 1


class _Counted(io.RawIOBase):
    """A stream of which the beginning was read, and that counts what was taken."""

    def __init__(self, head: bytes, stream: BinaryIO, *, owns: bool) -> None:
        self._head = head
        self._stream = stream
        self._owns = owns
        self.taken = 0

    def close(self) -> None:
        if self._owns:
            self._stream.close()
        super().close()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data, self._head = self._head[: len(buffer)], self._head[len(buffer) :]
        if not data:
            data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        self.taken += len(data)
        return len(data)


class Source:
    """A file, a pipe or a member of an archive that is imported."""

    def __init__(
        self,
        name: str,
        stream: BinaryIO,
        *,
        tally: Tally,
        document: str = "",
        path: Path | None = None,
        total: int = 0,
        columns: Mapping[str, str] | None = None,
        session: str | None = None,
    ) -> None:
        """Read the beginning."""
        self.name = name  # as it was typed, for messages
        self.path = path  # None for a pipe or a member of an archive
        # Its name as the origin of memories: a path below the given folder.
        self.document = document or Path(name).name
        self.head = stream.read(HEAD_BYTES)
        self._counted = _Counted(self.head, stream, owns=path is not None)
        self.stream = io.BufferedReader(self._counted, 1 << 18)
        self.total = total  # bytes, or rows; 0 if unknown
        self.columns = columns  # of a table; see `--map`
        self.session = session or Path(self.document).stem[:200] or "import"
        self.tally = tally
        self.rows = 0

    @property
    def done(self) -> int:
        """How much of `total` was read."""
        return self.rows or self._counted.taken

    @property
    def suffix(self) -> str:
        """The end of the file's name in lower case, such as ".csv"."""
        return Path(self.document).suffix.lower()

    @cached
    def json_values(self) -> JsonReader:
        """The JSON values in it."""
        return JsonReader(self.stream)

    def require_source_path(self) -> Path:
        """Return the path; raise ConfigError for a pipe: a database needs one."""
        if self.path is None:
            msg = f"{self.name}: this format is read from a file, not from a pipe"
            raise ConfigError(msg)
        return self.path

    def decoded_text(self) -> io.TextIOWrapper:
        """Return its text, decoded as UTF-8, or as UTF-16 after a byte order mark."""
        return io.TextIOWrapper(self.stream, _encoding_of_head(self.head), newline="")


def open_import(path: Path, name: str, **more: Any) -> Source:
    """Open a file, or raise ConfigError."""
    try:
        stream = path.open("rb")
        total = os.fstat(stream.fileno()).st_size
    except OSError as error:
        msg = f"{name}: the file cannot be read: {error.strerror}"
        raise ConfigError(msg) from error
    return Source(name, stream, path=path, total=total, **more)


def _encoding_of_head(head: bytes) -> str:
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    return "utf-8-sig"


def refuse_binary_source(place: str) -> NoReturn:
    """Refuse bytes that are no text."""
    expected(place, "text in UTF-8, or UTF-16 with a byte order mark")


def expected(place: str, what: str) -> NoReturn:
    """Refuse a record that lacks what its format has."""
    raise InvalidArgumentError(f"{place}: expected {what}")


def mapping_of(value: object, place: str) -> dict[str, Any]:
    """Return a JSON object; the error has the place."""
    if not isinstance(value, dict):
        expected(place, "a JSON object")
    return value


def imported_time(
    value: object,
    place: str,
    name: str = "timestamp",
    read: Callable[[object, str], float] = utc_seconds,
) -> float | None:
    """Return a time since 1970, in UTC by default; the error has the place."""
    if value is None or value == "":
        return None
    try:
        return read(value, name)
    except InvalidArgumentError as error:
        raise type(error)(f"{place}: {error}") from None


def drop_missing_fields(**fields: Any) -> dict[str, Any]:
    """Return the fields that have a value."""
    return {name: value for name, value in fields.items() if value not in (None, "")}


class JsonValue(NamedTuple):
    """A value of a JSON file."""

    place: str  # "line 3", or "record 2" for an element of an array
    value: Any
    array: int  # the number of its array, from 1; 0 for a value by itself
    size: int  # the characters of its JSON


class JsonReader:
    """Yields values by themselves and elements of arrays; one is in memory."""

    def __init__(self, stream: BinaryIO | io.BufferedReader) -> None:
        """Read nothing yet."""
        self._stream = stream
        self._decoder: codecs.IncrementalDecoder | None = None
        self._text = ""
        self._at = 0
        self._line = 1
        self._line_at = 0  # up to where lines were counted
        self._ended = False
        self._peeked: deque[JsonValue] = deque()
        self._values = self._read_json_values()

    def __iter__(self) -> Iterator[JsonValue]:
        """Yield the values; an error has the place."""
        while self._peeked:
            yield self._peeked.popleft()
        yield from self._values

    def peek_json_value(self) -> JsonValue | None:
        """Return the next value without taking it; None at the end."""
        if not self._peeked:
            self._peeked.extend(value for value in [next(self._values, None)] if value)
        return self._peeked[0] if self._peeked else None

    def _read_json_values(self) -> Iterator[JsonValue]:
        array = 0
        while (first := self._next_character()) is not None:
            if first != "[":
                place = f"line {self._line_number()}"
                yield self._read_json_value(place, 0)
                continue
            array += 1
            self._at += 1
            number = 0
            before = "" if array == 1 else f"array {array}, "
            while (first := self._next_character()) not in ("]", None):
                number += 1
                place = f"{before}record {number}"
                if number > 1:
                    if first != ",":
                        self._refuse(place, "expected a comma before it")
                    self._at += 1
                    self._next_character()
                yield self._read_json_value(place, array)
            if first is None:
                self._refuse(f"after {before}record {number}", "the array has no end")
            self._at += 1

    def _read_json_value(self, place: str, array: int) -> JsonValue:
        while True:
            why = "it has no end"
            try:
                value, end = _decoded(self._text, self._at)
                if end < len(self._text) or self._text[end - 1] in "]}" or self._ended:
                    break
                is_cut = True
            except RecursionError:
                is_cut, why = False, "nested too deeply"
            except ValueError as error:
                is_cut = self._is_value_cut_off(error)
                why = str(getattr(error, "msg", "a number of too many digits"))
            self._require_value_size(place, len(self._text) - self._at if is_cut else 0)
            if not is_cut or not self._read_more_json():
                self._refuse(place, why)
        size, self._at = end - self._at, end
        self._require_value_size(place, size)
        return JsonValue(place, value, array, size)

    def _is_value_cut_off(self, error: ValueError) -> bool:
        """Whether the end of what was read may be the reason of an error."""
        if self._ended or not isinstance(error, json.JSONDecodeError):
            return False
        is_open = error.msg.startswith("Unterminated string")
        return is_open or error.pos >= len(self._text) - _NEAR_END

    def _require_value_size(self, place: str, size: int) -> None:
        if size > MOST_CHARACTERS:
            msg = f"{place}: at most {MOST_CHARACTERS:,} characters in one value"
            raise LimitExceededError(msg)

    def _refuse(self, place: str, why: str) -> NoReturn:
        line = f"line {self._line_number()}"
        where = place if place == line else f"{place} ({line})"
        expected(where, f"a JSON object: {why}")

    def _next_character(self) -> str | None:
        while True:
            match = _SPACE.match(self._text, self._at)
            assert match is not None
            self._at = match.end()
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._read_more_json():
                return None

    def _line_number(self) -> int:
        self._line += self._text.count("\n", self._line_at, self._at)
        self._line_at = self._at
        return self._line

    def _read_more_json(self) -> bool:
        """Read as much again as was read of the present value; False at the end."""
        if self._ended:
            return False
        data = self._stream.read(max(_CHUNK, len(self._text) - self._at))
        if self._decoder is None:
            self._decoder = codecs.getincrementaldecoder(_encoding_of_head(data[:4]))()
        self._ended = not data
        self._line_number()
        try:
            new = self._decoder.decode(data, final=self._ended)
        except UnicodeDecodeError:
            refuse_binary_source(f"after line {self._line}")
        self._text = self._text[self._at :] + new
        self._at = self._line_at = 0
        return bool(new) or not self._ended
