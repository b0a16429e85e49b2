"""`MemoryService.user`: each method does what the service's does with both names."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import inspect
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest
from helpers.all_methods import WRITING, corpus_in
from helpers.clocks import SettableClock
from helpers.memories import ALICE, BOB, Held, refuses, texts, until
from helpers.methods import coroutines
from helpers.services import PAIRS
from helpers.user_memory_calls import BOUND, arguments_of, handles, methods
from helpers.write_hooks import dump, dump_without_random_bits
from vecall import (
    ClosedError,
    InMemoryMemoryService,
    InvalidArgumentError,
    LimitExceededError,
    Limits,
    MemoryService,
    NotFoundError,
    ReadOnlyError,
    ScopeError,
    Scopes,
    SyncUserMemory,
    UserMemory,
    VectorMemoryService,
)
from vecall.limits import APP_WIDE, SHARED_APP

NAMES = {"app_name", "user_id"}
FACES = ["blocking", "on a loop"]


def without_names(method: Any) -> dict[str, tuple[Any, str]]:
    """Default and annotation of each parameter but `self` and both names."""
    return {
        each.name: (each.default, str(each.annotation).replace("builtins.", ""))
        for each in inspect.signature(method).parameters.values()
        if each.name not in {*NAMES, "self"}
    }


def test_every_method_that_takes_both_names_is_bound():
    """A new method of the service fails this until the handle has it."""
    named = {
        name
        for name, method in coroutines().items()
        if inspect.signature(method).parameters.keys() >= NAMES
        and not name.startswith("admin.")
    }
    assert set(BOUND.values()) == named
    assert methods(UserMemory).keys() == methods(SyncUserMemory).keys() == BOUND.keys()


@pytest.mark.parametrize("name", BOUND)
def test_a_bound_method_takes_all_that_the_services_takes(name):
    expected = without_names(coroutines()[BOUND[name]])
    missing = inspect.Parameter.empty
    if name == "delete":  # None would delete nothing
        expected["memory_id"] = (missing, "str")
    if name == "end_session":  # a session says itself whose it is
        expected = {"session_id": (missing, "str")}
    for handle in (UserMemory, SyncUserMemory):
        method = methods(handle)[name]
        assert without_names(method) == expected
        assert not inspect.signature(method).parameters.keys() & NAMES
        assert inspect.iscoroutinefunction(method) == (handle is UserMemory)


class Recording:
    """A service that notes its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        def called(**arguments: Any) -> str:
            self.calls.append((name, arguments))
            return f"the result of {name}"

        return called


@pytest.mark.parametrize("name", BOUND)
def test_every_argument_arrives_under_its_own_name(name):
    service = Recording()
    handle = SyncUserMemory(service, {"app_name": "app", "user_id": "alice"})
    method = getattr(handle, name)
    given = {each: object() for each in inspect.signature(method).parameters}
    result = method(**given)
    assert service.calls == [(BOUND[name], {**ALICE, **given})]
    returns = inspect.signature(method).return_annotation
    assert result == (None if returns == "None" else f"the result of {BOUND[name]}")


def plain(value: Any) -> Any:
    """A result without what chance makes."""
    if hasattr(value, "token"):
        return dataclasses.replace(value, token="")
    return value


@pytest.mark.parametrize("name", BOUND)
def test_a_bound_method_does_what_the_services_does(open_service, tmp_path, name):
    """The same result, and after it the same file, from the same file."""
    clock = SettableClock()
    corpus = corpus_in(tmp_path, open_service, clock=clock)
    before, given = dump_without_random_bits(corpus), arguments_of(name)
    results, files = [], []
    for face in (None, 0, 1):
        path = tmp_path / f"{face}.db"
        path.write_bytes(corpus.read_bytes())
        with open_service(path, clock=clock, maintenance_interval=None) as service:
            if face is None:
                result = getattr(service.sync, BOUND[name])(**ALICE, **given)
            else:
                result = handles(service, **ALICE)[face](name, **given)
            results.append(plain(result))
        files.append(dump_without_random_bits(path))
    assert results[0] == results[1] == results[2]
    if name == "propose_forget":  # the file has a digest of the token
        assert [len(file) for file in files] == [len(before) + 1] * 3
    else:
        assert files[0] == files[1] == files[2]
        assert (files[0] != before) == (BOUND[name] in WRITING)


@pytest.mark.parametrize("kind", [InMemoryMemoryService, VectorMemoryService])
def test_services_in_memory_have_users_too(kind):
    options = {} if kind is InMemoryMemoryService else {"embedder": len_of}
    with kind(**options) as service:
        alice = service.sync.user(**ALICE)
        alice.add(["zebra"])
        assert [m.text for m in alice.search("zebra")] == ["zebra"]
        assert service.sync.user(**BOB).list() == []


def len_of(texts: list[str]) -> list[list[float]]:
    return [[1.0, float(len(text))] for text in texts]


@pytest.mark.parametrize("face", range(2), ids=FACES)
def test_users_whose_names_are_easily_confused_see_their_own_alone(open_service, face):
    service = open_service()
    users = [handles(service, *pair)[face] for pair in PAIRS]
    for number, call in enumerate(users):
        call("add", [{"id": "same", "content": f"zebra {number}"}])
    for number, call in enumerate(users):
        assert [m.text for m in call("search", "zebra", top_k=100)] == [
            f"zebra {number}"
        ]
        assert [m.text for m in call("list")] == [f"zebra {number}"]
        assert call("get", "same").text == f"zebra {number}"
    for number, call in enumerate(users):
        assert call("delete_all") == 1
        assert call("list") == []
        for other, its in enumerate(users[number + 1 :], number + 1):
            assert its("get", "same").text == f"zebra {other}"


@pytest.mark.parametrize("face", range(2), ids=FACES)
def test_no_method_reaches_what_another_user_has(open_service, tmp_path, face):
    """With the ids, the session and the token of the other one."""
    corpus = corpus_in(tmp_path, open_service)
    service = open_service(corpus, maintenance_interval=None)
    states = ("live", "archived", "quarantined")

    def alices() -> list[Any]:
        alice = service.sync.user(**ALICE)
        listed = [entry for state in states for entry in alice.list(state=state)]
        return [(entry, alice.history(entry.id)) for entry in listed]

    before = alices()
    assert len(before) == 8
    bob = handles(service, **BOB)[face]
    for name in BOUND:
        try:
            result = bob(name, **arguments_of(name))
        except NotFoundError:
            continue
        if name not in ("add", "add_events", "update"):
            assert "zebra fact" not in repr(result), name
    assert alices() == before
    assert service.sync.admin.stats()["waiting_turns"] == 1


@pytest.mark.parametrize("name", BOUND)
def test_names_cannot_be_given_to_a_call(open_service, name):
    alice = open_service().sync.user(**ALICE)
    for each in NAMES:
        with pytest.raises(TypeError, match=each):
            getattr(alice, name)(**arguments_of(name), **{each: "bob"})


def test_a_handle_names_its_user_for_good(open_service):
    service = open_service()
    for handle in (service.user("app", "alice"), service.sync.user("app", "alice")):
        assert (handle.app_name, handle.user_id) == ("app", "alice")
        for each in (*NAMES, "limits"):
            with pytest.raises(AttributeError):
                setattr(handle, each, "bob")


BAD_NAMES = ["", "nul\0", "\ud800", 7, None, b"bytes", SHARED_APP, APP_WIDE]


@pytest.mark.parametrize("bad", BAD_NAMES, ids=map(ascii, BAD_NAMES))
@pytest.mark.parametrize("as_", sorted(NAMES))
def test_a_bad_name_is_refused_where_the_handle_is_made(open_service, as_, bad):
    """With the error of a call that takes the name."""
    service = open_service()
    names = {**ALICE, as_: bad}
    with pytest.raises(InvalidArgumentError) as expected:
        service.sync.list_memories(**names)
    for face in (service, service.sync):
        with pytest.raises(type(expected.value)) as caught:
            face.user(**names)
        assert str(caught.value) == str(expected.value)


def test_a_long_name_is_refused_by_the_limit_of_the_service(open_service):
    service = open_service(limits=Limits(max_name_bytes=4))
    service.user("app", "\u00e9\u00e9")
    refuses(LimitExceededError, lambda: service.user("app", "\u00e9\u00e9x"))


@pytest.mark.parametrize("face", range(2), ids=FACES)
def test_scopes_are_those_of_the_service(open_service, face):
    places = ("shared", "app")
    service = open_service(scopes=Scopes(read=places, write=places))
    alice, bob = (handles(service, **who)[face] for who in (ALICE, BOB))
    elsewhere = handles(service, "other", "alice")[face]
    for scope in places:
        alice("add", [{"id": "f", "content": f"zebra {scope}"}], scope=scope)
    assert {m.text for m in alice("search", "zebra")} == {"zebra shared", "zebra app"}
    assert [m.text for m in bob("search", "zebra")] == ["zebra app"]
    assert [m.text for m in elsewhere("search", "zebra")] == ["zebra shared"]
    assert alice("search", "zebra", scopes=[]).memories == []
    assert bob("get", "f", scope="app").text == "zebra app"
    refuses(NotFoundError, lambda: bob("get", "f", scope="shared"))
    assert alice("delete_all", scope="shared") == 1
    assert elsewhere("list", scope="shared") == []
    closed = handles(open_service(), **ALICE)[face]
    for scope in places:
        refuses(ScopeError, lambda s=scope: closed("add", ["zebra"], scope=s))
        refuses(ScopeError, lambda s=scope: closed("list", scope=s))


@pytest.mark.parametrize("face", range(2), ids=FACES)
def test_a_service_that_only_reads_has_handles_that_only_read(
    open_service, tmp_path, face
):
    corpus = corpus_in(tmp_path, open_service)
    before = dump(corpus)
    service = open_service(corpus, read_only=True)
    alice = handles(service, **ALICE)[face]
    for name, method in BOUND.items():
        given = arguments_of(name)
        if method in WRITING:
            refuses(ReadOnlyError, lambda n=name, g=given: alice(n, **g))
        else:
            assert alice(name, **given)
    service.close()
    assert dump(corpus) == before


@pytest.mark.parametrize("face", range(2), ids=FACES)
def test_no_method_works_after_the_service_is_closed(open_service, tmp_path, face):
    service = open_service(tmp_path / "m.db")
    alice = handles(service, **ALICE)[face]
    alice("add", ["zebra"])
    service.close()
    for name in BOUND:
        refuses(ClosedError, lambda n=name: alice(n, **arguments_of(n)))


def test_a_handle_alone_holds_the_service_open(tmp_path):
    """And nothing holds the handle."""
    alice = MemoryService(tmp_path / "m.db", embedder=None).user(**ALICE)
    gone = weakref.ref(alice._service)
    asyncio.run(alice.add(["zebra"]))
    gc.collect()
    assert [m.text for m in asyncio.run(alice.search("zebra"))] == ["zebra"]
    gone().close()
    del alice
    gc.collect()
    assert gone() is None


def test_a_cancelled_call_harms_no_other(open_service, in_time):
    held = Held()
    service = open_service(embedder=held)
    alice = service.user(**ALICE)

    async def work() -> None:
        adds = [
            asyncio.ensure_future(alice.add([f"zebra {number}"])) for number in range(9)
        ]
        await until(held.entered.is_set)
        for add in adds[::2]:
            add.cancel()
        await asyncio.sleep(0)
        held.go_on.set()
        results = await asyncio.gather(*adds, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in results[::2])
        assert all(isinstance(each, list) for each in results[1::2])

    in_time(lambda: asyncio.run(work()))
    assert set(texts(service)) >= {f"zebra {number}" for number in range(1, 9, 2)}


FORK = """
import asyncio, os, sys, vecall
service = vecall.MemoryService(sys.argv[1], embedder=None)
alice, sync = service.user("app", "alice"), service.sync.user("app", "alice")
bob = service.sync.user("app", "bob")
sync.add([{"id": "p", "content": "zebra parent"}])
child = os.fork()
if child == 0:
    try:
        asyncio.run(alice.add([{"id": "c", "content": "zebra child"}]))
        found = {memory.text for memory in sync.search("zebra")}
        both = found == {"zebra parent", "zebra child"}
        os._exit(0 if both and not bob.list() else 3)
    finally:
        os._exit(4)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(code, *sorted(memory.id for memory in sync.list()), len(bob.list()))
service.close()
"""


def test_a_handle_crosses_a_fork_as_its_service_does(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-c", FORK, tmp_path / "m.db"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.split() == ["0", "c", "p", "0"], done.stderr[-2000:]
