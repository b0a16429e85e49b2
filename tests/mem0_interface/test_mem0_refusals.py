"""What `vecall.mem0` does not support is refused by a typed error."""

from __future__ import annotations

import pytest
from vecall.errors import InvalidArgumentError, InvalidTypeError, VecallError
from vecall.limits import SHARED_APP

ALICE = {"user_id": "alice"}


def texts(found):
    return [each["memory"] for each in found["results"]]


@pytest.mark.parametrize(
    "filters",
    [
        None,
        {},
        {"topic": "x"},
        {"user_id": None},
        {"user_id": ""},
        {"user_id": "a b"},
        {"user_id": {"in": ["alice"]}},
        {"user_id": "*"},
        {**ALICE, "kind": {"contains": ["x"]}},
        {**ALICE, "kind": {"icontains": "x"}},
        {**ALICE, "kind": {"regex": "x"}},
        {**ALICE, "OR": [{"user_id": "bob"}]},
        {**ALICE, "NOT": [{"user_id": "bob"}]},
        {**ALICE, "OR": []},
        {**ALICE, "NOT": {"kind": "x"}},
        {**ALICE, "$or": [{"kind": "x"}]},
        {**ALICE, "AND": {"kind": "x"}},
        {**ALICE, "AND": [{"user_id": "bob"}]},
        {**ALICE, "kind": [[1]]},
        {**ALICE, "kind": float("nan")},
        {**ALICE, 5: 5},
    ],
)
def test_a_filter_that_vecall_does_not_have_is_refused(memory, filters):
    memory.add("zebra", **ALICE)
    for call in (lambda: memory.search("zebra", filters=filters),
                 lambda: memory.get_all(filters=filters)):  # fmt: skip
        with pytest.raises((InvalidArgumentError, TypeError)) as caught:
            call()
        assert isinstance(caught.value, VecallError)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("search", {"user_id": "alice"}),
        ("search", {"limit": 5}),
        ("search", {"rerank": True}),
        ("search", {"reference_date": "2026-01-01"}),
        ("search", {"show_expired": True}),
        ("search", {"top_k": -1}),
        ("search", {"top_k": True}),
        ("search", {"threshold": 2}),
        ("search", {"query": "  "}),
        ("get_all", {"user_id": "alice"}),
        ("get_all", {"show_expired": True}),
        ("get_all", {"top_k": "5"}),
        ("add", {"user_id": None}),
        ("add", {"messages": 5}),
        ("add", {"messages": " "}),
        ("add", {"messages": [5]}),
        ("add", {"messages": [{"content": "x"}]}),
        ("add", {"metadata": {"user_id": "bob"}}),
        ("add", {"metadata": {"x": object()}}),
        ("add", {"metadata": [1]}),
        ("add", {"expiration_date": "tomorrow"}),
        ("add", {"expiration_date": 5}),
        ("add", {"memory_type": "procedural_memory"}),
        ("add", {"prompt": "x"}),
        ("delete_all", {}),
        ("delete_all", {"user_id": ""}),
    ],
)
def test_what_is_not_supported_is_refused_and_changes_nothing(
    memory, method, arguments
):
    memory.add("zebra", **ALICE)
    given = {
        "search": {"query": "zebra", "filters": ALICE},
        "get_all": {"filters": ALICE},
        "add": {"messages": "cow", **ALICE},
        "delete_all": {},
    }[method]
    with pytest.raises((ValueError, TypeError)) as caught:
        getattr(memory, method)(**{**given, **arguments})
    assert isinstance(caught.value, VecallError)
    assert texts(memory.get_all(filters=ALICE)) == ["zebra"]


@pytest.mark.parametrize("name", ["", "a\0b", "n" * 2_000, SHARED_APP, 5, None])
def test_a_wrong_name_of_the_app_opens_no_file(make, tmp_path, name):
    with pytest.raises((InvalidArgumentError, InvalidTypeError)):
        make(tmp_path / "m.db", app_name=name, embedder=None)
    assert list(tmp_path.iterdir()) == []
