"""Reads sessions, events and entries of any type.

google-adk's objects, plain dicts in snake_case or camelCase, and vecall's own types all
answer to one getter. Nothing of google-adk is imported.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from vecall.errors import InvalidTypeError
from vecall.prompts.render import remove_recalled
from vecall.scalars import exact


def get_field(source: object, name: str) -> Any:
    """Return an attribute or a key, in snake_case or camelCase; None if absent."""
    if type(source) is dict or isinstance(source, Mapping):  # the ABC's check is slow
        if name in source:
            return source[name]
        return source.get(camel_case(name)) if "_" in name else None
    return getattr(source, name, None)


@lru_cache(maxsize=256)  # the names are ours, and few
def camel_case(name: str) -> str:
    """Return a snake_case name in camelCase."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def get_list(source: object, name: str, argument: str) -> list[Any]:
    """Return a list-like attribute; None counts as empty."""
    found = get_field(source, name)
    return [] if found is None else as_list(found, argument)


def as_list(value: object, argument: str) -> list[Any]:
    """Return a sequence as a list."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Sequence):
        msg = f"{argument}: expected a sequence; write one value as [value]"
        raise InvalidTypeError(msg)
    return list(value)


def list_of_one_or_more(value: object, argument: str) -> list[Any]:
    """Return a sequence as a list; one text or one object with a content in a list."""
    if isinstance(value, list):
        return list(value)
    if isinstance(value, str | Mapping) or hasattr(value, "content"):
        return [value]
    return as_list(value, argument)


def text_parts(
    content: object, inner: Callable[[object], str | None] | None = None
) -> list[str]:
    """Return the texts of a content: a string, parts, or an object with parts.

    A part is a string, or has a "text". Thoughts, calls, responses, code and files are
    not what was said and stay out, unless `inner` gives them a text. So does what was
    recalled: blocks that `render` made, and parts marked `{"vecall": "recalled"}` in
    themselves or in their `part_metadata`. Flags count only if they are really True, so
    that objects which invent attributes (as test doubles do) do no harm.
    """
    found = []
    own: str | None
    for part in content_parts(content):
        if type(part) is str and part:
            if own := remove_recalled(part):
                found.append(own)
            continue
        if _is_recalled(part):
            continue
        text = part if isinstance(part, str) else get_field(part, "text")
        if isinstance(text, str) and text and not is_thought(part):
            own = remove_recalled(text)
        else:
            own = None if inner is None else inner(part)
        if own:
            found.append(own)
    return found


def content_parts(content: object) -> Sequence[Any]:
    """Return the parts of a content; of a text or a single part, itself."""
    if isinstance(content, str):
        return [content]
    parts = content
    if not isinstance(content, list | tuple):
        parts = get_field(content, "parts")
        if parts is None and isinstance(content, Mapping) and "text" in content:
            return [content]
    if not isinstance(parts, Sequence) or isinstance(parts, str | bytes):
        return []
    return parts


def is_thought(part: object) -> bool:
    """Return whether a part is what a model thought, and not what it said."""
    if get_field(part, "thought") is True:
        return True
    return isinstance(part, Mapping) and part.get("type") in ("reasoning", "thinking")


def _is_recalled(part: object) -> bool:
    marks = (part, get_field(part, "part_metadata"))
    return any(
        isinstance(mark, Mapping) and mark.get("vecall") == "recalled" for mark in marks
    )


def get_role(content: object) -> str | None:
    """Return the role of a content, if it has one."""
    role = None if isinstance(content, str) else exact(get_field(content, "role"))
    return role if isinstance(role, str) else None


def turn_id(role: str, message_id: str | None, text: str) -> str | None:
    """Return the id of a turn for a framework's message; None without an id of its own.

    A message that is given again is then stored once. Services repeat some ids, so the
    id is of the text, too.
    """
    if not message_id:
        return None
    named = f"{role}\n{message_id}\n{text}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(named, digest_size=16).hexdigest()


def to_valid_utf8(text: str) -> str:
    """Return text that UTF-8 can hold."""
    # Join surrogate pairs; what is left of lone surrogates becomes U+FFFD.
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
