"""CrewAI's records as items."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from itertools import islice
from typing import Any, TypeVar

import numpy as np
from crewai.memory.types import MemoryRecord

from vecall.item_types import Item, Put

T = TypeVar("T")

RECORDS = ("crewai", "records")  # and the names of the scope
SCOPES = ("crewai", "scopes")  # the scope of a record, by its id
TOUCHED = ("crewai", "touched")  # the time of the last access, by the id of a record
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)

_BATCH = 3_000  # records; each takes up to four operations of a transaction

HAS_VECTOR = {"embedding": {"$exists": True}}


class Condition:
    """A condition on categories and metadata.

    Attributes:
        where: The part of it that `Items.find` can decide.
        is_exact: Whether that is all of it.
    """

    def __init__(
        self, categories: Sequence[str] | None, metadata: dict[str, Any] | None
    ) -> None:
        """Use the conditions of a call."""
        self._categories = set(categories or ())
        self._metadata = metadata or {}
        self.is_exact = True
        conditions: list[dict[str, Any]] = []
        if self._categories:
            names = map(_tag, sorted(self._categories))
            conditions.append({"$or": [{f"tags.{name}": True} for name in names]})
        for key, value in self._metadata.items():
            is_plain = isinstance(value, str) and _PLAIN_KEY.fullmatch(key)
            self.is_exact &= bool(is_plain)
            if is_plain:
                conditions.append({f"metadata.{key}": value})
        self.where = {"$and": conditions} if conditions else {}

    def holds(self, value: dict[str, Any]) -> bool:
        """Whether a stored record meets the condition."""
        if self._categories and self._categories.isdisjoint(value["categories"]):
            return False
        metadata = value["metadata"]
        return all(metadata.get(key) == each for key, each in self._metadata.items())


def _tag(category: str) -> str:
    """Return a name for a category without dots, which would separate keys."""
    return hashlib.sha256(category.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def in_batches(values: Iterable[T]) -> Iterator[list[T]]:
    """Yield values in lists, each for one transaction."""
    rest = iter(values)
    while batch := list(islice(rest, _BATCH)):
        yield batch


def labels_of(scope: str | None) -> list[str]:
    """Return the names of a scope."""
    return [label for label in (scope or "").split("/") if label]


def seconds(time: datetime) -> float:
    """Return a time in seconds since 1970; a time without a zone is UTC."""
    return (time if time.tzinfo else time.replace(tzinfo=timezone.utc)).timestamp()


def put_of(record: MemoryRecord) -> Put:
    """Return the write of a record."""
    value = {
        "content": record.content,
        "scope": record.scope,
        "categories": list(record.categories),
        "tags": {_tag(each): True for each in record.categories},
        "metadata": record.metadata,
        "importance": record.importance,
        "created_at": record.created_at.isoformat(),
        "created": seconds(record.created_at),
        "last_accessed": record.last_accessed.isoformat(),
        "source": record.source,
        "private": record.private,
    }
    vector = None
    if record.embedding and any(record.embedding):
        vector = np.asarray(record.embedding, np.float32)
        value["embedding"] = base64.b64encode(vector.astype("<f4").tobytes()).decode()
    return Put((*RECORDS, *labels_of(record.scope)), record.id, value, vector)


def embedding_of(item: Item) -> list[float] | None:
    """Return the embedding of a stored record, if it has one."""
    text = item.value.get("embedding")
    if text is None:
        return None
    numbers: list[float] = np.frombuffer(base64.b64decode(text), "<f4").tolist()
    return numbers


def record_of(item: Item, touched: Item | None) -> MemoryRecord:
    """Return a stored record.

    Args:
        item: Its item.
        touched: The item with the time of its last access, if it was set later.
    """
    value = item.value
    last = value["last_accessed"] if touched is None else touched.value
    return MemoryRecord(
        id=item.key,
        content=value["content"],
        scope=value["scope"],
        categories=value["categories"],
        metadata=value["metadata"],
        importance=value["importance"],
        created_at=datetime.fromisoformat(value["created_at"]),
        last_accessed=datetime.fromisoformat(last),
        embedding=embedding_of(item),
        source=value["source"],
        private=value["private"],
    )
