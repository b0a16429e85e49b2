"""The text of a public object is short, and shows neither vectors nor passwords."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import math
from typing import Any

import numpy as np
import pytest
import vecall
from helpers.memories import ALICE
from vecall import MemoryEntry, MemoryService, SearchMemoryResponse
from vecall.embedders import FunctionEmbedder
from vecall.scalars import Shown

LONG = "zebra " * 1_000
VALUES: dict[str, Any] = {
    "MemoryEntry": lambda: full(MemoryEntry),
    "ScoredMemory": lambda: vecall.ScoredMemory(LONG, confidence=0.5, importance=0.25),
    "SearchMemoryResponse": lambda: SearchMemoryResponse([full(MemoryEntry)] * 50),
    "Page": lambda: vecall.Page([full(MemoryEntry)] * 50, "m50"),
    "Event": lambda: vecall.Event(LONG, custom_metadata={"x": LONG}),
    "Session": lambda: vecall.Session("a", "u", "s", [vecall.Event(LONG)] * 50),
    "Filter": lambda: vecall.Filter(author=["bob"] * 50, metadata={"x": LONG}),
    "Revision": lambda: vecall.Revision(full(MemoryEntry), "live"),
    "ForgetProposal": lambda: vecall.ForgetProposal("t", [full(MemoryEntry)] * 50, 1.5),
    "DuplicateGroup": lambda: vecall.DuplicateGroup("a", ("b",) * 1_000, 0.5),
    "Consolidation": lambda: vecall.Consolidation(1, 2, ("s",) * 1_000),
    "LeftOut": lambda: vecall.LeftOut(1, "invalid", "text: too long"),
    "Put": lambda: vecall.Put(("n",), "k", LONG, np.ones((900, 384))),
    "Item": lambda: vecall.Item(("n",), "k", [LONG] * 50, 1, 1.5, 1.5),
    "PendingWrite": lambda: vecall.PendingWrite(full(MemoryEntry), "a", "u"),
    "SessionSummary": lambda: vecall.SessionSummary(LONG),
    "Calibration": vecall.Calibration.shipped,
    "MemoryConfig": lambda: vecall.MemoryConfig(vector_store="postgresql://u:pw@h/d"),
}


def full(kind: type) -> Any:
    """A memory with every field."""
    times = dict.fromkeys(("timestamp", "created_at", "updated_at"), 1500000000.0)
    given = {
        each.name: times.get(each.name, "x" * 40) for each in dataclasses.fields(kind)
    }
    shares = dict.fromkeys(("importance", "score", "similarity", "confidence"), 0.5)
    return kind(
        **{**given, **shares, "content": LONG, "custom_metadata": {"key": LONG}}
        | {"valid_until": 1.6e9, "explanation": {"words": 0.1}}
    )


@pytest.mark.parametrize("name", sorted(VALUES))
def test_the_text_of_a_value_is_short(name):
    value = VALUES[name]()
    told = repr(value)
    assert type(value).__name__ == name
    assert name in told
    assert "\n" not in told
    assert "zebra " * 11 not in told  # 66 characters of a text
    assert "pw" not in told
    assert len(told) <= 900


def test_every_public_class_says_what_it_is():
    """None has the text of `object`, nor that of a dataclass with all its fields."""
    silent = {"Clock", "Engine", "LlmSummaryProvider", "CompactionAwareSummaryProvider"}
    for name in set(vecall.__all__) - silent:
        kind = getattr(vecall, name)
        if not inspect.isclass(kind) or issubclass(kind, BaseException):
            continue
        if kind in (vecall.BaseMemoryService, vecall.MemoryProtocol):
            continue
        if kind in (vecall.Embedder, vecall.SummaryProvider):  # protocols
            continue
        assert kind.__repr__ is not object.__repr__, name
        if dataclasses.is_dataclass(kind) and len(dataclasses.fields(kind)) > 2:
            assert "vecall" in kind.__repr__.__code__.co_filename, name


def test_options_show_what_differs_from_the_default():
    assert repr(vecall.Limits()) == "Limits()"
    assert repr(vecall.Limits(max_top_k=7)) == "Limits(max_top_k=7)"
    assert repr(vecall.Filter(author="bob")) == "Filter(author='bob')"
    entry = MemoryEntry("zebra", id="m1", score=1 / 3, confidence=2 / 3)
    assert repr(entry) == "MemoryEntry(content='zebra', id='m1', confidence=0.6667)"
    assert repr(MemoryEntry("zebra", valid_until=math.pi)) == (
        "MemoryEntry(content='zebra')"
    )
    odd = vecall.Put(("n",), "k", 1, np.ones((2, 3), np.float32))
    assert "<float32 array (2, 3)>" in repr(odd)


def test_services_and_handles_say_where_the_memories_are(tmp_path):
    path = tmp_path / "m.db"
    with MemoryService(path, embedder=None) as service:
        alice = service.user(*ALICE.values())
        assert "m.db" in repr(service)
        assert "open" in repr(service)
        for each in (service.sync, service.admin, service.admin.sync, service.items):
            assert type(each).__name__ in repr(each)
            assert "m.db" in repr(each)
        for each in (alice, service.sync.user(*ALICE.values()), alice.items):
            named = type(each).__name__
            assert repr(each) == f"{named}(app_name='app', user_id='alice')"
    assert "closed" in repr(service)
    with MemoryService(embedder=None) as service:
        assert repr(service) == "<MemoryService in memory, open>"


def test_an_embedder_says_its_model():
    embedder = FunctionEmbedder(lambda texts: texts, model_id="m", dimensions=4)
    assert repr(embedder) == "<FunctionEmbedder 'm'>"


def test_a_response_is_read_by_its_place():
    with MemoryService(embedder=None) as service:
        alice = service.sync.user(*ALICE.values())
        alice.add(["a zebra", "another zebra", "a third zebra"])
        found = alice.search("zebra")
        assert found[0] is found.memories[0]
        assert found[-1] is found.memories[-1]
        assert found[:2] == found.memories[:2]
        with pytest.raises(IndexError):
            found[3]


def held(kind: type, values: dict[str, Any]) -> Any:
    """An object of a class whose fields hold these values, unchecked."""
    made = object.__new__(kind)
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


def hash_or_none(value: object) -> int | None:
    try:
        return hash(value)
    except TypeError:
        return None


def test_shared_equality_and_hash_are_those_of_a_dataclass():
    kinds = {kind.__name__: kind for kind in Shown.__subclasses__()}
    assert {"Filter", "Ranking", "Consolidation"} <= set(kinds)
    for kind in kinds.values():
        fields = dataclasses.fields(kind)
        twin = dataclasses.make_dataclass(
            "Twin",
            [
                (
                    each.name,
                    Any,
                    dataclasses.field(compare=each.compare, hash=each.hash),
                )
                for each in fields
            ],
            frozen=True,
        )
        usual = {each.name: each.name for each in fields}
        for name, other in itertools.product(usual, ("another", math.nan, {})):
            changed = {**usual, name: other}
            mine, its = held(kind, usual), held(kind, changed)
            twins = held(twin, usual), held(twin, changed)
            assert (mine == its) == (twins[0] == twins[1])
            assert (hash_or_none(its) is None) == (hash_or_none(twins[1]) is None)
            same = hash_or_none(mine) == hash_or_none(its)
            assert same == (hash_or_none(twins[0]) == hash_or_none(twins[1]))
        assert held(kind, usual) == held(kind, dict(usual))
        assert held(kind, usual) != held(twin, usual)
