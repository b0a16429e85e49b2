"""Random programs against the reference store: both hold and find the same rows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.campaigns import campaign
from helpers.vector_stores.reference import ReferenceVectorStore
from helpers.vector_stores.servers import new_pgvector, new_redis
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from vecall.vector_store import InMemoryVectorStore, VectorStoreFilter

PAIRS = [("a", "b/c"), ("a/b", "c"), ("A", "b/c")]
VECTORS = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [-1, 0, 0], [1, 2, 3], [3, 2, 1]]

pairs = st.sampled_from(PAIRS)
ids = st.sampled_from(["1", "2", "3", "4", "5", "6"])
vectors = st.sampled_from(VECTORS)
sessions = st.sampled_from([None, "s", "S", "s/e"])
times = st.integers(0, 5)
bounds = st.none() | st.integers(0, 6)


class Programs(RuleBasedStateMachine):
    """Does the same to both stores (S4.3, S4.25-S4.29)."""

    make: Callable[[], Any] = InMemoryVectorStore

    def __init__(self) -> None:
        super().__init__()
        self.store = self.make()
        self.model = ReferenceVectorStore()

    def teardown(self) -> None:
        self.store.close()

    def both(self, method: str, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        return tuple(
            asyncio.run(getattr(store, method)(*args, **kwargs))
            for store in (self.store, self.model)
        )

    def asked(self, pair, session, after, before) -> VectorStoreFilter:
        return VectorStoreFilter(
            app_name=pair[0],
            user_id=pair[1],
            session_id=session,
            after=after,
            before=before,
        )

    @rule(pair=pairs, id_=ids, vector=vectors, session=sessions, time=times)
    def upsert(self, pair, id_, vector, session, time) -> None:
        metadata = {"app_name": pair[0], "user_id": pair[1], "timestamp": time}
        if session is not None:
            metadata["session_id"] = session
        self.both("upsert", id_, vector, metadata)

    @rule(pair=pairs, id_=ids)
    def delete(self, pair, id_) -> None:
        mine, models = self.both("delete", id_, app_name=pair[0], user_id=pair[1])
        assert mine is models

    @rule(pair=pairs, session=sessions, after=bounds, before=bounds)
    def delete_many(self, pair, session, after, before) -> None:
        mine, models = self.both(
            "delete_many", self.asked(pair, session, after, before)
        )
        assert mine == models

    @rule(
        pair=pairs,
        query=vectors,
        top_k=st.integers(1, 8),
        session=sessions,
        after=bounds,
        before=bounds,
    )
    def search(self, pair, query, top_k, session, after, before) -> None:
        asked = self.asked(pair, session, after, before)
        mine, models = self.both("search", np.array(query), top_k, asked)
        assert [(hit.id, hit.metadata) for hit in mine] == [
            (hit.id, hit.metadata) for hit in models
        ]
        assert [hit.score for hit in mine] == pytest.approx(
            [hit.score for hit in models], abs=2e-6
        )

    @invariant()
    def both_hold_the_same(self) -> None:
        if hasattr(self.store, "__len__"):
            assert len(self.store) == len(self.model.rows)
        for pair in PAIRS:
            self.search(pair, [1, 2, 3], 6, None, None, None)


TestPrograms = pytest.mark.campaign(Programs.TestCase)
TestPrograms.settings = campaign(60, 40)


class PgVectorPrograms(Programs):
    make = staticmethod(new_pgvector)


class RedisPrograms(Programs):
    make = staticmethod(new_redis)


TestPgVectorPrograms = pytest.mark.campaign(PgVectorPrograms.TestCase)
TestPgVectorPrograms.settings = campaign(8, 25)
TestRedisPrograms = pytest.mark.campaign(RedisPrograms.TestCase)
TestRedisPrograms.settings = campaign(8, 25)
