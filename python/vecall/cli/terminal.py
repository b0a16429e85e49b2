"""Terminal output of the commands: colours, progress, memories, tables."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Sequence
from typing import Any, TextIO

from vecall.cli.streams import BOLD, DIM, ERASE, PLAIN, RETURN, one_line, shown
from vecall.timestamps import to_datetime
from vecall.types import MemoryEntry

_WIDTH = 88


def _coloured(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR")


def bold(text: str) -> str:
    """Return text in bold, if standard output is a terminal with colours."""
    return f"{BOLD}{shown(text)}{PLAIN}" if _coloured(sys.stdout) else text


def dim(text: str) -> str:
    """Return text in grey, if standard output is a terminal with colours."""
    return f"{DIM}{shown(text)}{PLAIN}" if _coloured(sys.stdout) else text


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

    def add(self, count: int) -> None:
        """Count `count` more items as done."""
        self._done += count
        percent = min(100, 100 * self._done // self._total)
        if percent == self._shown or not sys.stderr.isatty():
            return
        self._shown = percent
        bar = ("#" * (percent * 30 // 100)).ljust(30)
        print(f"{RETURN}{self._label} [{bar}] {percent:3d}%", end="", file=sys.stderr)

    def finish(self) -> None:
        """Wipe the bar."""
        if sys.stderr.isatty():
            print(f"{RETURN}{ERASE}", end="", file=sys.stderr, flush=True)
