"""Values of other types in every argument of every public method.

Found by reflection: a new method or argument is covered without a change here.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import io
import random
import warnings
from contextlib import suppress
from pathlib import Path

import pytest
import vecall
from helpers.campaigns import SCALE
from helpers.odd_calls import VECTOR, Call, calls_of, path_for
from helpers.odd_values import ODD, alike, leaves, replaced
from vecall import MemoryService, Put, StorageOptions, VecallError
from vecall.embedders import CallerVectors
from vecall.index.partition_cache import examine_storage

APP = "app"
BLOCKING = ("sync", "admin.sync", "items.sync", "sync.user", "sync.user.items")
FACES = (*BLOCKING, "", "admin", "items", "user", "user.items")
NOTHING_THERE = ("confirm", "release", "restore")  # for their plain arguments
NAMES_OF = {  # what a message may call an argument
    "memories": ("entries", "entry"),
    "events": ("event", "turn"),
    "messages": ("events", "event"),
    "older_than": ("ttl", "summarizer"),
    "content": ("memories",),
    "filter": ("where",),
    "scopes": ("scope",),
    "path": ("line",),  # of a file that another call wrote
    "limit": ("top_k",),
    "app_name": ("part.app",),
    "user_id": ("part.user",),
    "keys": ("namespace",),
    "vectors": ("vector",),
}


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def opened(place):
    storage = StorageOptions(
        maintenance_interval=None, durability="process", min_free_bytes=0
    )
    return MemoryService(place, embedder=CallerVectors(4), storage=storage)


def filled(service, app, user):
    """A user with memories and items."""
    whose = {"app_name": app, "user_id": user}
    kept = {"id": "kept", "text": "a kept zebra", "kind": "fact", "author": "user"}
    older = {"id": "older", "text": "an old zebra"}
    memories = [kept, "x", older]
    service.sync.add_memory(**whose, memories=memories, vectors=[VECTOR, None, None])
    service.items.sync.write([Put(("notes", "a"), "k", {"n": 1}, VECTOR)], **whose)


def owner_of(service, face, app, user):
    whose = {"app_name": app, "user_id": user}
    return {
        "": lambda: service,
        "sync": lambda: service.sync,
        "admin": lambda: service.admin,
        "admin.sync": lambda: service.admin.sync,
        "items": lambda: service.items,
        "items.sync": lambda: service.items.sync,
        "user": lambda: service.user(**whose),
        "sync.user": lambda: service.sync.user(**whose),
        "user.items": lambda: service.user(**whose).items,
        "sync.user.items": lambda: service.sync.user(**whose).items,
    }[face]()


def names(place):
    """What of a message says where the value was."""
    said = [str(part) for part in place if isinstance(part, str)]
    return [*said, *(name for part in said for name in NAMES_OF.get(part, ()))]


class Trial:
    """Calls with one odd value each."""

    def __init__(self, loop):
        self.loop, self.chance = loop, random.Random(29)
        self.exported = ""
        self.some: int | None = 2  # odd values for each place; None tries all
        self.share = 1.0  # of the places
        self.tried = self.accepted = 0
        self.arguments: set[tuple[str, str, str]] = set()
        self.faults: list[str] = []

    def every(self, call: Call, made=None):
        self.one(call, (), "plain", call.arguments, made)
        for place, plain in leaves(call.arguments):
            if not place or self.chance.random() > self.share:
                continue
            values = [("alike", each) for each in alike(plain)]
            odd = list(ODD.items())
            if self.some is not None:
                values = self.chance.sample(values, min(1, len(values)))
                odd = self.chance.sample(odd, self.some)
            values += odd
            for label, value in values:
                self.one(call, place, label, value, made)

    def one(self, call, place, label, value, made):
        self.tried += 1
        self.arguments.add((call.face, call.name, str(place[:1])))
        where = f"{call.face}.{call.name}{place} = {label} {type(value).__name__}"
        try:
            given = dict(replaced(call.arguments, place, value))
            if given.get("path", "") is None and place[:1] != ("path",):
                given["path"] = path_for(call.name, self.exported)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = call.function(**given)
                if inspect.iscoroutine(result):
                    result = self.loop.run_until_complete(result)
        except VecallError as error:
            self.refused(error, place, label, where)
        except Exception as error:
            self.faults.append(f"{where}: {type(error).__name__}: {error}")
        else:
            self.accepted += 1
            if made is not None:
                made(result, where)

    def refused(self, error, place, label, where):
        message = str(error)
        if "SECRET" in message:
            self.faults.append(f"{where}: tells the value: {message}")
        if label == "alike" and isinstance(error, vecall.InvalidTypeError):
            self.faults.append(f"{where}: refused: {message}")
        if isinstance(error, vecall.NotFoundError | vecall.ConflictError):
            if label == "plain" and not any(each in where for each in NOTHING_THERE):
                self.faults.append(f"{where}: refused: {message}")
            return
        if label == "plain" and where.endswith("reembed() = plain dict"):
            return  # there is no other embedder
        if message.startswith(("backup: a database", "vectors: expected 1, one")):
            return  # one text is one memory, and has one vector
        if not any(name in message for name in names(place)):
            self.faults.append(f"{where}: does not name it: {message}")


def exported(service, app, user):
    lines = io.StringIO()
    service.sync.admin.export_jsonl(lines, app_name=app, user_id=user)
    return lines.getvalue()


def check_reads(service, app, user):
    whose = {"app_name": app, "user_id": user}
    memory = service.sync
    listed = memory.list_memories(**whose, limit=1000, include_expired=True)
    for each in listed:
        for field in dataclasses.fields(each):
            found = getattr(each, field.name)
            assert type(found) in (str, float, dict, type(None)), field.name
        with suppress(vecall.NotFoundError):  # it has expired
            memory.memory_history(**whose, memory_id=each.id)
    memory.get_memories(**whose, memory_ids=[each.id for each in listed])
    memory.search_memory(**whose, query="zebra odd", top_k=100)
    memory.search_memory(**whose, query="", vector=VECTOR)
    memory.count_memories(**whose)
    items = service.items.sync
    items.find_all((), **whose)
    items.find((), **whose, vector=VECTOR)
    items.namespaces((), **whose)
    exported(service, app, user)


@pytest.mark.campaign
def test_no_value_of_another_type_makes_a_user_unreadable(place, capsys):
    service = opened(place)
    loop = asyncio.new_event_loop()
    filled(service, "neighbours", "bob")
    trial = Trial(loop)
    if SCALE >= 10:
        trial.some = None
    else:  # a second or three for each storage
        trial.some = 2 if place is None else 1
        share = 1.0 if place is None else 0.7 if isinstance(place, Path) else 0.3
        trial.share = share * (1.0 if SCALE >= 1 else 0.25 if SCALE >= 0.5 else 0.1)
    try:
        users = []
        for face in FACES if SCALE >= 10 or place is None else BLOCKING:
            probe = owner_of(service, face, APP, "probe")
            for number in range(len(calls_of(face, probe, APP, "probe"))):
                if SCALE < 1 and isinstance(place, str) and number % 4:
                    continue
                app, user = f"{APP} {len(users)}", "alice"
                filled(service, app, user)
                users.append(app)
                owner = owner_of(service, face, app, user)
                call = calls_of(face, owner, app, user)[number]
                trial.exported = exported(service, app, user)
                trial.every(call)
                check_reads(service, app, user)
        check_reads(service, "odd", "alice")  # of those whose own name was odd
        check_reads(service, "neighbours", "bob")
        bobs = service.sync.list_memories(app_name="neighbours", user_id="bob")
        assert len(bobs) == 3
    finally:
        service.close()
        loop.close()
    if place is not None:
        some = users if SCALE >= 10 else trial.chance.sample(users, 20)
        check_fresh(place, some)
    with capsys.disabled():
        print(  # noqa: T201 -- the figures of the results
            f"\n{len(trial.arguments)} arguments, {trial.tried} values, "
            f"{trial.accepted} accepted, {len(trial.faults)} faults"
        )
    assert not trial.faults, "\n".join(trial.faults)


def check_fresh(place, users):
    """Another process's view: all is read from the storage; doctor loads every user."""
    with opened(place) as service:
        for app in users:
            check_reads(service, app, "alice")
        check_reads(service, "neighbours", "bob")
    findings = examine_storage(place)
    said = {each.about: each.message for each in findings if each.level == "error"}
    assert said.keys() <= {"fsync", "full_page_writes"}, said
    loading = [each for each in findings if each.about == "loading"]
    assert [each.level for each in loading] == ["ok"]


# Each with plain values of its required fields, and of some others.
GROUPS = {
    vecall.Limits: {},
    vecall.Quota: {"memories": 100, "bytes": 100_000, "eviction": "oldest"},
    vecall.Rights: {"min_trust": "unverified"},
    vecall.Scopes: {"read": ["app"], "write": ["shared"]},
    vecall.StorageOptions: {"min_free_bytes": 0, "maintenance_interval": 60.0},
    vecall.WritePolicy: {"history_ttl": 60.0, "include": ["calls"]},
    vecall.SearchOptions: {"min_similarity": 0.1, "authors": ["user"]},
    vecall.Ranking: {
        "authors": ["user"], "weights": {"dense": 0.5}, "half_life": 60.0,
        "collapse": 0.5, "diversity": 0.5,
    },
    vecall.ConsolidationPlan: {"similarity": 0.5, "fold": ["facts"]},
    vecall.Inactivity: {"inactivity_ms": 1000},
    vecall.MessageCount: {"message_count": 3},
    MemoryService: {"path": ":memory:", "top_k": 5, "min_confidence": 0.0, "ttl": 60.0,
                    "trigger": "session_end"},
}  # fmt: skip
ARGUMENT_OF = {
    vecall.Limits: "limits",
    vecall.StorageOptions: "storage",
    vecall.WritePolicy: "writes",
    vecall.SearchOptions: "search",
    vecall.ConsolidationPlan: "consolidation",
    vecall.Inactivity: "trigger",
    vecall.MessageCount: "trigger",
}


def test_every_group_of_options_is_covered():
    found = {
        each
        for name in vecall.__all__
        if isinstance(each := getattr(vecall, name), type)
        and dataclasses.is_dataclass(each)
        and "__post_init__" in vars(each)
    }
    others = {
        vecall.MemoryEntry, vecall.Verdict, vecall.Calibration, vecall.ScoredMemory,
        vecall.SessionSummary, vecall.MemoryConfig,
    }  # fmt: skip
    assert found - others <= GROUPS.keys()


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.__name__)
def test_an_option_of_another_type_is_converted_or_refused(
    group, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    loop = asyncio.new_event_loop()
    trial = Trial(loop)
    trial.some = None if SCALE >= 10 else 8

    def use(made, where):
        if isinstance(made, MemoryService):
            check_use(made)
            return
        options = {"storage": vecall.StorageOptions(maintenance_interval=None)}
        if group in ARGUMENT_OF:
            options[ARGUMENT_OF[group]] = made
        if group is vecall.Quota:
            options["writes"] = vecall.WritePolicy(quota=made)
        if group is vecall.Scopes:
            options["writes"] = vecall.WritePolicy(scopes=made)
        if group is vecall.Ranking:
            options["search"] = vecall.SearchOptions(ranking=made)
        try:
            service = MemoryService(None, embedder=CallerVectors(4), **options)
        except (vecall.ConfigError, vecall.LimitExceededError):
            return  # such as a consolidation without a summarizer
        check_use(service)

    parameters = inspect.signature(group).parameters.values()
    plain = {each.name: each.default for each in parameters} | GROUPS[group]
    call = Call("", group.__name__, group, plain)
    if group is MemoryService:
        call.arguments["embedder"] = None
    try:
        trial.every(call, use)
    finally:
        loop.close()
    assert trial.accepted
    assert not trial.faults, "\n".join(trial.faults)


_REFUSED = (vecall.ReadOnlyError, vecall.LimitExceededError, vecall.StorageFullError)


def check_use(service):
    """A small service writes and reads."""
    with service:
        try:
            service.sync.add_memory(app_name="a", user_id="u", memories=["a zebra"])
        except (
            vecall.ReadOnlyError,
            vecall.LimitExceededError,
            vecall.StorageFullError,
        ):
            return
        with suppress(vecall.ConfigError):  # a floor that needs a vector
            service.sync.search_memory(app_name="a", user_id="u", query="zebra")
        service.sync.list_memories(app_name="a", user_id="u", limit=1)
