"""What all commands share: options, output, and how they fail."""

from __future__ import annotations

import argparse
import dataclasses
import io
import json
import os
import re
import shutil
import sys
import threading
import time
import traceback
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, TextIO, cast

from vecall import errors
from vecall.clock import to_datetime
from vecall.store import Finding
from vecall.text import strip_invisible
from vecall.types import MemoryEntry, Revision

# Removes all terminal escapes except vecall's own from a command's output.
#
# The output of a command can contain texts of memories, file names and model names.
# Escape sequences in them could set the terminal's title, write its clipboard or hide
# text. So all output passes through `printable_text`, also to a pipe.


# Noncharacters that stand for terminal codes. `strip_invisible` removes them from every
# other text.
BOLD, DIM, PLAIN, RETURN, ERASE = "\ufdd0", "\ufdd1", "\ufdd2", "\ufdd3", "\ufdd4"

_MEANT = {
    BOLD: "\033[1m",
    DIM: "\033[2m",
    PLAIN: "\033[0m",
    RETURN: "\r",
    ERASE: "\033[K",
}
_PARTS = re.compile(f"([{''.join(_MEANT)}])")
_JOINERS = (
    "\u200c\u200d\ufe0e\ufe0f"  # `strip_invisible` keeps them only where they matter
)


def shown(text: str) -> str:
    """Return text without any invisible or control character but its line breaks."""
    text = strip_invisible(text).expandtabs(4)
    if text.isascii() or text.isprintable():
        return text
    return "".join(map(_printable_character, text))


def one_line(value: object) -> str:
    """Return a name or another value on one line, safe for a terminal."""
    return " ".join(shown(str(value)).split())


def _printable_character(char: str) -> str:
    if char.isprintable() or char == "\n" or char in _JOINERS:
        return char
    return " " if char.isspace() else "\ufffd"


class CleanStream:
    """Wraps a stream and cleans text on write; other attributes are the stream's."""

    def __init__(self, stream: TextIO) -> None:
        """Wrap a stream."""
        self._stream = stream

    def write(self, text: str) -> int:
        """Write text; remove all escapes except those of this module."""
        parts = _PARTS.split(text)
        self._stream.write("".join(_MEANT.get(part) or shown(part) for part in parts))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> object:
        """Return the attribute of the stream."""
        return getattr(self._stream, name)


@contextmanager
def clean_output() -> Iterator[None]:
    """Clean everything that the block prints."""
    before = sys.stdout, sys.stderr
    # A stream that the shell has closed is None.
    sys.stdout = cast("TextIO", CleanStream(before[0] or io.StringIO()))
    sys.stderr = cast("TextIO", CleanStream(before[1] or io.StringIO()))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


# Reports the errors of commands on the terminal.
#
# Errors of vecall never contain a path, because applications log them. The user of a
# command typed the path, so the command adds it to the message.

_OF_A_FILE = (
    errors.BusyError,
    errors.CorruptFileError,
    errors.IncompatibleFileError,
    errors.StorageError,
    errors.StorageFullError,
)
_DEBUG = "VECALL_DEBUG"


@contextmanager
def naming_path_in_errors(path: object) -> Iterator[None]:
    """Add the typed path to errors about the file that this block raises."""
    try:
        yield
    except errors.VecallError as error:
        message, typed = str(error), one_line(path)
        if message.startswith("path: "):
            message = f"{typed}: {message.removeprefix('path: ')}"
            message = message.replace("<name>", typed).replace("<file>", typed)
            error.args = (message,)
        elif message.startswith("line "):
            error.args = (f"{typed}, {message}",)
        elif isinstance(error, _OF_A_FILE) and not message.startswith(typed):
            error.args = (f"{typed}: {message}",)
        raise


def print_note(told: object) -> None:
    """Tell something on standard error."""
    print(f"vecall: {told}", file=sys.stderr)


def print_error(error: BaseException, *, debug: bool) -> None:
    """Print an error on standard error; with `debug` also its causes."""
    message = str(error)
    if isinstance(error, OSError) and not isinstance(error, errors.VecallError):
        message = f"{error.filename}: {error.strerror}" if error.filename else message
    print_note(message)
    causes = list(_error_causes(error))
    if debug or os.environ.get(_DEBUG, "0") not in ("", "0"):
        for cause in causes:
            print("caused by", file=sys.stderr)
            lines = traceback.format_exception(cause, chain=False)
            print("".join(lines).rstrip(), file=sys.stderr)
    elif causes and isinstance(error, errors.EmbedderError):
        print_note(f"{_DEBUG}=1 or --debug shows the cause")


def _error_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the causes of an error, also those hidden from a traceback."""
    seen = {id(error)}
    cause = error.__cause__ or error.__context__
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__


# Terminal output of the commands: colours, widths, memories, tables, progress.

_READABLE = 100  # columns of a text, on a wider terminal too
_JOIN, _EMOJI = "\u200d", "\ufe0f"


def _has_colours(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR")


def bold(text: str) -> str:
    """Return text in bold, if standard output is a terminal with colours."""
    return f"{BOLD}{shown(text)}{PLAIN}" if _has_colours(sys.stdout) else text


def dim(text: str) -> str:
    """Return text in grey, if standard output is a terminal with colours."""
    return f"{DIM}{shown(text)}{PLAIN}" if _has_colours(sys.stdout) else text


def terminal_columns() -> int | None:
    """Return the columns of the terminal or $COLUMNS; None in a pipe: break no line."""
    if not (sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal()):
        return None
    return max(shutil.get_terminal_size().columns, 20)


@lru_cache(4_096)
def _terminal_columns_of_char(char: str) -> int:
    """The columns that a terminal moves on by for a character that stands alone."""
    if unicodedata.category(char) in ("Mn", "Me", "Cf") or "\u1160" <= char <= "\u11ff":
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _clusters(text: str) -> Iterator[tuple[str, int]]:
    """Yield what a terminal shows as one character, and the columns that it takes."""
    cluster: list[str] = []
    width = 0
    for char in text:
        own = _terminal_columns_of_char(char)
        is_tone = width == 2 and "\U0001f3fb" <= char <= "\U0001f3ff"
        is_joined = own == 2 and cluster[-1:] == [_JOIN]
        if cluster and (own == 0 or is_tone or is_joined):
            width = 2 if char == _EMOJI else width
        else:
            if cluster:
                yield "".join(cluster), width
            cluster, width = [], own
        cluster.append(char)
    if cluster:
        yield "".join(cluster), width


def text_width(text: str) -> int:
    """Return the columns that a text takes on a terminal."""
    return len(text) if text.isascii() else sum(width for _, width in _clusters(text))


def _unbreakable_parts(text: str, room: int) -> Iterator[tuple[str, int, bool]]:
    """Yield what stays on one line, its width, and whether a space comes before it."""
    for word in text.split():
        if word.isascii() and len(word) <= room:
            yield word, len(word), True
            continue
        part: list[str] = []
        is_first, size, last = True, 0, 0
        for cluster, width in _clusters(word):
            if part and (2 in (width, last) or size + width > room):
                yield "".join(part), size, is_first
                is_first, part, size = False, [], 0
            part.append(cluster)
            size, last = size + width, width
        yield "".join(part), size, is_first


def wrap_for_terminal(text: str, indent: str = "", first: str | None = None) -> str:
    """Return a text, indented, on lines that the terminal shows whole."""
    text, width = one_line(text), terminal_columns()
    begin = indent if first is None else first
    if width is None:
        return begin + text
    room = max(min(width, _READABLE) - len(indent), 10)
    lines: list[str] = []
    line: list[str] = []
    used = 0
    for atom, size, is_word in _unbreakable_parts(text, room):
        gap = int(is_word and used > 0)
        if used and used + gap + size > room:
            lines.append("".join(line))
            line, used, gap = [], 0, 0
        line += [" " * gap, atom]
        used += gap + size
    return begin + f"\n{indent}".join([*lines, "".join(line)])


def print_json(facts: Any) -> None:
    """Print JSON in ASCII, which contains no terminal escapes."""
    print(json.dumps(facts).replace("\x7f", "\\u007f"))


_COLUMNS = {
    "app_name": "app",
    "user_id": "user",
    "session_id": "session",
    "users": "users",
    "sessions": "sessions",
    "memories": "memories",
    "text_bytes": "bytes",
    "created_at": "first stored",
    "first_at": "first",
    "updated_at": "last change",
    "last_at": "last",
}


def print_listing(options: argparse.Namespace, **lists: Sequence[Any]) -> None:
    """Print lists of public values by name; as CSV, the first that has any."""
    pages = {name: list(map(_csv_row, rows)) for name, rows in lists.items()}
    nexts = (getattr(rows, "next", None) for rows in lists.values())
    more = next(filter(None, nexts), None)
    if options.json:
        print_json({**pages, "next": more})
    elif options.csv:
        print_csv(next(filter(None, pages.values()), []))
    elif not any(lists.values()):
        print(f"no {' and no '.join(lists)}")
    else:
        for name, rows in lists.items():
            if rows and len(lists) > 1 and isinstance(rows[0], MemoryEntry):
                print(bold(f"{name} of no session"))
            if rows and isinstance(rows[0], MemoryEntry | Revision):
                print("\n".join(map(_printed_entry, rows)))
            elif rows:
                print(_csv_table(pages[name]))
        if more:
            print(dim(f"more: --after {one_line(more)}"))


def _csv_row(value: Any) -> dict[str, Any]:
    row = dataclasses.asdict(value)
    return {**row, "text": value.text} if isinstance(value, MemoryEntry) else row


def _csv_table(rows: Sequence[Mapping[str, Any]]) -> str:
    names = [name for name in _COLUMNS if name in rows[0]]
    cells = [[_csv_cell_text(name, row[name]) for name in names] for row in rows]
    return format_table([_COLUMNS[name] for name in names], cells)


def _csv_cell_text(name: str, value: Any) -> str:
    if name.endswith("_at"):
        return format_time(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _printed_entry(value: MemoryEntry | Revision) -> str:
    if isinstance(value, MemoryEntry):
        return show_memory(value)
    facts = [value.why or "", "" if value.at is None else format_time(value.at)]
    facts += [f"by {one_line(value.by)}"] if value.by else []
    head = f"{bold(value.state)}  {dim(', '.join(filter(None, facts)))}".rstrip()
    return f"{head}\n{show_memory(value.memory)}"


def print_csv(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows with the same names; what is no scalar, as JSON."""
    import csv  # a hook does not need it

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(rows[0] if rows else ())
    for row in rows:
        cells = row.values()
        writer.writerow(
            json.dumps(cell) if isinstance(cell, dict | list | tuple) else cell
            for cell in cells
        )


def print_facts(options: argparse.Namespace, facts: Any, *lines: str) -> int:
    """Print facts as JSON with --json, else lines for people; return 0."""
    if options.json:
        print_json(facts)
    else:
        print(*lines, sep="\n")
    return 0


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: "1 memory", "2 memories", "3 items"."""
    regular = f"{one[:-1]}ies" if one.endswith("y") else f"{one}s"
    return f"{count:,} {one if count == 1 else many or regular}"


def format_time(seconds: float | None) -> str:
    """Return a time for people, in UTC."""
    if seconds is None:
        return "no date"
    return to_datetime(seconds).strftime("%d %b %Y %H:%M")


def show_memory(memory: MemoryEntry, rank: int | None = None) -> str:
    """Return one memory: author, time, scores, text and id."""
    indent = "  " if rank is None else "     "
    author = one_line(memory.author or "unknown")
    said = memory.created_at if memory.timestamp is None else memory.timestamp
    details = format_time(memory.timestamp if rank else said)
    if memory.score is not None:
        details += f"  score {memory.score:.2f}"
    if memory.similarity is not None:
        details += f", cosine {memory.similarity:.2f}"
    if memory.confidence is not None:
        details += f", {100 * memory.confidence:.0f} % sure"
    head = author if rank is None else f"{f'  {rank}.'.ljust(4)} {author}"
    if text_width(head) + 2 + len(details) <= (terminal_columns() or _READABLE):
        lines = [f"{bold(head)}  {dim(details)}"]
    else:
        lines = [bold(head), dim(wrap_for_terminal(details, indent))]
    lines.append(wrap_for_terminal(memory.text, indent))
    if memory.explanation is not None:
        parts = [f"{name} {part:.3g}" for name, part in memory.explanation.items()]
        lines.append(dim(wrap_for_terminal(", ".join(parts), indent)))
    if memory.id is not None:  # never broken, so that it can be copied
        lines.append(dim(f"{indent}id {one_line(memory.id)}"))
    return "\n".join(lines)


def format_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table, or paragraphs where the terminal is narrower; cut nothing off."""
    cells = [[one_line(cell) for cell in row] for row in (head, *rows)]
    widths = [max(map(text_width, column)) for column in zip(*cells, strict=True)]
    most = terminal_columns()
    if most is not None and sum(widths) + 2 * len(widths) - 2 > most:
        paragraphs = []
        for name, *others in cells[1:]:
            pairs = zip(cells[0][1:], others, strict=True)
            facts = [f"{label} {cell}".strip() for label, cell in pairs if cell]
            paragraphs += [name, wrap_for_terminal(", ".join(facts), "  ")]
        return "\n".join(paragraphs)

    def line(row: Sequence[str]) -> str:
        gaps = [" " * (w - text_width(c)) for c, w in zip(row, widths, strict=True)]
        first, *others = zip(row, gaps, strict=True)
        return "  ".join(["".join(first), *(gap + c for c, gap in others)]).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([line(cells[0]), rule, *map(line, cells[1:])])


def is_confirmed(options: argparse.Namespace, question: str) -> bool:
    """Whether the person says yes, or --yes did; ConfigError if there is nobody."""
    if options.yes:
        return True
    if not sys.stdin.isatty():
        raise errors.ConfigError(
            "--yes: is required when standard input is not a terminal"
        )
    print(f"{question} [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def typed_lines(prompt: str) -> Iterator[str]:
    """Yield what is typed, line by line, to an empty line or the end of the input."""
    with suppress(EOFError):
        while line := input(prompt).strip():
            yield line


class Progress:
    """How far a work is, on standard error if that is a terminal.

    After a block with it that Ctrl-C ends, `main` says what was done.
    """

    def __init__(self, label: str, total: int = 0, after: str = "") -> None:
        """Start at 0 of `total`; 0 is unknown. `after` says what to do after Ctrl-C."""
        self._label, self._total, self._after = label, total, after
        self._done = 0
        self._begun = self._drawn = time.monotonic()

    def add(self, count: int) -> None:
        """Count `count` more items as done."""
        self.at(self._done + count, self._total, self._done + count)

    def at(self, done: int, total: int, count: int) -> None:
        """Show `done` of `total` (0: unknown), and the rate of `count` records."""
        now = time.monotonic()
        was, self._done = self._done, count
        ends = was < count and done == total
        if (now - self._drawn < 0.1 and not ends) or not sys.stderr.isatty():
            return
        self._drawn, passed = now, max(now - self._begun, 0.001)
        rate = count / passed
        told = f" {count:,}, {rate:,.{int(rate < 10)}f}/s"
        line = self._label + (told if count else f", {_progress_minutes_text(passed)}")
        if total and done:
            share = min(done / total, 1.0)
            left = _progress_minutes_text(passed * (1.0 - share) / share)
            line += f", {100 * share:.0f}%, {left} left"
        line = line[: shutil.get_terminal_size().columns - 1]
        print(f"{RETURN}{line}{ERASE}", end="", file=sys.stderr, flush=True)

    @contextmanager
    def watching(self, done: Callable[[], int] = int, total: int = 0) -> Iterator[None]:
        """Show during the block how far it is, or at least how long it takes."""
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(0.2):
                self.at(done(), total, done())

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            with self:
                yield
        finally:
            ended.set()
            thread.join()

    def finish(self) -> None:
        """Wipe the line."""
        if sys.stderr.isatty():
            print(f"{RETURN}{ERASE}", end="", file=sys.stderr, flush=True)

    def __enter__(self) -> Progress:
        """Begin."""
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Wipe the line; tell an interrupt what was done."""
        self.finish()
        if isinstance(error, KeyboardInterrupt) and not error.args:
            of = f" of {self._total:,}" if self._total else ""
            done = f": {self._done:,}{of} done" if self._done else ""
            error.args = ("; ".join(filter(None, [self._label + done, self._after])),)


def _progress_minutes_text(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def print_findings(
    options: argparse.Namespace, done: list[str], findings: list[Finding]
) -> int:
    """Print the actions and the findings; return 1 if one of them is an error."""
    bad = any(finding.level == "error" for finding in findings)
    if options.json:
        as_dicts = [dataclasses.asdict(finding) for finding in findings]
        print_json({"done": done, "findings": as_dicts, "damaged": bad})
        return int(bad)
    for line in done:
        print(bold(one_line(line)))
    for finding in findings:
        level = finding.level
        mark = level if level in ("ok", "note") else level.upper()
        shown = dim(mark) if level == "ok" else bold(mark)
        message = one_line(finding.message)
        print(f"{one_line(finding.about):12} {shown}  {message}")
    return int(bad)
