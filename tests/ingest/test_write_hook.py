"""The hook that judges every write: what it sees, and what comes of its verdicts."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from typing import Any

import pytest
from helpers.embedders import Recorder
from helpers.memories import ALICE, WAIT_S, refuses, until
from helpers.sessions import session, turn
from helpers.write_hooks import (
    MASK,
    SECRET,
    AsyncReviewHook,
    ReviewHook,
    bytes_of,
    dump,
    found,
    listed,
    twins,
)
from vecall import (
    ConfigError,
    InvalidArgumentError,
    LeftOut,
    MemoryEntry,
    PendingWrite,
    Verdict,
    WriteHookError,
    WriteRejectedError,
    redact,
)
from vecall.hooks import ALLOW, QUARANTINE, REJECT


@pytest.fixture(params=[ReviewHook, AsyncReviewHook], ids=["plain", "coroutine"])
def judge(request) -> ReviewHook:
    hook: ReviewHook = request.param()
    return hook


def test_the_hook_sees_each_memory_once_with_all_that_is_known(open_service, judge):
    """S2.5: who, where, what, and where it comes from."""
    service = open_service(on_write=judge)
    entry = MemoryEntry(
        {"parts": [{"text": "zebra"}, {"text": "okapi"}], "role": "user"},
        id="f",
        author="agent",
        timestamp=5.0,
        session_id="s",
        event_id="e",
        kind="fact",
        source="tool:web",
        trust="third-party-public",
        custom_metadata={"n": [1]},
        importance=0.25,
        valid_until=4e9,
        supersedes=None,
    )
    service.sync.add_memory(**ALICE, memories=[entry, "plain"])
    events = [turn(1), {"author": "user"}, {**turn(2), "partial": True}, turn(3)]
    service.sync.add_session_to_memory(session(*events))
    first, second, third, fourth = judge.seen
    assert {(each.app_name, each.user_id) for each in judge.seen} == {("app", "alice")}
    assert first.memory == entry
    assert second.memory.text == "plain"
    assert second.memory.id is not None
    assert [third.memory.event_id, fourth.memory.event_id] == ["e1", "e3"]
    assert {third.memory.kind, third.memory.session_id} == {"episode", "s"}
    assert third.memory.score is third.memory.created_at is None


def test_the_hook_cannot_change_what_it_is_shown(open_service):
    """S2.25: its word is its verdict."""

    def hook(write: PendingWrite) -> Verdict:
        write.memory.custom_metadata["n"] = "forged"
        for target, name in ((write, "user_id"), (write.memory, "trust")):
            with pytest.raises(AttributeError):
                setattr(target, name, "mallory")
        return ALLOW

    service = open_service(on_write=hook)
    entry = MemoryEntry("zebra", custom_metadata={"n": 1})
    service.sync.add_memory(**ALICE, memories=[entry])
    (stored,) = service.sync.search_memory(**ALICE, query="zebra").memories
    assert stored.custom_metadata == entry.custom_metadata == {"n": 1}


def test_what_is_allowed_is_written_as_without_a_hook(open_service, judge):
    """The gate changes nothing by itself."""
    services = [open_service(on_write=judge), open_service()]
    for service in services:
        service.sync.add_session_to_memory(session(turn(1), turn(2)))
        service.sync.add_memory(**ALICE, memories=["a word", {"content": "word"}])
    first, second = (found(service, "turn word") for service in services)
    assert first == second
    assert len(first) == 4


def test_each_memory_is_judged_by_itself(open_service, judge):
    """In a session what is refused is left out; the rest is written, in order."""
    service = open_service(on_write=judge)
    events = [
        turn(1, "zebra one"),
        turn(2, "refused zebra"),
        turn(3, f"zebra {SECRET}"),
        turn(4, "held zebra"),
        turn(5, "dropped zebra"),
        turn(6, "zebra six"),
    ]
    ids = service.sync.add_session_to_memory(session(*events))
    assert [each.index for each in ids.left_out] == [1, 4]
    assert {each.reason for each in ids.left_out} == {"rejected"}
    assert len(ids.stored) == 4
    assert found(service) == ["zebra [masked]", "zebra one", "zebra six"]
    assert listed(service, "quarantined") == ["held zebra"]
    answer = service.sync.search_memory(**ALICE, query="zebra one", top_k=1).memories
    around = service.sync.expand_session(
        **ALICE, memory_id=answer[0].id, turns_before=9, turns_after=9
    )
    assert [each.text for each in around] == ["zebra one", f"zebra {MASK}", "zebra six"]


def test_a_refused_memory_takes_its_call_with_it(open_service, tmp_path, judge):
    """An explicit memory that is refused: nothing of the call is written."""
    path = tmp_path / "m.db"
    with open_service(path, on_write=judge, maintenance_interval=None) as service:
        service.sync.add_memory(**ALICE, memories=[MemoryEntry("zebra", id="f")])
        before = dump(path)
        for call in twins(service):
            refuses(
                WriteRejectedError,
                lambda c=call: c(
                    "add_memory",
                    **ALICE,
                    memories=["zebra two", "refused zebra xyzzysecret", "held"],
                ),
            )
            refuses(
                WriteRejectedError,
                lambda c=call: c(
                    "update_memory", **ALICE, memory_id="f", content="refused"
                ),
            )
        assert found(service) == ["zebra"]
    assert dump(path) == before


def test_a_refused_turn_is_refused_again_and_may_be_let_in_later(open_service, judge):
    """Nothing is remembered of a refusal."""
    service = open_service(on_write=judge)
    events = [turn(1, "zebra one"), turn(2, "refused zebra")]
    for _ in range(2):
        ids = service.sync.add_session_to_memory(session(*events))
        assert ids.left_out == (LeftOut(1, "rejected"),)
        assert found(service) == ["zebra one"]
    del judge.rules["refused"]
    assert len(service.sync.add_session_to_memory(session(*events))) == 2
    assert found(service) == ["refused zebra", "zebra one"]


@pytest.mark.parametrize("way", ["entry", "turn", "events", "observed", "update"])
def test_what_is_redacted_is_nowhere(open_service, tmp_path, judge, way):
    """Not as text, not as content, not in a vector, not where turns wait."""
    folder = tmp_path / "data"
    folder.mkdir()
    embedder = Recorder()
    service = open_service(folder / "m.db", on_write=judge, embedder=embedder)
    parts = {"parts": [{"text": "zebra"}, {"text": SECRET}], "role": "user"}
    event = {"id": "e", "author": "user", "content": parts}
    if way == "entry":
        service.sync.add_memory(**ALICE, memories=[{"content": parts}])
    elif way == "turn":
        service.sync.add_session_to_memory(session(event))
    elif way == "events":
        service.sync.add_events_to_memory(**ALICE, events=[event])
    elif way == "observed":
        service.sync.observe_session(session(event))
        service.sync.admin.purge()
        assert SECRET.encode() not in bytes_of(folder)
        service.sync.end_session(**ALICE, session_id="s")
    else:
        service.sync.add_memory(**ALICE, memories=[MemoryEntry("zebra", id="f")])
        service.sync.update_memory(**ALICE, memory_id="f", content=parts)
    (memory,) = service.sync.search_memory(**ALICE, query="zebra").memories
    assert memory.content == f"zebra\n{MASK}"
    assert not [text for text in embedder.asked if SECRET in text]
    service.sync.admin.purge()
    service.sync.admin.export_jsonl(folder / "export")
    service.sync.admin.backup(folder / "backup")
    service.close()
    assert SECRET.encode() not in bytes_of(folder)
    assert MASK.encode() in bytes_of(folder)


def test_a_redacted_memory_that_is_told_again_is_known(open_service, tmp_path, judge):
    """It is neither written nor embedded a second time."""
    path, embedder = tmp_path / "m.db", Recorder()
    service = open_service(path, on_write=judge, embedder=embedder)
    events = [{"author": "user", "text": f"zebra {SECRET}", "timestamp": 1.0}]
    ids = service.sync.add_session_to_memory(session(*events))
    before, asked = dump(path), len(embedder.asked)
    assert service.sync.add_session_to_memory(session(*events)) == ids
    assert dump(path) == before
    assert len(embedder.asked) == asked


def test_a_redaction_to_nothing_writes_nothing(open_service, judge):
    """S2.25: a blank memory there never is."""
    service = open_service(on_write=judge)
    ids = service.sync.add_memory(**ALICE, memories=["dropped", "zebra"])
    assert ids.left_out == (LeftOut(0, "rejected"),)
    assert service.sync.add_session_to_memory(session(turn(1, "dropped"))) == [None]
    assert service.sync.admin.stats()["memories"] == 1


class Broken:
    """Fails with a message that quotes what it was shown."""

    def __init__(self, error: type[BaseException], after: int) -> None:
        self.error = error
        self.after = after

    def __call__(self, write: PendingWrite) -> Verdict:
        self.after -= 1
        if self.after < 0:
            raise self.error(write.memory.text)
        return ALLOW


class AsyncBroken(Broken):
    async def __call__(self, write: PendingWrite) -> Verdict:  # type: ignore[override]
        await asyncio.sleep(0)
        return Broken.__call__(self, write)


@pytest.mark.parametrize("kind", [Broken, AsyncBroken])
@pytest.mark.parametrize("error", [ValueError, KeyError, StopIteration, TimeoutError])
def test_a_hook_that_fails_lets_nothing_in(open_service, tmp_path, kind, error, caplog):
    """Fail closed: no part of the call, no word of the memory in any message."""
    path = tmp_path / "m.db"
    open_service(path).close()
    before = dump(path)
    memories = ["zebra", "okapi xyzzysecret", "gnu xyzzysecret"]
    for index in (0, 1):
        for way in (0, 1):
            service = open_service(path, on_write=kind(error, 1))
            call = twins(service)[index]
            if way == 0:
                refuses(
                    WriteHookError,
                    lambda c=call: c("add_memory", **ALICE, memories=memories),
                )
            else:
                events = [turn(n, text) for n, text in enumerate(memories)]
                name = ("add_session_to_memory", "observe_session")[index]
                refuses(
                    WriteHookError,
                    lambda c=call, n=name, e=events: c(n, session=session(*e)),
                )
            service.close()
    assert dump(path) == before
    assert "xyzzysecret" not in caplog.text


@pytest.mark.parametrize("through", ["coroutine", "plain function", "mixed"])
def test_a_failing_coroutine_leaves_no_other_behind(open_service, through):
    """No coroutine is made that nobody waits for."""
    count = 0

    async def fails(write: PendingWrite) -> Verdict:
        raise ValueError(write.memory.text)

    def plain(write: PendingWrite) -> Any:
        nonlocal count
        count += 1
        return ALLOW if through == "mixed" and count == 1 else fails(write)

    hook = fails if through == "coroutine" else plain
    service = open_service(on_write=hook)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(WriteHookError):
            service.sync.add_memory(**ALICE, memories=["a", "b", "c", "d"])
        gc.collect()
    assert [str(each.message) for each in caught] == []


def test_a_plain_function_may_return_some_verdicts_to_be_awaited(open_service):
    """Each verdict belongs to its memory, however it came."""

    async def later(verdict: Verdict) -> Verdict:
        await asyncio.sleep(0)
        return verdict

    def hook(write: PendingWrite) -> Any:
        number = int(write.memory.text.split()[1])
        verdict = QUARANTINE if number % 2 else ALLOW
        return later(verdict) if number in (2, 3, 6, 7) else verdict

    service = open_service(on_write=hook)
    service.sync.add_memory(**ALICE, memories=[f"zebra {n}" for n in range(9)])
    assert found(service) == [f"zebra {n}" for n in range(0, 9, 2)]
    assert listed(service, "quarantined") == [f"zebra {n}" for n in range(1, 9, 2)]


@pytest.mark.parametrize("wrong", [None, True, "allow", "xyzzysecret", (), Verdict])
def test_a_verdict_of_another_type_lets_nothing_in(open_service, wrong):
    """Fail closed: None above all, which a hook returns that forgets to."""
    service = open_service(on_write=lambda _: wrong)
    for call in twins(service):
        refuses(
            WriteHookError, lambda c=call: c("add_memory", **ALICE, memories=["zebra"])
        )
        refuses(
            WriteHookError,
            lambda c=call: c("add_session_to_memory", session=session(turn(1))),
        )
    assert service.sync.admin.stats()["memories"] == 0


def test_a_verdict_is_checked_when_it_is_made():
    """A text is there exactly where one is used."""
    for outcome, text in (
        ("permit", None),
        ("allow", "x"),
        ("reject", ""),
        ("redact", None),
        ("redact", 7),
    ):
        with pytest.raises(InvalidArgumentError):
            Verdict(outcome, text)  # type: ignore[arg-type]
    assert redact("x") == Verdict("redact", "x")
    assert (ALLOW.text, REJECT.outcome, QUARANTINE.outcome) == (
        *(None, "reject", "quarantine"),
    )
    with pytest.raises(AttributeError):
        ALLOW.outcome = "reject"  # type: ignore[misc]


def test_a_slow_hook_holds_up_no_event_loop(open_service):
    """And searches go on while it thinks."""
    entered, go_on = threading.Event(), threading.Event()

    def hook(write: PendingWrite) -> Verdict:
        if "slow" in write.memory.text:
            entered.set()
            assert go_on.wait(WAIT_S)
        return ALLOW

    service = open_service(on_write=hook)
    service.sync.add_memory(**ALICE, memories=["zebra"])

    async def work() -> tuple[int, list[str]]:
        adding = asyncio.create_task(
            service.add_memory(**ALICE, memories=["slow zebra"])
        )
        turns = await until(entered.is_set)
        answer = await service.search_memory(**ALICE, query="zebra")
        assert not adding.done()
        go_on.set()
        await adding
        return turns, [memory.text for memory in answer.memories]

    turns, texts = asyncio.run(work())
    assert turns > 0
    assert texts == ["zebra"]
    assert found(service) == ["slow zebra", "zebra"]


def test_the_hook_is_on_a_thread_of_its_own(open_service):
    """Never on the caller's, whose event loop it would stop."""
    threads: list[threading.Thread] = []

    def hook(_: PendingWrite) -> Verdict:
        threads.append(threading.current_thread())
        return ALLOW

    async def slow_hook(_: PendingWrite) -> Verdict:
        return hook(_)

    for each in (hook, slow_hook):
        service = open_service(on_write=each)
        for call in twins(service):
            call("add_memory", **ALICE, memories=["zebra", "okapi"])
    assert len(threads) == 8
    assert threading.current_thread() not in threads
    assert all(thread.name.startswith("vecall-hook") for thread in threads)


def test_a_hook_must_be_a_function(open_service):
    """A name of one is none."""
    for wrong in ("judge", 7, ALLOW, [ReviewHook()]):
        with pytest.raises(ConfigError, match="on_write"):
            open_service(on_write=wrong)
