"""Removes recalled text from turns, so that memories are not stored again.

A framework may store the prompt that it sent, with its blocks of recalled memories.
Without this step every turn would store copies of earlier memories.
"""

from __future__ import annotations

from collections.abc import Callable

from vecall.prompts.render import (
    BULLETS_HEAD,
    PAST_HEAD,
    PAST_TAIL,
    secure_head,
    secure_tail,
)

_CONTINUED = "  "  # the indent of a memory's further lines
_BULLETS_OPEN = BULLETS_HEAD + "- "
_PAST_OPEN = "<PAST_CONVERSATIONS>"
_PAST_SAYS = PAST_HEAD.removesuffix(_PAST_OPEN + "\n")
_PAST_CLOSE = PAST_TAIL.rstrip()
_SECURE_OPEN = "<recalled-"
_SECURE_ENDS = len(_SECURE_OPEN) + 65  # the first tag ends within this length
_JSON_OPEN = '[\n{"'
_JSON_FIRST = tuple(
    f'{{"{name}": "'
    for name in ("id", "author", "time", "session_id", "kind", "source", "trust")
)


def without_recalled(text: str) -> str:
    """Return a text without the blocks that `render` made, anywhere in it.

    The rest of the text does not change, except for blank space around a block: between
    text on both sides one newline stays. A text without a block is returned unchanged.
    The time is linear in the length.

    - `past_conversations`: from google-adk's two sentences and the tag to the last
      closing tag at the left edge before the next such sentences, because google-adk
      does not escape the content; to the end of the text without a closing tag. Without
      the sentences, the tag must be on a line of its own, and the first closing tag
      ends the block.
    - `secure`: the frame with its nonce. `json`: the array, one object per line. If
      their end is missing, the block extends over all lines of its form.
    - `bullets`: the first line and all bullets with an author. The block has no end
      mark: following lines that look like bullets, or are indented by two spaces,
      belong to it.
    - `plain` cannot be recognised.

    A tag or sentence that is only mentioned ("what is <PAST_CONVERSATIONS>?") stays. A
    frame that was cut off before any recalled text stays. A block that was changed
    (quoted, indented, wrapped) is not recognised. A verbatim copy by a user is removed.
    """
    if not any(map(text.__contains__, _BLOCKS)):
        return text
    found = {mark: at for mark in _BLOCKS if (at := text.find(mark)) >= 0}
    last_close = text.rfind(_PAST_CLOSE)
    pieces, done = [], 0
    while found:
        mark = min(found, key=found.__getitem__)
        at = found[mark]
        if block := _BLOCKS[mark](text, at, last_close):
            pieces.append(text[done : block[0]])
            done = block[1]
        searched = max(done, at + 1)
        for passed in [mark for mark, at in found.items() if at < searched]:
            found[passed] = text.find(passed, searched)
            if found[passed] < 0:
                del found[passed]
    return _join_around_blocks(pieces, text[done:]) if done else text


def _find_bullets_block(text: str, at: int, _: int) -> tuple[int, int] | None:
    begin = at + len(BULLETS_HEAD)
    end = _end_of_lines(text, begin, _is_bullet)
    return (at, end) if end > begin else None


def _find_past_block(text: str, at: int, last_close: int) -> tuple[int, int] | None:
    begin = at + len(_PAST_OPEN)
    said = text.endswith(_PAST_SAYS, 0, at)
    own_line = (at == 0 or text[at - 1] == "\n") and text.startswith("\n", begin)
    if not (said or (own_line and last_close >= begin)):
        return None
    if last_close < begin:
        return at - len(_PAST_SAYS), len(text)
    close = text.find(_PAST_CLOSE, begin)
    if not said:
        return at, close + len(_PAST_CLOSE)
    another = text.find(_PAST_SAYS, close)
    close = last_close if another < 0 else text.rfind(_PAST_CLOSE, close, another)
    return at - len(_PAST_SAYS), close + len(_PAST_CLOSE)


def _find_secure_block(text: str, at: int, _: int) -> tuple[int, int] | None:
    named = text.find(">", at, at + _SECURE_ENDS)
    nonce = text[at + len(_SECURE_OPEN) : max(named, at)]
    head = secure_head(nonce)
    if not text.startswith(head, at):
        return None
    memory, close = f"<memory-{nonce}", f"</memory-{nonce}>"
    end = _end_of_lines(
        text, at + len(head), lambda line: line.startswith((_CONTINUED, memory, close))
    )
    for tag in (f"\n{memory}", f"\n{close}", secure_tail(nonce)):
        end = _end_of_expected_text(text, end, tag)
    return at, end


def _find_json_block(text: str, at: int, _: int) -> tuple[int, int] | None:
    begin = at + len("[\n")
    first = text[begin : _line_end(text, begin)]
    trust = first.find('"trust": "')
    known = first.startswith(_JSON_FIRST) and trust >= 0
    if not known or first.find('"text": "', trust) < 0:
        return None
    end = _end_of_lines(text, begin, lambda line: line.startswith('{"'))
    return at, _end_of_expected_text(text, end, "\n]")


_BLOCKS: dict[str, Callable[[str, int, int], tuple[int, int] | None]] = {
    _BULLETS_OPEN: _find_bullets_block,
    _PAST_OPEN: _find_past_block,
    _SECURE_OPEN: _find_secure_block,
    _JSON_OPEN: _find_json_block,
}


def _is_bullet(line: str) -> bool:
    return line.startswith(_CONTINUED) or (line.startswith("- ") and ": " in line)


def _end_of_lines(text: str, begin: int, belongs: Callable[[str], bool]) -> int:
    """Return where the lines of a block end; a memory may contain empty lines."""
    at = end = begin
    blank = False
    while at < len(text):
        line_end = _line_end(text, at)
        line = text[at:line_end]
        if line:
            if not belongs(line) or (blank and not line.startswith(_CONTINUED)):
                break
            end = line_end
        blank = not line
        at = line_end + 1
    return end


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _end_of_expected_text(text: str, at: int, expected: str) -> int:
    """Return the end of expected text, also if it is cut off; `at` if absent."""
    if text.startswith(expected, at):
        return at + len(expected)
    left = text[at : at + len(expected)]
    return at + len(left) if expected.startswith(left) else at


def _join_around_blocks(parts: list[str], last: str) -> str:
    """Return the text before, between and after blocks as one text."""
    pieces = [parts[0].rstrip()]
    pieces += [_from_first_line(piece).rstrip() for piece in parts[1:]]
    pieces.append(_from_first_line(last))
    return "\n".join(piece for piece in pieces if piece.strip())


def _from_first_line(piece: str) -> str:
    """Return a piece from its first non-blank line, with that line's indent."""
    blank = len(piece) - len(piece.lstrip())
    return piece[piece.rfind("\n", 0, blank) + 1 :]
