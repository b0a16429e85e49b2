"""What a vector store refuses, and that nothing has changed then."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from typing import Any

import numpy as np
import pytest
from vecall.errors import DimensionError, InvalidArgumentError

from helpers.vector_stores.plain import ALICE, Plain, X, three

SECRET = "s3cret"


NOT_NAMES = [None, "", 7, b"alice", ["alice"], True, "a\0b", "\0", "\ud800", "x" * 513]

NOT_EMBEDDINGS = [
    None, SECRET, 1.0, [], [[1.0, 0.0, 0.0]], [0.0, 0.0, 0.0], [1.0, float("nan"), 0.0],
    [1.0, float("inf"), 0.0], [1.0, float("-inf"), 0.0], [SECRET, 0.0, 0.0],
    [True, False, False], [1j, 0.0, 0.0], [1.0, None, 0.0], [[1.0], [2.0, 3.0], 4.0],
    {"x": 1.0}, np.zeros(3), np.array([np.nan, 1, 1]), np.ones((1, 3)),
]  # fmt: skip

NOT_TIMES = [
    "yesterday", "2024-01-01", "", float("nan"), float("inf"), True, [1.0], 1e300,
    datetime(2024, 1, 1),
]  # fmt: skip


class Refusing:
    """Arguments that cannot be used."""

    @pytest.mark.parametrize("bad", NOT_NAMES, ids=lambda bad: ascii(bad)[:20])
    def test_what_cannot_be_a_name_is_refused_and_changes_nothing(self, store, bad):
        """S4.25-S4.29."""
        three(store)
        calls = [
            lambda: store.put(bad, X),
            lambda: store.put("a", [0.0, 0.0, 1.0], user_id=bad),
            lambda: store.put("a", [0.0, 0.0, 1.0], app_name=bad),
            lambda: store.delete(bad),
            lambda: store.delete("a", user_id=bad),
            lambda: store.delete("a", app_name=bad),
            lambda: store.search(X, user_id=bad),
            lambda: store.search(X, app_name=bad),
            lambda: store.delete_many(app_name=bad),
            lambda: store.delete_many(user_id=bad),
        ]
        if bad is not None:  # that means no session
            calls += [
                lambda: store.put("a", [0.0, 0.0, 1.0], session_id=bad),
                lambda: store.search(X, session_id=bad),
                lambda: store.delete_many(session_id=bad),
            ]
        self.all_refused(store, calls)

    @pytest.mark.parametrize("bad", NOT_EMBEDDINGS, ids=lambda bad: repr(bad)[:20])
    def test_what_is_no_vector_is_refused_and_changes_nothing(self, store, bad):
        """S4.25, S4.26."""
        three(store)
        self.all_refused(
            store, [lambda: store.put("a", bad), lambda: store.search(bad)]
        )

    @pytest.mark.parametrize("bad", [[1.0], [1.0, 2.0], [1.0] * 4, [1.0] * 1000])
    def test_a_vector_of_another_length_is_refused(self, store, bad):
        """S4.25, S4.26."""
        three(store)
        calls = [
            lambda: store.put("a", bad),
            lambda: store.put("a", bad, user_id="bob"),
            lambda: store.search(bad),
            lambda: store.search(bad, user_id="nobody"),
        ]
        self.all_refused(store, calls, DimensionError)

    def test_a_refused_first_row_does_not_fix_the_length(self, store):
        """S4.25."""
        for bad in ({}, {**ALICE, "x": float("nan")}, {**ALICE, "timestamp": "never"}):
            with pytest.raises(InvalidArgumentError):
                store.upsert("a", [1.0] * 7, bad)
        assert len(three(store).ids(X)) == 3

    @pytest.mark.parametrize("bad", [0, -1, None, 1.0, "1", True, float("nan")])
    def test_fewer_than_one_result_cannot_be_asked_for(self, store, bad):
        """S4.26."""
        self.all_refused(three(store), [lambda: store.search(X, bad)])

    @pytest.mark.parametrize("bad", NOT_TIMES, ids=repr)
    def test_what_is_no_time_is_refused(self, store, bad):
        """S4.25, S4.29."""
        three(store)
        calls = [
            lambda: store.put("a", [0.0, 0.0, 1.0], timestamp=bad),
            lambda: store.search(X, after=bad),
            lambda: store.search(X, before=bad),
            lambda: store.delete_many(after=bad),
            lambda: store.delete_many(before=bad),
        ]
        self.all_refused(store, calls)

    def test_metadata_must_be_json_values(self, store):
        """S4.25."""
        three(store)
        cycle: list[Any] = []
        cycle.append(cycle)
        deep: Any = 1
        for _ in range(20):
            deep = [deep]
        bad = [
            object(), {1, 2}, b"x", float("nan"), [float("inf")], {1: "x"}, {None: 1},
            {"x": {2: 3}}, np.ones(2), 1j, cycle, deep, SECRET.encode(),
            "x" * 300_000, datetime.now(timezone.utc),
        ]  # fmt: skip
        calls = [lambda value=value: store.put("a", X, extra=value) for value in bad]
        calls += [
            lambda value=value: store.upsert("a", X, value)
            for value in (None, [], "x", 7, [("user_id", "alice")])
        ]
        self.all_refused(store, calls)

    def all_refused(
        self,
        store: Plain,
        calls: Iterable[Callable[[], Any]],
        error: type[Exception] = InvalidArgumentError,
    ) -> None:
        before = store.search(X)
        for call in calls:
            with pytest.raises(error) as raised:
                call()
            assert SECRET not in str(raised.value)
        assert store.search(X) == before
