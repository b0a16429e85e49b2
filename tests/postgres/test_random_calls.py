"""Random calls get the same answers from a file, from memory and from PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.campaigns import scaled
from helpers.postgres_server import MISSING, is_available
from helpers.random_calls import Program

pytestmark = [
    pytest.mark.skipif(not is_available(), reason=MISSING),
    pytest.mark.campaign,
]


@pytest.mark.parametrize("seed", range(scaled(8)))
def test_random_calls_get_equal_answers_from_every_storage(
    seed: int, tmp_path: Path
) -> None:
    program = Program(seed, tmp_path)
    try:
        assert program.run(250) == 250
    finally:
        program.close()
