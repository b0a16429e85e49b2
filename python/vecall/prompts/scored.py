"""A recalled memory with its confidence and importance."""

from __future__ import annotations

import copy
import numbers
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

from vecall.clock import to_seconds
from vecall.errors import InvalidArgumentError, InvalidMemoryError
from vecall.filters.rights import TRUST_TIERS
from vecall.scalars import repr_of_object
from vecall.types import MemoryEntry

_TIMES = ("timestamp", "created_at", "updated_at", "valid_until")
_NAMES = ("id", "author", "session_id", "event_id", "kind", "source", "supersedes")
_OPEN_NUMBERS = ("score", "similarity")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredMemory:
    """A memory with its confidence and importance for one turn.

    Both scores are required, in [0, 1], without defaults. They belong to the query, not
    to the stored row: another query gives other scores.

    Attributes:
        text: What was said or learned.
        confidence: Probability in [0, 1] that it is relevant to this turn.
        importance: Its weight in [0, 1].
        id: Durable id, unique for one user.
        author: "user" or the name of an agent.
        timestamp: When it was said, in seconds since 1970; converted as in
            `MemoryEntry`.
        session_id: The session in which it was said.
        event_id: The event of that session.
        kind: Its kind, for example "episode", "fact", "preference", "decision".
        source: Its origin, for example a tool or a document.
        trust: The trust tier of its source: "first-party", "third-party-private",
            "third-party-public", "unverified" or "unknown", or a tier of your own. It
            is never inferred and never raised.
        custom_metadata: Your own JSON values, copied.
        score: The search's ranking score; comparable within one result only.
        similarity: Cosine of query and memory in [-1, 1]; None without vectors.
        created_at: When it was stored, in seconds since 1970; None if unknown.
        updated_at: When it was last changed, in seconds since 1970; None if unknown.
        valid_until: End of its validity, in seconds since 1970; None if unknown.
        supersedes: The id of the memory that it replaces.
        scope: The scope it was found in.

    Raises:
        InvalidMemoryError: A score is not a number in [0, 1], or a field has an
            invalid value.
        TypeError: A score is missing.
    """

    is_memory: ClassVar[Literal[True]] = True

    text: str = field(kw_only=False)
    confidence: float
    importance: float
    id: str | None = None
    author: str | None = None
    timestamp: float | None = None
    session_id: str | None = None
    event_id: str | None = None
    kind: str | None = None
    source: str | None = None
    trust: str = "unknown"
    custom_metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    score: float | None = None
    similarity: float | None = None
    created_at: float | None = None
    updated_at: float | None = None
    valid_until: float | None = None
    supersedes: str | None = None
    scope: str = "user"

    def __repr__(self) -> str:
        """Return the text, cut, and what tells memories apart."""
        names = ("text", "id", "author", "kind", "confidence", "importance")
        return repr_of_object(self, **{name: getattr(self, name) for name in names})

    def __post_init__(self) -> None:
        """Check every field; convert numbers to floats and copy the metadata."""
        for name in ("confidence", "importance"):
            object.__setattr__(self, name, checked_score(getattr(self, name), name))
        for name in ("text", "trust", "scope", *_NAMES):
            value = getattr(self, name)
            if not (isinstance(value, str) or (value is None and name in _NAMES)):
                raise InvalidMemoryError(f"{name}: expected a string")
        checks = {
            **dict.fromkeys(_TIMES, _checked_memory_seconds),
            **dict.fromkeys(_OPEN_NUMBERS, _checked_memory_number),
        }
        for name, checked in checks.items():
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, checked(value, name))
        metadata: object = self.custom_metadata
        if not isinstance(metadata, Mapping):
            raise InvalidMemoryError("custom_metadata: expected a mapping")
        object.__setattr__(self, "custom_metadata", copy.deepcopy(dict(metadata)))

    @classmethod
    def of(cls, entry: MemoryEntry) -> ScoredMemory:
        """Return the scored memory of a search result, which must have both scores.

        Args:
            entry: One of `SearchMemoryResponse.memories`.

        Raises:
            InvalidMemoryError: Not a `MemoryEntry`, or a score is missing.
        """
        given: object = entry
        if not isinstance(given, MemoryEntry):
            raise InvalidMemoryError("entry: expected a vecall.MemoryEntry")
        confidence, importance = scores_of(entry)
        same = {name: getattr(entry, name) for name in (*_NAMES, *_OPEN_NUMBERS)}
        # Times that the entry lacks are None.
        times = {name: getattr(entry, name, None) for name in _TIMES}
        return cls(
            entry.text,
            confidence=confidence,
            importance=importance,
            trust="unknown" if entry.trust is None else entry.trust,
            scope=entry.scope,
            custom_metadata=entry.custom_metadata,
            **same,
            **times,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON values, with the marker `is_memory`."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        values["custom_metadata"] = copy.deepcopy(values["custom_metadata"])
        return {"is_memory": True, **values}

    @staticmethod
    def json_schema() -> dict[str, Any]:
        """Return the JSON Schema (2020-12) of the result of `to_dict`."""
        share = {"type": "number", "minimum": 0, "maximum": 1}
        text = {"type": "string"}
        seconds = {"type": ["number", "null"], "description": "seconds since 1970"}
        number = {"type": ["number", "null"]}
        properties: dict[str, Any] = {
            "is_memory": {"const": True},
            "text": text,
            "confidence": {**share, "description": "how likely it is relevant now"},
            "importance": {**share, "description": "its weight if it is used"},
            **{name: {"type": ["string", "null"]} for name in _NAMES},
            "trust": {**text, "examples": list(TRUST_TIERS)},
            "scope": text,
            "custom_metadata": {"type": "object"},
            **dict.fromkeys(_OPEN_NUMBERS, number),
            **dict.fromkeys(_TIMES, seconds),
        }
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "ScoredMemory",
            "type": "object",
            "properties": copy.deepcopy(properties),
            "required": ["is_memory", "text", "confidence", "importance"],
            "additionalProperties": False,
        }

    def __str__(self) -> str:
        """Return the text."""
        return self.text


def scores_of(memory: MemoryEntry | ScoredMemory) -> tuple[float, float]:
    """Return confidence and importance; InvalidMemoryError if one is missing."""
    for name in ("confidence", "importance"):
        if getattr(memory, name) is None:
            raise InvalidMemoryError(
                f"{name}: this memory has none; only a search with a calibrated "
                f"ranking sets it, or give your own: ScoredMemory(text, "
                f"confidence=..., importance=...)"
            )
    confidence = checked_score(memory.confidence, "confidence")
    return confidence, checked_score(memory.importance, "importance")


def checked_score(value: object, name: str) -> float:
    """Return a number in [0, 1], also of NumPy, or raise InvalidMemoryError."""
    # NumPy's booleans are not numbers.Real.
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InvalidMemoryError(f"{name}: expected a number in [0, 1]")
    number: Any = value
    if not 0 <= number <= 1:  # also refuses NaN
        raise InvalidMemoryError(f"{name}: must be within [0, 1]")
    return float(number) + 0.0  # no negative zero


def _checked_memory_number(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InvalidMemoryError(f"{name}: expected a number")
    try:
        number = float(value)
    except OverflowError:
        number = float("inf")
    if not -float("inf") < number < float("inf"):
        raise InvalidMemoryError(f"{name}: must be finite")
    return number


def _checked_memory_seconds(value: Any, name: str) -> float:
    try:
        return to_seconds(value, name)
    except InvalidArgumentError as error:
        raise InvalidMemoryError(str(error)) from None
