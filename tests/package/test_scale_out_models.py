"""The models of many servers in `bench/service`: the balancer and the paper plan."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from helpers.paths import ROOT

pytestmark = pytest.mark.skipif(
    not (ROOT / "bench").exists(), reason="the benchmarks are not beside the tests"
)

SMALL = "--users 300 --capacity 40 --requests 3000 --rate 2000".split()


@pytest.fixture
def balancer():
    return pytest.importorskip("bench.service.balancer")


@pytest.fixture
def capacity():
    return pytest.importorskip("bench.service.capacity")


def outcomes(balancer, servers, *words):
    options = balancer.parsed([*SMALL, *words])
    made = balancer.requests(options)
    return made, [
        balancer.simulate(made, servers, options, sticky=sticky)
        for sticky in (True, False)
    ]


def test_with_one_server_the_routing_makes_no_difference(balancer):
    _, (sticky, anywhere) = outcomes(balancer, 1)
    assert sticky == anywhere
    assert sticky.most == 1.0
    assert 0 < sticky.loads < sticky.searches


@pytest.mark.parametrize("servers", [1, 2, 5])
def test_every_search_is_a_hit_a_replay_or_a_load(balancer, servers):
    made, both = outcomes(balancer, servers)
    for found in both:
        assert found.searches == sum(not one.is_write for one in made)
        assert found.hits + found.replays + found.loads == found.searches
        assert 0 < found.statements <= found.searches
        assert 1 / servers <= found.most <= 1
    assert both[0].replays == 0  # nobody else writes
    assert both[0].hits >= both[1].hits


def test_with_room_for_all_a_user_is_loaded_once_a_server(balancer):
    made, (sticky, anywhere) = outcomes(balancer, 4, "--capacity", "300")
    users = {one.user for one in made if not one.is_write}
    assert sticky.loads == len(users)
    assert len(users) < anywhere.loads <= 4 * len(users)
    # Rendezvous hashing: a user moves only to the server that is new.
    homes = {n: {user: balancer.home(user, n) for user in range(300)} for n in (4, 5)}
    moved = [user for user in range(300) if homes[4][user] != homes[5][user]]
    assert {homes[5][user] for user in moved} == {4}
    assert max(Counter(homes[4].values()).values()) < 2 * 300 / 4


def test_less_room_never_means_fewer_loads(balancer):
    loads = [
        outcomes(balancer, 2, "--capacity", str(room))[1][0].loads
        for room in (300, 100, 30, 10)
    ]
    assert loads == sorted(loads)
    assert loads[0] < loads[-1]


def test_statements_are_shared_when_searches_come_at_once(balancer):
    _, (rare, _) = outcomes(balancer, 2, "--check-us", "0.001")
    _, (slow, _) = outcomes(balancer, 2, "--check-us", "1000000")
    assert rare.statements == rare.searches
    assert slow.statements < slow.searches / 20


def test_a_seed_gives_one_outcome(balancer):
    one, again, other = (
        outcomes(balancer, 3, "--seed", seed)[1] for seed in ("5", "5", "6")
    )
    assert one == again
    assert one != other


def test_the_plan_is_that_of_the_arithmetic_by_hand(capacity, tmp_path):
    """200 rows of 2.44 kB, 20 turns and 50 searches a day, 1% of the users loaded."""
    words = "--row-bytes 900 --vector-bytes 1540 --user-bytes 330".split()
    million, more = (capacity.plan(n, capacity.parsed(words)) for n in (1e6, 1e8))
    for name, by_hand in {
        "bytes of rows": 488e9,
        "bytes of users": 0.33e9,
        "writes a second, mean": 231.48,
        "writes a second, peak": 2314.8,
        "checks a second, mean": 578.7,
        "engine memory of all servers": 2.23e9,
    }.items():
        assert million[name] == pytest.approx(by_hand, rel=1e-3)
        assert more[name] == pytest.approx(100 * by_hand, rel=1e-3)
    # 2,314.8 adds of 560 us, 5,787 checks of 62 us and 324.1 loads of 980 us, at 50%.
    assert million["cores of the databases"] == pytest.approx(3.945, rel=1e-3)
    assert (million["databases"], more["databases"]) == (1, 25)
    file = tmp_path / "figures.json"
    file.write_text(json.dumps({"row_bytes": 460, "peak": 20}))
    given = capacity.parsed(["--figures", str(file), "--peak", "30"])
    assert (given.row_bytes, given.peak, given.vector_bytes) == (460, 30, 1540)


def test_figures_that_a_plan_does_not_know_are_refused(capacity, tmp_path, capsys):
    file = tmp_path / "figures.json"
    for found in ({"rows_bytes": 1}, {"rows": -1}, {"usage": 0}, [1]):
        file.write_text(json.dumps(found))
        with pytest.raises(SystemExit):
            capacity.parsed(["--figures", str(file)])
    assert "the names are" in capsys.readouterr().err
