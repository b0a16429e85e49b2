"""Standard output and standard error that carry no terminal escapes but vecall's own.

What a command prints can come from a memory, a file's name or a model's name, and a
terminal obeys what it is sent: an escape sequence sets its title, writes its clipboard
or hides text. So while a command runs, everything that is printed goes through
`shown`, into a terminal and into a pipe alike.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO, cast

from vecall.prompts.sanitize import strip_invisible

# Noncharacters, which `strip_invisible` removes from every text, mean terminal codes.
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
    "\u200c\u200d\ufe0e\ufe0f"  # where `strip_invisible` leaves one it has a meaning
)


def shown(text: str) -> str:
    """Return text that is safe for a terminal; keep its line breaks.

    No control character but the newline is left, no mark of direction, and nothing else
    that cannot be seen.
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
    """A stream that cleans text on write; other attributes are the stream's own."""

    def __init__(self, stream: TextIO) -> None:
        """Wrap a stream."""
        self._stream = stream

    def write(self, text: str) -> int:
        """Write text; remove all escapes but those of this module."""
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
