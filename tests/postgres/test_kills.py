"""Processes, backends and servers are killed while several processes write and read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from helpers.campaigns import SCALE, scaled
from helpers.database_campaign import KINDS, DatabaseCampaign
from helpers.database_soak import DatabaseSoak
from helpers.fork_pool import ForkPool
from helpers.postgres_server import MISSING, Schema, is_available

KILLS = {"process": 6, "connections": 6, "backend": 2, "server": 2, "failover": 5}

pytestmark = [
    pytest.mark.campaign,
    pytest.mark.skipif(SCALE < 1, reason="takes a minute: VECALL_TEST_SCALE=1"),
    pytest.mark.skipif(not is_available(), reason=MISSING),
]


@pytest.fixture(scope="module")
def campaign() -> Iterator[DatabaseCampaign]:
    """A primary with a synchronous replica, and processes that write."""
    with ForkPool("helpers.database_campaign") as pool:
        made = DatabaseCampaign(pool, seed=11)
        yield made
        made.close()


@pytest.mark.parametrize("kind", KINDS)
def test_no_acknowledged_call_is_lost_torn_or_doubled(campaign, kind):
    """And the counts, and the log of changes, have no gap."""
    for _ in range(scaled(KILLS[kind])):
        campaign.kill(kind)
    tally = campaign.tallies[kind]
    assert tally.problems == []
    assert tally.acknowledged > 20 * tally.kills


def test_readers_find_what_other_processes_have_written(campaign):
    """Four of each and a killer: nothing is stale or lost, and no writer starves."""
    with ForkPool("helpers.soak") as pool:
        seen = DatabaseSoak(pool, Schema(campaign.primary), seed=5).go(scaled(6))
    assert seen.errors == []
    assert seen.stale == 0
    assert seen.judged > seen.seconds
    assert seen.unfairness < 5, seen.rates
