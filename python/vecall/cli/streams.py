"""Removes all terminal escapes except vecall's own from a command's output.

The output of a command can contain texts of memories, file names and model names.
Escape sequences in them could set the terminal's title, write its clipboard or hide
text. So all output passes through `shown`, to a terminal as well as to a pipe.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO, cast

from vecall.text import strip_invisible

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
    return "".join(map(_printable, text))


def one_line(value: object) -> str:
    """Return a name or another value on one line, safe for a terminal."""
    return " ".join(shown(str(value)).split())


def _printable(char: str) -> str:
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
