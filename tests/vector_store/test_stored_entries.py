"""A stored row becomes the entry that the constructor of `MemoryEntry` would make."""

from __future__ import annotations

import copy
import dataclasses
import gc
import json
import math
import pickle
import sys

import pytest
from helpers.conversations import ALICE
from hypothesis import given
from hypothesis import strategies as st
from vecall import (
    CorruptFileError,
    InvalidArgumentError,
    InvalidTypeError,
    MemoryEntry,
)
from vecall._core import EntryMaker
from vecall.ranking.calibration import Calibration, Signals
from vecall.search.searcher import entry_of_row
from vecall.store import Row

names = st.none() | st.text(min_size=1, max_size=8)
times = st.none() | st.floats(-1e9, 1e10) | st.integers(-(10**9), 10**10)
shares = st.floats(0.0, 1.0) | st.sampled_from([0, 1])
objects = st.none() | st.dictionaries(st.text(max_size=4), st.integers(), max_size=2)

rows = st.builds(
    Row,
    rid=st.integers(1, 2**60),
    id=st.text(min_size=1, max_size=8),
    session=names,
    event=names,
    pos=st.none() | st.floats(0, 100),
    ts=times,
    created_at=st.floats(0, 1e10),
    expires_at=times,
    author=names,
    kind=names,
    source=names,
    trust=names,
    text=st.text(max_size=20),
    content=(st.none() | st.just({"parts": [{"text": "x"}]})).map(
        lambda one: None if one is None else json.dumps(one)
    ),
    meta=objects.map(lambda one: None if one is None else json.dumps(one)),
    importance=st.none() | shares,
    uses=st.none() | st.integers(0, 9),
    last_used=times,
    valid_until=times,
    supersedes=names,
    updated_at=times,
)


@given(
    rows,
    st.none() | st.floats(0, 9),
    st.floats(-1, 1) | st.just(math.nan),
    st.none() | shares,
    st.none() | st.just({"words": 0.5}),
)
def test_an_entry_of_a_row_is_what_the_constructor_makes(
    row, score, similarity, confidence, explanation
):
    found = entry_of_row(row, None, score, similarity, confidence, explanation)
    expected = MemoryEntry(
        row.text if row.content is None else json.loads(row.content),
        id=row.id,
        author=row.author,
        timestamp=row.ts,
        session_id=row.session,
        event_id=row.event,
        kind=row.kind,
        source=row.source,
        trust=row.trust,
        custom_metadata={} if row.meta is None else json.loads(row.meta),
        importance=0.5 if row.importance is None else row.importance,
        score=score,
        similarity=None if math.isnan(similarity) else similarity,
        confidence=confidence,
        explanation=explanation,
        created_at=row.created_at,
        updated_at=row.updated_at,
        valid_until=row.valid_until,
        supersedes=row.supersedes,
    )
    assert repr(found) == repr(expected)  # also the type of each field
    assert found == expected


def test_an_entry_of_a_row_behaves_like_any_other():
    row = Row(
        *(1, "a", "s", None, None, 5.0, 6.0, None, "Nate", None, None, None),
        *("zebra", None, None, None),
    )
    one, other = entry_of_row(row), entry_of_row(row)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.score = 1.0
    for same in (copy.copy(one), pickle.loads(pickle.dumps(one)), other):
        assert same == one
    assert dataclasses.replace(one, score=0.25).score == 0.25
    one.custom_metadata["x"] = 1
    assert other.custom_metadata == {}


@pytest.mark.parametrize("importance", [-0.1, 1.5, math.nan])
def test_a_weight_outside_of_its_range_makes_no_entry(importance):
    row = Row(*(1, "a", None, None, None, None, 6.0, *[None] * 5), "zebra", *[None] * 3)
    with pytest.raises(InvalidArgumentError):
        entry_of_row(row._replace(importance=importance))


@pytest.mark.parametrize("field", ["content", "meta"])
def test_a_value_that_is_no_json_object_makes_no_entry(field):
    row = Row(*(1, "a", None, None, None, None, 6.0, *[None] * 5), "zebra", *[None] * 3)
    with pytest.raises(CorruptFileError):
        entry_of_row(row._replace(**{field: "[1]"}))


def test_an_entry_keeps_its_values_and_lets_them_go():
    values = [f"only here {number}" for number in range(6)]
    before = list(map(sys.getrefcount, values))
    session, author, text, supersedes, id_, scope = values
    row = Row(
        *(1, id_, session, None, None, 5.0, 6.0, None, author, None, None, None),
        *(text, None, None, None, None, None, None, supersedes),
    )
    for _ in range(10):
        entry = entry_of_row(row, 7.0, 0.5, 0.25, 0.75, scope=scope)
        assert (entry.content, entry.author, entry.scope) == (text, author, scope)
    del row, entry, session, author, text, supersedes, id_, scope
    gc.collect()
    assert list(map(sys.getrefcount, values)) == before


@dataclasses.dataclass(frozen=True, slots=True)
class Other:
    content: str


def maker_of(made: object) -> object:
    return EntryMaker(made, *[len] * 4, 1.0, 0.5)


@pytest.mark.parametrize("made", [Other, dict, 7, None, Row], ids=repr)
def test_a_class_without_the_slots_of_an_entry_is_refused(made):
    with pytest.raises(InvalidTypeError, match="made: expected a class"):
        maker_of(made)


@pytest.mark.parametrize(
    ("rows", "scores"),
    [
        ([("a",)], [(1.0, 1.0, 1.0, None)]),
        ("rows", []),
        ([[None] * 21], [(1.0, 1.0, 1.0, None)]),
        ([(None,) * 21], [(1.0, 1.0)]),
        ([(None,) * 21], None),
    ],
)
def test_what_are_no_rows_and_scores_make_no_entries(rows, scores):
    maker = maker_of(MemoryEntry)
    with pytest.raises(InvalidTypeError, match="expected a list of tuples"):
        maker.make(rows, scores, None, "user")
    with pytest.raises(IndexError):
        maker.make([(None,) * 21], [], None, "user")


def test_a_confidence_is_that_of_the_signals_which_the_memory_explains(open_service):
    service = open_service()
    animals = "zebra parrot otter badger heron lynx marten".split()
    facts = [f"the {a} met the {b}" for a in animals for b in animals]
    service.sync.add_memory(**ALICE, memories=facts)
    weights = Calibration.shipped().words
    for query in [*animals, *facts, "zebra and an unheard heron"]:
        plain, told = (
            service.sync.search_memory(
                **ALICE, query=query, top_k=100, explain=explain
            ).memories
            for explain in (False, True)
        )
        assert len(told) > 1
        expected: list[float] = []
        for before, each in zip([None, *told], told, strict=False):
            chance = weights.probability(Signals.signals_of_memory(each))
            if before is not None and before.score == each.score:
                chance = expected[-1]  # memories that match alike are alike probable
            expected.append(min([chance, *expected[-1:]]))
        assert [each.confidence for each in plain] == expected
