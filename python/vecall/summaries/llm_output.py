"""Parses a model's answer: JSON objects inside any text, or else the whole text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from vecall.content import get_field, to_valid_utf8

_START = re.compile(r"[\[{]")
_DECODER = json.JSONDecoder(strict=False)  # models write line breaks inside strings
_MOST_MISSES = 100  # limits the time that a hostile answer takes


class LlmOutput(NamedTuple):
    """One summary of a model; its text is blank only if the model left it blank."""

    summary: str
    topics: tuple[str, ...] = ()
    key_facts: tuple[str, ...] = ()


def read_answer(text: str) -> list[LlmOutput]:
    """Return every summary of an answer, in order, each once.

    A summary is a JSON object whose "summary" is a string: alone, in an array or inside
    another object, with any text around it. Its other keys may be in snake_case or
    camelCase. A string counts as a list with one item; values of other types are
    dropped.

    Args:
        text: The model's answer.

    Returns:
        The summaries that are not blank. Without a summary object, the whole text is
        one summary.
    """
    found = list(_objects(text)) or [LlmOutput(to_valid_utf8(text).strip())]
    return [answer for answer in dict.fromkeys(found) if answer.summary]


def _objects(text: str) -> Iterator[LlmOutput]:
    position = misses = 0
    while misses < _MOST_MISSES and (start := _START.search(text, position)):
        position = start.end()
        try:
            value, end = _DECODER.raw_decode(text, start.start())
        except (ValueError, RecursionError):
            misses += 1
            continue
        answers = _answers(value)
        if answers:
            position = end
        else:
            misses += 1
        yield from answers


def _answers(value: Any) -> list[LlmOutput]:
    items = value if isinstance(value, list) else [value]
    return [
        LlmOutput(
            _text(item["summary"]),
            _texts(item.get("topics")),
            _texts(get_field(item, "key_facts")),
        )
        for item in items
        if isinstance(item, Mapping) and isinstance(item.get("summary"), str)
    ]


def _texts(value: Any) -> tuple[str, ...]:
    items = value if isinstance(value, list) else [value]
    texts = (_text(item) for item in items if isinstance(item, str))
    return tuple(text for text in texts if text)


def _text(text: str) -> str:
    return to_valid_utf8(text).strip()
