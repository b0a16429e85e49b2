"""The groups of options of a service: what they hold, and what they refuse."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest
from vecall import (
    ConfigError,
    Limits,
    MemoryService,
    Quota,
    Ranking,
    SearchOptions,
    StorageOptions,
    WritePolicy,
)

GROUPS = {
    "search": SearchOptions,
    "storage": StorageOptions,
    "writes": WritePolicy,
    "limits": Limits,
}
WRONG = [
    (SearchOptions, "search", {"min_similarity": 1.01}),
    (SearchOptions, "search", {"min_similarity": float("nan")}),
    (SearchOptions, "search", {"ranking": "rrf"}),
    (SearchOptions, "search", {"authors": "user"}),
    (SearchOptions, "search", {"calibration": 5}),
    (SearchOptions, "search", {"scorer": 0.5}),
    (StorageOptions, "storage", {"durability": "never"}),
    (StorageOptions, "storage", {"cache_bytes": -1}),
    (StorageOptions, "storage", {"cache_bytes": True}),
    (StorageOptions, "storage", {"min_free_bytes": 1.5}),
    (StorageOptions, "storage", {"allow_network_filesystem": "yes"}),
    (StorageOptions, "storage", {"maintenance_interval": 0}),
    (StorageOptions, "", {"clock": 5}),
    (WritePolicy, "writes", {"on_write": "judge"}),
    (WritePolicy, "writes", {"history_ttl": -1}),
    (WritePolicy, "writes", {"quota": 5}),
    (WritePolicy, "writes", {"scopes": None}),
    (WritePolicy, "", {"include": ("pictures",)}),
    (Quota, "quota", {"memories": 0}),
    (Quota, "quota", {"bytes": 1.5}),
    (Quota, "quota", {"eviction": "newest"}),
]


@pytest.mark.parametrize(
    ("group", "prefix", "option"), WRONG, ids=[f"{w[0].__name__}-{w[2]}" for w in WRONG]
)
def test_a_group_refuses_a_value_when_it_is_made_and_names_the_option(
    group, prefix, option
):
    name = next(iter(option))
    with pytest.raises(ConfigError, match=rf"{prefix}\.{name}" if prefix else name):
        group(**option)


@pytest.mark.parametrize("group", [*GROUPS.values(), Quota])
def test_a_group_is_a_value_that_cannot_change(group):
    made = group()
    assert made == group()
    name = dataclasses.fields(group)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(made, name, None)
    assert not hasattr(made, "__dict__")
    with pytest.raises(TypeError):
        group(None)


@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.parametrize("given", [5, {}, "full", Quota()])
def test_a_service_refuses_what_is_not_the_group(tmp_path, name, given):
    path = tmp_path / "m.db"
    with pytest.raises(ConfigError, match=f"^{name}: .*{GROUPS[name].__name__}$"):
        MemoryService(path, embedder=None, **{name: given})
    assert not path.exists()


def test_authors_are_given_once():
    with pytest.raises(ConfigError, match=r"search\.authors"):
        SearchOptions(authors=("a",), ranking=Ranking(authors=("b",)))
    none = {"favoured": 1.0, "reply": 1.0}
    with pytest.raises(ConfigError, match=r"search\.authors"):
        SearchOptions(authors=("a",), ranking=Ranking(weights=none))


def test_lengths_of_time_may_be_numbers_timedeltas_and_texts(tmp_path):
    for number, length in enumerate((60, timedelta(minutes=1), "60s")):
        with MemoryService(
            tmp_path / f"{number}.db",
            embedder=None,
            storage=StorageOptions(maintenance_interval=length),
            writes=WritePolicy(history_ttl=length),
        ) as service:
            assert service.sync.add_memory(app_name="a", user_id="u", memories=["x"])


@pytest.mark.parametrize(
    "name", ["sweep_interval", "memory_budget", "min_score", "warn_raw", "clock"]
)
def test_a_field_of_a_group_is_no_argument_of_the_service(name):
    with pytest.raises(ConfigError, match=f"{name}: unknown option.*search, storage"):
        MemoryService(embedder=None, **{name: None})
