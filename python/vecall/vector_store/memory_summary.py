"""The summary of a session, as stored with its vector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vecall.errors import InvalidArgumentError, InvalidTypeError
from vecall.limits import Limits
from vecall.timestamps import to_seconds
from vecall.validation import check_name

_LIMITS = Limits()
_REQUIRED = ("session_id", "user_id", "app_name", "summary", "timestamp")
_OPTIONAL = ("topics", "key_facts", "event_count")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySummary:
    """A summary of a session, or of a part of it.

    Attributes:
        id: Its id, unique for the app and the user.
        session_id: The session.
        user_id: The user.
        app_name: The app.
        summary: The text.
        topics: Its topics.
        key_facts: The facts that it states.
        timestamp: Seconds since 1970. A datetime with a time zone or an ISO 8601 string
            with an offset is converted.
        event_count: The number of events it covers; None if unknown.
    """

    id: str
    session_id: str
    user_id: str
    app_name: str
    summary: str
    topics: tuple[str, ...] = ()
    key_facts: tuple[str, ...] = ()
    timestamp: float
    event_count: int | None = None

    def __post_init__(self) -> None:
        """Check every value; convert the time and the lists.

        Raises:
            InvalidArgumentError: An invalid value.
        """
        for name in ("id", "session_id", "user_id", "app_name"):
            check_name(getattr(self, name), name, _LIMITS)
        summary: object = self.summary
        if not isinstance(summary, str):
            msg = "summary: expected a text"
            raise InvalidTypeError(msg)
        if not summary.strip():
            msg = "summary: must say something"
            raise InvalidArgumentError(msg)
        for name in ("topics", "key_facts"):
            object.__setattr__(self, name, _texts(getattr(self, name), name))
        object.__setattr__(self, "timestamp", to_seconds(self.timestamp, "timestamp"))
        count: object = self.event_count
        if count is None:
            return
        if not isinstance(count, int) or isinstance(count, bool):
            msg = "event_count: expected an integer"
            raise InvalidTypeError(msg)
        if count < 0:
            msg = "event_count: must not be negative"
            raise InvalidArgumentError(msg)

    def to_metadata(self) -> dict[str, Any]:
        """Return all fields but the id as metadata of a row; omit empty ones.

        The id is the row's id.
        """
        metadata: dict[str, Any] = {name: getattr(self, name) for name in _REQUIRED}
        if self.topics:
            metadata["topics"] = list(self.topics)
        if self.key_facts:
            metadata["key_facts"] = list(self.key_facts)
        if self.event_count is not None:
            metadata["event_count"] = self.event_count
        return metadata

    @classmethod
    def from_metadata(cls, id: str, metadata: Mapping[str, Any]) -> MemorySummary:
        """Return the summary that a row holds; other metadata is ignored.

        Args:
            id: The row's id.
            metadata: The row's metadata.

        Raises:
            InvalidArgumentError: A field is missing or invalid.
        """
        given: object = metadata
        if not isinstance(given, Mapping):
            msg = "metadata: expected a mapping"
            raise InvalidTypeError(msg)
        for name in _REQUIRED:
            if name not in metadata:
                msg = f"metadata.{name}: required"
                raise InvalidArgumentError(msg)
        names = (*_REQUIRED, *(name for name in _OPTIONAL if name in metadata))
        return cls(id=id, **{name: metadata[name] for name in names})


def _texts(value: object, name: str) -> tuple[str, ...]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        texts = tuple(value)
        if all(isinstance(text, str) for text in texts):
            return texts
    msg = f"{name}: expected a list of texts"
    raise InvalidTypeError(msg)
