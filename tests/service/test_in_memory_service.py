"""InMemoryMemoryService: text that matches, and nothing else."""

from __future__ import annotations

import asyncio
import json
import unicodedata

import pytest
from helpers.campaigns import examples
from helpers.embedders import Recorder
from helpers.options import grouped
from helpers.services import ALICE, turn
from hypothesis import given, settings
from hypothesis import strategies as st
from vecall import (
    Calibration,
    ConfigError,
    Filter,
    InvalidArgumentError,
    MemoryEntry,
    Ranking,
    SearchOptions,
)
from vecall.other_storage.in_memory import InMemoryMemoryService
from vecall.ranking.calibration import Signals

BOTH = pytest.mark.parametrize("match", ["substring", "words"])

# Letters that case, composition and scripts change.
LETTERS = "abAB \u00e9e\u0301\u00c9\u00df\u1e9e\u0430\u0410\u79c1\u306f_-."
SAMPLES = st.text(st.sampled_from(LETTERS), max_size=8)
MIXED = st.text(
    st.sampled_from("abAB \u00e9\u00c9\u0430\u0410\u79c1\u306f-"), max_size=8
)


def answer(service, query, **asked):
    return service.sync.search_memory(**ALICE, query=query, **asked).memories


def found(service, query, **asked):
    return [memory.text for memory in answer(service, query, **asked)]


OPEN = []


@pytest.fixture(autouse=True)
def closed_at_the_end():
    yield
    while OPEN:
        OPEN.pop().close()


def filled(match, *texts):
    """A service with texts, the first of which are the oldest."""
    service = InMemoryMemoryService(match)
    OPEN.append(service)
    service.sync.add_memory(
        **ALICE,
        memories=[
            MemoryEntry(text, id=f"m{n:03}", timestamp=float(n))
            for n, text in enumerate(texts)
        ],
    )
    return service


def has_letter(text):
    return any(unicodedata.category(letter)[0] in "LMN" for letter in text)


def test_substring_is_how_it_matches_without_a_word():
    """S0.15: the whole query, in any case, inside words too; the newest first."""
    texts = ["A red Bicycle", "red bicycles", "bicycle, red", "a redbicycle"]
    with InMemoryMemoryService() as service:
        for n, text in enumerate(texts):
            memory = MemoryEntry(text, timestamp=float(n))
            service.sync.add_memory(**ALICE, memories=[memory])
        assert found(service, "RED BICYCLE") == ["red bicycles", "A red Bicycle"]
        assert found(service, "cycle") == texts[::-1]
        assert found(service, "bicycle red") == []


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Stra\u00dfe", "STRASSE"),
        ("STRASSE", "stra\u00dfe"),
        ("caf\u00e9", "CAFE\u0301"),
        ("cafe\u0301", "caf\u00c9"),
        ("\u03a3\u03bf\u03c6\u03cc\u03c2", "\u03c3\u03bf\u03c6\u03cc\u03c3"),
        ("\u79c1\u306fPython\u3092\u4f7f\u3046", "python"),
        ("\u79c1\u306fPython\u3092\u4f7f\u3046", "\u4f7f"),
    ],
    ids=ascii,
)  # fmt: skip
@BOTH
def test_case_and_composition_do_not_count(match, text, query):
    """S0.15, S1.8: NFC, casefold."""
    with filled(match, text, "caf", "cafeteria-") as service:
        assert found(service, query) == [text]


def test_a_text_with_a_lone_surrogate_is_found_by_itself():
    """S0.15: the query is mended as the text was."""
    with filled("substring", "zebra \ud800a", "zebra a") as service:
        assert found(service, "ZEBRA \ud800A") == ["zebra \ufffda"]


@pytest.mark.campaign
@settings(max_examples=examples(60), deadline=None)
@given(texts=st.lists(SAMPLES.filter(str.strip), max_size=6), query=SAMPLES)
def test_a_substring_is_one_after_composition_and_casefolding(texts, query):
    """S0.15: against Python's own `in`, for any text."""
    wanted = unicodedata.normalize("NFC", query).casefold()
    expected = [
        text
        for text in texts[::-1]
        if has_letter(query) and wanted in unicodedata.normalize("NFC", text).casefold()
    ]
    with filled("substring", *texts) as service:
        assert found(service, query, top_k=100) == expected


def test_words_match_whole_and_those_with_most_of_them_come_first():
    """S1.8, S3.13; equal ones by time."""
    texts = ["red bicycle", "a green bicycle", "Red, RED car", "bicycles", "redder"]
    with filled("words", *texts) as service:
        assert found(service, "my red Bicycle?") == [texts[0], texts[2], texts[1]]
        scores = [memory.score for memory in answer(service, "my red bicycle")]
        assert scores == pytest.approx([2 / 3, 1 / 3, 1 / 3])


@pytest.mark.campaign
@settings(max_examples=examples(60), deadline=None)
@given(texts=st.lists(MIXED.filter(str.strip), max_size=6), query=MIXED)
def test_words_match_as_in_google_adk(texts, query):
    """S1.8: against the service itself; of equal ones the newer comes first here."""
    memory = pytest.importorskip("google.adk.memory.in_memory_memory_service")
    events = pytest.importorskip("google.adk.events")
    types = pytest.importorskip("google.genai.types")
    theirs = memory.InMemoryMemoryService()
    told = [
        events.Event(author="user", content=types.UserContent(text)) for text in texts
    ]

    async def ask():
        # From the newest on, since theirs keeps equal ones in the order of telling.
        await theirs.add_events_to_memory(**ALICE, events=told[::-1])
        return await theirs.search_memory(**ALICE, query=query)

    expected = [hit.content.parts[0].text for hit in asyncio.run(ask()).memories]
    with filled("words", *texts) as service:
        assert found(service, query, top_k=10) == expected


@BOTH
def test_of_equal_matches_the_newer_then_the_smaller_id_comes_first(match):
    """S0.19: so the order of telling does not count."""
    memories = [
        MemoryEntry(f"zebra {id_}", id=id_, timestamp=time)
        for id_, time in [("b", 1.0), ("d", 2.0), ("a", 1.0), ("c", 2.0), ("e", 0.0)]
    ]
    with InMemoryMemoryService(match) as service:
        service.sync.add_memory(**ALICE, memories=memories)
        assert [memory.id for memory in answer(service, "zebra")] == list("cdabe")
        assert [memory.id for memory in answer(service, "zebra", top_k=3)] == list(
            "cda"
        )


@BOTH
def test_a_match_has_a_score_a_confidence_and_an_importance(match):
    with filled(match, "zebra") as service:
        (memory,) = answer(service, "zebra")
        assert memory.score == 1.0
        assert memory.similarity is None
        assert 0.0 < memory.confidence < 1.0
        assert memory.explanation is None
        assert 0.0 < memory.importance < 0.5  # it is of 1970
        (memory,) = answer(service, "zebra", explain=True)
        matched = {"query_coverage": 1.0, "relative": 1.0, "rank": 0.0}
        same = {"place": 0.0, "factor": 1.0, "vectors": 0.0, "vector_scale": 1.0}
        expected = {**matched, **same}
        assert memory.explanation == expected
        fresh = MemoryEntry("okapi", importance=0.9)
        service.sync.add_memory(**ALICE, memories=[fresh])
        assert answer(service, "okapi")[0].importance == pytest.approx(0.9)


@BOTH
def test_every_condition_of_a_filter_counts(match):
    """S1.30: and the end of a time range is exclusive."""
    with InMemoryMemoryService(match) as service:
        for n in range(4):
            entry = MemoryEntry(
                f"zebra {n}",
                timestamp=float(n),
                author=f"a{n % 2}",
                kind=f"k{n // 2}",
                session_id=f"s{n}",
            )
            service.sync.add_memory(**ALICE, memories=[entry])

        def numbers(**asked):
            texts = found(service, "zebra", filter=Filter(**asked))
            return sorted(int(text[-1]) for text in texts)

        assert numbers() == [0, 1, 2, 3]
        assert numbers(session_id="s2") == [2]
        assert numbers(author="a1") == [1, 3]
        assert numbers(kind="k1") == [2, 3]
        assert numbers(after=1) == [1, 2, 3]
        assert numbers(before=2) == [0, 1]
        assert numbers(author="a0", kind="k1", after=2, before=3) == [2]
        assert numbers(author="a0", before=0) == []


@BOTH
def test_on_an_event_loop_and_off_it_the_answer_is_the_same(match):
    """S0.10."""
    with filled(match, *[f"zebra {n}" for n in range(9)]) as service:
        asked = {**ALICE, "query": "zebra", "top_k": 4, "filter": Filter(before=7)}
        blocking = service.sync.search_memory(**asked)
        assert asyncio.run(service.search_memory(**asked)) == blocking
        assert [memory.timestamp for memory in blocking.memories] == [6, 5, 4, 3]


@BOTH
def test_the_number_of_memories_can_be_chained(match):
    """S0.26, S0.27, S0.29."""
    with filled(match, *[f"zebra {n}" for n in range(9)]) as service:
        assert len(found(service, "zebra")) == 5
        assert service.with_top_k(7) is service
        assert len(found(service, "zebra")) == 7
        with pytest.raises(ValueError, match="top_k"):
            service.with_top_k(0)
        assert len(found(service, "zebra")) == 7


@pytest.mark.parametrize("match", ["", "regex", None, 1, ["words"], "m.db"])
def test_another_way_to_match_is_refused(match):
    with pytest.raises(ConfigError, match="match"):
        InMemoryMemoryService(match)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("embedder", Recorder()),
        ("embedder", "local"),
        ("ranking", Ranking()),
        ("calibration", "weights.json"),
        ("min_similarity", 0.5),
        ("min_confidence", 1.5),
        ("top_k", 0),
    ],
)
@BOTH
def test_an_option_without_a_meaning_here_is_refused(match, name, value):
    with pytest.raises(ValueError, match=name):
        InMemoryMemoryService(match, **grouped(**{name: value}))


@BOTH
def test_a_search_that_asks_for_ranking_or_a_floor_on_the_cosine_is_refused(match):
    with filled(match, "zebra") as service:
        for asked in ({"ranking": Ranking()}, {"min_similarity": 0.1}):
            with pytest.raises(ConfigError):
                found(service, "zebra", **asked)


@BOTH
def test_it_cannot_be_moved_to_an_embedding_model(match):
    with filled(match, "zebra") as service:
        with pytest.raises(ConfigError, match="embedder"):
            service.sync.admin.reembed(Recorder())
        with pytest.raises(ConfigError, match="embedder"):
            asyncio.run(service.admin.reembed(Recorder()))
        assert found(service, "zebra") == ["zebra"]
        assert found(service, "okapi") == []


def test_a_match_is_as_likely_as_its_share_and_place_say():
    """By the weights for matches, the same that a fit sees; and there is a floor."""
    texts = ["red bicycle", "a green bicycle", "Red, RED car", "zebra"]
    with filled("words", *texts) as service:
        memories = answer(service, "my red bicycle", explain=True)
        weights = Calibration.shipped().matches
        expected = [
            weights.probability(Signals.signals_of_memory(memory))
            for memory in memories
        ]
        expected[2] = expected[1]  # they match alike, so they are equally probable
        confidences = [memory.confidence for memory in memories]
        assert confidences == pytest.approx(expected)
        sure, *doubtful = [memory.confidence for memory in memories]
        assert sure > max(doubtful)
        assert found(service, "my red bicycle", min_confidence=sure) == [texts[0]]


@BOTH
def test_a_service_that_matches_has_a_floor_on_the_confidence(match):
    with InMemoryMemoryService(match, min_confidence=0.999) as service:
        service.sync.add_memory(**ALICE, memories=["zebra"])
        assert found(service, "zebra") == []
        assert found(service, "zebra", min_confidence=0.0) == ["zebra"]


@BOTH
def test_a_scorer_gives_confidence_in_place_of_the_matchs(match):
    """The scorer has the last word, as in every service."""

    def scorer(memory, query):
        return (0.9 if memory.text == f"{query} sure" else 0.2), 0.7

    with InMemoryMemoryService(match, search=SearchOptions(scorer=scorer)) as service:
        service.sync.add_memory(**ALICE, memories=["zebra sure", "zebra maybe"])
        memories = answer(service, "zebra")
        assert sorted(memory.confidence for memory in memories) == [0.2, 0.9]
        assert {memory.importance for memory in memories} == {0.7}
        assert found(service, "zebra", min_confidence=0.9) == ["zebra sure"]


@BOTH
def test_all_else_is_the_memory_services(match, tmp_path):
    """S1.7, S1.8: getting, exporting, forgetting, replacing a session."""
    with InMemoryMemoryService(match) as service:
        told = {**ALICE, "id": "s", "events": [turn(1), turn(2)]}
        ids = service.sync.add_session_to_memory(told)
        assert service.sync.get_memory(**ALICE, memory_id=ids[0]).text == "zebra 1"
        assert service.sync.admin.export_jsonl(tmp_path / "all.jsonl") == 2
        lines = (tmp_path / "all.jsonl").read_text().splitlines()
        assert sum("zebra" in json.dumps(json.loads(line)) for line in lines) == 2
        service.sync.add_session_to_memory({**told, "events": [turn(2)]}, replace=True)
        assert found(service, "zebra") == ["zebra 2"]
        assert service.sync.delete_user(**ALICE, forget=True) == 1
        assert found(service, "zebra") == []
        assert service.sync.admin.import_jsonl(tmp_path / "all.jsonl") == 2
        assert found(service, "zebra") == ["zebra 2", "zebra 1"]


@BOTH
def test_nothing_outlives_the_process(match, tmp_path, monkeypatch):
    """S0.21: process-local."""
    monkeypatch.chdir(tmp_path)
    with filled(match, "zebra") as service:
        assert found(service, "zebra") == ["zebra"]
    assert list(tmp_path.iterdir()) == []
    with InMemoryMemoryService(match) as service:
        assert found(service, "zebra") == []


@BOTH
def test_a_query_must_be_a_text(match):
    with (
        InMemoryMemoryService(match) as service,
        pytest.raises(InvalidArgumentError, match="query"),
    ):
        answer(service, 5)
