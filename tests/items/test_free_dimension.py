"""The dimension and the embedder of a user's items, when no vector is left."""

from __future__ import annotations

import pytest
from vecall import DimensionError, Drop, EmbeddingMismatchError, Put

ALICE = {"app_name": "app", "user_id": "alice"}
NOTES = ("notes",)


def test_after_the_last_vector_any_dimension_and_embedder_will_do(open_service):
    """And the new ones are searched; the old ones are those that are refused."""
    items = open_service().items.sync
    items.write([Put(NOTES, "k", 1, [1.0, 0.0])], embedder="one", **ALICE)
    items.write([Put(NOTES, "without", 1)], **ALICE)
    assert items.find(vector=[1.0, 0.0], **ALICE)[0].score == pytest.approx(1.0)
    items.write([Drop(NOTES, "k")], **ALICE)
    new = [Put(NOTES, "new", 2, [0.0, 0.0, 1.0])]
    items.write(new, embedder="two", **ALICE)
    found = items.find(vector=[0.0, 0.0, 2.0], embedder="two", **ALICE)
    assert [(item.key, item.score) for item in found] == [
        ("new", pytest.approx(1.0)),
        ("without", None),
    ]
    with pytest.raises(DimensionError):
        items.write([Put(NOTES, "k", 1, [1.0, 0.0])], **ALICE)
    with pytest.raises(EmbeddingMismatchError):
        items.write(new, embedder="one", **ALICE)
