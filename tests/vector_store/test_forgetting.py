"""Forgetting in two steps over a vector store: near the best only, confirmed once."""

from __future__ import annotations

import asyncio

import pytest
from helpers.clocks import SettableClock
from helpers.embedders import Fixed, Recorder
from helpers.memories import ALICE, BOB
from helpers.vector_stores.reference import ReferenceVectorStore
from vecall import (
    EmbedderError,
    InvalidArgumentError,
    NotFoundError,
    SearchOptions,
    StorageOptions,
    VectorStoreMemoryService,
)
from vecall.tools import ForgetMemory

VECTORS = {
    "my PIN is 4938": [1.0, 0.1, 0.0],
    "the PIN of my card": [1.0, 0.2, 0.0],
    "a quiet room": [0.0, 0.0, 1.0],
    "parrots are fine": [0.0, 1.0, 0.2],
    "secret number": [1.0, 0.0, 0.0],
    "weather": [-1.0, -1.0, -1.0],
}
FACTS = list(VECTORS)[:4]
PINS = FACTS[:2]


@pytest.fixture
def clock():
    return SettableClock()


@pytest.fixture
def service(clock):
    store = ReferenceVectorStore()
    with VectorStoreMemoryService(
        store,
        Fixed(VECTORS),
        storage=StorageOptions(clock=clock),
        search=SearchOptions(min_similarity=0.99),
    ) as opened:
        opened.sync.add_memory(**ALICE, memories=FACTS)
        yield opened


def left(service):
    return sorted(row[2]["text"] for row in service.store.rows)


def propose(service, query="secret number", **more):
    return service.sync.propose_forget(**{**ALICE, **more}, query=query)


def test_a_proposal_keeps_to_what_is_near_the_best_and_ignores_the_floor(service):
    """S4.60: by meaning, where no word is shared."""
    proposal = propose(service)
    assert [memory.text for memory in proposal.memories] == PINS
    assert left(service) == sorted(FACTS)
    assert service.sync.confirm_forget(**ALICE, token=proposal.token) == 2
    assert left(service) == sorted(FACTS[2:])


def test_nothing_near_is_no_proposal(service):
    proposal = propose(service, "weather")
    assert (proposal.token, proposal.memories) == ("", [])


def test_chosen_ones_go_and_a_token_counts_once(service):
    proposal = propose(service)
    chosen = [proposal.memories[1].id]
    with pytest.raises(InvalidArgumentError, match="ids"):
        service.sync.confirm_forget(**ALICE, token=proposal.token, ids=["other"])
    assert service.sync.confirm_forget(**ALICE, token=proposal.token, ids=chosen) == 1
    with pytest.raises(NotFoundError):
        service.sync.confirm_forget(**ALICE, token=proposal.token)
    assert left(service) == sorted({*FACTS} - {proposal.memories[1].text})


def test_a_token_is_of_one_user_and_of_ten_minutes(service, clock):
    first, second = propose(service), propose(service)
    for who in (BOB, {**ALICE, "app_name": "other"}):
        with pytest.raises(NotFoundError):
            service.sync.confirm_forget(**who, token=first.token)
    clock.let_pass(599)
    assert service.sync.confirm_forget(**ALICE, token=first.token) == 2
    clock.let_pass(2)
    with pytest.raises(NotFoundError):
        service.sync.confirm_forget(**ALICE, token=second.token)


def test_what_says_something_else_meanwhile_is_not_deleted(service):
    proposal = propose(service)
    entry = {"id": proposal.memories[0].id, "text": "a quiet room"}
    service.sync.add_memory(**ALICE, memories=[entry])
    with pytest.raises(NotFoundError):
        service.sync.confirm_forget(**ALICE, token=proposal.token)
    assert len(left(service)) == 4


def test_where_the_store_fails_the_same_token_deletes_the_rest(service):
    proposal = propose(service)
    delete = service.store.delete

    async def failing(id, **names):
        if id == proposal.memories[1].id:
            raise ConnectionError
        return await delete(id, **names)

    service.store.delete = failing
    with pytest.raises(ConnectionError):
        service.sync.confirm_forget(**ALICE, token=proposal.token)
    service.store.delete = delete
    assert service.sync.confirm_forget(**ALICE, token=proposal.token) == 1
    assert left(service) == sorted(FACTS[2:])


def test_without_the_embedder_nothing_is_proposed():
    class Down(Recorder):
        def embed(self, texts):
            raise RuntimeError

    with (
        VectorStoreMemoryService(ReferenceVectorStore(), Down()) as service,
        pytest.raises(EmbedderError),
    ):
        propose(service)


def test_the_tool_forgets_over_a_vector_store(service):
    """S4.60: it shows, and deletes what was chosen."""
    tool = ForgetMemory(service, "app", "alice")

    def call(**arguments):
        return asyncio.run(tool(**arguments))

    asked = call(query="secret number")
    assert [each["text"] for each in asked["memories"]] == PINS
    ids = [asked["memories"][0]["id"]]
    assert call(token=asked["token"], ids=ids) == {"status": "forgotten", "count": 1}
    assert call(token=asked["token"], ids=ids) == {"status": "unknown_token"}


def test_many_proposals_of_one_user_push_out_none_of_another(service):
    service.sync.add_memory(**BOB, memories=FACTS)
    theirs = propose(service, **BOB)
    for _ in range(30):
        newest = propose(service)
    assert service.sync.confirm_forget(**BOB, token=theirs.token) == 2
    assert service.sync.confirm_forget(**ALICE, token=newest.token) == 2
