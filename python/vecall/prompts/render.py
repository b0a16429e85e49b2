"""Renders recalled memories as text for a prompt, safe against prompt injection.

Nothing in vecall renders by itself: a search returns data, and this is one way to show
it. What the formats promise and where that ends is in `render`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple, get_args

from vecall.errors import InvalidArgumentError, InvalidTypeError
from vecall.prompts import formats, secure
from vecall.prompts.budget import as_memories, counter, fit_budget, whole_tokens
from vecall.prompts.record import Recalled, known_scores, shown_time
from vecall.prompts.sanitize import escape_json, without_surrogates

Format = Literal["plain", "bullets", "past_conversations", "json", "secure"]

_SCORED = ("json", "secure")  # formats that show scores by default


class _Layout(NamedTuple):
    head: str
    tail: str
    between: str
    record: Callable[[Recalled, int], str]


def render(
    memories: Iterable[Recalled],
    format: Format = "plain",
    *,
    scores: bool | None = None,
    nonce: str | None = None,
    secret: bytes | str | None = None,
    max_tokens: int | None = None,
    count_tokens: Callable[[str], int] | None = None,
) -> str:
    """Return recalled memories as one text, in their order; the same for the same hits.

    - `plain`: the texts, one after the other. For people and logs, not for prompts: a
      text may hold anything that can be seen.
    - `bullets`: "Relevant prior context:" and "- [time] author: text".
    - `past_conversations`: the block that google-adk preloads.
    - `json`: an array of objects, which a JSON parser gives back as they were.
    - `secure`: each memory in a frame of its own that says where it comes from and how
      far that is trusted, all in a block that says it is no instruction. Every tag ends
      in a nonce that the author of a memory cannot know.

    In all of them whatever cannot be seen is gone (in JSON: escaped): control
    characters, terminal escapes, marks of direction, zero-width and tag characters. In
    bullets, past_conversations and secure every "<" and every line that starts at the
    left edge is vecall's: in memories and in their names "<" is shown as "&lt;" and
    continued lines are moved in by two spaces. This keeps a memory from posing as
    something else. It does not keep a model from believing what a memory says.

    `custom_metadata` is never shown. A memory without text is shown as "(no text)".

    Args:
        memories: What a search found, or `ScoredMemory`.
        format: One of the five above.
        scores: Show confidence and importance where a memory has them. Without it, json
            and secure do and the others do not.
        nonce: For secure: 8 to 64 letters and digits to use, new for every block.
        secret: For secure, where the nonce is derived: a key of yours, so that several
            processes write the same text for the same hits and a prompt cache holds
            across them. A random one of this process when not given.
        max_tokens: Leave out what does not fit, as `fit_budget` does, and count the
            frame; the memories must then have both scores.
        count_tokens: As in `fit_budget`.

    Returns:
        The text; without memories "" (for json "[]").

    Raises:
        InvalidArgumentError: An unknown format, a bad nonce, secret or budget.
        InvalidTypeError: Something else than memories.
        InvalidMemoryError: `max_tokens` is given and a memory lacks a score.
    """
    if format not in get_args(Format):
        msg = f"format: must be one of {', '.join(get_args(Format))}"
        raise InvalidArgumentError(msg)
    untyped: object = scores
    if not (untyped is None or isinstance(untyped, bool)):
        msg = "scores: expected True or False"
        raise InvalidTypeError(msg)
    given = as_memories(memories)
    scored = format in _SCORED if scores is None else scores
    mark = "" if nonce is None else secure.checked_nonce(nonce)
    if max_tokens is not None:
        layout = _layout(format, mark or secure.UNKNOWN_NONCE, scored)
        given = _fitting(given, layout, max_tokens, count_tokens)
    if not mark and format == "secure":
        mark = secure.derived_nonce(given, secret)
    layout = _layout(format, mark, scored)
    shown = [layout.record(memory, at) for at, memory in enumerate(given, 1)]
    if not shown:
        return "[]" if format == "json" else ""
    return layout.head + layout.between.join(shown) + layout.tail


def _layout(format: Format, nonce: str, scored: bool) -> _Layout:
    if format == "plain":
        return _Layout("", "", "\n", lambda memory, _: formats.plain(memory, scored))
    if format == "bullets":
        head = formats.BULLETS_HEAD
        return _Layout(head, "", "\n", lambda memory, _: formats.bullet(memory, scored))
    if format == "past_conversations":
        head, tail = formats.PAST_HEAD, formats.PAST_TAIL
        return _Layout(head, tail, "\n", lambda memory, _: formats.turn(memory, scored))
    if format == "json":
        return _Layout(
            "[\n", "\n]", ",\n", lambda memory, _: _json_object(memory, scored)
        )
    return _Layout(
        secure.head(nonce),
        secure.tail(nonce),
        "\n",
        lambda memory, at: secure.record(memory, at, nonce, scored),
    )


def _fitting(
    memories: list[Recalled],
    layout: _Layout,
    max_tokens: int,
    count_tokens: Callable[[str], int] | None,
) -> list[Recalled]:
    count = counter(count_tokens)
    frame = whole_tokens(count(layout.head + layout.tail), "count_tokens")
    if whole_tokens(max_tokens, "max_tokens") < frame:
        return []
    return fit_budget(
        memories,
        max_tokens,
        count,
        used_tokens=frame,
        render=lambda memory: layout.record(memory, len(memories)) + layout.between,
    )


def _json_object(memory: Recalled, scored: bool) -> str:
    known: dict[str, str | float | None] = {
        "id": memory.id,
        "author": memory.author,
        "time": shown_time(memory) or None,
        "session_id": memory.session_id,
        "kind": memory.kind,
        "source": memory.source,
        "trust": memory.trust or "unknown",
        **(known_scores(memory) if scored else {}),
        "text": memory.text,
    }
    shown = {
        name: without_surrogates(value) if isinstance(value, str) else value
        for name, value in known.items()
        if value is not None
    }
    return escape_json(json.dumps(shown, ensure_ascii=False))
