"""Ours does all that users of google-adk may expect of a memory service.

The checks are those of helpers/adk_conformance, which know nothing of ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("google.adk")

from google.adk.version import __version__ as adk_version
from helpers.adk_conformance import CHECKS, VECALL, Check, Outcome, examine
from helpers.adk_conformance.broken import BROKEN
from helpers.adk_conformance.kinds import IN_MEMORY, SQLITE, Kind
from helpers.fork_pool import ForkPool

UNTIMED = [check for check in CHECKS if not check.timed]

# What google-adk 2.13's own services do not do, by what the check raised.
RECORD: dict[str, dict[str, set[str]]] = {
    "InMemoryMemoryService": {
        "AssertionError": {
            "Events without an id are each remembered, and once",
            "A thought does not make a memory be found",
            "A thought beside an answer does not come back",
            "A request for credentials, and its answer, are not remembered",
            "What was spoken is remembered by its transcription",
            "A turn that was rewound is not remembered",
            "A turn that is rewound after it was remembered is forgotten",
            "A delta with a ttl expires, and nothing else does",
            "What was deleted stays so in the next process",
            "Another form of a word finds it: book, booked, booking; parrot, parrots",
            "The best match comes first",
            "Chinese, by a question that shares words",
            "Japanese, by a question that shares words",
            "Memories survive a restart",
            "They survive without a close",
            "What was acknowledged survives kill -9",
            "Two processes on one file see each other's writes",
            "A trimmed copy of a session forgets nothing",
            "The last text of an event id wins, in a delta too",
            "Timestamps say their offset",
            "A score comes with each memory",
            "A picture beside a text does not come back as bytes",
            "A piece of a streamed turn is not remembered",
            "A memory cannot end the block in which preload_memory shows it",
            "The metadata of a delta comes back with its memories",
        },
        "NotImplementedError": {
            "add_memory remembers entries",
            "An entry comes back with its author, time and metadata",
            "An entry with a ttl expires, and nothing else does",
        },
    },
    "SqliteMemoryService": {
        "AssertionError": {
            "A thought beside an answer does not come back",
            "A request for credentials, and its answer, are not remembered",
            "What was spoken is remembered by its transcription",
            "A turn that was rewound is not remembered",
            "A turn that is rewound after it was remembered is forgotten",
            "A delta with a ttl expires, and nothing else does",
            "Another form of a word finds it: book, booked, booking; parrot, parrots",
            "A question of common words does not bring the whole store back",
            "The best match comes first",
            "Korean, by a word without its particle",
            "Chinese, by a word within a sentence",
            "Japanese, by a word within a sentence",
            "Chinese, by a question that shares words",
            "Japanese, by a question that shares words",
            "Timestamps say their offset",
            "A score comes with each memory",
            "A picture beside a text does not come back as bytes",
            "A piece of a streamed turn is not remembered",
            "A memory cannot end the block in which preload_memory shows it",
            "The metadata of a delta comes back with its memories",
        },
        "NotImplementedError": {
            "add_memory remembers entries",
            "An entry comes back with its author, time and metadata",
            "An entry with a ttl expires, and nothing else does",
            "delete_memory deletes the one memory of that id",
            "What was deleted stays so when its session is added again",
            "What was deleted stays so when its event comes as a delta",
            "What was deleted stays so in the next process",
            "Another user's id deletes nothing",
            "None and an unknown id delete nothing and are no error",
        },
        "UnicodeEncodeError": {
            "A text with half a surrogate pair does not cost the session",
        },
    },
}


@pytest.fixture(scope="module")
def pool() -> Iterator[ForkPool]:
    with ForkPool("helpers.adk_conformance.child") as pool:
        yield pool


@pytest.mark.parametrize("check", UNTIMED, ids=lambda check: check.name)
def test_our_service_passes(check: Check, tmp_path: Path, pool: ForkPool) -> None:
    """S0.30, S1.3 to S1.7, S1.22, S1.47, S3.1 to S3.5, S3.12, S3.17, S3.22, S3.23."""
    outcome = examine(check, VECALL, tmp_path, pool)
    assert outcome == Outcome(), check.why


@pytest.mark.skipif(
    not adk_version.startswith("2.13."), reason="the record is of google-adk 2.13"
)
@pytest.mark.parametrize("kind", [IN_MEMORY, SQLITE], ids=lambda kind: kind.name)
def test_google_adks_own_services_fail_what_is_recorded(
    kind: Kind, tmp_path: Path, pool: ForkPool
) -> None:
    """S0.30, S4.14: so the table in docs/guide/google-adk.md is true."""
    failures: dict[str, set[str]] = {}
    for number, check in enumerate(UNTIMED):
        if check.raced:
            continue
        folder = tmp_path / str(number)
        folder.mkdir()
        if failure := examine(check, kind, folder, pool).failure:
            failures.setdefault(failure, set()).add(check.name)
    assert failures == RECORD[kind.name]


def test_each_check_can_fail(tmp_path: Path, pool: ForkPool) -> None:
    """S0.30: by services that do everything wrong."""
    passed = [
        check.name
        for check in UNTIMED
        if all(examine(check, kind, tmp_path, pool) == Outcome() for kind in BROKEN)
    ]
    assert passed == []


def test_each_check_has_a_name_of_its_own_and_a_reason() -> None:
    """S0.30: for the table."""
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    assert all(check.why for check in CHECKS)
