"""`PreloadMemory`: what a turn is given before the model is asked."""

from __future__ import annotations

import asyncio
import copy
import json
import re
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.memories import ALICE, SECRET
from helpers.tools import SCOPE, Watched, run, watched_service
from helpers.unasked import check_unasked
from vecall import (
    ConfigError,
    InvalidArgumentError,
    MemoryService,
    Ranking,
    SearchMemoryResponse,
    SearchOptions,
    VectorStoreMemoryService,
    render,
)
from vecall.prompts.render import estimate_tokens
from vecall.tools import PreloadMemory
from vecall.vector_store import InMemoryVectorStore

FORMATS = ("past_conversations", "bullets", "json", "secure")
SYSTEM = {"role": "system", "content": "You are a hotel."}


@pytest.fixture(name="memory")
def memory_fixture() -> Iterator[Watched]:
    yield from watched_service()


def block_of(memory: MemoryService | None, text: object = "zebra", **options: Any):
    return run(PreloadMemory(memory, *SCOPE, **options).block(text))


@pytest.mark.parametrize("format", FORMATS)
def test_a_block_is_what_render_makes_of_the_hits(memory: Watched, format: Any):
    """S0.40, S0.42, S4.8, S4.42: the query is the user's text, the look is chosen."""
    block = block_of(
        memory, "zebra four", format=format, secret="k", min_confidence=None
    )
    (asked,) = memory.searches
    assert asked == {
        **ALICE,
        "query": "zebra four",
        "top_k": 5,
    }
    found = memory.sync.search_memory(**ALICE, query="zebra four", top_k=5).memories
    assert block == render(found, format, scores=False, secret="k")
    assert "zebra four" in block


@pytest.mark.parametrize(
    ("content", "query"),
    [
        ("zebra one", "zebra one"),
        ({"parts": [{"text": "zebra"}, {"text": "one"}]}, "zebra one"),
        (
            {"parts": [{"text": "hm", "thought": True}, {"text": "zebra"}, {}]},
            "zebra",
        ),
        (SimpleNamespace(parts=[SimpleNamespace(text="zebra")]), "zebra"),
    ],
)
def test_all_text_parts_of_what_the_user_said_are_the_query(
    memory: Watched, content: object, query: str
):
    """S0.41, S4.40: all of them, joined, and no thoughts."""
    assert block_of(memory, content)
    assert [asked["query"] for asked in memory.searches] == [query]


@pytest.mark.parametrize("format", FORMATS)
def test_a_block_is_empty_where_there_is_nothing_to_say(memory: Watched, format: Any):
    """S0.44, S0.45, S0.46, S4.41: no service, no text, no hit: not a byte."""
    assert block_of(None, format=format) == ""
    for nothing in ("", " \n", None, {"parts": []}, {"parts": None}, 7):
        assert block_of(memory, nothing, format=format) == ""
    assert memory.searches == [], "no search, so no embedding either"
    assert block_of(memory, "okapi", format=format) == ""
    assert len(memory.searches) == 1


def test_without_a_service_there_is_one_warning_at_the_start(
    caplog: pytest.LogCaptureFixture,
):
    """S0.44, S1.51: silent in every turn, but whoever looks can see why."""
    preload = PreloadMemory(None, *SCOPE)
    assert caplog.messages == ["preload_memory has no memory service and finds nothing"]
    assert run(preload.block("zebra", turn="t1")) == ""
    assert len(caplog.messages) == 1


def test_a_search_that_fails_does_not_end_the_turn(
    open_service: Callable, caplog: pytest.LogCaptureFixture
):
    """S0.40: the turn goes on; the log names the error and repeats nothing."""

    def broken(texts: list[str]) -> list[list[float]]:
        if any("okapi" in text for text in texts):
            raise RuntimeError(SECRET)
        return [[1.0, 2.0, 3.0] for _ in texts]

    memory: MemoryService = open_service(embedder=broken)
    memory.sync.add_memory(**ALICE, memories=["zebra"])
    found = block_of(memory, f"okapi {SECRET} zebra", min_confidence=None)
    assert "zebra" in found
    (told,) = caplog.messages
    assert told.startswith("searched by words alone: ")
    assert SECRET not in caplog.text
    caplog.clear()
    store = InMemoryVectorStore()
    with VectorStoreMemoryService(store, lambda texts: [[1.0]] * len(texts)) as stored:
        assert block_of(stored, "zebra", min_confidence=0.5) == ""
    assert caplog.messages == []


def test_a_cancelled_turn_is_cancelled():
    """S0.40: only failures are swallowed."""

    class Waiting(MemoryService):
        async def search_memory(self, **asked: Any) -> SearchMemoryResponse:
            raise asyncio.CancelledError

    with Waiting() as memory, pytest.raises(asyncio.CancelledError):
        block_of(memory)


def test_the_number_of_entries_is_pushed_into_the_search(memory: Watched):
    """S0.38, S0.43: as many as are wanted, no more."""
    block = block_of(memory, max_entries=3, format="bullets", min_confidence=0.1)
    assert memory.searches[0]["top_k"] == 3
    assert memory.searches[0]["min_confidence"] == 0.1
    assert block.count("\n- ") == 3


@pytest.mark.parametrize("format", FORMATS)
def test_a_block_keeps_to_its_tokens(memory: Watched, format: Any):
    """S0.43: from nothing to all ten, whole memories and never a token too many."""
    sizes = set()
    for most in range(0, 700, 20):
        block = block_of(memory, format=format, max_entries=10, max_tokens=most)
        assert estimate_tokens(block) <= most
        sizes.add(len(set(re.findall(r"zebra [a-z]+", block))))
    assert {0, 1, 10} <= sizes
    assert len(sizes) > 5


def test_what_counts_least_is_shed_first(open_service: Callable):
    """S0.43: the least confidence times importance; one too large does not push."""
    memory: MemoryService = open_service()
    told = [("zebra heavy", 1.0), ("zebra light", 0.0), ("zebra middle", 0.5)]
    entries = [{"text": text, "importance": weight} for text, weight in told]
    huge = {"text": "zebra " + "zebra " * 500, "importance": 1.0}
    memory.sync.add_memory(**ALICE, memories=[*entries, huge])

    def shown(most: int) -> set[str]:
        block = block_of(memory, format="bullets", max_tokens=most)
        return set(re.findall(r"heavy|middle|light", block))

    kept = [shown(most) for most in range(5, 60)]
    steps = [each for at, each in enumerate(kept) if at == 0 or each != kept[at - 1]]
    assert steps == [
        set(),
        {"heavy"},
        {"heavy", "middle"},
        {"heavy", "middle", "light"},
    ]


def test_of_equals_the_last_in_rank_is_shed_first(open_service: Callable):
    """S0.43: without importance nothing weighs anything, and the order decides."""
    memory: MemoryService = open_service()
    told = [
        {"text": f"zebra {word}", "importance": 0.0} for word in ("one", "two", "six")
    ]
    memory.sync.add_memory(**ALICE, memories=told)
    found = memory.sync.search_memory(**ALICE, query="zebra").memories
    assert [each.importance for each in found] == [0.0, 0.0, 0.0]
    ranked = [each.text for each in found]
    shown = [
        re.findall("zebra [a-z]+", block_of(memory, format="bullets", max_tokens=most))
        for most in range(5, 60)
    ]
    assert all(each == ranked[: len(each)] for each in shown)
    assert {len(each) for each in shown} == {0, 1, 2, 3}


def test_without_confidence_the_last_in_rank_is_shed_first(open_service: Callable):
    """S0.43: a scorer that gives no confidence leaves the budget in force."""

    def near(texts: Sequence[str]) -> list[list[float]]:
        place = {"one": 1.0, "two": 0.8, "three": 0.6, "ask": 1.0}
        return [
            [value, (1 - value**2) ** 0.5]
            for value in (
                next((v for word, v in place.items() if word in text), 0.5)
                for text in texts
            )
        ]

    memory: MemoryService = open_service(
        embedder=near, scorer=lambda memory, query: (None, memory.importance)
    )
    memory.sync.add_memory(**ALICE, memories=["one", "two", "three"])
    ranked = [m.text for m in memory.sync.search_memory(**ALICE, query="ask").memories]
    assert ranked == ["one", "two", "three"]
    seen = []
    for most in range(5, 40):
        block = block_of(memory, "ask", format="bullets", max_tokens=most)
        seen.append(tuple(re.findall(r"one|two|three", block)))
    assert set(seen) == {(), ("one",), ("one", "two"), ("one", "two", "three")}


@pytest.mark.parametrize("format", FORMATS)
def test_twenty_turns_leave_the_prefix_of_the_prompt_as_it_is(
    memory: Watched, format: Any
):
    """S0.40: a provider's cache holds: system and history never change, the block is
    last and the same for the same hits."""
    preload = PreloadMemory(memory, *SCOPE, format=format)
    history: list[dict[str, Any]] = [SYSTEM]
    blocks = set()
    before: list[dict[str, Any]] = [SYSTEM]

    async def talk() -> None:
        nonlocal before
        for turn in range(20):
            history.append({"role": "user", "content": "zebra five"})
            block = await preload.block("zebra five", turn=turn)
            blocks.add(block)
            request = preload.place(history, block)
            assert json.dumps(request[: len(before)]) == json.dumps(before)
            assert request[-1] == {"role": "user", "content": block}
            before = request[:-1]
            history.append({"role": "assistant", "content": f"answer {turn}"})

    run(talk())
    assert len(blocks) == 1
    assert len(memory.searches) == 20


def test_in_the_system_text_a_block_comes_after_everything_else(memory: Watched):
    """S0.42, S4.42: placement "system", and nothing of the caller's is changed."""
    preload = PreloadMemory(memory, *SCOPE, format="bullets", placement="system")
    block = run(preload.block("zebra"))
    hello = {"role": "user", "content": "hello"}
    parts = {"role": "developer", "content": [{"type": "text", "text": "You are."}]}
    for system, content in (
        (SYSTEM, f"You are a hotel.\n\n{block}"),
        (parts, [*parts["content"], {"type": "text", "text": block}]),
        ({"role": "system", "content": None}, block),
    ):
        messages = [system, hello]
        kept = copy.deepcopy(messages)
        assert preload.place(messages, block) == [{**system, "content": content}, hello]
        assert messages == kept
    assert preload.place([hello], block) == [
        {"role": "system", "content": block},
        hello,
    ]


@pytest.mark.parametrize("placement", ["user", "system"])
def test_without_a_block_a_request_is_left_as_it_is(placement: Any):
    """S0.46: byte for byte."""
    messages = [SYSTEM, {"role": "user", "content": "hello"}]
    preload = PreloadMemory(None, *SCOPE, placement=placement)
    assert preload.place(messages, "") == messages
    assert preload.place([], "") == []


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"format": "plain"}, ConfigError),
        ({"format": "xml"}, ConfigError),
        ({"placement": "assistant"}, ConfigError),
        ({"max_entries": 0}, InvalidArgumentError),
        ({"max_entries": True}, InvalidArgumentError),
        ({"max_tokens": -1}, InvalidArgumentError),
        ({"max_tokens": 1.5}, InvalidArgumentError),
        ({"min_confidence": 1.5}, InvalidArgumentError),
        ({"min_confidence": float("nan")}, InvalidArgumentError),
        ({"format": "secure", "secret": ""}, InvalidArgumentError),
        ({"scores": 1}, InvalidArgumentError),
        ({"count_tokens": 4}, InvalidArgumentError),
    ],
)
def test_what_could_not_be_used_is_refused_at_once(
    options: dict[str, Any], error: type[Exception]
):
    """S0.38: a turn is silent, so whoever sets it up must hear."""
    with pytest.raises(error, match=next(reversed(options))):
        PreloadMemory(None, *SCOPE, **options)


def test_an_unrelated_message_finds_nothing():
    check_unasked(
        lambda memory, text, **options: block_of(memory, text, **options),
        SCOPE,
        max_tokens=2_000,
    )


def test_a_memory_without_a_confidence_passes_the_default_floor():
    """Of a scorer that knows none, or of another library."""
    unknown = SearchOptions(scorer=lambda memory, query: (None, 0.5))
    with MemoryService(embedder=None, search=unknown) as memory:
        memory.sync.add_memory(**ALICE, memories=["zebra"])
        assert "zebra" in block_of(memory, "zebra")
        assert "zebra" in block_of(memory, "zebra", min_confidence=0)
        assert block_of(memory, "zebra", min_confidence=0.1) == ""


def test_what_is_below_a_floor_takes_no_place_in_a_block():
    """A half-life puts the sure memory, which is old, behind a weak match."""
    search = SearchOptions(ranking=Ranking(half_life=60.0))
    with MemoryService(embedder=None, search=search) as memory:
        sure = {"text": "The wifi password of the cabin is heron", "timestamp": 1e9}
        memory.sync.add_memory(**ALICE, memories=[sure, "the cabin was cold"])
        asked = "What is the wifi password of the cabin?"
        (first,) = memory.sync.search_memory(**ALICE, query=asked, top_k=1).memories
        assert "cold" in first.text
        assert "heron" in block_of(memory, asked, max_entries=1, min_confidence=0.2)


@pytest.mark.parametrize(("floor", "passes"), [(0, True), (0.2, True), (1, False)])
def test_a_floor_holds_for_a_service_whose_search_takes_none(caplog, floor, passes):
    store = InMemoryVectorStore()
    with VectorStoreMemoryService(store, lambda texts: [[1.0]] * len(texts)) as memory:
        memory.sync.add_memory(**ALICE, memories=["zebra"])
        shown = block_of(memory, "zebra", min_confidence=floor)
        assert ("zebra" in shown) == passes
    assert caplog.messages == []
