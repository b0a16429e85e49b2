"""Observed sessions over a vector store: triggers, summaries, failures, bounds."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import Any

import pytest
from helpers.clocks import SettableClock
from helpers.embedders import Recorder
from helpers.memories import ALICE, BOB
from helpers.observed_sessions import Fainting, Llm, compaction, talk
from helpers.options import grouped
from helpers.sessions import session, turn, turns
from helpers.vector_stores.reference import ReferenceVectorStore
from vecall import (
    ClosedError,
    Compaction,
    EmbedderError,
    Inactivity,
    LimitExceededError,
    MessageCount,
    ReentrantCallError,
    StorageOptions,
    SummaryError,
    VectorStoreMemoryService,
)
from vecall.other_storage import in_ram as _session_buffer

WAIT_S = 15.0
WORDS = {n: f"turn word{n}" for n in range(20)}


class Opened:
    """A service over a reference store, with a clock that is set by hand."""

    def __init__(self, **options: Any) -> None:
        self.store = ReferenceVectorStore()
        self.clock = SettableClock()
        given = {
            "embedder": Recorder(),
            "clock": self.clock,
            "maintenance_interval": None,
        }
        self.service = VectorStoreMemoryService(
            self.store, **grouped(**{**given, **options})
        )
        self.sync = self.service.sync

    def texts(self) -> list[str]:
        return sorted(row[2]["text"] for row in self.store.rows)


@pytest.fixture
def open_one():
    opened = []

    def make(**options):
        opened.append(Opened(**options))
        return opened[-1]

    yield make
    for each in opened:
        each.service.close()


def expected(*numbers):
    return sorted(WORDS[n] for n in numbers)


def test_a_session_waits_until_it_ends(open_one):
    """S4.17: what was told before costs nothing, and is remembered once."""
    one = open_one(trigger="session_end")
    for last in (1, 2, 3):
        assert one.sync.observe_session(talk(*range(1, last + 1))) == []
    one.clock.let_pass(1e6)
    assert one.sync.admin.run_due() == 0
    assert one.texts() == []
    assert len(one.sync.end_session(**ALICE, session_id="s")) == 3
    assert one.texts() == expected(1, 2, 3)
    assert one.sync.end_session(talk(1, 2, 3)) == []
    assert len(one.sync.end_session(talk(1, 2, 3, 4))) == 1


def test_so_many_messages_are_remembered_together(open_one):
    """S4.19."""
    one = open_one(trigger=MessageCount(3))
    one.sync.observe_session(talk(1, 2))
    assert one.sync.admin.run_due() == 0
    one.sync.observe_session(talk(1, 2, 3, 4))
    assert one.sync.admin.run_due() == 1
    assert one.texts() == expected(1, 2, 3, 4)
    one.sync.observe_session(talk(1, 2, 3, 4, 5))
    assert one.sync.admin.run_due() == 0


def test_a_silent_session_is_remembered(open_one):
    """S4.18: each new turn begins the wait again."""
    one = open_one(trigger=Inactivity(60_000))
    one.sync.observe_session(talk(1))
    one.clock.let_pass(59)
    one.sync.observe_session(talk(1, 2))
    one.clock.let_pass(59)
    assert one.sync.admin.run_due() == 0
    one.clock.let_pass(1)
    assert one.sync.admin.run_due() == 1
    assert one.texts() == expected(1, 2)


def test_a_thread_remembers_what_is_due():
    """S4.18: nobody calls run_due."""
    store = ReferenceVectorStore()
    with VectorStoreMemoryService(
        store,
        Recorder(),
        trigger=MessageCount(2),
        storage=StorageOptions(maintenance_interval=0.05),
    ) as service:
        service.sync.observe_session(talk(1, 2))
        until = time.monotonic() + WAIT_S
        while len(store.rows) < 2 and time.monotonic() < until:
            time.sleep(0.01)
    assert len(store.rows) == 2


def test_a_compaction_is_remembered_at_once_and_by_no_model(open_one):
    """S4.20, S4.21: what it sums up waits no more; what follows does."""
    llm = Llm()
    one = open_one(trigger=Compaction(), summarizer=llm.provider)
    told = session(*turns(1, 2), compaction("a quiet room", 1.0, 2.0), turn(3))
    (id_,) = one.sync.observe_session(told)
    assert one.texts() == ["a quiet room"]
    assert llm.asked == []
    assert one.sync.observe_session(told) == []
    late = session(turn(0), *told["events"])
    assert one.sync.observe_session(late) == []
    (rest,) = one.sync.end_session(late)
    assert rest != id_
    (shown,) = llm.asked
    assert "word3" in shown
    assert not any(word in shown for word in ("word0", "word1", "word2"))


def test_a_summarizer_sums_up_what_is_new(open_one):
    """S4.32: also of a session that is added whole."""
    llm = Llm()
    one = open_one(summarizer=llm.provider)
    assert len(one.sync.add_session_to_memory(talk(1, 2))) == 1
    assert one.sync.add_session_to_memory(talk(1, 2)) == []
    assert len(one.sync.add_session_to_memory(talk(1, 2, 3))) == 1
    assert len(llm.asked) == 2
    assert "word1" not in llm.asked[1]
    found = one.sync.search_memory(**ALICE, query="sum", top_k=9, min_similarity=-1.0)
    assert {each.kind for each in found.memories} == {"summary"}


@pytest.mark.parametrize("failing", ["model", "embedder", "store"])
def test_after_a_failure_what_waits_is_tried_again_later(open_one, failing):
    """S4.17: nothing is lost, and no try comes before its time."""
    llm, embedder = Llm(), Fainting()
    one = open_one(trigger=MessageCount(2), summarizer=llm.provider, embedder=embedder)
    one.sync.observe_session(talk(1, 2))
    upsert = one.store.upsert

    async def away(*_):
        raise ConnectionError

    def fail(times):
        if failing == "model":
            llm.failures = times
        elif failing == "embedder":
            embedder.failures = times
        else:
            one.store.upsert = away if times else upsert

    errors = {
        "model": SummaryError, "embedder": EmbedderError, "store": ConnectionError,
    }  # fmt: skip
    fail(1)
    assert one.sync.admin.run_due() == 0
    one.sync.observe_session(talk(1, 2, 3))
    assert one.sync.admin.run_due() == 0  # not yet
    fail(1)
    with pytest.raises(errors[failing]):
        one.sync.end_session(**ALICE, session_id="s")
    fail(0)
    one.clock.let_pass(31)
    assert one.sync.admin.run_due() == 1
    assert len(one.store.rows) == 1
    assert all(f"word{n}" in one.texts()[0] for n in (1, 2, 3))


def test_a_cancelled_end_stops_nothing_and_harms_no_other(open_one):
    """What a cancelled caller began goes on; who waits beside it is answered."""
    entered, go_on = threading.Event(), threading.Event()
    llm = Llm()

    def meanwhile():
        entered.set()
        assert go_on.wait(WAIT_S)

    llm.meanwhile = meanwhile
    one = open_one(summarizer=llm.provider)
    one.sync.observe_session(talk(1, 2))

    async def live():
        end = one.service.end_session
        first = asyncio.create_task(end(**ALICE, session_id="s"))
        assert await asyncio.to_thread(entered.wait, WAIT_S)
        beside = asyncio.create_task(end(**ALICE, session_id="s"))
        also = asyncio.create_task(end(**ALICE, session_id="s"))
        await asyncio.sleep(0)
        first.cancel()
        also.cancel()
        for task in (first, also):
            with pytest.raises(asyncio.CancelledError):
                await task
        go_on.set()
        assert await asyncio.wait_for(beside, WAIT_S) == []

    asyncio.run(live())
    assert len(one.store.rows) == len(llm.asked) == 1
    assert one.sync.end_session(**ALICE, session_id="s") == []


def test_a_turn_that_is_deleted_while_it_is_summed_up_is_in_no_summary(open_one):
    llm = Llm()
    one = open_one(summarizer=llm.provider)
    plain = open_one()
    ids = list(plain.sync.add_session_to_memory(talk(1, 2)))

    def meanwhile():
        llm.meanwhile = lambda: None
        one.sync.delete_memory(**ALICE, memory_id=ids[0])

    llm.meanwhile = meanwhile
    one.sync.observe_session(talk(1, 2))
    assert len(one.sync.end_session(**ALICE, session_id="s")) == 1
    assert len(one.store.rows) == 1
    assert "word1" not in one.texts()[0]
    assert "word2" in one.texts()[0]


def test_a_session_that_is_deleted_leaves_what_waits_of_others(open_one):
    one = open_one()
    for number, id_ in enumerate(("a", "b")):
        one.sync.observe_session(session(turn(number), id_=id_))
    one.sync.delete_session(**ALICE, session_id="a")
    assert one.sync.end_session(**ALICE, session_id="a") == []
    assert len(one.sync.end_session(**ALICE, session_id="b")) == 1


def test_a_summarizer_that_ends_its_own_session_is_refused(open_one):
    llm, caught = Llm(), []
    one = open_one(summarizer=llm.provider)

    def meanwhile():
        for call in (
            lambda: one.sync.end_session(**ALICE, session_id="s"),
            one.service.close,
        ):
            with pytest.raises(ReentrantCallError) as error:
                call()
            caught.append(error)

    llm.meanwhile = meanwhile
    assert len(one.sync.add_session_to_memory(talk(1))) == 1
    assert len(caught) == 2


def test_closing_finishes_what_runs_and_says_what_is_lost(caplog):
    store, llm = ReferenceVectorStore(), Llm()
    entered = threading.Event()

    def meanwhile():
        entered.set()
        time.sleep(0.05)

    llm.meanwhile = meanwhile
    service = VectorStoreMemoryService(store, Recorder(), summarizer=llm.provider)
    service.sync.observe_session(talk(1, 2))
    service.sync.observe_session(talk(3, 4, 5, id_="t"))
    ending = threading.Thread(
        target=service.sync.end_session, kwargs={**ALICE, "session_id": "s"}
    )
    ending.start()
    assert entered.wait(WAIT_S)
    with caplog.at_level(logging.WARNING, "vecall"):
        service.close()
        service.close()
    ending.join(WAIT_S)
    assert not ending.is_alive()
    assert len(store.rows) == 1
    assert caplog.text.count("3 observed turns") == 1
    for call in (
        lambda: service.sync.observe_session(talk(1)),
        lambda: service.sync.end_session(**ALICE, session_id="t"),
        service.sync.admin.run_due,
    ):
        with pytest.raises(ClosedError):
            call()


def test_what_waits_is_bounded_by_user(open_one, monkeypatch):
    """A user who is at the bound is told, and harms no other."""
    monkeypatch.setattr(_session_buffer, "MAX_USER_TURNS", 3)
    one = open_one(trigger="session_end")
    one.sync.observe_session(talk(1, 2))
    with pytest.raises(LimitExceededError, match="end_session"):
        one.sync.observe_session(talk(1, 2, 3, 4))
    one.sync.observe_session(session(*turns(1, 2, 3), **BOB))
    assert len(one.sync.end_session(**ALICE, session_id="s")) == 2
    one.sync.observe_session(talk(1, 2, 3, 4))
    assert len(one.sync.end_session(**ALICE, session_id="s")) == 2


def test_ids_of_finished_sessions_are_dropped_before_those_that_wait(
    open_one, monkeypatch
):
    monkeypatch.setattr(_session_buffer, "MAX_IDS", 10)
    one = open_one(trigger="session_end")
    one.sync.observe_session(talk(1, id_="waits"))
    for number in range(20):
        one.sync.end_session(talk(1, 2, id_=f"s{number}"))
    assert len(one.sync.end_session(talk(1, id_="waits"))) == 1
    assert len(one.store.rows) == 41
