"""A page of a list knows whether there is more: it has the cursor of the next page."""

from __future__ import annotations

import copy
import pickle
from functools import partial

import pytest
from helpers.memories import ALICE
from vecall import LimitExceededError, Limits, MemoryService

LISTS = {
    "list_memories": lambda service: partial(service.list_memories, **ALICE),
    "alice.list": lambda service: service.user(*ALICE.values()).list,
    "list_sessions": lambda service: partial(service.list_sessions, **ALICE),
    "list_users": lambda service: partial(service.admin.list_users, app_name="app"),
    "list_apps": lambda service: service.admin.list_apps,
}


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 6])
def test_next_is_the_id_of_the_last_memory_exactly_if_there_is_another(count):
    with MemoryService(embedder=None) as service:
        alice = service.sync.user(*ALICE.values())
        if count:
            alice.add([f"zebra {number}" for number in range(count)])
        found = alice.list(limit=2)
        seen = [entry.text for entry in found]
        assert found.next == (found[-1].id if count > 2 else None)
        while found.next is not None:
            found = alice.list(limit=2, cursor=found.next)
            assert found  # no page is empty but the first
            seen += [entry.text for entry in found]
        assert seen == [f"zebra {number}" for number in range(count)]


def test_a_page_by_metadata_knows_whether_another_memory_passes():
    with MemoryService(embedder=None) as service:
        alice = service.sync.user(*ALICE.values())
        for number in range(5):
            metadata = {"even": number % 2 == 0}
            alice.add([f"zebra {number}"], custom_metadata=metadata)
        even = {"metadata": {"even": True}}
        first = alice.list(limit=2, filter=even)
        assert [entry.text for entry in first] == ["zebra 0", "zebra 2"]
        last = alice.list(limit=2, filter=even, cursor=first.next)
        assert [entry.text for entry in last] == ["zebra 4"]
        assert last.next is None
        assert alice.list(limit=3, filter=even).next is None


def test_pages_of_users_and_apps_end_with_none():
    with MemoryService(embedder=None) as service:
        for app in ("a", "b", "c"):
            for user in ("x", "y", "z"):
                service.sync.user(app, user).add(["zebra"])
        admin = service.sync.admin
        users = admin.list_users(app_name="a", limit=2)
        assert ([each.user_id for each in users], users.next) == (["x", "y"], "y")
        rest = admin.list_users(app_name="a", limit=2, after=users.next)
        assert ([each.user_id for each in rest], rest.next) == (["z"], None)
        assert admin.list_users(app_name="a", limit=3).next is None
        apps = admin.list_apps(limit=2)
        assert ([each.app_name for each in apps], apps.next) == (["a", "b"], "b")
        assert admin.list_apps(limit=2, after=apps.next).next is None


@pytest.mark.parametrize("name", sorted(LISTS))
def test_a_limit_above_the_maximum_is_refused_by_its_own_name(name):
    with MemoryService(embedder=None, limits=Limits(max_top_k=7)) as service:
        read = LISTS[name](service.sync)
        fact = {"content": "zebra", "session_id": "s"}
        service.sync.user(*ALICE.values()).add([fact])
        assert len(read(limit=7)) == 1
        with pytest.raises(LimitExceededError, match=r"^limit: .*7"):
            read(limit=8)


def test_a_page_is_a_list():
    with MemoryService(embedder=None) as service:
        alice = service.sync.user(*ALICE.values())
        assert not alice.list()
        alice.add([f"zebra {number}" for number in range(3)])
        found = alice.list(limit=2)
        assert isinstance(found, list)
        assert (len(found), bool(found)) == (2, True)
        assert found[0] is next(iter(found))
        assert found[:1] == [found[0]]
        for twin in (copy.copy(found), pickle.loads(pickle.dumps(found))):
            assert (twin, twin.next) == (found, found.next)
