"""kill -9 at any moment loses nothing acknowledged and tears no call."""

from __future__ import annotations

import os

import pytest
from helpers.campaigns import REPEATS, scaled
from helpers.fork_pool import ForkPool
from helpers.kill_campaign import WORKLOADS, Campaign

pytestmark = pytest.mark.campaign

KILLS = {"reembed": 8, "migration": 10}


@pytest.fixture(scope="module")
def pool():
    with ForkPool("helpers.workloads") as pool:
        yield pool


@pytest.mark.parametrize("name", WORKLOADS)
def test_nothing_acknowledged_is_lost_when_processes_are_killed(pool, tmp_path, name):
    """Guarantees 1, 2, 3: adds are there whole, deletions stay, the file is sound.

    Of each thread at most the one call whose acknowledgement nobody heard is there too.
    """
    workload = WORKLOADS[name]
    seed = 9 if REPEATS else int.from_bytes(os.urandom(4), "little")
    campaign = Campaign(pool, tmp_path, workload, seed)
    for _ in range(scaled(KILLS.get(name, 14), least=3)):
        campaign.kill()
        assert not campaign.tally.problems, f"seed {seed}"
