"""A recalled memory cannot be made without its scores, and nothing makes them up."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import pickle
from datetime import datetime, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from vecall import InvalidMemoryError, MemoryEntry, ScoredMemory, VecallError
from vecall.prompts.scored import TRUST_TIERS

SECRET = "xyzzysecret"
SCORES = ("confidence", "importance")


def scored(text: str = "zebra", **fields: Any) -> ScoredMemory:
    return ScoredMemory(text, **{"confidence": 0.5, "importance": 0.5, **fields})


@pytest.mark.parametrize("given_scores", [(), ("confidence",), ("importance",)])
def test_a_memory_without_both_scores_cannot_be_made(given_scores):
    """S2.7, S2.8, S2.14: both are required and have no default."""
    with pytest.raises((TypeError, InvalidMemoryError)):
        ScoredMemory("zebra", **dict.fromkeys(given_scores, 0.5))
    defaults = {field.name: field.default for field in dataclasses.fields(ScoredMemory)}
    for name in SCORES:
        assert defaults[name] is dataclasses.MISSING


def test_scores_are_never_given_by_position():
    """S2.14: nobody confuses the two."""
    with pytest.raises(TypeError):
        ScoredMemory("zebra", 0.5, 0.5)  # type: ignore[misc]


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        False,
        np.True_,
        math.nan,
        math.inf,
        -math.inf,
        -1e-9,
        1.0000001,
        2,
        -1,
        10**400,
        np.float32(1.5),
        np.float64("nan"),
        "0.5",
        SECRET,
        b"1",
        0.5j,
        Decimal("0.5"),
        [0.5],
        np.array([0.5]),
        pytest.param(object(), id="object"),
    ],
    ids=repr,
)
def test_a_score_that_is_no_number_within_0_and_1_is_refused(name, value):
    """S2.11: NaN, booleans and what is out of range are refused."""
    with pytest.raises(InvalidMemoryError, match=name) as caught:
        scored(**{name: value})
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, VecallError)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize(
    "value",
    [
        0,
        1,
        0.0,
        -0.0,
        1.0,
        5e-324,
        Fraction(1, 3),
        np.float16(0.5),
        np.float32(0.25),
        np.float64(0.75),
        np.int64(1),
        np.uint8(0),
    ],
    ids=repr,
)
def test_every_number_within_0_and_1_becomes_a_float(name, value):
    """S2.11: NumPy's numbers too, since retrieval computes with them."""
    kept = getattr(scored(**{name: value}), name)
    assert type(kept) is float
    assert kept == float(value)
    assert math.copysign(1.0, kept) == 1.0


@given(st.floats(0, 1), st.floats(0, 1))
def test_scores_are_kept_as_they_are(confidence, importance):
    """S2.11."""
    memory = scored(confidence=confidence, importance=importance)
    assert (memory.confidence, memory.importance) == (confidence, importance)


def test_the_same_row_may_have_other_scores():
    """S2.15, S2.16: the scores are of the question, not of the stored memory."""
    entry = MemoryEntry("zebra", id="1", confidence=0.9, importance=0.5)
    other = dataclasses.replace(entry, confidence=0.1)
    assert ScoredMemory.of(entry) != ScoredMemory.of(other)
    assert ScoredMemory.of(entry).id == ScoredMemory.of(other).id


def test_everything_an_entry_knows_is_kept():
    """S2.5, S2.6: provenance and identity."""
    entry = MemoryEntry(
        {"parts": [{"text": "a"}, {"text": "b"}]},
        id="1",
        author="user",
        timestamp=5,
        session_id="s",
        event_id="e",
        kind="fact",
        source="tool",
        trust="third-party-public",
        custom_metadata={"x": [1]},
        importance=0.25,
        score=3.5,
        similarity=-0.5,
        confidence=0.75,
        created_at=1.0,
        updated_at=2.0,
        valid_until=3.0,
        supersedes="0",
        scope="shared",
    )
    memory = ScoredMemory.of(entry)
    assert memory.text == str(memory) == "a\nb"
    for field in dataclasses.fields(MemoryEntry):
        if field.name not in ("content", "explanation"):
            assert getattr(memory, field.name) == getattr(entry, field.name)
    memory.custom_metadata["x"].append(2)
    assert entry.custom_metadata == {"x": [1]}


@pytest.mark.parametrize("missing", SCORES)
def test_an_entry_without_a_score_is_refused_and_the_score_named(missing):
    """S2.14: an unscored memory is refused; the message says what to do."""
    scores = {name: 0.5 for name in SCORES if name != missing}
    with pytest.raises(InvalidMemoryError, match=f"^{missing}: .*ScoredMemory") as why:
        ScoredMemory.of(MemoryEntry(SECRET, **scores))
    assert SECRET not in str(why.value)


@pytest.mark.parametrize("confidence", [1.5, math.nan, True, "high"])
def test_an_entry_with_a_score_outside_is_refused(confidence):
    """S2.11, whoever set it."""
    with pytest.raises(InvalidMemoryError, match="confidence"):
        ScoredMemory.of(MemoryEntry("a", confidence=confidence, importance=1))


@pytest.mark.parametrize("entry", [None, "zebra", {"text": "zebra"}, scored()])
def test_only_an_entry_becomes_a_scored_memory(entry):
    with pytest.raises(InvalidMemoryError, match="entry"):
        ScoredMemory.of(entry)


def test_trust_is_unknown_unless_it_is_told():
    """S2.26: never inferred, whatever author and source say."""
    assert scored(author="user", source="first-party").trust == "unknown"
    entry = MemoryEntry("a", author="user", confidence=1, importance=1)
    assert ScoredMemory.of(entry).trust == "unknown"
    for tier in (*TRUST_TIERS, "a tier of my own"):
        assert scored(trust=tier).trust == tier
        told = dataclasses.replace(entry, trust=tier)
        assert ScoredMemory.of(told).trust == tier


@pytest.mark.parametrize(
    "fields",
    [
        {"text": None},
        {"text": b"a"},
        {"trust": None},
        {"id": 7},
        {"author": ["user"]},
        {"session_id": b"s"},
        {"kind": 1},
        {"source": {}},
        {"timestamp": math.nan},
        {"timestamp": "noon"},
        {"created_at": True},
        {"updated_at": datetime(2025, 1, 1)},
        {"score": "1"},
        {"score": math.inf},
        {"score": 10**400},
        {"similarity": True},
        {"custom_metadata": None},
        {"custom_metadata": [1]},
    ],
    ids=repr,
)
def test_a_field_with_a_bad_value_is_one_kind_of_error(fields):
    """S2.25: one error class for a value that makes no memory."""
    (name,) = fields
    with pytest.raises(InvalidMemoryError, match=name):
        ScoredMemory(**{"text": "a", "confidence": 1, "importance": 1, **fields})


def test_it_cannot_be_changed():
    """S2.25: an immutable record."""
    memory = scored()
    for field in dataclasses.fields(memory):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(memory, field.name, getattr(memory, field.name))
    given_metadata = {"x": [1]}
    memory = scored(custom_metadata=given_metadata)
    given_metadata["x"].append(2)
    assert memory.custom_metadata == {"x": [1]}
    memory.to_dict()["custom_metadata"]["x"].append(3)
    assert memory.custom_metadata == {"x": [1]}


def test_it_can_be_copied_pickled_hashed_and_changed_into_another():
    memory = scored(custom_metadata={"x": [1]})
    assert copy.deepcopy(memory) == pickle.loads(pickle.dumps(memory)) == memory
    assert len({memory, scored(custom_metadata={"x": [1]})}) == 1
    assert dataclasses.replace(memory, importance=1).importance == 1.0
    with pytest.raises(InvalidMemoryError):
        dataclasses.replace(memory, importance=2)


def test_times_are_seconds_however_spelled():
    """S2.25: created_at and updated_at."""
    noon = datetime(2025, 3, 27, 12, tzinfo=timezone.utc)
    memory = scored(
        timestamp=noon, created_at="2025-03-27T12:00:00Z", updated_at=noon.timestamp()
    )
    assert memory.timestamp == memory.created_at == memory.updated_at
    assert memory.timestamp == noon.timestamp()


def conforms(value: Any, schema: dict[str, Any]) -> bool:
    """Whether a flat object fits a schema, by the keywords that ours uses."""
    kinds = {"string": str, "number": float, "null": type(None), "object": dict}
    properties = schema["properties"]
    if not set(schema["required"]) <= set(value) <= set(properties):
        return False
    for name, each in value.items():
        rule = properties[name]
        if "const" in rule and each != rule["const"]:
            return False
        types = rule.get("type", [])
        types = [types] if isinstance(types, str) else types
        if types and not isinstance(each, tuple(kinds[kind] for kind in types)):
            return False
        if (
            not rule.get("minimum", -math.inf)
            <= (each if isinstance(each, float) else 0)
            <= rule.get("maximum", math.inf)
        ):
            return False
    return True


def test_its_dictionary_is_json_and_fits_its_schema():
    """S2.25: a schema and a marker that says it is a memory."""
    schema = ScoredMemory.json_schema()
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert set(SCORES) < set(schema["required"])
    assert ScoredMemory.is_memory is True
    for memory in (scored(), scored(id="1", timestamp=5, custom_metadata={"x": 1})):
        told = json.loads(json.dumps(memory.to_dict()))
        assert told["is_memory"] is True
        assert set(told) == set(schema["properties"])
        assert conforms(told, schema)
        again = {name: value for name, value in told.items() if name != "is_memory"}
        assert ScoredMemory(**again) == memory
        for name in ("confidence", "is_memory", "text"):
            assert not conforms({k: v for k, v in told.items() if k != name}, schema)
        assert not conforms({**told, "importance": 1.5}, schema)
        assert not conforms({**told, "more": 1}, schema)


def test_a_schema_that_a_caller_changes_stays_the_callers():
    ScoredMemory.json_schema()["properties"].clear()
    ScoredMemory.json_schema()["properties"]["id"]["type"].clear()
    assert ScoredMemory.json_schema()["properties"]["id"]["type"]
