"""Every public method of a service with plain arguments, found by reflection."""

from __future__ import annotations

import inspect
import io
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import vecall
from vecall import Drop, Event, Filter, MemoryEntry, Put, Session

VECTOR = [1.0, 0.0, 2.0, 0.0]
_TTL = {"ttl": 86_400.0}
_numbers = itertools.count()
_NOT_CALLS = {"close", "aclose"}

ENTRY = MemoryEntry(
    "a zebra",
    id="z",
    author="user",
    timestamp=1.7e9,
    session_id="s",
    event_id="e",
    kind="fact",
    source="page",
    trust="unverified",
    custom_metadata={"color": "red", "size": 2, "deep": {"share": 0.5, "is": True}},
    importance=0.5,
    valid_until=4e9,
    supersedes="older",
)
EVENT = Event("a zebra spoke", "user", 1.7e9, "e2", {"color": "red", **_TTL})
TURNS = [
    EVENT,
    {"role": "user", "content": "a zebra slept", "id": "e3", "importance": 0.5},
]
FILTER = Filter(
    session_id="s",
    after=1.0,
    before=5e9,
    author="user",
    kind=["fact", "episode"],
    metadata={"color": "red", "size": {"$gte": 1, "$in": [1, 2]}},
    not_kind="other",
    trust=["unverified"],
    source="page",
    min_trust="unverified",
    not_session_id=["t"],
    not_id=["q"],
    session_prefix="s",
    kind_prefix=["f", "e"],
)
PUTS = [
    Put(("notes", "a"), "k", {"n": 1, "list": [0.5, True, "x"]}, VECTOR, 86_400.0),
    Drop(("notes", "b"), "k"),
]

# Plain arguments by name; an argument with a default and without an entry has that.
BASE: dict[str, Any] = {
    "memories": [
        ENTRY,
        {"text": "another zebra", "kind": "fact", "metadata": {"n": 1}},
    ],
    "vectors": [VECTOR, None],
    "events": TURNS,
    "messages": None,
    "session_id": "s",
    "custom_metadata": {"color": "red", "n": 1},
    "idempotency_key": None,
    "query": "zebra",
    "filter": FILTER,
    "memory_id": "kept",
    "memory_ids": ["kept", "absent"],
    "content": "a zebra ran",
    "author": "user",
    "kind": "fact",
    "source": "page",
    "timestamp": 1.7e9,
    "importance": 0.5,
    "valid_until": 4e9,
    "ttl": 86_400.0,
    "token": "token",
    "operations": PUTS,
    "keys": [(("notes", "a"), "k")],
    "namespace": ("notes",),
    "vector": VECTOR,
    "where": {"n": 1, "list": {"$exists": True}},
    "after": None,
    "path": None,  # see `path_for`
    "embedder": None,
    "ranking": vecall.Ranking(weights={"dense": 0.5}, authors=("user",), half_life=9e9),
    "older_than": None,
    "scopes": ["user"],
    "rights": vecall.Rights(min_trust="unverified"),
}
_OWN: dict[str, dict[str, Any]] = {
    # `vectors` is a flag here, and a list of vectors elsewhere.
    "export_jsonl": {"vectors": True},
    "import_jsonl": {"vectors": True},
    "delete_app": {"confirm": True},  # of the user's own app
}


@dataclass
class Call:
    """One method with plain arguments."""

    face: str
    name: str
    function: Callable[..., Any]
    arguments: dict[str, Any]
    is_async: bool = False


def calls_of(face: str, owner: object, app: str, user: str) -> list[Call]:
    """The public methods of an object, with arguments for a user."""
    found = []
    for name, function in inspect.getmembers(owner, callable):
        if name.startswith("_") or name in _NOT_CALLS or inspect.isclass(function):
            continue
        parameters = inspect.signature(function).parameters.values()
        arguments = {
            each.name: _plain(name, each, app, user)
            for each in parameters
            if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
        }
        is_async = inspect.iscoroutinefunction(function)
        found.append(Call(face, name, function, arguments, is_async))
    return found


def _plain(name: str, each: inspect.Parameter, app: str, user: str) -> Any:
    if each.name == "app_name":
        return app
    if each.name == "user_id":
        return user
    if each.name == "session":
        return Session(app, user, "s", [EVENT])
    if each.name in _OWN.get(name, {}):
        return _OWN[name][each.name]
    if each.name in BASE:
        return BASE[each.name]
    if each.default is each.empty:
        msg = f"{name}({each.name}): give it a plain value in BASE"
        raise AssertionError(msg)
    return each.default


def path_for(name: str, exported: str) -> Any:
    """What a call reads or writes if its path is not the odd value."""
    if name == "backup":
        return f"copy{next(_numbers)}.db"
    return io.BytesIO(exported.encode()) if name == "import_jsonl" else io.StringIO()
