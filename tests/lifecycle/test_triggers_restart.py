"""Triggers outlive the process, fire once for all of them, and try again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers.clocks import SettableClock
from helpers.embedders import Recorder
from helpers.memories import ALICE
from helpers.observed_sessions import (
    EVERY,
    LEASE_S,
    Fainting,
    Llm,
    due,
    grow,
    kept,
    memories,
    rows,
    said,
    summed,
    talk,
)
from helpers.paths import TESTS
from helpers.processes import child, tell
from helpers.processes import said as line_of
from helpers.sessions import session
from vecall import Inactivity, MessageCount, SummaryError

NAMED = {**ALICE, "session_id": "s"}

# Another process: its clock stands at argv[2] seconds after the start; each line that
# it is told is run as Python, and answered with one line.
OTHER = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
from vecall import MemoryService, Inactivity, StorageOptions
from helpers.clocks import SettableClock
from helpers.observed_sessions import EVERY, Llm, grow, talk
clock = SettableClock()
clock.let_pass(float(sys.argv[2]))
llm = Llm()
service = MemoryService(
    sys.argv[1], trigger=Inactivity(EVERY), summarizer=llm.provider, embedder=None,
    storage=StorageOptions(clock=clock, maintenance_interval=None)
)
print("open", flush=True)
for line in sys.stdin:
    exec(line)
    print(len(llm.asked), flush=True)
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "m.db"


@pytest.fixture
def opened(open_service, path):
    """Opens the file with a model, a clock and ten minutes of inactivity."""

    def open_one(**options):
        return open_service(
            path,
            **{"maintenance_interval": None, "trigger": Inactivity(EVERY), **options},
        )

    return open_one


def test_what_waits_survives_a_restart_and_is_remembered_when_due(opened, path):
    """S4.18: closed and opened again, the wait goes on where it was."""
    clock, llm = SettableClock(), Llm()
    with opened(clock=clock) as service:
        grow(service, 2)
        clock.let_pass(300.0)
    service = opened(clock=clock, summarizer=llm.provider)
    service.sync.observe_session(talk(1, 2))
    service.sync.admin.run_due()
    assert memories(service) == []
    clock.let_pass(301.0)
    service.sync.admin.run_due()
    assert memories(service) == [summed(1, 2)]
    assert (kept(path), due(path)) == ([], [])


def test_what_is_due_is_due_whatever_the_trigger_is_by_then(opened):
    """S4.18: the file knows, not the service."""
    clock = SettableClock()
    with opened(clock=clock) as service:
        grow(service, 2)
    clock.let_pass(601.0)
    service = opened(clock=clock, trigger=None)
    service.sync.admin.run_due()
    assert memories(service) == said(1, 2)


def test_a_machine_that_was_off_all_the_while_is_inactive_too(opened):
    """S4.18: after a start of the machine the wall clock says how long it was off."""
    clock = SettableClock()
    with opened(clock=clock) as service:
        grow(service, 2)
    clock.restart(off=3_600.0)
    service = opened(clock=clock)
    service.sync.admin.run_due()
    assert memories(service) == said(1, 2)


def test_what_waits_survives_a_kill(opened, path):
    """S4.18: kill -9 after the last turn; another process remembers it, once."""
    with child(OTHER, path, 0.0) as process:
        assert line_of(process) == "open"
        tell(process, "grow(service, 3)")
        assert line_of(process) == "0"
        process.kill()
        process.wait()
    clock, llm = SettableClock(), Llm()
    service = opened(clock=clock, summarizer=llm.provider)
    service.sync.admin.run_due()
    assert memories(service) == []
    clock.let_pass(601.0)
    service.sync.admin.run_due()
    service.sync.admin.run_due()
    assert memories(service) == [summed(1, 2, 3)]
    assert len(llm.asked) == 1


def test_a_kill_while_the_model_is_asked_loses_nothing(opened, path):
    """S4.18: whoever claimed it is gone; when its time is over another one does it."""
    with child(OTHER, path, 601.0) as process:
        assert line_of(process) == "open"
        tell(process, "clock.let_pass(-601); grow(service, 2); clock.let_pass(601)")
        assert line_of(process) == "0"
        tell(
            process,
            "llm.meanwhile = lambda: [print('asked', flush=True), sys.stdin.read()]; "
            "service.sync.admin.run_due()",
        )
        assert line_of(process) == "asked"
        process.kill()
        process.wait()
    clock, llm = SettableClock(), Llm()
    clock.let_pass(602.0)
    service = opened(clock=clock, summarizer=llm.provider)
    service.sync.admin.run_due()
    assert (llm.asked, memories(service)) == ([], [])
    clock.let_pass(LEASE_S)
    service.sync.admin.run_due()
    assert memories(service) == [summed(1, 2)]


def test_of_two_processes_one_asks_the_model(opened, path):
    """S4.18: one claims the session; the other finds nothing to do."""
    with opened(clock=SettableClock()) as service:
        grow(service, 3)
    with child(OTHER, path, 601.0) as one, child(OTHER, path, 601.0) as two:
        assert line_of(one) == line_of(two) == "open"
        for process in (one, two):
            tell(process, "service.sync.admin.run_due()")
        asked = [line_of(one), line_of(two)]
        assert sorted(asked) == ["0", "1"]
    assert memories(opened()) == [summed(1, 2, 3)]


def test_many_threads_of_many_services_make_each_memory_once(opened):
    """S4.19: whoever is first; texts are embedded once in all."""
    embedder, llm = Recorder(), Llm()
    services = [
        opened(trigger=MessageCount(2), summarizer=llm.provider, embedder=embedder)
        for _ in range(3)
    ]
    for number in range(6):
        told = talk(2 * number, 2 * number + 1, id_=f"s{number}")
        services[0].sync.observe_session(told)
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda service: service.sync.admin.run_due(), services * 2))
    pairs = [summed(2 * number, 2 * number + 1) for number in range(6)]
    assert sorted(memories(services[1])) == sorted(pairs)
    assert len(llm.asked) == len(embedder.asked) == 6


def test_two_ends_of_a_session_make_its_memories_once(opened):
    """The second ends it while the model of the first is asked."""
    llm, other = Llm(), Llm()
    one = opened(summarizer=llm.provider)
    two = opened(summarizer=other.provider)
    one.sync.observe_session(talk(1, 2))

    def meanwhile():
        two.sync.observe_session(talk(1, 2, 3))
        two.sync.end_session(**NAMED)

    llm.meanwhile = meanwhile
    assert one.sync.end_session(**NAMED) == []
    assert memories(one) == [summed(1, 2, 3)]


def tries(service, clock, llm, seconds, step=5.0):
    """After how many seconds the model was asked."""
    found = []
    for number in range(int(seconds / step)):
        before = len(llm.asked)
        service.sync.admin.run_due()
        if len(llm.asked) > before:
            found.append(number * step)
        clock.let_pass(step)
    return found


def test_a_failing_model_is_asked_again_after_growing_pauses(opened, path):
    """S4.18: turns stay; each pause is twice the one before; in the end it succeeds."""
    clock, llm = SettableClock(), Llm(failures=5)
    service = opened(clock=clock, summarizer=llm.provider, trigger=MessageCount(2))
    grow(service, 2)
    assert tries(service, clock, llm, 1_500.0) == [0, 30, 90, 210, 450, 930]
    assert memories(service) == [summed(1, 2)]
    assert (kept(path), due(path)) == ([], [])


def test_the_pauses_grow_to_an_hour_and_no_further(opened, path):
    """S4.18: however often it fails, the next try is within the hour."""
    clock, llm = SettableClock(), Llm(failures=10_000)
    service = opened(
        clock=clock,
        summarizer=llm.provider,
        trigger=MessageCount(1),
        durability="process",
    )
    grow(service, 1)
    for _ in range(1_100):
        service.sync.admin.run_due()
        clock.let_pass(3_601.0)
    assert len(llm.asked) == 1_100
    assert len(kept(path)) == 1
    llm.failures = 0
    service.sync.admin.run_due()
    assert memories(service) == [summed(1)]


def test_new_turns_do_not_hasten_the_next_try(opened):
    """S4.19: a model that is down is not asked at every turn."""
    clock, llm = SettableClock(), Llm(failures=1)
    service = opened(clock=clock, summarizer=llm.provider, trigger=MessageCount(2))
    for last in range(2, 8):
        grow(service, last, first=last - 1 if last == 2 else last)
        service.sync.admin.run_due()
        clock.let_pass(1.0)
    assert len(llm.asked) == 1
    clock.let_pass(30.0)
    service.sync.admin.run_due()
    assert memories(service) == [summed(*range(1, 8))]


def test_after_a_success_the_pauses_begin_anew(opened):
    """S4.19: one bad hour does not slow the session down for ever."""
    clock, llm = SettableClock(), Llm(failures=3)
    service = opened(clock=clock, summarizer=llm.provider, trigger=MessageCount(1))
    grow(service, 1)
    assert tries(service, clock, llm, 400.0) == [0, 30, 90, 210]
    llm.failures = 1
    grow(service, 2, first=2)
    assert tries(service, clock, llm, 100.0) == [0, 30]
    assert memories(service) == [summed(1), summed(2)]


def test_turns_that_come_during_a_success_meet_short_pauses_again(opened):
    """S4.19: what is left when the model answers starts from the first pause."""
    clock, llm = SettableClock(), Llm(failures=2)
    service = opened(clock=clock, summarizer=llm.provider, trigger=MessageCount(1))
    grow(service, 1)
    assert tries(service, clock, llm, 60.0) == [0, 30]
    clock.let_pass(60.0)
    llm.meanwhile = lambda: grow(service, 2, first=2)
    service.sync.admin.run_due()
    assert memories(service) == [summed(1)]
    llm.failures = 1
    clock.let_pass(LEASE_S)
    assert tries(service, clock, llm, 100.0) == [0, 30]
    assert memories(service) == [summed(1), summed(2)]


def test_the_pauses_outlive_the_process(opened):
    """S4.18: a restart does not begin them anew."""
    clock, llm = SettableClock(), Llm(failures=3)
    options = {"clock": clock, "summarizer": llm.provider}
    with opened(**options, trigger=MessageCount(1)) as service:
        grow(service, 1)
        assert tries(service, clock, llm, 60.0) == [0, 30]
    service = opened(**options)
    assert tries(service, clock, llm, 200.0) == [30, 150]


def test_a_failing_embedder_is_tried_again_too(opened, path):
    """S4.18: without vectors nothing is remembered, and nothing is lost."""
    clock, embedder = SettableClock(), Fainting(failures=2)
    service = opened(clock=clock, embedder=embedder, trigger=MessageCount(2))
    grow(service, 2)
    made = []
    for _ in range(10):
        service.sync.admin.run_due()
        made.append(len(memories(service)))
        clock.let_pass(15.0)
    assert made == [0, 0, 0, 0, 0, 0, 2, 2, 2, 2]
    assert len(embedder.asked) == 2


def test_one_session_that_fails_holds_up_no_other(opened):
    """S4.18: the model refuses the first; the second is remembered at once."""
    llm = Llm(failures=1)
    service = opened(summarizer=llm.provider, trigger=MessageCount(1))
    service.sync.observe_session(talk(1))
    service.sync.observe_session(talk(2, id_="other"))
    service.sync.admin.run_due()
    assert len(llm.asked) == 2
    assert len(memories(service)) == 1


def test_an_end_that_fails_leaves_the_session_to_the_trigger(opened, path):
    """S4.10: SummaryError, everything still waits, and the trigger tries again."""
    clock, llm = SettableClock(), Llm(failures=1)
    service = opened(clock=clock, summarizer=llm.provider)
    grow(service, 2)
    with pytest.raises(SummaryError):
        service.sync.end_session(**NAMED)
    assert (len(kept(path)), len(due(path))) == (2, 1)
    clock.let_pass(601.0)
    service.sync.admin.run_due()
    assert memories(service) == [summed(1, 2)]


@pytest.mark.parametrize(
    "delete",
    [
        lambda service: service.sync.delete_session(**NAMED),
        lambda service: service.sync.delete_user(**ALICE),
        lambda service: service.sync.admin.delete_app(app_name="app", confirm=True),
    ],
)
def test_what_is_deleted_while_it_waits_never_comes_back(opened, path, delete):
    """S4.10: not by the trigger, nor by observing, ending or ingesting it again."""
    clock = SettableClock()
    service = opened(clock=clock)
    grow(service, 3)
    delete(service)
    assert (kept(path), due(path)) == ([], [])
    service.sync.observe_session(talk(1, 2, 3))
    clock.let_pass(601.0)
    service.sync.admin.run_due()
    service.sync.end_session(talk(1, 2, 3))
    service.sync.add_session_to_memory(talk(1, 2, 3))
    assert memories(service) == []
    grow(service, 4, first=4)
    service.sync.end_session(**NAMED)
    assert memories(service) == said(4)


def test_deleting_a_session_leaves_others_waiting(opened, path):
    """S4.10: only what was named goes."""
    service = opened()
    grow(service, 2)
    service.sync.observe_session(talk(1, id_="other"))
    service.sync.delete_session(**NAMED)
    assert (len(kept(path)), len(due(path))) == (1, 1)
    service.sync.end_session(**{**NAMED, "session_id": "other"})
    assert memories(service) == said(1)


def test_a_forgotten_user_may_begin_again(opened, path):
    """S4.10: forget=True also forgets what was told; told again it is remembered."""
    service = opened()
    grow(service, 2)
    service.sync.delete_user(**ALICE, forget=True)
    assert rows(path, "SELECT * FROM told") == rows(path, "SELECT * FROM trig") == []
    service.sync.end_session(talk(1, 2))
    assert memories(service) == said(1, 2)


def test_a_purge_leaves_nothing_of_what_was_deleted_while_it_waited(opened, path):
    """S4.10: what waited is as gone as a memory."""
    service = opened()
    service.sync.observe_session(
        session({"id": "e", "author": "user", "text": "xyzzysecret"})
    )
    service.sync.delete_session(**NAMED)
    service.sync.admin.purge()
    service.close()
    files = [file for file in path.parent.rglob("*") if file.is_file()]
    assert not [file for file in files if b"xyzzysecret" in file.read_bytes()]


def test_a_deleted_turn_is_not_remembered_by_a_trigger(opened):
    """S4.15: its tombstone holds, in front of the trigger as in an ingest."""
    clock = SettableClock()
    service = opened(clock=clock)
    ids = service.sync.add_session_to_memory(talk(1, 2))
    service.sync.delete_memory(**ALICE, memory_id=ids[0])
    grow(service, 3)
    clock.let_pass(601.0)
    service.sync.admin.run_due()
    assert sorted(memories(service)) == said(2, 3)


def test_a_turn_that_is_deleted_while_it_waits_is_not_due(opened, path):
    """S4.15: and where nothing else waits, nothing is due any more."""
    clock, llm = SettableClock(), Llm()
    service = opened(clock=clock, summarizer=llm.provider)
    names = {"session_id": "s", "events": talk(1)["events"]}
    (id_,) = service.sync.add_events_to_memory(**ALICE, **names)
    grow(service, 1)
    service.sync.delete_memory(**ALICE, memory_id=id_)
    clock.let_pass(601.0)
    service.sync.admin.run_due()
    assert (memories(service), llm.asked, kept(path), due(path)) == ([], [], [], [])
