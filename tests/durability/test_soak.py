"""Four writers, four readers and a killer on one file."""

from __future__ import annotations

import os

import pytest
from helpers.campaigns import scaled
from helpers.fork_pool import ForkPool
from helpers.soak import Soak

SECONDS = float(os.environ.get("VECALL_TEST_SOAK_S", scaled(8, least=3)))


@pytest.mark.campaign
def test_many_processes_share_a_file_though_some_are_killed(tmp_path):
    """Guarantees 1, 4 and 7: nothing lost, nothing stale, nobody busy or starved.

    What a writer was told is stored (or deleted), a reader in another process finds (or
    no longer finds) by its next search. The write-ahead log stays bounded.
    """
    with ForkPool("helpers.soak") as pool:
        seen = Soak(pool, tmp_path / "m.db", seed=5).go(SECONDS)
    assert seen.errors == []
    assert seen.stale == 0
    assert seen.judged > SECONDS
    assert seen.kills >= SECONDS / 4
    assert seen.unfairness < 3, seen.rates
    assert seen.wal_most < 80e6
