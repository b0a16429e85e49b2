"""A vector store between users, threads and event loops."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from vecall.errors import InvalidArgumentError
from vecall.vector_store import VectorStoreFilter

from helpers.campaigns import SCALE
from helpers.vector_stores.plain import ALICE, TOLERANCE, X, three

# Names that are alike to whoever joins, trims, folds or normalises them.
HOSTILE_PAIRS = [
    ("a", "b/c"), ("a/b", "c"), ("a", "b"), ("a", "bc"), ("ab", "c"), ("a:b", "c"),
    ("a", "b:c"), ("A", "b"), ("a", "B"), ("a ", "b"), ("a", " b"), ("a", "b\n"),
    ("a", "b%"), ("a", "_"), ("a", "*"), ("a", "' OR 1=1 --"), ("a", "../b"),
    ("a", "\u00e9"), ("a", "e\u0301"), ("a", "\u0430"), ("\u0430", "a"), ("a", "a"),
    ("a", "\u200bb"), ("a", "\ufeffb"), ("a", "\U0001f600"), ("None", "None"),
]  # fmt: skip


class Sharing:
    """Nobody sees another, and everybody may come at once."""

    def test_nobody_sees_or_deletes_rows_of_another(self, store):
        """S4.26-S4.29: hostile names, one id for all."""
        for i, (app, user) in enumerate(HOSTILE_PAIRS):
            scope = {"app_name": app, "user_id": user}
            store.put("id", X, **scope, session_id="s", timestamp=1.0, i=i)
        for i, (app, user) in enumerate(HOSTILE_PAIRS):
            scope = {"app_name": app, "user_id": user}
            (hit,) = store.search(X, 1000, **scope, session_id="s", after=1.0)
            assert hit.metadata["i"] == i
            assert hit.metadata["app_name"] == app
            assert hit.metadata["user_id"] == user
        for i, (app, user) in enumerate(HOSTILE_PAIRS):
            scope = {"app_name": app, "user_id": user}
            if i % 2:
                assert store.delete("id", **scope) is True
                assert store.delete("id", **scope) is False
            else:
                assert store.delete_many(**scope, session_id="s") == 1
            for other_app, other_user in HOSTILE_PAIRS[i + 1 :]:
                assert store.ids(X, app_name=other_app, user_id=other_user) == ["id"]

    def test_another_users_rows_change_neither_order_nor_scores(self, store):
        """S4.26, S4.29."""
        alone = three(store).search([0.3, 0.2, 0.1])
        for i in range(50):
            store.put(f"{i}", [0.3, 0.2, 0.1], user_id="bob", session_id="s")
            store.put(f"{i}", [0.3, 0.2, 0.1], app_name="other")
        assert store.search([0.3, 0.2, 0.1]) == alone

    def test_an_upsert_for_one_user_does_not_move_a_row_of_another(self, store):
        """S4.25."""
        store.put("id", X, mine=1)
        store.put("id", [0.0, 1.0, 0.0], user_id="bob")
        store.put("id", [0.0, 1.0, 0.0], app_name="other")
        (hit,) = store.search(X)
        assert hit.metadata["mine"] == 1
        assert hit.score == pytest.approx(1.0, abs=TOLERANCE)

    @pytest.mark.parametrize("missing", [("app_name",), ("user_id",), ALICE.keys()])
    def test_no_call_reaches_across_users(self, store, missing):
        """S4.26-S4.29: what does not name both is refused."""
        three(store)
        nobody = dict.fromkeys(missing)
        metadata = {key: ALICE[key] for key in ALICE if key not in missing}
        for call in (
            lambda: store.search(X, **nobody),
            lambda: store.search(X, **nobody, session_id="s", after=1.0),
            lambda: store.delete_many(**nobody),
            lambda: store.delete_many(**nobody, session_id="s"),
            lambda: store.delete("a", **nobody),
            lambda: store.upsert("new", X, metadata),
        ):
            with pytest.raises(InvalidArgumentError):
                call()
        assert store.ids(X) == ["a", "b", "c"]

    def test_a_search_or_deletion_without_a_filter_is_refused(self, store):
        """S4.26, S4.28."""
        three(store)
        for filter_ in (None, VectorStoreFilter(), {}, dict(ALICE), "alice"):
            with pytest.raises(InvalidArgumentError):
                asyncio.run(store.store.search(X, 5, filter_))
            with pytest.raises(InvalidArgumentError):
                asyncio.run(store.store.delete_many(filter_))
        with pytest.raises(InvalidArgumentError):
            asyncio.run(store.store.search(X, 5))
        assert store.ids(X) == ["a", "b", "c"]

    def test_two_event_loops_share_a_store(self, store):
        """S4.3."""

        async def work(user: str) -> list[str]:
            for i in range(40):
                metadata = {"app_name": "app", "user_id": user}
                await store.store.upsert(f"{i:02}", X, {**metadata, "timestamp": i})
                await asyncio.sleep(0)
            mine = VectorStoreFilter(app_name="app", user_id=user)
            many = await asyncio.gather(
                *(store.store.search(X, 40, mine) for _ in range(10))
            )
            assert all(found == many[0] for found in many)
            return [hit.id for hit in many[0]]

        with ThreadPoolExecutor(2) as threads:
            tasks = [threads.submit(asyncio.run, work(user)) for user in ("a", "b")]
            expected = [f"{i:02}" for i in reversed(range(40))]
            assert [task.result(30) for task in tasks] == [expected, expected]

    @pytest.mark.campaign
    def test_a_search_beside_writers_finds_whole_rows_and_never_too_few(self, store):
        """S4.25-S4.28: eight rows are replaced again and again, others come and go."""
        axes = np.eye(8)
        for i in range(8):
            store.put(f"{i}", axes[i], axis=i, session_id="s")
        end = time.monotonic() + (1.0 if SCALE >= 1 else 0.4)

        async def replace(seed: int) -> None:
            random = np.random.default_rng(seed)
            while time.monotonic() < end:
                i, axis = random.integers(8, size=2)
                row = {**ALICE, "axis": int(axis), "session_id": "s"}
                await store.store.upsert(f"{i}", axes[axis], row)
                await asyncio.sleep(0)

        async def come_and_go() -> None:
            gone = VectorStoreFilter(**ALICE, session_id="t")
            while time.monotonic() < end:
                for i in range(5):
                    row = {**ALICE, "axis": i, "session_id": "t"}
                    await store.store.upsert(f"extra{i}", axes[i], row)
                assert await store.store.delete("extra0", **ALICE)
                assert await store.store.delete_many(gone) == 4

        async def look() -> int:
            count = 0
            mine = VectorStoreFilter(**ALICE, session_id="s")
            while not count or time.monotonic() < end:  # once, on any machine
                found = await store.store.search(np.ones(8), 20, mine)
                assert sorted(hit.id for hit in found) == list("01234567")
                found = await store.store.search(axes[3], 4, mine)
                assert len({hit.id for hit in found}) == 4
                for hit in found:
                    expected = float(hit.metadata["axis"] == 3)
                    assert hit.score == pytest.approx(expected, abs=TOLERANCE)
                count += 1
                await asyncio.sleep(0)
            return count

        work = [replace(1), replace(2), come_and_go(), look(), look()]
        with ThreadPoolExecutor(len(work)) as threads:
            results = [task.result(30) for task in
                       [threads.submit(asyncio.run, job) for job in work]]  # fmt: skip
        assert min(results[3:]) > 0
        assert sorted(store.ids(np.ones(8))) == list("01234567")
