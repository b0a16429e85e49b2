"""`created_at` and `updated_at` of `vecall.mem0`, in filters and in results."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

import pytest
from vecall.errors import InvalidArgumentError, VecallError

ALICE = {"user_id": "alice"}
LONG_AGO = datetime(2015, 7, 23, 22, 44, 8, 250, tzinfo=timezone.utc)


def texts(found):
    return [each["memory"] for each in found["results"]]


@pytest.fixture
def filled(memory):
    memory.add("zebra old", **ALICE, timestamp=LONG_AGO, metadata={"n": 1})
    memory.add("zebra new", **ALICE, metadata={"n": 2, "created_at": "never"})
    return memory


def test_a_given_time_is_the_creation_of_a_memory(filled):
    old, new = filled.get_all(filters=ALICE)["results"]
    assert datetime.fromisoformat(old["created_at"]) == LONG_AGO
    made = datetime.fromisoformat(new["created_at"])
    assert abs(datetime.now(timezone.utc) - made) < timedelta(minutes=5)
    assert abs(datetime.fromisoformat(old["updated_at"]) - made) < timedelta(minutes=5)
    (first,) = filled.history(old["id"])
    assert datetime.fromisoformat(first["created_at"]) == LONG_AGO
    filled.update(old["id"], text="zebra older")
    assert filled.get(old["id"])["created_at"] == old["created_at"]
    assert filled.get(old["id"])["updated_at"] > old["updated_at"]


CASES = [
    ({"created_at": {"gte": "2000-01-01T00:00:00Z"}}, {"old", "new"}),
    ({"created_at": {"lte": "2020-07-23T06:00:00Z"}}, {"old"}),
    ({"created_at": {"gt": "2020-01-01"}}, {"new"}),
    ({"created_at": {"gt": date(2020, 1, 1)}}, {"new"}),
    ({"created_at": {"lt": datetime(2020, 1, 1)}}, {"old"}),
    ({"created_at": {"gte": 1_437_600_000, "lt": "2016"}}, {"old"}),
    ({"created_at": LONG_AGO}, {"old"}),
    ({"created_at": {"eq": LONG_AGO.isoformat()}}, {"old"}),
    ({"created_at": {"ne": LONG_AGO}}, {"new"}),
    ({"created_at": {"in": [LONG_AGO, "1999-01-01"]}}, {"old"}),
    ({"created_at": {"nin": [LONG_AGO, "1999-01-01"]}}, {"new"}),
    ({"created_at": "*"}, {"old", "new"}),
    ({"updated_at": {"gte": "2020-01-01"}}, {"old", "new"}),
    ({"updated_at": {"lt": "2020-01-01"}}, set()),
    ({"OR": [{"created_at": {"lt": "2020"}}, {"n": 7}]}, {"old"}),
    ({"NOT": [{"created_at": {"lt": "2020"}}]}, {"new"}),
    ({"AND": [{"created_at": {"gt": "2010"}}, {"n": 1}]}, {"old"}),
    ({"metadata.created_at": "never"}, {"new"}),
    ({"metadata.n": {"gte": 2}}, {"new"}),
    ({"metadata.hash": "x"}, set()),
]


@pytest.mark.parametrize(("filters", "right"), CASES)
def test_filters_compare_the_times_that_results_show(filled, filters, right):
    filters = {**ALICE, **filters}
    for found in (
        filled.get_all(filters=filters),
        filled.search("zebra", filters=filters, threshold=0),
    ):
        assert {each.split()[1] for each in texts(found)} == right


def test_the_shown_times_find_their_memory_again(memory):
    """To the microsecond, so that a page may begin where the last one ended."""
    for n in range(20):
        memory.add(f"zebra {n}", **ALICE)
    listed = memory.get_all(filters=ALICE)["results"]
    for each in listed:
        for name in ("created_at", "updated_at"):
            here = {**ALICE, name: each[name]}
            assert each in memory.get_all(filters=here)["results"]
            after = {**ALICE, name: {"gt": each[name]}}
            later = [one for one in listed if one[name] > each[name]]
            assert memory.get_all(filters=after)["results"] == later


@pytest.mark.parametrize(
    "given",
    ["2015-07-23", date(2015, 7, 23), datetime(2015, 7, 23), "2015-07-23T02:00+02:00"],
)
def test_a_time_without_an_offset_is_utc(memory, three_hours_east, given):
    (made,) = memory.add("zebra", **ALICE, timestamp=given)["results"]
    assert memory.get(made["id"])["created_at"] == "2015-07-23T00:00:00+00:00"


@pytest.mark.parametrize(
    "filters",
    [
        {"created_at": "yesterday"},
        {"created_at": {"gte": ""}},
        {"created_at": {"gte": None}},
        {"created_at": {"contains": "2015"}},
        {"updated_at": {"gte": True}},
        {"updated_at": {"gte": float("nan")}},
        {"updated_at": [["2015"]]},
        {"timestamp": {"lte": "2020-01-01"}},
        {"memory": "zebra old"},
        {"hash": "x"},
        {"id": "x"},
        {"score": {"gte": 0.5}},
        {"OR": [{"memory": "zebra old"}]},
        {"metadata": {"n": 1}},
    ],
)
def test_a_name_that_filters_do_not_have_is_no_empty_result(filled, filters):
    for call in (
        lambda: filled.get_all(filters={**ALICE, **filters}),
        lambda: filled.search("zebra", filters={**ALICE, **filters}),
    ):
        with pytest.raises((ValueError, TypeError)) as refused:
            call()
        assert isinstance(refused.value, VecallError)
        assert "zebra" not in str(refused.value)


def test_the_refusal_says_what_to_write(filled):
    with pytest.raises(InvalidArgumentError, match="created_at"):
        filled.get_all(filters={**ALICE, "timestamp": {"lte": "2020"}})
    with pytest.raises(InvalidArgumentError, match=r"metadata\.hash"):
        filled.get_all(filters={**ALICE, "hash": "x"})
    for method in ("search", "get_all"):
        given = {"filters": ALICE, "limit": 5}
        if method == "search":
            given["query"] = "zebra"
        with pytest.raises(InvalidArgumentError, match=r"limit.* top_k"):
            getattr(filled, method)(**given)


def test_tags_and_the_day_of_expiry_are_fields(memory):
    tagged = {"tags": ["open", "private"], "note": "call her"}
    memory.add("zebra a", **ALICE, metadata=tagged, expiration_date="2999-01-01")
    memory.add("zebra b", **ALICE, metadata={"tags": ["open"], "note": "file it"})
    for filters, right in (
        ({"tags": {"contains": "private"}}, ["zebra a"]),
        ({"tags": {"contains": "open"}}, ["zebra a", "zebra b"]),
        ({"tags": {"contains": "priv"}}, []),
        ({"tags": ["open"]}, ["zebra b"]),
        ({"note": {"contains": "call"}}, ["zebra a"]),
        ({"expiration_date": {"gte": "2998-12-31"}}, ["zebra a"]),
        ({"expiration_date": "2999-01-01"}, ["zebra a"]),
    ):
        assert texts(memory.get_all(filters={**ALICE, **filters})) == right
