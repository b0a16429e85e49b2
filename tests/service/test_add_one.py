"""`add` takes one memory or several; the id of one is a string."""

from __future__ import annotations

import inspect
import re

import pytest
from helpers.memories import ALICE
from vecall import (
    AddedIds,
    InvalidArgumentError,
    InvalidTypeError,
    Items,
    MemoryEntry,
    MemoryService,
    NotFoundError,
    UserMemory,
)
from vecall.service.user_items import UserItems
from vecall.types import LeftOut

ONE = {
    "a text": "a zebra",
    "an entry": MemoryEntry("a zebra"),
    "a dict": {"text": "a zebra"},
}


@pytest.mark.parametrize("kind", sorted(ONE))
def test_one_memory_is_added_as_a_list_of_one(kind):
    with MemoryService(embedder=None) as service:
        alice = service.sync.user(*ALICE.values())
        added = alice.add(ONE[kind])
        assert added == [added.id]
        assert alice.get(added.id).text == "a zebra"
        assert alice.update(added.id, content="a horse").text == "a horse"
        assert alice.count() == 1


@pytest.mark.parametrize("wrong", [5, None, b"zebra", {"zebra"}, iter(["zebra"])])
def test_what_is_no_memory_and_no_list_is_refused_with_a_way(wrong):
    with MemoryService(embedder=None) as service:
        alice = service.sync.user(*ALICE.values())
        with pytest.raises(InvalidTypeError, match=r"^memories: .*\[value\]"):
            alice.add(wrong)
        with pytest.raises(InvalidTypeError, match=r"^memory_ids: .*\[value\]"):
            alice.get_many("m1")
        assert alice.count() == 0


def test_the_id_of_one_is_refused_where_there_is_none_or_are_several():
    with pytest.raises(InvalidArgumentError, match=r"2 items"):
        _ = AddedIds(["a", "b"]).id
    with pytest.raises(InvalidArgumentError, match=r"0 items"):
        _ = AddedIds().id
    added = AddedIds([None])
    added.left_out = (LeftOut(0, "expired"),)
    with pytest.raises(NotFoundError, match=r"expired"):
        _ = added.id


@pytest.mark.parametrize("kind", [MemoryService, Items, UserMemory, UserItems])
def test_every_argument_of_a_method_is_documented(kind):
    """A handle says it itself: an editor shows the docs of the called method."""
    for name, method in vars(kind).items():
        if name.startswith("_") or not inspect.iscoroutinefunction(method):
            continue
        told = inspect.getdoc(method) or ""
        for argument in set(inspect.signature(method).parameters) - {"self"}:
            if argument in ALICE and len(told.splitlines()) < 8:
                continue  # a method of a line: both names say what they are
            assert re.search(rf"^    {argument}: ", told, re.MULTILINE), (
                name,
                argument,
            )
