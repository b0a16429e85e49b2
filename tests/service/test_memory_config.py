"""MemoryConfig: the set-ups that people ask for, and those that cannot be."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import warnings

import pytest
from helpers.embedders import Recorder, embedded, found
from helpers.memories import ALICE
from helpers.observed_sessions import Llm, compaction, memories, said, summed, talk
from helpers.options import grouped
from helpers.sessions import session, turn, turns
from helpers.summaries import Recording, Scripted
from vecall import (
    CompactionAwareSummaryProvider,
    ConfigError,
    MemoryService,
    RawTurnsWarning,
    VectorStoreMemoryService,
)
from vecall.limits import Compaction, SessionEnd
from vecall.other_storage.vector_store import MemoryConfig
from vecall.vector_store import InMemoryVectorStore

ROOM = compaction("zebra room", 1.0, 2.0)
COMPACTED = session(*turns(1, 2), ROOM, turn(3))


@pytest.fixture
def built():
    """Builds services from configurations, and closes them."""
    services = []

    def build(config, **options):
        services.append(config.build(**grouped(**options)))
        return services[-1]

    yield build
    for service in services:
        service.close()


def test_without_any_part_turns_are_remembered_and_found_by_words(built):
    """S4.31: the defaults of a configuration are the defaults of a service."""
    service = built(MemoryConfig())
    assert isinstance(service, MemoryService)
    service.sync.add_session_to_memory(talk(1, 2))
    assert memories(service) == said(1, 2)
    assert found(service, "word1")[0] == "turn word1"
    assert embedded(service) == 0


def test_the_full_semantic_set_up(built):
    """S4.32: at the end of a session one call of the model, one of the embedder."""
    llm, embedder = Llm(), Recorder()
    service = built(
        MemoryConfig(
            trigger={"type": "session_end"},
            summarization={"provider": llm.provider},
            embedding={"provider": embedder},
        )
    )
    service.sync.observe_session(talk(1, 2))
    assert memories(service) == []
    service.sync.end_session(talk(1, 2))
    assert memories(service) == [summed(1, 2)]
    assert (len(llm.asked), len(embedder.asked), embedded(service)) == (1, 1, 1)


@pytest.mark.parametrize(
    "trigger", ["compaction", {"type": "compaction"}, Compaction()]
)
def test_the_recommended_set_up(built, trigger):
    """S4.33: compactions and an embedder, no model, no warning."""
    embedder = Recorder()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        service = built(MemoryConfig(trigger=trigger, embedding=embedder))
    assert len(service.sync.observe_session(COMPACTED)) == 1
    assert memories(service) == embedder.asked == ["zebra room"]


def test_a_compaction_aware_provider_in_its_simple_form(built):
    """S4.34: made of a model alone; asked at the end of a session for the rest."""
    llm = Scripted(json.dumps({"summary": "sum of the rest"}))
    aware = CompactionAwareSummaryProvider({"llm": llm})
    config = MemoryConfig(SessionEnd(), {"provider": aware}, Recorder())
    service = built(config)
    service.sync.end_session(COMPACTED)
    assert memories(service) == ["zebra room", "sum of the rest"]
    (shown,) = llm.asked
    assert [f"word{number}" in shown for number in (1, 2, 3)] == [False, False, True]


def test_a_compaction_aware_provider_in_its_advanced_form(built):
    """S4.35: around a provider of one's own."""
    inner = Recording()
    config = MemoryConfig("session_end", CompactionAwareSummaryProvider(inner))
    service = built(config)
    service.sync.end_session(session(*turns(1, 2), ROOM))
    assert inner.sessions == []
    service.sync.end_session(COMPACTED)
    assert memories(service) == ["zebra room", "The rest."]
    assert [len(shown["events"]) for shown in inner.sessions] == [1]


def test_a_path_is_the_file_of_a_durable_service(built, tmp_path):
    """S4.16: as text or as Path; opened again, the memories are there."""
    with MemoryConfig(vector_store=str(tmp_path / "m.db")).build() as service:
        service.sync.add_session_to_memory(talk(1))
    service = built(MemoryConfig(vector_store=tmp_path / "m.db"))
    assert memories(service) == said(1)


def test_a_vector_store_of_ones_own_holds_the_memories(built):
    """S4.16: an object instead of a path; the store is what is written to."""
    store, embedder = InMemoryVectorStore(), Recorder()
    config = MemoryConfig(embedding=embedder, vector_store=store, search_top_k=2)
    service = built(config, min_similarity=-1.0)
    assert isinstance(service, VectorStoreMemoryService)

    async def use():
        await service.add_session_to_memory(talk(1, 2, 3))
        return await service.search_memory(**ALICE, query="turn word2")

    assert len(asyncio.run(use()).memories) == 2
    assert len(embedder.asked) == 4


def test_search_top_k_is_how_many_memories_an_answer_has(built):
    """S4.16: five unless it is said, and a search may still say otherwise."""
    for count, config in ((5, MemoryConfig()), (2, MemoryConfig(search_top_k=2))):
        service = built(config)
        service.sync.add_memory(**ALICE, memories=[f"zebra {i}" for i in range(9)])
        assert len(found(service, "zebra")) == count
        assert len(found(service, "zebra", top_k=7)) == 7


def test_an_embedding_may_be_a_function_or_a_mapping_with_its_model(built):
    """S4.16: the model's name is the embedder's, where that has one."""
    recorder = Recorder()
    for embedding in (
        recorder.embed,
        {"provider": recorder.embed, "model": "anything"},
        {"provider": recorder, "model": "recorder"},
        {"provider": recorder, "model": None},
    ):
        service = built(MemoryConfig(embedding=embedding))
        service.sync.add_session_to_memory(talk(1))
        assert embedded(service) == 1


def test_a_named_embedder_takes_its_model(built):
    """S4.16: the names are those of a service; "local" has one model."""
    for config in (
        MemoryConfig(embedding={"provider": "local", "model": "other"}),
        MemoryConfig(embedding={"provider": "unheard-of"}),
        MemoryConfig(embedding="unheard-of"),
    ):
        with pytest.raises(ConfigError, match="embedder"):
            built(config)


def test_an_embedding_without_a_summary_warns_as_the_service_does(built):
    """S4.47: once, when it is built."""
    config = MemoryConfig(embedding=Recorder())
    with pytest.warns(RawTurnsWarning, match="without a summary") as caught:
        built(config)
    assert len(caught) == 1


@pytest.mark.parametrize(
    ("parts", "named"),
    [
        ({"trigger": "never"}, "trigger"),
        ({"trigger": {"type": "inactivity"}}, "trigger"),
        ({"trigger": 7}, "trigger"),
        ({"summarization": "llm"}, "summarization"),
        ({"summarization": lambda prompt: prompt}, "summarization"),
        ({"summarization": {}}, "summarization"),
        ({"summarization": {"provider": None}}, "summarization"),
        ({"summarization": {"provider": 7}}, "summarization"),
        ({"summarization": {"provider": Recording(), "x": 1}}, "summarization"),
        ({"embedding": 7}, "embedding"),
        ({"embedding": {}}, "embedding"),
        ({"embedding": {"model": "recorder"}}, "embedding"),
        ({"embedding": {"provider": Recorder(), "model": "other"}}, "model"),
        ({"embedding": {"provider": Recorder(), "model": 7}}, "model"),
        ({"embedding": {"provider": Recorder(), "model": ""}}, "model"),
        ({"embedding": {"provider": Recorder(), "key": "k"}}, "embedding"),
        ({"vector_store": 7}, "vector_store"),
        ({"vector_store": object()}, "vector_store"),
        ({"vector_store": InMemoryVectorStore()}, "embedding"),
        ({"search_top_k": 0}, "search_top_k"),
        ({"search_top_k": True}, "search_top_k"),
        ({"search_top_k": 2.0}, "search_top_k"),
        ({"search_top_k": "5"}, "search_top_k"),
        ({"search_top_k": None}, "search_top_k"),
    ],
)
def test_what_cannot_be_is_refused_at_once(parts, named):
    """S4.16, S4.47: when the configuration is made, before any file is."""
    with pytest.raises(ConfigError, match=named):
        MemoryConfig(**parts)


def test_a_vector_store_of_ones_own_has_trigger_and_summaries(built):
    """S4.16: the main configuration, with a store of one's own."""
    provider = Recording()
    service = built(
        MemoryConfig(
            trigger="session_end",
            summarization={"provider": provider},
            embedding=Recorder(),
            vector_store=InMemoryVectorStore(),
        ),
        maintenance_interval=None,
    )
    service.sync.observe_session(talk(1, 2))
    assert provider.sessions == []
    (id_,) = service.sync.end_session(**ALICE, session_id="s")
    (found,) = service.sync.search_memory(**ALICE, query="turn").memories
    assert (found.id, found.text, found.kind) == (id_, "The rest.", "summary")
    assert len(provider.sessions) == 1


@pytest.mark.parametrize(
    "option", ["path", "store", "embedder", "summarizer", "trigger", "top_k"]
)
def test_an_option_that_is_a_part_of_the_configuration_is_refused(option):
    """S4.16: each thing is said in one place."""
    with pytest.raises(ConfigError, match=option):
        MemoryConfig().build(**{option: None})


def test_a_configuration_is_a_value():
    """S4.16: it cannot change, equals another of the same parts, builds many times."""
    config = MemoryConfig(trigger="session_end", search_top_k=3)
    assert config == MemoryConfig(trigger="session_end", search_top_k=3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.search_top_k = 4
    with config.build() as one, config.build() as two:
        one.sync.add_session_to_memory(talk(1))
        assert memories(two) == []
