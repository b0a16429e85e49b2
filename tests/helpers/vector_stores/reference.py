"""A vector store as plain as can be: a list of rows, float64, every row looked at.

Written from the protocol's words, without vecall's own rules, so that the contract is
kept by two stores that share nothing.
"""

from __future__ import annotations

import copy
import json
import threading
import time
from datetime import datetime
from typing import Any, NoReturn

import numpy as np
from vecall.errors import DimensionError, InvalidArgumentError
from vecall.vector_store import VectorSearchResult, VectorStoreFilter


def refuse(what: str) -> NoReturn:
    raise InvalidArgumentError(what)


def micros(value: object) -> int:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.replace("Z", "+00:00"))
        except ValueError:
            refuse("time")
    if isinstance(value, datetime):
        if value.tzinfo is None:
            refuse("time")
        value = value.timestamp()
    if isinstance(value, bool) or not isinstance(value, int | float):
        refuse("time")
    if not abs(value) < 1e12:
        refuse("time")
    return round(value * 1_000_000)


def name(value: object) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        refuse("name")
    if any("\ud800" <= letter <= "\udfff" for letter in value):
        refuse("name")
    if len(value.encode()) > 512:
        refuse("name")
    return value


def unit(embedding: Any) -> np.ndarray:
    try:
        vector = np.array(embedding)
    except ValueError:
        refuse("embedding")
    if vector.dtype.kind not in "iuf" or vector.ndim != 1 or not vector.size:
        refuse("embedding")
    vector = vector.astype(float)
    if not np.isfinite(vector).all() or not vector.any():
        refuse("embedding")
    vector = vector / max(vector.max(), -vector.min())
    return vector / np.sqrt((vector**2).sum())


def json_values(value: Any, depth: int = 0) -> bool:
    if depth > 8:
        return False
    if isinstance(value, dict):
        return all(
            isinstance(key, str) and json_values(item, depth + 1)
            for key, item in value.items()
        )
    if isinstance(value, list | tuple):
        return all(json_values(item, depth + 1) for item in value)
    if isinstance(value, float):
        return bool(np.isfinite(value))
    return value is None or isinstance(value, str | int)


class ReferenceVectorStore:
    def __init__(self) -> None:
        self.rows: list[tuple[tuple[str, str, str], np.ndarray, dict, int]] = []
        self.dimensions: int | None = None
        self.lock = threading.Lock()

    async def upsert(self, id: str, embedding: Any, metadata: Any) -> None:
        vector = unit(embedding)
        if not isinstance(metadata, dict) or not json_values(
            {**metadata, "timestamp": None}
        ):
            refuse("metadata")
        if len(json.dumps(metadata, default=str)) > 262_144:
            refuse("metadata")
        key = name(metadata.get("app_name")), name(metadata.get("user_id")), name(id)
        kept = copy.deepcopy(metadata)
        if kept.get("session_id") is not None:
            name(kept["session_id"])
        at = round(time.time() * 1e6)
        if kept.get("timestamp") is not None:
            at = micros(kept["timestamp"])
            kept["timestamp"] = at / 1_000_000
        with self.lock:
            self.check_length(vector)
            self.dimensions = vector.size
            self.rows = [row for row in self.rows if row[0] != key]
            self.rows.append((key, vector, kept, at))

    async def search(
        self, embedding: Any, top_k: Any, filter: Any = None
    ) -> list[VectorSearchResult]:
        vector = unit(embedding)
        self.check_length(vector)
        if isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 1:
            refuse("top_k")
        with self.lock:
            rows = self.let_in(filter)
        scored = [(float(np.clip(vector @ row[1], -1, 1)), row) for row in rows]
        # As much as float32 tells apart.
        scored.sort(key=lambda hit: (-round(hit[0], 6), -hit[1][3], hit[1][0][2]))
        return [
            VectorSearchResult(row[0][2], score, copy.deepcopy(row[2]))
            for score, row in scored[:top_k]
        ]

    async def delete(self, id: str, *, app_name: str, user_id: str) -> bool:
        key = name(app_name), name(user_id), name(id)
        with self.lock:
            return self.drop([row for row in self.rows if row[0] == key]) == 1

    async def delete_many(self, filter: Any) -> int:
        with self.lock:
            return self.drop(self.let_in(filter))

    def let_in(self, asked: Any) -> list[Any]:
        if not isinstance(asked, VectorStoreFilter):
            refuse("filter")
        pair = name(asked.app_name), name(asked.user_id)
        rows = [row for row in self.rows if row[0][:2] == pair]
        if asked.session_id is not None:
            wanted = name(asked.session_id)
            rows = [row for row in rows if row[2].get("session_id") == wanted]
        if asked.after is not None:
            after = micros(asked.after)
            rows = [row for row in rows if row[3] >= after]
        if asked.before is not None:
            before = micros(asked.before)
            rows = [row for row in rows if row[3] < before]
        return rows

    def drop(self, gone: list[Any]) -> int:
        keys = {row[0] for row in gone}
        before = len(self.rows)
        self.rows = [row for row in self.rows if row[0] not in keys]
        return before - len(self.rows)

    def check_length(self, vector: np.ndarray) -> None:
        if self.dimensions is not None and vector.size != self.dimensions:
            raise DimensionError
