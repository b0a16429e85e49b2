"""Turns messages into memories, and memories into mem0's results."""

from __future__ import annotations

import hashlib
import logging
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from typing import Any

from vecall.content import text_parts
from vecall.errors import InvalidArgumentError
from vecall.ingest.roles import speaker_of
from vecall.mem0.ids import Owner, Scope, packed
from vecall.timestamps import to_seconds, utc_seconds
from vecall.types import MemoryEntry, Revision

_log = logging.getLogger("vecall")

PREFIX = "meta."
"""Before each key of the caller's metadata, so that no key has a meaning for vecall."""

AGENT, RUN, ACTOR, ROLE = "agent_id", "run_id", "actor_id", "role"
EXPIRES = "expiration_date"

_IDENTITY = ("user_id", AGENT, RUN, ACTOR)


@dataclass(frozen=True, slots=True)
class Message:
    """A message to remember.

    Attributes:
        role: Its role, such as "user".
        text: Its text.
        actor: The name of who said it; None if unnamed.
    """

    role: str
    text: str
    actor: str | None = None


def messages_of(given: object) -> list[Message]:
    """Return the messages of a text, a message or a list of messages.

    Messages without text and those of a system or a tool are left out. Of a content in
    parts the texts count.

    Raises:
        InvalidArgumentError: Another type, or messages of which all lack a role.
    """
    if isinstance(given, str):
        return [Message("user", given)]
    listed = [given] if isinstance(given, Mapping) else given
    if not isinstance(listed, Sequence):
        msg = "messages: expected a text, a message or a list of messages"
        raise InvalidArgumentError(msg)
    messages, invalid = [], 0
    for each in listed:
        role = each.get("role") if isinstance(each, Mapping) else None
        if not isinstance(role, str):
            invalid += 1
            continue
        content, actor = each.get("content"), each.get("name")
        text = content if isinstance(content, str) else "\n".join(text_parts(content))
        if text.strip() and speaker_of(each).program is None:
            said_by = actor if isinstance(actor, str) else None
            messages.append(Message(role, text, said_by))
    if invalid:
        if not messages:
            msg = "messages: expected mappings with role and content"
            raise InvalidArgumentError(msg)
        _log.warning("messages: %d of %d have no role", invalid, len(listed))
    return messages


def entry_of(
    message: Message,
    scope: Scope,
    metadata: Mapping[str, Any],
    timestamp: Any,
    expires: str | None,
) -> MemoryEntry:
    """Return the memory of a message, with an id of its own."""
    own: dict[str, Any] = {ROLE: message.role}
    for name, value in (
        (AGENT, scope.agent_id),
        (RUN, scope.run_id),
        (ACTOR, message.actor),
        (EXPIRES, expires),
    ):
        if value is not None:
            own[name] = value
    return MemoryEntry(
        message.text,
        id=uuid.uuid4().hex,
        author=message.actor or message.role,
        session_id=scope.run_id,
        timestamp=None if timestamp is None else utc_seconds(timestamp, "timestamp"),
        valid_until=end_of(expires),
        custom_metadata={**prefixed(metadata), **own},
    )


def prefixed(metadata: object) -> dict[str, Any]:
    """Return the caller's metadata as they are stored.

    Raises:
        InvalidArgumentError: Not a mapping with names as keys, or one of the names
            that only the arguments of `add` set.
    """
    if not isinstance(metadata, Mapping) or not all(
        isinstance(key, str) for key in metadata
    ):
        msg = "metadata: expected a mapping with names as keys"
        raise InvalidArgumentError(msg)
    if taken := sorted(set(metadata) & {*_IDENTITY, ROLE, EXPIRES}):
        msg = f"metadata: {', '.join(taken)} cannot be set here"
        raise InvalidArgumentError(msg)
    return {PREFIX + key: value for key, value in metadata.items()}


def expiration(given: object) -> str | None:
    """Return a date as YYYY-MM-DD.

    Raises:
        InvalidArgumentError: Not a date.
    """
    if given is None:
        return None
    if isinstance(given, datetime):
        return given.date().isoformat()
    if isinstance(given, date):
        return given.isoformat()
    try:
        if isinstance(given, str):
            return date.fromisoformat(given).isoformat()
    except ValueError:
        pass
    msg = "expiration_date: expected a date as YYYY-MM-DD"
    raise InvalidArgumentError(msg)


def end_of(day: str | None) -> float | None:
    """Return the end of a day in UTC, in seconds since 1970."""
    if day is None:
        return None
    start = datetime.combine(date.fromisoformat(day), datetime.min.time())
    return (start.replace(tzinfo=timezone.utc) + timedelta(days=1)).timestamp()


def changed_metadata(
    entry: MemoryEntry, metadata: object, expires: str | None, set_expiry: bool
) -> dict[str, Any]:
    """Return a memory's stored metadata after an update, which adds keys to them."""
    changed = dict(entry.custom_metadata)
    if metadata is not None:
        changed |= prefixed(metadata)
    if set_expiry:
        changed.pop(EXPIRES, None)
        if expires is not None:
            changed[EXPIRES] = expires
    return changed


def shown(entry: MemoryEntry, owner: Owner, *, explain: bool = False) -> dict[str, Any]:
    """Return a memory in the form of mem0's results."""
    metadata = {
        key.removeprefix(PREFIX): value
        for key, value in entry.custom_metadata.items()
        if key.startswith(PREFIX)
    }
    found: dict[str, Any] = {
        "id": packed(owner, str(entry.id)),
        "memory": entry.text,
        "hash": hashlib.md5(
            entry.text.encode("utf-8", "surrogatepass"), usedforsecurity=False
        ).hexdigest(),
        "metadata": metadata or None,
        "score": entry.confidence if entry.score is not None else None,
        "created_at": _created(entry),
        "updated_at": _iso(entry.updated_at),
        owner.kind: owner.name,
    }
    for name in (AGENT, RUN, ACTOR, ROLE, EXPIRES):
        if name in entry.custom_metadata:
            found[name] = entry.custom_metadata[name]
    if explain:
        found["score_details"] = entry.explanation
    return found


def changes(revisions: Sequence[Revision], memory_id: str) -> list[dict[str, Any]]:
    """Return a memory's revisions in the form of mem0's history, oldest first."""
    rows: list[dict[str, Any]] = []
    before: str | None = None
    for number, revision in enumerate(revisions):
        entry = revision.memory
        rows.append(
            {
                "id": f"{memory_id}#{number}",
                "memory_id": memory_id,
                "old_memory": before,
                "new_memory": entry.text,
                "event": "UPDATE" if rows else "ADD",
                "created_at": _created(entry),
                "updated_at": _iso(entry.updated_at) if rows else None,
                "is_deleted": False,
                "actor_id": entry.custom_metadata.get(ACTOR),
                "role": entry.custom_metadata.get(ROLE),
            }
        )
        before = entry.text
    return rows


def _created(entry: MemoryEntry) -> str | None:
    """Return the time that was given for a memory, or else the time of storing."""
    if entry.timestamp is None:
        return _iso(entry.created_at)
    return _iso(to_seconds(entry.timestamp, "timestamp"))


def _iso(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat()
