"""Turns messages into memories, and memories into mem0's results."""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from typing import Any

from vecall.clock import end_of_day_utc, to_iso, to_seconds, utc_seconds
from vecall.content import text_parts
from vecall.errors import ConfigError, InvalidArgumentError, NotFoundError
from vecall.ingest.parts import speaker_of_event
from vecall.types import Filter, MemoryEntry, Revision

# Owners of memories, and ids that hold the owner.
#
# mem0's ids are unique in a whole store; those of vecall are unique for one user. So an
# id here has three parts: the kind of the owner, its name and vecall's id.

KINDS = ("user_id", "agent_id", "run_id")
"""The names that an owner may have; the first one that is given owns the memory."""

_SHORT = {"user_id": "u", "agent_id": "a", "run_id": "r"}
_LONG = {short: kind for kind, short in _SHORT.items()}


class MemoryIdError(InvalidArgumentError):
    """An id was not returned by this memory."""


class MemoryNotFoundError(NotFoundError, ValueError):
    """There is no memory with this id; a ValueError as in mem0."""


def not_found_error() -> MemoryNotFoundError:
    """Return the error for an id that no memory has."""
    return MemoryNotFoundError("memory_id: there is no such memory")


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose memories a call reads or writes."""

    kind: str
    name: str

    @property
    def user_id(self) -> str:
        """The user of vecall: names of different kinds never meet."""
        return f"{_SHORT[self.kind]}:{self.name}"


@dataclass(frozen=True, slots=True)
class Scope:
    """The owner of a call, and the names that narrow it; None for any."""

    owner: Owner  # the user, else the agent, else the run
    agent_id: str | None  # of a user's memories
    run_id: str | None  # which is the session


def scope_of_names(names: Mapping[str, Any], where: str) -> Scope:
    """Return the scope of names."""
    given = {kind: _checked_name(names.get(kind), kind) for kind in KINDS}
    for kind, name in given.items():
        if name is not None:
            agent = given["agent_id"] if kind == "user_id" else None
            return Scope(Owner(kind, name), agent, given["run_id"])
    msg = f"{where}: expected at least one of user_id, agent_id and run_id"
    raise InvalidArgumentError(msg)


def pack_memory_id(owner: Owner, memory_id: str) -> str:
    """Return the id for callers."""
    name = base64.urlsafe_b64encode(owner.name.encode()).decode().rstrip("=")
    return f"{_SHORT[owner.kind]}.{name}.{memory_id}"


def unpack_memory_id(memory_id: object) -> tuple[Owner, str]:
    """Return the owner and vecall's id of an id for callers."""
    parts = memory_id.split(".", 2) if isinstance(memory_id, str) else []
    if len(parts) == 3 and parts[0] in _LONG and parts[2]:
        kind, name, own = parts
        try:
            padded = name + "=" * (-len(name) % 4)
            decoded = base64.b64decode(padded, b"-_", validate=True).decode()
        except (binascii.Error, ValueError):
            decoded = ""
        if decoded:
            return Owner(_LONG[kind], decoded), own
    raise MemoryIdError("memory_id: expected an id that this memory returned")


def _checked_name(value: object, name: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise InvalidArgumentError(f"{name}: expected a name")
    trimmed = str(value).strip()
    if not trimmed or any(map(str.isspace, trimmed)):
        raise InvalidArgumentError(f"{name}: must not be empty or contain white space")
    return trimmed


_log = logging.getLogger("vecall")

PREFIX = "meta."
"""Before each key of the caller's metadata, so that no key has a meaning for vecall."""

AGENT, RUN, ACTOR, ROLE = "agent_id", "run_id", "actor_id", "role"
EXPIRES = "expiration_date"

_IDENTITY = ("user_id", AGENT, RUN, ACTOR)


@dataclass(frozen=True, slots=True)
class Message:
    """A message to remember."""

    role: str
    text: str
    actor: str | None = None


def messages_of_input(given: object) -> list[Message]:
    """Return the messages of a text, a message or a list of messages."""
    # Messages without text and those of a system or a tool are left out. Of a content
    # in parts the texts count.
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
        if text.strip() and speaker_of_event(each).program is None:
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
    own = {
        ROLE: message.role,
        AGENT: scope.agent_id,
        RUN: scope.run_id,
        ACTOR: message.actor,
        EXPIRES: expires,
    }
    given = {name: value for name, value in own.items() if value is not None}
    return MemoryEntry(
        message.text,
        id=uuid.uuid4().hex,
        author=message.actor or message.role,
        session_id=scope.run_id,
        timestamp=None if timestamp is None else utc_seconds(timestamp, "timestamp"),
        valid_until=None if expires is None else end_of_day_utc(expires, EXPIRES),
        custom_metadata={**prefix_metadata(metadata), **given},
    )


def prefix_metadata(metadata: object) -> dict[str, Any]:
    """Return the caller's metadata as they are stored."""
    if not isinstance(metadata, Mapping) or not all(
        isinstance(key, str) for key in metadata
    ):
        raise InvalidArgumentError("metadata: expected a mapping with names as keys")
    if taken := sorted(set(metadata) & {*_IDENTITY, ROLE, EXPIRES}):
        raise InvalidArgumentError(f"metadata: {', '.join(taken)} cannot be set here")
    return {PREFIX + key: value for key, value in metadata.items()}


def checked_expiration_date(given: object) -> str | None:
    """Return a date as YYYY-MM-DD."""
    if given is None:
        return None
    if isinstance(given, date):  # a datetime is one
        return date.isoformat(given)
    with suppress(ValueError):
        if isinstance(given, str):
            return date.fromisoformat(given).isoformat()
    raise InvalidArgumentError("expiration_date: expected a date as YYYY-MM-DD")


def changed_metadata(
    entry: MemoryEntry, metadata: object, expires: str | None, set_expiry: bool
) -> dict[str, Any]:
    """Return a memory's stored metadata after an update, which adds keys to them."""
    changed = dict(entry.custom_metadata)
    if metadata is not None:
        changed |= prefix_metadata(metadata)
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
        "id": pack_memory_id(owner, str(entry.id)),
        "memory": entry.text,
        "hash": hashlib.md5(
            entry.text.encode("utf-8", "surrogatepass"), usedforsecurity=False
        ).hexdigest(),
        "metadata": metadata or None,
        "score": entry.confidence if entry.score is not None else None,
        "created_at": _created_at_text(entry),
        "updated_at": _mem0_iso_time(entry.updated_at),
        owner.kind: owner.name,
    }
    for name in (AGENT, RUN, ACTOR, ROLE, EXPIRES):
        if name in entry.custom_metadata:
            found[name] = entry.custom_metadata[name]
    if explain:
        found["score_details"] = entry.explanation
    return found


def to_history(revisions: Sequence[Revision], memory_id: str) -> list[dict[str, Any]]:
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
                "created_at": _created_at_text(entry),
                "updated_at": _mem0_iso_time(entry.updated_at) if rows else None,
                "is_deleted": False,
                "actor_id": entry.custom_metadata.get(ACTOR),
                "role": entry.custom_metadata.get(ROLE),
            }
        )
        before = entry.text
    return rows


def _created_at_text(entry: MemoryEntry) -> str | None:
    """Return the time that was given for a memory, or else the time of storing."""
    if entry.timestamp is None:
        return _mem0_iso_time(entry.created_at)
    return _mem0_iso_time(to_seconds(entry.timestamp, "timestamp"))


def _mem0_iso_time(seconds: float | None) -> str | None:
    return None if seconds is None else to_iso(seconds)


_OPERATORS = ("eq", "ne", "gt", "gte", "lt", "lte", "in", "nin", "contains")
_OWN = {"actor_id": ACTOR, "role": ROLE, "expiration_date": EXPIRES}
_TIMES = {"created_at": "$timestamp", "updated_at": "$updated_at"}
_OF_RESULTS = "id memory data hash score score_details metadata timestamp".split()
"""Names of results and arguments that no filter has."""
_METADATA = "metadata."


def scope_and_filter(filters: object) -> tuple[Scope, Filter | None]:
    """Return the scope of filters, and the filter within it.

    Filters have, as in mem0, names, and keys of the metadata with a value, with "*" for
    any value or with operators; `created_at` and `updated_at` with times; "AND", "OR"
    and "NOT" with lists of such filters. Names are at the top or in an "AND". A key
    that has the name of another field is "metadata.NAME".
    """
    names: dict[str, Any] = {}
    wanted = _conditions_of_filters(filters, names)
    scope = scope_of_names(names, "filters")
    if scope.agent_id is not None:
        wanted.append({AGENT: scope.agent_id})
    if scope.run_id is not None:
        wanted.append({RUN: scope.run_id})
    return scope, Filter(metadata={"$and": wanted}) if wanted else None


def _conditions_of_filters(
    filters: object, names: dict[str, Any] | None
) -> list[dict[str, Any]]:
    """Return the conditions that must hold; put the names of owners into `names`."""
    if not isinstance(filters, Mapping):
        msg = "filters: expected a mapping with user_id, agent_id or run_id"
        raise InvalidArgumentError(msg)
    wanted: list[dict[str, Any]] = []
    for key, value in filters.items():
        if key == "AND":
            for each in _checked_filter_list(value):
                wanted += _conditions_of_filters(each, names)
        elif key in ("OR", "NOT"):
            parts = [
                {"$and": _conditions_of_filters(each, None)}
                for each in _checked_filter_list(value)
            ]
            whole: dict[str, Any] = {"$or": parts}
            wanted.append(whole if key == "OR" else {"$not": whole})
        elif key in KINDS:
            _note_owner_name(key, value, names)
        elif not isinstance(key, str) or key.startswith("$"):
            msg = "filters: expected names as keys, or AND, OR and NOT"
            raise InvalidArgumentError(msg)
        elif key in _TIMES:
            wanted.append({_TIMES[key]: _condition_in_seconds(_condition(value), key)})
        elif key in _OF_RESULTS:
            use = "created_at" if key == "timestamp" else f"{_METADATA}{key}"
            meaning = "the time that it gives" if key == "timestamp" else "your own key"
            msg = f"filters: {key} is no field of filters; {meaning} is {use}"
            raise InvalidArgumentError(msg)
        else:
            own = _OWN.get(key, PREFIX + key.removeprefix(_METADATA))
            wanted.append({own: _condition(value)})
    return wanted


def _checked_filter_list(value: object) -> list[Any]:
    if not isinstance(value, list) or not value or not all(value):
        raise InvalidArgumentError("filters: AND, OR and NOT expect a list of filters")
    return value


def _note_owner_name(key: str, value: object, names: dict[str, Any] | None) -> None:
    if names is None or isinstance(value, Mapping) or value == "*":
        msg = f"filters: {key} takes one name, at the top or in AND"
        raise InvalidArgumentError(msg)
    if names.setdefault(key, value) != value:
        raise InvalidArgumentError(f"filters: two values of {key}")


def _condition(value: object) -> Any:
    if value == "*":
        return {"$exists": True}
    if not isinstance(value, Mapping):
        return value
    if not set(value) <= set(_OPERATORS):
        raise InvalidArgumentError(f"filters: operators are {', '.join(_OPERATORS)}")
    return {f"${operator}": operand for operator, operand in value.items()}


def _condition_in_seconds(condition: Any, key: str) -> Any:
    """Return a condition on a time with seconds as operands."""
    name = f"filters: {key}"
    if isinstance(condition, Mapping):
        return {
            operator: operand
            if operator == "$exists"
            else _condition_in_seconds(operand, key)
            for operator, operand in condition.items()
        }
    if isinstance(condition, list | tuple):
        return [utc_seconds(each, name) for each in condition]
    return utc_seconds(condition, name)


Extract = Callable[[list[dict[str, Any]]], Sequence[str] | Awaitable[Sequence[str]]]
"""A function from chat messages to the facts in them, such as a call of a model."""


def checked_extracted_facts(found: object) -> list[str]:
    """Return what a function extracted."""
    if isinstance(found, str) or not isinstance(found, Sequence):
        raise ConfigError("extract: must return a list of texts")
    if not all(isinstance(fact, str) and fact.strip() for fact in found):
        raise ConfigError("extract: must return texts that are not blank")
    return list(found)


def checked_mem0_config(config: object) -> dict[str, Any]:
    """Return the arguments of `from_config`."""
    known = ("memory", "app_name", "embedder", "extract")
    if not isinstance(config, Mapping) or not set(config) <= set(known):
        msg = f"config: keys are {', '.join(known)}; mem0's have no meaning here"
        raise ConfigError(msg)
    return dict(config)


def checked_top_k(top_k: object) -> int:
    """Return a number of memories."""
    if not isinstance(top_k, int) or isinstance(top_k, bool) or top_k < 0:
        raise InvalidArgumentError("top_k: must be an integer of at least 0")
    return top_k


def refuse_unsupported(
    names: Mapping[str, object], rerank: bool, reference_date: object, expired: bool
) -> None:
    """Refuse what mem0 also refuses, and what vecall does not support."""
    if "limit" in names:
        raise InvalidArgumentError("limit: is top_k here, as in mem0 2")
    if names:
        raise InvalidArgumentError(
            "user_id, agent_id and run_id belong into filters; other arguments are "
            "top_k, filters, threshold and explain"
        )
    if rerank or reference_date is not None or expired:
        msg = "rerank, reference_date and show_expired are not supported"
        raise InvalidArgumentError(msg)
