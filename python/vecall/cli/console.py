"""What all commands share: options, output, and how they fail."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import sys
import textwrap
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO, cast

from vecall.clock import to_datetime
from vecall.errors import (
    BusyError,
    CorruptFileError,
    EmbedderError,
    IncompatibleFileError,
    StorageError,
    StorageFullError,
    VecallError,
)
from vecall.store import Finding
from vecall.text import strip_invisible
from vecall.types import MemoryEntry

# Removes all terminal escapes except vecall's own from a command's output.
#
# The output of a command can contain texts of memories, file names and model names.
# Escape sequences in them could set the terminal's title, write its clipboard or hide
# text. So all output passes through `shown`, to a terminal as well as to a pipe.


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
    """Return text that is safe for a terminal; keep its line breaks.

    Removes all control characters except the newline, marks of text direction, and all
    other invisible characters.
    """
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
    sys.stdout = cast("TextIO", CleanStream(before[0]))
    sys.stderr = cast("TextIO", CleanStream(before[1]))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


# Reports the errors of commands on the terminal.
#
# Errors of vecall never contain a path, because applications log them. The user of a
# command typed the path, so the command adds it to the message.


_OF_A_FILE = (
    BusyError,
    CorruptFileError,
    IncompatibleFileError,
    StorageError,
    StorageFullError,
)
_DEBUG = "VECALL_DEBUG"


@contextmanager
def naming(path: object) -> Iterator[None]:
    """Add the typed path to errors about the file that this block raises."""
    try:
        yield
    except VecallError as error:
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


def report(error: BaseException, *, debug: bool) -> None:
    """Print an error on standard error; with `debug` also its causes."""
    message = str(error)
    if isinstance(error, OSError) and not isinstance(error, VecallError):
        message = f"{error.filename}: {error.strerror}" if error.filename else message
    print(f"vecall: {message}", file=sys.stderr)
    causes = list(_error_causes(error))
    if debug or os.environ.get(_DEBUG, "0") not in ("", "0"):
        for cause in causes:
            print("caused by", file=sys.stderr)
            lines = traceback.format_exception(cause, chain=False)
            print("".join(lines).rstrip(), file=sys.stderr)
    elif causes and isinstance(error, EmbedderError):
        print(f"vecall: {_DEBUG}=1 or --debug shows the cause", file=sys.stderr)


def _error_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the causes of an error, also those hidden from a traceback."""
    seen = {id(error)}
    cause = error.__cause__ or error.__context__
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__


# Terminal output of the commands: colours, progress, memories, tables.


_WIDTH = 88


def _has_colours(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR")


def bold(text: str) -> str:
    """Return text in bold, if standard output is a terminal with colours."""
    return f"{BOLD}{shown(text)}{PLAIN}" if _has_colours(sys.stdout) else text


def dim(text: str) -> str:
    """Return text in grey, if standard output is a terminal with colours."""
    return f"{DIM}{shown(text)}{PLAIN}" if _has_colours(sys.stdout) else text


def print_json(facts: Any) -> None:
    """Print JSON in ASCII, which contains no terminal escapes."""
    print(json.dumps(facts).replace("\x7f", "\\u007f"))


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: "1 memory", "2 memories"."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def show_memory(rank: int, memory: MemoryEntry) -> str:
    """Return one recalled memory: score, time, author and text."""
    when = "no date"
    if memory.timestamp is not None:
        when = to_datetime(memory.timestamp).strftime("%d %b %Y %H:%M")
    scores = f"score {memory.score:.2f}" if memory.score is not None else ""
    if memory.similarity is not None:
        scores += f", cosine {memory.similarity:.2f}"
    if memory.confidence is not None:
        scores += f", {100 * memory.confidence:.0f} % sure"
    author = bold(one_line(memory.author or "unknown"))
    head = f"  {rank}. {author}  {dim(f'{when}  {scores}')}"
    said = textwrap.fill(
        one_line(memory.text),
        _WIDTH,
        initial_indent="     ",
        subsequent_indent="     ",
    )
    if memory.explanation is not None:
        parts = [f"{name} {part:.3g}" for name, part in memory.explanation.items()]
        said += "\n" + dim(
            textwrap.fill(
                ", ".join(parts),
                _WIDTH,
                initial_indent="     ",
                subsequent_indent="     ",
            )
        )
    return f"{head}\n{said}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; the first column is flush left, the others right."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        shown = [cells[0].ljust(widths[0])]
        shown += [c.rjust(w) for c, w in zip(cells[1:], widths[1:], strict=True)]
        return "  ".join(shown).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([line(head), rule, *map(line, rows)])


class Progress:
    """A bar on standard error, if that is a terminal; silent otherwise."""

    def __init__(self, label: str, total: int) -> None:
        """Start at 0 of `total`."""
        self._label = label
        self._total = max(total, 1)
        self._done = 0
        self._shown = -1
        self._begun = self._drawn = time.monotonic()

    def add(self, count: int) -> None:
        """Count `count` more items as done."""
        self._done += count
        percent = min(100, 100 * self._done // self._total)
        if percent == self._shown or not sys.stderr.isatty():
            return
        self._shown = percent
        bar = ("#" * (percent * 30 // 100)).ljust(30)
        print(f"{RETURN}{self._label} [{bar}] {percent:3d}%", end="", file=sys.stderr)

    def at(self, done: int, total: int, count: int) -> None:
        """Show how far a work of unknown length is, at most ten times a second.

        Args:
            done: How much is done.
            total: Of how much; 0 if that is unknown.
            count: How many records were done, for the rate.
        """
        now = time.monotonic()
        if now - self._drawn < 0.1 or not sys.stderr.isatty():
            return
        self._drawn, passed = now, now - self._begun
        line = f"{self._label} {count:,}, {count / passed:,.0f}/s"
        if total and done:
            left = round(passed * max(total - done, 0) / done)
            line += (
                f", {min(100, 100 * done // total)}%, {left // 60}:{left % 60:02} left"
            )
        print(f"{RETURN}{line}{ERASE}", end="", file=sys.stderr, flush=True)

    def finish(self) -> None:
        """Wipe the bar."""
        if sys.stderr.isatty():
            print(f"{RETURN}{ERASE}", end="", file=sys.stderr, flush=True)


# Prints what an examination found.


_MARKS = {"ok": "ok", "note": "note", "warning": "WARNING", "error": "ERROR"}


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
        mark = _MARKS[finding.level]
        shown = dim(mark) if finding.level == "ok" else bold(mark)
        message = one_line(finding.message)
        print(f"{one_line(finding.about):12} {shown}  {message}")
    return int(bad)
