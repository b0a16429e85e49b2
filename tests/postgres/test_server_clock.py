"""Servers follow the clock of the primary, whatever their own clocks show."""

from __future__ import annotations

import itertools
import logging

import pytest
from helpers.clocks import START, YEAR, SettableClock
from helpers.paths import TESTS
from helpers.processes import child, said, tell
from hypothesis import given
from hypothesis import strategies as st
from vecall import MemoryService, StorageOptions
from vecall.clock import ClockCheckpoint

pytest.importorskip("psycopg")
from vecall.store.postgres import claims
from vecall.store.postgres.claims import ServerClock, ServerExpiryClock

# A server on a machine whose clock is some seconds off. It runs each line that it gets
# as Python, and answers with the value of `answer`.
SERVER = f"""
import sys, time
sys.path.insert(0, {str(TESTS)!r})
real, skew = time.time, float(sys.argv[2])
time.time = lambda: real() + skew
from vecall import MemoryService, StorageOptions
who = dict(app_name="app", user_id="alice")
service = MemoryService(
    sys.argv[1], embedder=None, storage=StorageOptions(maintenance_interval=None))
print("open", flush=True)
for line in sys.stdin:
    answer = None
    exec(line)
    print(answer, flush=True)
"""


def test_servers_with_wrong_clocks_agree_on_what_is_expired(schema):
    add = (
        "service.sync.add_memory(**who, memories=['zebra {0}'], "
        "custom_metadata={{'ttl': {1}}})"
    )
    find = (
        "service.sync.admin.run_due(); answer = sorted(memory.text for memory in "
        "service.sync.search_memory(**who, query='zebra').memories)"
    )
    times = "answer = service._memory.storage.expiry_clock.wall() - real()"
    with (
        child(SERVER, schema.url, YEAR) as ahead,
        child(SERVER, schema.url, -YEAR) as behind,
    ):
        assert (said(ahead), said(behind)) == ("open", "open")
        for server, name in ((ahead, "ahead"), (behind, "behind")):
            tell(server, add.format(name, 3_600))
            said(server)
            tell(server, times)
            assert abs(float(said(server))) < 5.0
        for server in (ahead, behind):
            tell(server, find)
            assert said(server) == "['zebra ahead', 'zebra behind']"
        tell(ahead, "service.close()")
        said(ahead)
        ((stored, now),) = schema.server.execute(
            f"SELECT value, CAST(extract(epoch FROM clock_timestamp()) AS float8) "
            f"FROM {schema.name}.meta WHERE key = 'clock'"
        )
        assert abs(ClockCheckpoint.parse_checkpoint(stored).now - now) < 5.0


class Machine(ServerClock):
    """A server whose steady clock a test moves, and the clock of a primary.

    Attributes:
        passing: Seconds of this machine.
        primary: What the primary's clock shows.
        delays: How long the next answers take, in seconds; then 0.
    """

    def __init__(self):
        self.passing, self.primary, self.delays = 1_000.0, START, []
        super().__init__()

    def monotonic(self):
        return self.passing

    def asked(self):
        """The request is fast; the answer takes the whole delay."""
        delay = self.delays.pop(0) if self.delays else 0.0
        told = self.primary
        self.passing += delay
        self.primary += delay
        return told


@pytest.mark.parametrize("delays", list(itertools.permutations([2.0, 0.01, 1.0])))
def test_the_fastest_answer_counts(delays):
    machine = Machine()
    machine.delays = list(delays)
    machine.measure_server(machine.asked)
    assert machine.wall() == pytest.approx(machine.primary, abs=0.006)


@given(
    st.lists(
        st.tuples(
            st.floats(0.0, 1e4),  # seconds that pass
            st.floats(-59.0, 59.0) | st.floats(61.0, 1e6) | st.floats(-1e6, -61.0),
        ),
        max_size=20,
    )
)
def test_expiry_never_goes_back_and_ignores_jumps(steps):
    machine = Machine()
    machine.measure_server(machine.asked)
    expiry = ServerExpiryClock(machine)
    last = expiry.now()
    begun, passed, followed = last, 0.0, 0.0
    for seconds, change in steps:
        machine.passing += seconds
        machine.primary += seconds + change
        expiry.follow_server_clock(machine.measure_server(machine.asked))
        assert machine.wall() == pytest.approx(machine.primary, abs=1e-3)
        passed += seconds
        followed += change if abs(change) <= 60.0 else 0.0
        _, now = expiry.wall_and_expiry_times()  # as a search asks
        assert now >= last
        assert now == expiry.now()
        assert now == pytest.approx(max(last, begun + passed + followed), abs=1e-2)
        last = now


def test_a_jump_of_the_primarys_clock_is_logged(caplog):
    machine = Machine()
    machine.measure_server(machine.asked)
    expiry = ServerExpiryClock(machine)
    with caplog.at_level(logging.WARNING, "vecall"):
        machine.primary += 59.0
        expiry.follow_server_clock(machine.measure_server(machine.asked))
        assert caplog.messages == []
        machine.primary -= 3_600.0
        expiry.follow_server_clock(machine.measure_server(machine.asked))
    assert caplog.messages == [
        "the clock of the database was set back by 3600 s; memories expire by elapsed "
        "time"
    ]


def test_the_clock_is_measured_again_while_a_service_is_open(schema, monkeypatch):
    """Every minute in a service; here at once, and once with the primary away."""
    with MemoryService(schema.url, embedder=None) as memory:
        storage = memory._memory.storage
        clock = storage.expiry_clock._clock
        clock._ahead += 30.0  # as if this machine's clock had run too fast
        before = clock.wall()
        storage._follower.check_server_clock()
        assert clock.wall() - before == pytest.approx(-30.0, abs=2.0)
        right = clock.wall()
        monkeypatch.setattr(claims, "_NOW", "SELECT 1/0")
        storage._follower.check_server_clock()
        assert clock.wall() - right < 5.0


def test_a_clock_that_a_caller_gives_is_used(schema):
    clock = SettableClock(wall=START + YEAR)
    options = StorageOptions(clock=clock, maintenance_interval=None)
    with MemoryService(schema.url, embedder=None, storage=options) as memory:
        assert memory._memory.storage.expiry_clock.wall() == START + YEAR
