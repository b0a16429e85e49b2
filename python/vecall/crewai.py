"""CrewAI: memories of a crew in a vecall file. Needs vecall[crewai]."""

from __future__ import annotations

import base64
import hashlib
import math
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from vecall.concurrency.join import on_thread
from vecall.errors import ConflictError, DimensionError, InvalidTypeError, needs_extra
from vecall.item_collections import LazyItems, document_embedding, in_put_batches
from vecall.service.memory_service import MemoryService
from vecall.types import Drop, Item, Put

with needs_extra(__name__, "crewai 1.15.30 or newer", "crewai"):
    from crewai.memory.storage.backend import EmbeddingDimensionMismatchError
    from crewai.memory.storage.factory import set_memory_storage_factory
    from crewai.memory.types import MemoryRecord, ScopeInfo

__all__ = ["VecallStorage", "install"]

T = TypeVar("T")

RECORDS = ("crewai", "records")  # and the names of the scope
SCOPES = ("crewai", "scopes")  # the scope of a record, by its id
TOUCHED = ("crewai", "touched")  # the time of the last access, by the id of a record
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_AS_GIVEN = "content scope categories metadata importance source private".split()

_BATCH = 3_000  # records; each takes up to four operations of a transaction

HAS_VECTOR = {"embedding": {"$exists": True}}


class Condition:
    """A condition on categories and metadata; `where` is what `Items.find` can do."""

    def __init__(
        self, categories: Sequence[str] | None, metadata: dict[str, Any] | None
    ) -> None:
        """Use the conditions of a call."""
        self._categories = set(categories or ())
        self._metadata = metadata or {}
        self.is_exact = True
        conditions: list[dict[str, Any]] = []
        if self._categories:
            names = map(_category_tag, sorted(self._categories))
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


def _category_tag(category: str) -> str:
    """Return a name for a category without dots, which would separate keys."""
    return hashlib.sha256(category.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def labels_of(scope: str | None) -> list[str]:
    """Return the names of a scope."""
    return [label for label in (scope or "").split("/") if label]


def record_timestamp(time: datetime) -> float:
    """Return a time in seconds since 1970; a time without a zone is UTC."""
    return (time if time.tzinfo else time.replace(tzinfo=timezone.utc)).timestamp()


def put_of(record: MemoryRecord) -> Put:
    """Return the write of a record."""
    value = {
        **{name: getattr(record, name) for name in _AS_GIVEN},
        "tags": {_category_tag(each): True for each in record.categories},
        "created_at": record.created_at.isoformat(),
        "created": record_timestamp(record.created_at),
        "last_accessed": record.last_accessed.isoformat(),
    }
    vector = None
    if record.embedding and any(record.embedding):
        vector = np.asarray(record.embedding, np.float32)
        value["embedding"] = base64.b64encode(vector.astype("<f4").tobytes()).decode()
    return Put((*RECORDS, *labels_of(record.scope)), record.id, value, vector)


def record_of_item(item: Item, touched: Item | None) -> MemoryRecord:
    """Return a stored record."""
    value = item.value
    last = value["last_accessed"] if touched is None else touched.value
    return MemoryRecord(
        id=item.key,
        **{name: value[name] for name in _AS_GIVEN},
        created_at=datetime.fromisoformat(value["created_at"]),
        last_accessed=datetime.fromisoformat(last),
        embedding=document_embedding(item, "<f4"),
    )


_ATTEMPTS = 50  # of a write that meets writes of the same records
_PAUSE_S = 0.01  # at most, between two attempts
_UNTIL = 1e12  # seconds since 1970, above those of every datetime


class VecallStorage(LazyItems):
    """A storage backend of CrewAI's memory: `Memory(storage=VecallStorage(path))`.

    Records are items (`MemoryService.items`) of one (app, user). A scope is a
    namespace: "/company/team" contains "/company/team/alice", not "/company/team2".
    Scores are cosines, at least 0. A record without an embedding, or with one of
    zeros, is stored, but no search finds it. Embeddings are stored as float32.

    A call is one transaction for up to 3,000 records. Instances are thread-safe.

    Args:
        memory: A service, or the path of a file, which this object opens.
        app_name: The app. Name app and user in code, never by a model.
        user_id: The user.

    Raises:
        InvalidArgumentError: An invalid name.
    """

    def __init__(
        self,
        memory: MemoryService | str | Path,
        *,
        app_name: str = "crewai",
        user_id: str = "crew",
    ) -> None:
        """Check the names; the first call opens the file, if a path is given."""
        super().__init__(memory, app_name, user_id)

    def save(self, records: Sequence[MemoryRecord]) -> None:
        """Store records; one with the id of a stored record replaces it.

        Raises:
            EmbeddingDimensionMismatchError: An embedding has another dimension than
                those of the stored records, or of the other records.
            TypeError: The metadata are not JSON.
        """
        new = {record.id: record for record in records}
        dims = [len(each.embedding) for each in new.values() if each.embedding]
        for dim in dims:
            if dim != dims[0]:
                raise EmbeddingDimensionMismatchError(dims[0], dim)
        rows = {each: (labels_of(new[each].scope), put_of(new[each])) for each in new}
        for batch in in_put_batches(rows, _BATCH):
            self._repeat_record_write(
                partial(self._replace_records, rows, batch), new.values()
            )

    def update(self, record: MemoryRecord) -> None:
        """Store a record, in place of the one with its id. Raises as `save`."""
        self.save([record])

    def _replace_records(
        self, rows: dict[str, tuple[list[str], Put]], ids: Sequence[str]
    ) -> None:
        operations: list[Put | Drop] = []
        for id_, old in zip(ids, self._get_items(SCOPES, ids), strict=True):
            labels, put = rows[id_]
            if old is not None and old.value != labels:
                operations.append(Drop((*RECORDS, *old.value), id_))
            # Two writers of one record must not leave it in two scopes.
            version = 0 if old is None else old.version
            operations.append(Put(SCOPES, id_, labels, if_version=version))
            operations.append(put)
            operations.append(Drop(TOUCHED, id_))
        self._items.write(operations)

    def _repeat_record_write(
        self, work: Callable[[], T], records: Iterable[MemoryRecord] = ()
    ) -> T:
        """Do work again if it met another write; translate an error of dimensions."""
        for _ in range(_ATTEMPTS - 1):
            try:
                return work()
            except ConflictError:
                time.sleep(random.uniform(0.0, _PAUSE_S))  # let the other one end
            except InvalidTypeError as error:
                msg = "metadata: a value is not JSON serializable"
                raise InvalidTypeError(msg) from error
            except DimensionError as error:
                new = max(len(record.embedding or ()) for record in records)
                raise self._dimension_mismatch(new) from error
        return work()

    def _dimension_mismatch(self, new: int) -> EmbeddingDimensionMismatchError:
        stored = self._items.find(RECORDS, where=HAS_VECTOR, limit=1)
        dim = len(document_embedding(stored[0], "<f4") or ()) if stored else 0
        return EmbeddingDimensionMismatchError(dim, new)

    def search(
        self,
        query_embedding: Sequence[float],
        scope_prefix: str | None = None,
        categories: Sequence[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[tuple[MemoryRecord, float]]:
        """Return the records next to an embedding, and their cosines, best first.

        Args:
            query_embedding: Numbers (dim,).
            scope_prefix: Only records in this scope and below it.
            categories: Only records with at least one of these categories.
            metadata_filter: Only records with these metadata.
            limit: Maximum number of records.
            min_score: Minimum of the cosine.

        Raises:
            EmbeddingDimensionMismatchError: The stored embeddings have another
                dimension.
        """
        if limit < 1 or not any(query_embedding):
            return []
        condition = Condition(categories, metadata_filter)
        try:
            found, _ = self._find_nearest(
                (*RECORDS, *labels_of(scope_prefix)),
                query_embedding,
                limit,
                condition.where or None,
                None
                if condition.is_exact
                else lambda item: condition.holds(item.value),
                min_score if min_score > 0 else -math.inf,
            )
        except DimensionError as error:
            mismatch = self._dimension_mismatch(len(query_embedding))
            if not mismatch.stored_dim:  # they were all deleted
                return []
            raise mismatch from error
        scores = [max(0.0, min(1.0, item.score or 0.0)) for item in found]
        return list(zip(self._records_of_items(found), scores, strict=True))

    def get_record(self, record_id: str) -> MemoryRecord | None:
        """Return a record; None if there is none with this id."""
        return next(iter(self._records_of_items(self._items_by_id([record_id]))), None)

    def list_records(
        self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0
    ) -> list[MemoryRecord]:
        """Return the records in a scope and below it, the latest created first."""
        if limit <= 0 or offset < 0:
            return []
        items = sorted(
            self._items_below(scope_prefix), key=lambda item: -item.value["created"]
        )
        return self._records_of_items(items[offset : offset + limit])

    def count(self, scope_prefix: str | None = None) -> int:
        """Return the number of records in a scope and below it."""
        return self._items.count((*RECORDS, *labels_of(scope_prefix)))

    def list_scopes(self, parent: str = "/") -> list[str]:
        """Return the scopes that are directly below a scope and have records."""
        labels = labels_of(parent)
        depth = len(RECORDS) + len(labels)
        spaces = self._items.namespaces((*RECORDS, *labels))
        below = sorted({each[depth] for each in spaces if len(each) > depth})
        return ["/" + "/".join([*labels, label]) for label in below]

    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        """Return the number of records of each category in a scope and below it."""
        found = self._items_below(scope_prefix)
        return dict(
            Counter(each for item in found for each in item.value["categories"])
        )

    def get_scope_info(self, scope: str) -> ScopeInfo:
        """Return the number, the categories and the times of the records in a scope."""
        found = self._items_below(scope)
        times = sorted(
            (item.value["created"], item.value["created_at"]) for item in found
        )
        return ScopeInfo(
            path=scope.rstrip("/") or "/",
            record_count=len(found),
            categories=sorted(self.list_categories(scope)),
            oldest_record=datetime.fromisoformat(times[0][1]) if times else None,
            newest_record=datetime.fromisoformat(times[-1][1]) if times else None,
            child_scopes=self.list_scopes(scope),
        )

    def delete(
        self,
        scope_prefix: str | None = None,
        categories: Sequence[str] | None = None,
        record_ids: Sequence[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """Delete the records that meet all conditions; return their number.

        Args:
            scope_prefix: Only records in this scope and below it.
            categories: Only records with at least one of these categories.
            record_ids: Only these records.
            older_than: Only records that were created before.
            metadata_filter: Only records with these metadata.
        """
        condition = Condition(categories, metadata_filter)
        space = (*RECORDS, *labels_of(scope_prefix))
        if record_ids is None:
            found = self._items_below(scope_prefix)
        else:
            found = self._items_by_id(record_ids)
        before = _UNTIL if older_than is None else record_timestamp(older_than)

        def is_meant(item: Item) -> bool:
            return (
                item.namespace[: len(space)] == space
                and condition.holds(item.value)
                and item.value["created"] < before
            )

        batches = in_put_batches(filter(is_meant, found), _BATCH)
        return sum(self._drop_records(batch, is_meant) for batch in batches)

    def _drop_records(
        self, items: Sequence[Item], is_meant: Callable[[Item], bool]
    ) -> int:
        """Delete records; one that was changed meanwhile, only if it is still meant."""
        ids = [item.key for item in items]
        chosen: Sequence[Item] | None = items

        def drop() -> int:
            nonlocal chosen
            found = chosen or filter(is_meant, self._items_by_id(ids))
            chosen = None  # another attempt reads them again
            operations: list[Put | Drop] = []
            for item in found:
                operations.append(Drop(item.namespace, item.key, item.version))
                operations += [Drop(SCOPES, item.key), Drop(TOUCHED, item.key)]
            return len(self._items.write(operations)) // 3

        return self._repeat_record_write(drop)

    def reset(self, scope_prefix: str | None = None) -> None:
        """Delete the records in a scope and below it; None or "/": all records.

        Afterwards, if no record is left, embeddings may have another dimension.
        """
        if labels_of(scope_prefix):
            self.delete(scope_prefix)
        else:
            self._items.delete(RECORDS[:1])

    def touch_records(self, record_ids: Sequence[str]) -> None:
        """Set the time of the last access of records to now; others are ignored."""
        now = datetime.now(timezone.utc).replace(tzinfo=None).isoformat()
        for batch in in_put_batches(dict.fromkeys(record_ids), _BATCH):
            there = [item.key for item in filter(None, self._get_items(SCOPES, batch))]
            self._items.write([Put(TOUCHED, each, now) for each in there])

    asave = on_thread(save, "a{}")
    asearch = on_thread(search, "a{}")
    adelete = on_thread(delete, "a{}")

    def _get_items(
        self, namespace: Sequence[str], keys: Sequence[str]
    ) -> list[Item | None]:
        return self._items.get([(namespace, key) for key in keys])

    def _items_by_id(self, ids: Sequence[str]) -> list[Item]:
        found: list[Item] = []
        for batch in in_put_batches(dict.fromkeys(ids), _BATCH):
            keys, seen = batch, set[tuple[str, int]]()
            while keys:
                scopes = list(filter(None, self._get_items(SCOPES, keys)))
                places = [((*RECORDS, *item.value), item.key) for item in scopes]
                items = self._items.get(places)
                found += [item for item in items if item is not None]
                # One that moved in between is looked for where it is now.
                gone = {
                    (scope.key, scope.version)
                    for scope, item in zip(scopes, items, strict=True)
                    if item is None
                }
                keys = [key for key, _ in gone - seen]
                seen |= gone
        return found

    def _items_below(self, scope: str | None) -> list[Item]:
        """Return all records in a scope and below it."""
        return self._items.find_all((*RECORDS, *labels_of(scope)))

    def _records_of_items(self, items: Sequence[Item]) -> list[MemoryRecord]:
        touched: list[Item | None] = []
        for batch in in_put_batches([item.key for item in items], _BATCH):
            touched += self._get_items(TOUCHED, batch)
        return [record_of_item(*each) for each in zip(items, touched, strict=True)]


def install(scheme: str = "vecall") -> None:
    """Let `Memory(storage="vecall:crew.db")` of CrewAI use a vecall file.

    Args:
        scheme: The text before the colon. Other storages are those of CrewAI.
    """

    def storage(spec: str) -> VecallStorage | None:
        name, colon, path = spec.partition(":")
        return VecallStorage(path) if (name, bool(colon)) == (scheme, True) else None

    set_memory_storage_factory(storage)
