"""The bounds that a method declares for a number are those that it enforces."""

from __future__ import annotations

import inspect
import math
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest
from helpers.memories import ALICE
from vecall import InvalidArgumentError, LimitExceededError, Limits, MemoryService

APP = {"app_name": ALICE["app_name"]}
GIVEN: dict[str, Any] = {"query": "tea", "memory_id": "a", "content": "tea"}


def bounded() -> list[tuple[str, str, Any]]:
    """Each argument with declared bounds: the method, the argument, the bounds."""
    found = []
    for name, method in inspect.getmembers(MemoryService, inspect.isfunction):
        if name.startswith("_"):
            continue
        for argument, hint in get_type_hints(method, include_extras=True).items():
            for kind in (hint, *get_args(hint)):
                if get_origin(kind) is Annotated:
                    found.append((name, argument, kind))
    return found


@pytest.mark.parametrize(("name", "argument", "kind"), bounded())
def test_a_number_at_a_bound_is_taken_and_one_beyond_it_is_refused(
    name, argument, kind
):
    number, bounds = get_args(kind)
    limits = Limits(max_top_k=50)
    high = getattr(limits, bounds.high) if type(bounds.high) is str else bounds.high
    compares = argument in ("min_similarity", "similarity")
    embedder = (lambda texts: [[1.0, 0.5]] * len(texts)) if compares else None
    with MemoryService(embedder=embedder, limits=limits) as memory:
        memory.sync.add_memory(**ALICE, memories=[{"id": "a", "content": "tea"}])
        call = getattr(memory.sync, name)
        takes = inspect.signature(call).parameters
        given = {key: value for key, value in GIVEN.items() if key in takes}
        for value in (number(bounds.low), number(high)):
            if name != "consolidate" or value:  # a cosine above 0
                call(**ALICE, **{**given, argument: value})
        step = 1 if number is int else 1e-9
        for value in (bounds.low - step, high + step, math.nan):
            with pytest.raises(InvalidArgumentError, match=argument):
                call(**ALICE, **{**given, argument: value})


def test_there_are_declared_bounds():
    assert {argument for _, argument, _ in bounded()} >= {
        "top_k",
        "limit",
        "offset",
        "min_similarity",
        "min_confidence",
        "importance",
    }


def test_a_default_is_never_above_the_limits_of_the_service():
    limits = Limits(max_top_k=2)
    with MemoryService(embedder=None, limits=limits, top_k=2) as memory:
        for name in ("tea", "milk", "tea and milk"):
            session = {"session_id": f"about {name}", "id": name}
            memory.sync.add_memory(**ALICE, memories=[{"content": name, **session}])
            memory.sync.add_memory(app_name=name, user_id="bob", memories=[name])
            memory.sync.add_memory(
                app_name=ALICE["app_name"], user_id=name, memories=[name]
            )
        user, admin = memory.sync.user(**ALICE), memory.sync.admin
        assert [each.id for each in user.list()] == ["tea", "milk"]
        assert len(user.list_sessions()) == 2
        assert len(admin.list_apps()) == len(admin.list_users(**APP)) == 2
        assert len(user.propose_forget("tea milk").memories) <= 2
        assert len(user.conflicts()) <= 2
        with pytest.raises(LimitExceededError, match="limit: at most max_top_k = 2"):
            user.list(limit=3)
