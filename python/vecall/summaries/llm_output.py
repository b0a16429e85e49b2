"""Reads a model's answer: JSON if there is any, however wrapped; else its text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from vecall.content import get_field, to_valid_utf8

_START = re.compile(r"[\[{]")
_DECODER = json.JSONDecoder(strict=False)  # models break lines inside of strings
_MOST_MISSES = 100  # a bound on the time that a hostile answer takes


class LlmOutput(NamedTuple):
    """One summary as the model gave it; blank only if the model left it blank."""

    summary: str
    topics: tuple[str, ...] = ()
    key_facts: tuple[str, ...] = ()


def read_answer(text: str) -> list[LlmOutput]:
    """Return every summary of an answer, in order, each once.

    Objects with a text as "summary" count, alone, in arrays or inside of others, with
    anything before, between and after them. Their other keys may be in snake_case or
    camelCase; a text stands for a list of one, and values of other types are dropped.

    Args:
        text: What the model said.

    Returns:
        What is not blank. Where no object counts, the whole text is one summary.
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
