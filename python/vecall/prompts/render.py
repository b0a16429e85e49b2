"""Renders recalled memories as text for a prompt, safe against prompt injection.

A search returns data; this is one way to show it. `render` states the guarantees of the
formats and their limits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple, get_args

from vecall.errors import InvalidArgumentError, InvalidTypeError
from vecall.prompts import formats, secure
from vecall.prompts.budget import as_memories, counter, fit_budget, whole_tokens
from vecall.prompts.record import Recalled, known_scores, shown_time
from vecall.text import escape_json, without_surrogates

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
    """Return recalled memories as one text, in their order. Deterministic.

    - `plain`: the texts, one after the other. For people and logs, not for prompts:
      visible characters are not escaped.
    - `bullets`: "Relevant prior context:" and "- [time] author: text".
    - `past_conversations`: the block that google-adk preloads.
    - `json`: an array of objects; a JSON parser restores the original strings.
    - `secure`: each memory in a frame with its source and trust, all in a block that
      declares itself data, not instructions. Every tag ends in a nonce that the author
      of a memory cannot know.

    All formats remove invisible characters (json escapes them): control characters,
    terminal escapes, direction marks, zero-width and tag characters. In bullets,
    past_conversations and secure only vecall writes "<" and lines at the left edge:
    "<" in a memory or its fields becomes "&lt;", and continuation lines are indented by
    two spaces. So a memory cannot forge a frame or another speaker. A model may still
    believe what a memory says.

    `custom_metadata` is never shown. A memory without text is shown as "(no text)".

    Args:
        memories: Memories that a search returned, or `ScoredMemory` objects.
        format: One of the five formats above.
        scores: Show confidence and importance if a memory has them. Default: True for
            json and secure, False for the others.
        nonce: For secure: 8 to 64 ASCII letters and digits, new for every block.
            Default: derived from `secret` and the memories.
        secret: For secure: the key of the derived nonce. With one key, several
            processes write the same text for the same hits, so a prompt cache holds.
            Default: a random key of this process.
        max_tokens: Budget in tokens, including the frame. Memories are dropped as by
            `fit_budget`, and must have both scores.
        count_tokens: As in `fit_budget`.

    Returns:
        The text; without memories "" (for json "[]").

    Raises:
        InvalidArgumentError: An unknown format, or an invalid nonce, secret or budget.
        InvalidTypeError: An argument of another type.
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
