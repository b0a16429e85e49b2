"""From what callers hand in to drafts: filter, text, identity, limits.

All checks happen here, before anything is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from vecall._conversation import Paced, ids_of, parted_by_rewind, said_in
from vecall._duck import clean, read, read_list, role_of, texts_of
from vecall.config import Limits, check_name
from vecall.errors import InvalidArgumentError, InvalidTypeError, LimitExceededError
from vecall.slices import in_slices
from vecall.store import Draft, memory_id
from vecall.timestamps import to_seconds, ttl_seconds
from vecall.types import Event, check_share

EPISODE = "episode"
"""The kind of a memory that is a turn of a conversation."""


class Scope(NamedTuple):
    """What all memories of a call share."""

    meta: dict[str, Any]
    ttl: float | None = None
    revision_ttl: float | None = None


def scope_of(custom_metadata: object) -> Scope:
    """Read a call's custom_metadata.

    `ttl` says how long the memories live, `revision_ttl` how long what they overwrite
    is kept. The values of `metadata` are stored with each memory as all other keys are.
    `wait_for_completion` is always so, and not stored.

    Raises:
        InvalidTypeError: Not a mapping, or a ttl of another type.
        InvalidArgumentError: A ttl that is not positive.
    """
    return _scope(Scope({}), custom_metadata)


def _scope(outer: Scope, custom_metadata: object) -> Scope:
    """One memory's metadata over the call's."""
    meta = _metadata(custom_metadata)
    inner = meta.pop("metadata", None)
    if isinstance(inner, Mapping):
        meta = {**inner, **meta}
    elif inner is not None:
        meta["metadata"] = inner
    meta.pop("wait_for_completion", None)
    lives = []
    for name in ("ttl", "revision_ttl"):
        given = meta.pop(name, None)
        lives.append(getattr(outer, name) if given is None else ttl_seconds(given))
    return Scope({**outer.meta, **meta}, *lives)


class SessionHead(NamedTuple):
    """A session's names and its events as they were handed in."""

    app: str
    user: str
    id: str
    events: list[Any]


def session_head(session: object, limits: Limits) -> SessionHead:
    """Read a session, but not yet its events.

    Raises:
        InvalidArgumentError: A missing or bad name.
        InvalidTypeError: The events are not a sequence.
    """
    app = check_name(read(session, "app_name"), "session.app_name", limits)
    user = check_name(read(session, "user_id"), "session.user_id", limits)
    id_ = read(session, "id")
    if id_ is None:
        id_ = read(session, "session_id")
    session_id = check_name(id_, "session.id", limits)
    return SessionHead(app, user, session_id, read_list(session, "events", "events"))


class Turns(NamedTuple):
    """What events say.

    Attributes:
        drafts: Of those events that count and say something, in order.
        taken_back: The ids of the memories of those that a rewind took back.
    """

    drafts: list[Draft]
    taken_back: list[str]


def event_drafts(
    events: Iterable[object], session_id: str | None, scope: Scope, limits: Limits
) -> list[Draft]:
    """Return the drafts of those events that count and say something, in order.

    For a thread that may pause.
    """
    return turns_of(list(events), session_id, scope, limits, in_slices).drafts


def turns_of(
    events: Sequence[object],
    session_id: str | None,
    scope: Scope,
    limits: Limits,
    paced: Paced = iter,
) -> Turns:
    """Return what events say, and what a rewind among them takes back."""
    counted, taken_back = parted_by_rewind(events, paced)
    drafts = []
    for event in paced(counted):
        draft = _event_draft(event, session_id, scope, limits)
        if draft is not None:
            drafts.append(draft)
    return Turns(drafts, memory_ids(taken_back, session_id))


def memory_ids(events: Iterable[object], session_id: str | None) -> list[str]:
    """Return the ids of the memories of those events that have an id."""
    return [memory_id(session_id, id_) for id_ in ids_of(events)]


def _event_draft(
    event: object, session_id: str | None, scope: Scope, limits: Limits
) -> Draft | None:
    if event is None or isinstance(event, str | bytes | int | float | list | tuple):
        msg = "events: expected events as objects or mappings"
        raise InvalidTypeError(msg)
    if read(event, "partial") is True:
        return None  # a piece of a streamed turn; the whole turn follows
    content = said_in(event)
    # What is told in plain values is taken at its word. A framework's objects may carry
    # attributes that are no values at all, so there only what fits is read.
    strict = isinstance(event, Mapping | Event)
    if strict:
        _check_event(event, content)
    texts = texts_of(content)
    text = clean("\n".join(texts))
    if not text.strip():
        return None
    check_text(text, limits)
    author = _optional(read(event, "author"))
    ts = _event_time(read(event, "timestamp"))
    event_id = read(event, "id")
    if not strict and (not isinstance(event_id, str) or not event_id):
        event_id = None
    if event_id is not None:
        check_name(event_id, "event.id", limits)
        id_ = memory_id(session_id, event_id)
    else:
        id_ = memory_id(session_id, author, ts, text)
    own = read(event, "custom_metadata")
    scope = _scope(scope, own if isinstance(own, Mapping) else None)
    importance = read(event, "importance") if strict else None
    return Draft(
        id=id_,
        text=text,
        session=session_id,
        event=event_id,
        ts=ts,
        ttl=scope.ttl,
        revision_ttl=scope.revision_ttl,
        author=author,
        kind=_optional(read(event, "kind")) or EPISODE,
        source=_optional(read(event, "source")),
        trust=_optional(read(event, "trust")),
        content=_content_json(content, texts),
        meta=_metadata_json(scope.meta, limits),
        importance=None
        if importance is None
        else check_share(importance, "importance"),
        ordered=True,
    )


def _check_event(event: object, content: object) -> None:
    """Refuse values of a type that could only be left out in silence."""
    for name in ("id", "author", "kind", "source", "trust"):
        value = read(event, name)
        if value is not None and not isinstance(value, str):
            msg = f"event.{name}: expected a string"
            raise InvalidTypeError(msg)
    time_given = read(event, "timestamp")
    if time_given is not None:
        to_seconds(time_given, "event.timestamp")
    _metadata(read(event, "custom_metadata"))
    readable = content is None or isinstance(content, str | Mapping)
    if not readable and not hasattr(content, "parts"):
        msg = "event.content: expected a text, or a content with parts"
        raise InvalidTypeError(msg)


def entry_drafts(
    memories: Iterable[object], scope: Scope, limits: Limits, paced: Paced = iter
) -> list[Draft]:
    """Return the drafts of explicit memories: strings, mappings, entries.

    Raises:
        InvalidArgumentError: An entry without text of its own, or a bad field.
        InvalidTypeError: Something else.
    """
    return [_entry_draft(entry, scope, limits) for entry in paced(memories)]


def _entry_draft(entry: object, scope: Scope, limits: Limits) -> Draft:
    content = entry if isinstance(entry, str) else read(entry, "content")
    if content is None:
        content = read(entry, "text")
    if not isinstance(content, str | Mapping) and read(content, "parts") is None:
        msg = "memories: expected strings, or entries with a text as content"
        raise InvalidTypeError(msg)
    texts = texts_of(content)
    text = clean("\n".join(texts))
    if not text.strip():
        msg = "memories: every entry needs a text, neither blank nor only recalled"
        raise InvalidArgumentError(msg)
    check_text(text, limits)
    fields = {} if isinstance(entry, str) else entry
    session_id = _named(fields, "session_id", limits)
    event_id = _named(fields, "event_id", limits)
    author = _optional(read(fields, "author"))
    given = read(fields, "timestamp")
    ts = None if given is None else to_seconds(given, "timestamp")
    id_ = _named(fields, "id", limits)
    if id_ is None and event_id is not None:
        id_ = memory_id(session_id, event_id)
    importance = read(fields, "importance")
    if importance is not None:
        importance = check_share(importance, "importance")
    id_ = id_ or memory_id(session_id, author, ts, text)
    supersedes = _named(fields, "supersedes", limits)
    if supersedes == id_:
        msg = "supersedes: must be the id of another memory"
        raise InvalidArgumentError(msg)
    scope = _scope(scope, read(fields, "custom_metadata"))
    until = read(fields, "valid_until")
    return Draft(
        id=id_,
        text=text,
        session=session_id,
        event=event_id,
        ts=ts,
        ttl=scope.ttl,
        revision_ttl=scope.revision_ttl,
        valid_until=None if until is None else to_seconds(until, "valid_until"),
        supersedes=supersedes,
        author=author,
        kind=_optional(read(fields, "kind")),
        source=_optional(read(fields, "source")),
        trust=_optional(read(fields, "trust")),
        content=_content_json(content, texts),
        meta=_metadata_json(scope.meta, limits),
        importance=importance,
    )


def _named(fields: object, name: str, limits: Limits) -> str | None:
    value = read(fields, name)
    return None if value is None else check_name(value, name, limits)


def _optional(value: object) -> str | None:
    """A string that is there, made safe to store."""
    return clean(value) if isinstance(value, str) and value else None


def _event_time(value: object) -> float | None:
    """An event's time; foreign objects may have none that means anything."""
    if isinstance(value, float | int | str | datetime) and not isinstance(value, bool):
        return to_seconds(value, "event.timestamp")
    return None


def check_text(text: str, limits: Limits) -> None:
    """Raise LimitExceededError if a text is too long."""
    size = len(text) if text.isascii() else len(text.encode())
    if size > limits.max_text_bytes:
        msg = f"text: at most max_text_bytes = {limits.max_text_bytes} bytes"
        raise LimitExceededError(msg)


def _content_json(content: object, texts: Sequence[str]) -> str | None:
    """The content as JSON where it is more than its text: several parts."""
    if len(texts) < 2:
        return None
    parts = [{"text": clean(text)} for text in texts]
    role = role_of(content)
    kept: dict[str, object] = {"parts": parts}
    if role is not None:
        kept = {"role": clean(role), **kept}
    return json.dumps(kept, ensure_ascii=False)


def _metadata(value: object) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        msg = "custom_metadata: expected a mapping"
        raise InvalidTypeError(msg)
    return dict(value)


def _metadata_json(meta: dict[str, Any], limits: Limits) -> str | None:
    """Metadata as JSON with sorted keys, so that equal metadata is equal text."""
    if not meta:
        return None
    if _has_more(meta, limits.max_metadata_bytes):
        raise LimitExceededError(_too_large(limits))
    if _depth(meta, limits.max_metadata_depth) > limits.max_metadata_depth:
        msg = (
            f"custom_metadata: at most max_metadata_depth = {limits.max_metadata_depth}"
        )
        raise LimitExceededError(msg)
    try:
        text = json.dumps(meta, allow_nan=False, sort_keys=True)
        plain = _has_string_keys(meta)  # json would make strings of others
    except (TypeError, ValueError):
        plain = False
    if not plain:
        msg = "custom_metadata: expected JSON values under string keys, no NaN or Inf"
        raise InvalidTypeError(msg)
    if len(text) > limits.max_metadata_bytes:
        raise LimitExceededError(_too_large(limits))
    return text


def _too_large(limits: Limits) -> str:
    return f"custom_metadata: at most max_metadata_bytes = {limits.max_metadata_bytes}"


def _has_more(value: object, most: int) -> bool:
    """Whether there are more values in it, each of which takes a character of JSON."""
    ahead: list[object] = [value]
    seen = 0
    while ahead and seen + len(ahead) <= most:
        inner = ahead.pop()
        seen += 1
        if isinstance(inner, Mapping):
            ahead.extend(inner.values())
        elif isinstance(inner, list | tuple):
            ahead.extend(inner)
    return bool(ahead)


def _has_string_keys(value: object) -> bool:
    if isinstance(value, Mapping):
        keys = all(isinstance(key, str) for key in value)
        return keys and all(map(_has_string_keys, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_has_string_keys, value))
    return True


def _depth(value: object, most: int) -> int:
    """How deep a value nests; stops counting past `most`, as a cycle never ends."""
    if not isinstance(value, Mapping | list | tuple) or most < 0:
        return 0
    inner = value.values() if isinstance(value, Mapping) else value
    return 1 + max((_depth(item, most - 1) for item in inner), default=0)
