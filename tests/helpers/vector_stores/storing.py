"""What a vector store keeps, replaces and forgets."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from helpers.vector_stores.plain import ALICE, TOLERANCE, X, three


class Storing:
    """Rows, their metadata, their end."""

    def test_a_row_with_a_known_id_replaces_the_old_one(self, store):
        """S4.25."""
        three(store).put("a", [0.0, 0.0, 1.0], session_id="t", timestamp=99.0, new=True)
        assert sorted(store.ids(X)) == ["a", "b", "c"]
        (hit,) = store.search([0.0, 0.0, 1.0], 1)
        assert (hit.id, hit.metadata["new"]) == ("a", True)
        assert hit.score == pytest.approx(1.0, abs=TOLERANCE)
        assert sorted(store.ids(X, session_id="s")) == ["b"]
        assert sorted(store.ids(X, session_id="t")) == ["a", "c"]
        assert store.ids(X, before=20.0) == []
        assert store.ids(X, after=99.0) == ["a"]
        assert store.delete_many(session_id="t") == 2

    def test_the_same_row_told_a_hundred_times_is_one_row(self, store):
        """S4.25."""
        for _ in range(100):
            store.put("a", X, session_id="s", timestamp=1.0)
        assert store.ids(X) == ["a"]
        assert store.delete_many() == 1

    @pytest.mark.parametrize(
        "id_",
        [
            "\u00fcber \U0001f600",
            "a/b",
            "../a",
            " ",
            "\n",
            "'; --",
            "%",
            "0",
            "x" * 512,
        ],
        ids=ascii,
    )
    def test_an_id_may_be_any_text(self, store, id_):
        """S4.25, S4.27."""
        store.put(id_, X)
        assert store.ids(X) == [id_]
        assert store.delete(id_ + "x" if len(id_) < 512 else "y") is False
        assert store.delete(id_) is True

    def test_ids_that_only_look_alike_are_two(self, store):
        """S4.25."""
        store.put("\u00e9", X)
        store.put("e\u0301", X)
        assert len(store.ids(X)) == 2
        assert store.delete("\u00e9") is True
        assert store.ids(X) == ["e\u0301"]

    def test_metadata_comes_back_as_it_was(self, store):
        """S4.25, S4.26."""
        told = {
            "text": "h\u00e9llo \U0001f600\n", "n": 2**60, "f": 0.1, "yes": True,
            "none": None, "list": [1, [2, {"deep": []}]], "map": {"": {}},
            "odd": "\ud800",
        }  # fmt: skip
        store.put("a", X, **told)
        assert store.search(X)[0].metadata == {**ALICE, **told}

    @pytest.mark.parametrize(
        "timestamp",
        [1.5, "1970-01-01T00:00:01.500+00:00", "1970-01-01T01:00:01.500+01:00",
         datetime.fromtimestamp(1.5, timezone.utc)],
    )  # fmt: skip
    def test_a_time_comes_back_in_seconds_however_it_was_told(self, store, timestamp):
        """S4.25, S4.30."""
        store.put("a", X, timestamp=timestamp)
        assert store.search(X, after=1.5)[0].metadata["timestamp"] == 1.5

    def test_metadata_is_copied_in_and_out(self, store):
        """S4.25, S4.26."""
        told = {**ALICE, "session_id": "s", "tags": ["old"]}
        store.upsert("a", X, told)
        told["tags"].append("new")
        told["session_id"] = "t"
        found = store.search(X, session_id="s")[0].metadata
        assert found["tags"] == ["old"]
        found["tags"].clear()
        found["user_id"] = "bob"
        assert store.search(X)[0].metadata == {
            **ALICE, "session_id": "s", "tags": ["old"],
        }  # fmt: skip
        assert told["tags"] == ["old", "new"]

    def test_a_deleted_row_is_gone_and_can_be_told_again(self, store):
        """S4.27."""
        assert three(store).delete("a") is True
        assert store.delete("a") is False
        assert store.delete("unknown") is False
        assert store.ids(X) == ["b", "c"]
        store.put("a", X, session_id="u")
        assert store.ids(X, session_id="s") == ["b"]
        assert store.ids(X, session_id="u") == ["a"]

    def test_names_alone_delete_all_of_one_user(self, store):
        """S4.28."""
        three(store).put("theirs", X, user_id="bob")
        assert store.delete_many() == 3
        assert store.delete_many() == 0
        assert store.ids(X) == []
        assert store.ids(X, user_id="bob") == ["theirs"]
        assert three(store).ids(X) == ["a", "b", "c"]
