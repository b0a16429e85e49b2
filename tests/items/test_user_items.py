"""The items of one user, with app and user bound."""

from __future__ import annotations

import asyncio
import inspect

import pytest
from helpers.memories import ALICE, BOB
from vecall import Drop, Items, Put, SyncItems
from vecall.service._user_items_sync import SyncUserItems
from vecall.service.user_items import UserItems

NAMES = {"app_name", "user_id"}


def methods(kind):
    return {
        name: method
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    }


@pytest.mark.parametrize(
    ("own", "all_"), [(UserItems, Items), (SyncUserItems, SyncItems)]
)
def test_every_method_of_items_is_bound(own, all_):
    """A new method, or a new argument of one, fails this until it is bound."""
    assert methods(own).keys() == methods(all_).keys()
    for name, method in methods(own).items():
        given = dict(inspect.signature(method).parameters)
        wanted = dict(inspect.signature(methods(all_)[name]).parameters)
        assert wanted.keys() - given.keys() == NAMES
        for each, parameter in given.items():
            assert parameter.default == wanted[each].default


def walk(write, get, find, namespaces, count, delete, sweep):
    """Everything that items can do, once; returns all results."""
    return [
        write([Put(("n",), "k", {"a": 1}, [1.0, 0.0]), Put(("m",), "l", 2)]),
        [each and each.value for each in get([(("n",), "k"), (("n",), "x")])],
        [each.value for each in find(("n",), vector=[1.0, 0.0], where={"a": 1})],
        namespaces(),
        count(where={"a": {"$exists": True}}),
        write([Drop(("m",), "l")])[0] > 0,
        delete(("n",)),
        sweep(),
        count(),
    ]


def test_the_items_are_those_of_the_user(open_service):
    memory = open_service()
    memory.items.sync.write([Put(("n",), "k", "of Bob")], **BOB)
    alice, other = (
        memory.sync.user(*ALICE.values()).items,
        memory.user(*ALICE.values()).items,
    )
    names = "write get find namespaces count delete sweep".split()

    def waited(name):
        return lambda *args, **named: asyncio.run(getattr(other, name)(*args, **named))

    one = walk(*(getattr(alice, name) for name in names))
    two = walk(*(waited(name) for name in names))
    assert one[1:] == two[1:]
    assert one[1:] == [
        [{"a": 1}, None],
        [{"a": 1}],
        [("m",), ("n",)],
        1,
        True,
        1,
        0,
        0,
    ]
    (kept,) = memory.items.sync.find(**BOB)
    assert kept.value == "of Bob"
