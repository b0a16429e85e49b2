"""What a search of a vector store finds."""

from __future__ import annotations

import time
from datetime import datetime, timezone

import numpy as np
import pytest

from helpers.campaigns import SCALE
from helpers.vector_stores.plain import TOLERANCE, X, three


class Searching:
    """Order, scores and filters."""

    def test_an_empty_store_finds_nothing_and_deletes_nothing(self, store):
        """S4.26-S4.28."""
        assert store.search(X) == []
        assert store.delete("a") is False
        assert store.delete_many() == 0

    def test_results_come_best_first_with_their_cosine(self, store):
        """S4.3, S4.26."""
        found = three(store).search(X)
        assert [hit.id for hit in found] == ["a", "b", "c"]
        scores = [hit.score for hit in found]
        assert scores == pytest.approx([1.0, 0.5**0.5, 0.0], abs=TOLERANCE)
        assert all(type(score) is float for score in scores)

    def test_opposite_vectors_score_minus_one_and_are_found(self, store):
        """S4.3."""
        store.put("away", [-2.0, 0.0, 0.0])
        assert store.search(X)[0].score == pytest.approx(-1.0, abs=TOLERANCE)

    @pytest.mark.parametrize("scale", [1e-300, 1e-30, 1.0, 1e30, 1e300])
    def test_only_the_direction_of_a_vector_counts(self, store, scale):
        """S4.3."""
        store.put("a", np.array([3.0, 4.0, 0.0]) * scale)
        found = store.search(np.array([4.0, 3.0, 0.0]) / scale)
        assert found[0].score == pytest.approx(0.96, abs=TOLERANCE)

    @pytest.mark.parametrize("dimensions", [1, 2, 31, 33, 384, 1536])
    def test_scores_are_the_cosines_of_float64(self, store, dimensions):
        """S4.3."""
        random = np.random.default_rng(dimensions)
        rows = random.normal(size=(60, dimensions)) * random.lognormal(size=dimensions)
        query = random.normal(size=dimensions)
        for i, row in enumerate(rows):
            store.put(f"{i:02}", row)
        cosines = rows @ query / np.linalg.norm(rows, axis=1) / np.linalg.norm(query)
        found = store.search(query, 60)
        assert sorted(hit.id for hit in found) == [f"{i:02}" for i in range(60)]
        for hit in found:
            assert hit.score == pytest.approx(cosines[int(hit.id)], abs=TOLERANCE)
            assert -1.0 <= hit.score <= 1.0
        scores = [round(hit.score, 5) for hit in found]
        assert scores == sorted(scores, reverse=True)
        best = np.sort(cosines)[::-1][:7]
        assert [hit.score for hit in store.search(query, 7)] == pytest.approx(
            best.tolist(), abs=TOLERANCE
        )

    @pytest.mark.parametrize("kind", [list, tuple, np.float32, np.float64, np.int16])
    def test_an_embedding_may_be_any_sequence_of_numbers(self, store, kind):
        """S4.25, S4.26."""
        made = kind([2, 1, 0]) if kind in {list, tuple} else np.array([2, 1, 0], kind)
        store.put("a", made)
        assert store.search(made)[0].score == pytest.approx(1.0, abs=TOLERANCE)

    def test_a_vector_that_is_changed_afterwards_is_stored_as_it_was(self, store):
        """S4.25."""
        vector = np.array([1.0, 0.0, 0.0], np.float32)
        store.put("a", vector)
        vector[:] = [0.0, 1.0, 0.0]
        assert store.search(X)[0].score == pytest.approx(1.0, abs=TOLERANCE)

    def test_more_than_there_is_may_be_asked_for(self, store):
        """S4.26."""
        assert len(three(store).search(X, 1000)) == 3
        assert store.ids(X, 2) == ["a", "b"]
        assert store.ids(X, 1) == ["a"]

    def test_equal_scores_stand_newer_first_then_by_smaller_id(self, store):
        """S4.26."""
        for id_, timestamp in [("b", 5.0), ("z", 9.0), ("c", 5.0), ("a", 5.0)]:
            store.put(id_, X, timestamp=timestamp)
        assert store.ids(X) == ["z", "a", "b", "c"]
        for count in (1, 2, 3):
            assert store.ids(X, count) == ["z", "a", "b", "c"][:count]

    def test_many_rows_that_say_the_same_still_stand_by_id(self, store):
        """S4.26."""
        ids = [f"{i:03}" for i in np.random.default_rng(1).permutation(100)]
        for id_ in ids:
            store.put(id_, X, timestamp=1.0)
        assert store.ids(X, 9) == sorted(ids)[:9]

    @pytest.mark.parametrize(
        ("asked", "expected"),
        [
            ({}, "abc"),
            ({"session_id": "s"}, "ab"),
            ({"session_id": "t"}, "c"),
            ({"session_id": "S"}, ""),
            ({"session_id": "s "}, ""),
            ({"after": 20.0}, "bc"),
            ({"after": 20.000001}, "c"),
            ({"after": 30.000001}, ""),
            ({"before": 20.0}, "a"),
            ({"before": 20.000001}, "ab"),
            ({"before": 10.0}, ""),
            ({"after": 10.0, "before": 30.0}, "ab"),
            ({"after": 20.0, "before": 20.0}, ""),
            ({"after": 30.0, "before": 10.0}, ""),
            ({"session_id": "s", "after": 20.0}, "b"),
            ({"session_id": "s", "before": 20.0}, "a"),
            ({"session_id": "t", "after": 10.0, "before": 30.0}, ""),
            ({"session_id": "s", "after": 10.0, "before": 20.0}, "a"),
            ({"after": "1970-01-01T00:00:20Z"}, "bc"),
            ({"before": datetime.fromtimestamp(20.0, timezone.utc)}, "a"),
        ],
    )
    def test_a_filter_lets_through_what_it_says(self, store, asked, expected):
        """S4.29: after is inclusive, before is not; search and delete agree."""
        assert sorted(three(store).ids(X, **asked)) == list(expected)
        assert store.delete_many(**asked) == len(expected)
        left = sorted(set("abc") - set(expected))
        assert sorted(store.ids(X)) == left

    def test_rows_without_a_session_are_in_no_session(self, store):
        """S4.29."""
        store.put("none", X)
        store.put("null", X, session_id=None)
        assert store.ids(X, session_id="s") == []
        assert sorted(store.ids(X)) == ["none", "null"]

    def test_a_row_without_a_time_has_the_time_when_it_was_stored(self, store):
        """S4.29."""
        before = time.time()
        store.put("a", X)
        store.put("b", X, timestamp=None)
        after = time.time()
        assert store.ids(X, before=before - 1e-5) == []
        assert sorted(store.ids(X, after=before - 1e-5)) == ["a", "b"]
        assert store.ids(X, after=after + 1e-5) == []
        assert (
            "timestamp" not in next(h for h in store.search(X) if h.id == "a").metadata
        )

    @pytest.mark.campaign
    def test_so_many_as_asked_for_come_back_whatever_the_filter_excludes(self, store):
        """S4.29: the filter is part of the search, not a sieve behind it."""
        random = np.random.default_rng(7)
        near, far = random.normal(size=(2, 16))
        for i in range(1000 if SCALE >= 1 else 300):
            store.put(
                f"{i:04}", near + 0.01 * random.normal(size=16), session_id="near"
            )
        for i in range(3):
            store.put(f"far{i}", far + 0.01 * random.normal(size=16), session_id="far")
        assert sorted(store.ids(near, 3, session_id="far")) == ["far0", "far1", "far2"]
        assert len(store.ids(near, 2, session_id="far")) == 2
