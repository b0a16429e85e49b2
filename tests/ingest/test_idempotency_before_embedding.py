"""An idempotency key that was used is looked up before anything is embedded."""

from __future__ import annotations

import sqlite3
from concurrent.futures import Future
from contextlib import closing
from functools import partial
from typing import Any

import pytest
from helpers.embedders import Recorder, embedded, found
from helpers.join_runner import run_with
from helpers.memories import ALICE, BOB
from vecall import ConflictError, EmbedderError
from vecall.ingest.fields import GivenMetadata
from vecall.operations.writes import make_fact_request

KEY = {"idempotency_key": "k"}
FACTS = ["likes green tea", "lives in Porto"]


class Broken(Recorder):
    """An embedder that is down."""

    def embed(self, texts):
        raise ValueError


@pytest.fixture
def opened(open_service, tmp_path):
    return partial(open_service, tmp_path / "m.db", maintenance_interval=None)


def told_once(opened) -> list[str]:
    """Add two facts under a key, delete them, close; return their ids."""
    with opened(embedder=Recorder()) as service:
        ids = service.sync.add_memory(**ALICE, memories=FACTS, **KEY)
        for id_ in ids:
            service.sync.delete_memory(**ALICE, memory_id=id_)
    return ids


def test_a_call_that_is_sent_again_embeds_nothing(opened):
    ids = told_once(opened)
    embedder = Recorder()
    service = opened(embedder=embedder)
    assert service.sync.add_memory(**ALICE, memories=FACTS, **KEY) == ids
    assert embedder.asked == []
    assert found(service, "tea") == []


def test_a_session_that_is_sent_again_embeds_nothing(opened):
    session = {**ALICE, "id": "s", "events": [{"text": FACTS[0], "author": "user"}]}
    with opened(embedder=Recorder()) as service:
        ids = service.sync.add_session_to_memory(session, **KEY)
        service.sync.delete_session(**ALICE, session_id="s")
    embedder = Recorder()
    again = opened(embedder=embedder).sync.add_session_to_memory(session, **KEY)
    assert len(again) == len(ids)
    assert embedder.asked == []


def test_a_call_that_is_sent_again_needs_no_embedder_that_works(opened):
    ids = told_once(opened)
    service = opened(embedder=Broken())
    assert service.sync.add_memory(**ALICE, memories=FACTS, **KEY) == ids
    with pytest.raises(EmbedderError):
        service.sync.add_memory(**ALICE, memories=FACTS, idempotency_key="new")


def test_a_key_of_other_memories_is_refused_before_they_are_embedded(opened):
    told_once(opened)
    embedder = Recorder()
    service = opened(embedder=embedder)
    with pytest.raises(ConflictError):
        service.sync.add_memory(**ALICE, memories=["sails on Sundays"], **KEY)
    assert embedder.asked == []


def test_a_key_after_a_purge_that_hides_it_embeds_nothing(opened):
    told_once(opened)
    with opened(embedder=Recorder()) as service:
        service.sync.admin.purge()
    embedder = Recorder()
    service = opened(embedder=embedder)
    service.sync.add_memory(**ALICE, memories=FACTS, **KEY)
    assert embedder.asked == []
    assert found(service, "tea") == []


def test_a_key_of_another_user_is_no_key(opened):
    told_once(opened)
    embedder = Recorder()
    service = opened(embedder=embedder)
    service.sync.add_memory(**BOB, memories=FACTS, **KEY)
    assert sorted(embedder.asked) == sorted(FACTS)


def test_a_key_that_is_forgotten_after_it_was_looked_up_gives_no_row_without_a_vector(
    opened, tmp_path
):
    """The transaction has the last word; what it is to write is embedded first."""
    told_once(opened)
    embedder = Recorder()
    service = opened(embedder=embedder)
    waits = 0

    def wait(future: Future[Any]) -> Any:
        nonlocal waits
        result = future.result()
        waits += 1
        if waits == 1:  # the key has just been looked up
            assert embedder.asked == []
            with closing(sqlite3.connect(tmp_path / "m.db")) as file, file:
                assert file.execute("DELETE FROM idem").rowcount == 1
        return result

    request = make_fact_request(None, "k", "user")
    adding = service._memory.add_entries(
        *ALICE.values(), FACTS, GivenMetadata(), request
    )
    ids = run_with(wait, adding)
    assert sorted(embedder.asked) == sorted(FACTS)
    assert embedded(service) == 2
    assert service.sync.add_memory(**ALICE, memories=FACTS, **KEY) == ids
