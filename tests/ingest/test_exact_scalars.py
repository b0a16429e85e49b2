"""Scalars of other types are stored as the plain ones, and refusals say which one."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json

import numpy as np
import pytest
from helpers.memories import ALICE
from helpers.odd_calls import ENTRY, PUTS
from helpers.odd_values import alike, leaves, replaced
from vecall import Event, Filter, InvalidArgumentError, InvalidTypeError, Put
from vecall.embedders import CallerVectors
from vecall.scalars import exact, json_default, odd_json_value

SecretStr = pytest.importorskip("pydantic").SecretStr

BOB = {"app_name": "app", "user_id": "bob"}


def in_other_types(value, form):
    """A value with every scalar inside of it in another type."""
    for place, inner in list(leaves(value)):
        others = alike(inner)
        if others:
            value = replaced(value, place, others[form % len(others)])
    return value


@pytest.mark.parametrize("form", range(3))
def test_a_memory_is_the_same_whatever_types_its_values_had(
    open_service, tmp_path, form
):
    service = open_service(tmp_path / "m.db", embedder=CallerVectors(4))
    seen = []
    for whose, entry, puts in (
        (ALICE, ENTRY, PUTS),
        (BOB, in_other_types(ENTRY, form), in_other_types(PUTS, form)),
    ):
        older = {"id": "older", "text": "an old zebra", "timestamp": 1.0}
        service.sync.add_memory(**whose, memories=[older])
        service.sync.add_memory(**whose, memories=[entry])
        service.sync.add_events_to_memory(
            **whose, session_id="s", events=[Event("a turn", timestamp=np.int64(7))]
        )
        service.items.sync.write(puts, **whose)
        listed = service.sync.list_memories(**whose)
        items = service.items.sync.find_all((), **whose)
        seen.append(
            (
                [
                    dataclasses.replace(m, created_at=0.0, updated_at=0.0)
                    for m in listed
                ],
                [(i.namespace, i.key, i.value, i.version, i.ttl) for i in items],
            )
        )
    assert seen[0] == seen[1]
    assert len(seen[0][0]) == 2
    given = {
        "kind": ENTRY.kind, "author": "user", "session_id": "s", "after": 1,
        "metadata": {"size": 2},
    }  # fmt: skip
    plain = service.sync.list_memories(**BOB, filter=Filter(**given))
    odd = Filter(**in_other_types(given, form))
    assert service.sync.list_memories(**BOB, filter=odd) == plain
    assert [each.id for each in plain] == ["z"]


BAD = {
    "datetime": dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc),
    "SecretStr": SecretStr("hidden"),
    "ndarray": np.zeros(2),
    "bytes": b"hidden",
    "datetime64": np.datetime64("2026-01-01"),
    "set": {"hidden"},
}


@pytest.mark.parametrize("kind", BAD)
def test_a_refused_value_is_named_by_its_key_and_its_type(open_service, kind):
    service = open_service()
    value = {"fine": 1, "deep": [{"when": BAD[kind]}]}
    with pytest.raises(
        InvalidTypeError, match=f'found a value of type {kind} at "when"'
    ) as caught:
        service.sync.add_memory(**ALICE, memories=["zebra"], custom_metadata=value)
    assert "hidden" not in str(caught.value)
    with pytest.raises(
        InvalidTypeError, match=f'value: .*found a value of type {kind} at "when"'
    ):
        service.items.sync.write([Put(("n",), "k", value)], **ALICE)
    assert service.sync.list_memories(**ALICE) == []


def test_a_message_shows_no_key_that_may_be_text():
    message = odd_json_value({"my secret diary": object()})
    assert message == "found a value of type object at a key"
    assert odd_json_value({"a": {3: 1}}) == 'found a key of type int at "a"'
    assert odd_json_value([float("nan")]) == "found NaN or Inf"
    assert odd_json_value({"a": "\ud800"}) == 'found a lone surrogate at "a"'
    endless: list[object] = []
    endless.append(endless)
    assert odd_json_value(endless).startswith("it is nested too deeply")


def test_numbers_of_numpys_in_metadata_are_stored_as_numbers(open_service):
    service = open_service()
    given = {
        "count": np.int64(3), "share": np.float32(0.5), "is": np.bool_(True),
        "deep": [{"n": np.uint8(7)}], np.str_("key"): np.str_("text"),
    }  # fmt: skip
    plain = {"count": 3, "share": 0.5, "is": True, "deep": [{"n": 7}], "key": "text"}
    service.sync.add_memory(**ALICE, memories=["zebra"], custom_metadata=given)
    (memory,) = service.sync.list_memories(**ALICE)
    assert memory.custom_metadata == plain
    service.items.sync.write([Put(("n",), "k", given)], **ALICE)
    assert service.items.sync.find_all((), **ALICE)[0].value == plain
    where = Filter(metadata={"count": np.int64(3), "is": np.bool_(True)})
    assert service.sync.count_memories(**ALICE, filter=where) == 1


@pytest.mark.parametrize("value", [True, 3, 0.5, "x", None])
def test_a_plain_scalar_is_not_copied(value):
    assert exact(value) is value


def test_a_scalar_of_another_type_becomes_exactly_the_plain_one():
    for plain in (True, 3, 0.5, "x", "grün"):
        for other in alike(plain):
            assert type(exact(other)) is type(plain)
            assert exact(other) == plain
    for other in (np.timedelta64(3, "s"), np.datetime64("2026"), b"x", np.zeros(1)):
        assert exact(other) is other
    assert json.dumps([np.int64(1)], default=json_default) == "[1]"


@pytest.mark.parametrize("digits", [10**400, -(10**400)])
def test_a_whole_number_that_no_float_holds_is_refused(open_service, digits):
    service = open_service()
    for name in ("timestamp", "valid_until", "importance"):
        with pytest.raises(InvalidArgumentError, match=name):
            service.sync.add_memory(**ALICE, memories=[{"text": "z", name: digits}])
