"""Options, URIs and the service registry of google-adk."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.options import grouped
from vecall import SearchOptions, StorageOptions, WritePolicy

pytest.importorskip("google.adk")

import vecall
import vecall.adk
from google.adk.sessions import InMemorySessionService
from helpers.adk import PARROT, a_trip, add, entries, ingest, search
from vecall.adk import VecallMemoryService
from vecall.adk.memory_service import parse_adk_uri, with_uri_options
from vecall.hooks import ALLOW, REJECT


@pytest.fixture(autouse=True)
def untraced(monkeypatch: pytest.MonkeyPatch) -> None:
    """google-adk's server has the whole process traced, and all other tests with it."""
    trace = pytest.importorskip("opentelemetry.trace")
    monkeypatch.setattr(trace, "set_tracer_provider", lambda *_, **__: None)


def test_the_default_is_five_memories() -> None:
    """2.0 Result count."""
    for options, expected in [({}, 5), ({"top_k": 2}, 2)]:
        service = VecallMemoryService(**grouped(**{"embedder": None, **options}))
        add(service, *[f"parrots {n}" for n in range(8)])
        assert len(search(service, "parrots").memories) == expected
        service.close()


def test_an_embedder_without_a_summarizer_warns_of_raw_turns() -> None:
    """S4.47: as the service below does."""
    with pytest.warns(vecall.RawTurnsWarning, match="without a summary"):
        VecallMemoryService(embedder=lambda texts: [[1.0]] * len(texts)).close()


@pytest.mark.parametrize(
    ("uri", "file"),
    [
        ("vecall://./memory.db", "agents/memory.db"),
        ("vecall:///memory.db", "agents/memory.db"),
        ("vecall://memory.db", "agents/memory.db"),
        ("vecall://data/memory.db", "agents/data/memory.db"),
        ("vecall://../memory.db?top_k=2&durability=process", "memory.db"),
        ("vecall:///{root}/memory.db", "memory.db"),
        ("vecall://./my%20memory.db", "agents/my memory.db"),
    ],
)
def test_a_uri_names_a_file(tmp_path: Path, uri: str, file: str) -> None:
    """S3.11: relative to the folder of the agents, as google-adk's own URIs read."""
    (tmp_path / "agents" / "data").mkdir(parents=True)
    uri = uri.replace("{root}", str(tmp_path))
    service = VecallMemoryService(
        uri=uri, agents_dir=str(tmp_path / "agents"), embedder=None
    )
    ingest(service, a_trip())
    service.close()
    assert (tmp_path / file).stat().st_size > 0


@pytest.mark.parametrize(
    ("option", "authors"),
    [("", ("user",)), ("?authors=user,kim", ("user", "kim")), ("?authors=", ())],
)
def test_a_uri_names_the_authors_that_are_favoured(
    option: str, authors: tuple[str, ...]
) -> None:
    service = VecallMemoryService(uri=f"vecall://:memory:{option}", embedder=None)
    assert service.memory.authors == authors
    service.close()


def test_without_agents_dir_a_uri_starts_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3.11."""
    monkeypatch.chdir(tmp_path)
    VecallMemoryService(uri="vecall:///memory.db", embedder=None).close()
    assert (tmp_path / "memory.db").exists()


@pytest.mark.parametrize("uri", ["vecall://:memory:", "vecall:///:memory:"])
def test_a_uri_can_ask_for_no_file(tmp_path: Path, uri: str) -> None:
    """S3.11."""
    service = VecallMemoryService(uri=uri, agents_dir=tmp_path, embedder=None)
    ingest(service, a_trip())
    service.close()
    assert list(tmp_path.iterdir()) == []


def test_options_of_a_uri_win_over_arguments(tmp_path: Path) -> None:
    """S3.11: what is deployed overrides what is written in the code."""
    service = VecallMemoryService(
        uri="vecall://:memory:?top_k=2&memory_budget=100000",
        top_k=7,
        embedder=lambda texts: [[1.0]] * len(texts),
    )
    add(service, *[f"parrots {n}" for n in range(8)])
    assert len(search(service, "parrots").memories) == 2
    service.close()


@pytest.mark.parametrize(
    "arguments",
    [
        {"uri": "sqlite:///memory.db"},
        {"uri": "memory.db"},
        {"uri": "vecall:memory.db"},
        {"uri": "vecall://"},
        {"uri": "vecall:///"},
        {"uri": "vecall://./memory#1.db"},
        {"uri": "vecall://[memory.db"},
        {"uri": 7},
        {"uri": "vecall://:memory:?colour=red"},
        {"uri": "vecall://:memory:?limits=none"},
        {"uri": "vecall://:memory:?top_k=many"},
        {"uri": "vecall://:memory:?top_k=1&top_k=2"},
        {"uri": "vecall://:memory:?top_k"},
        {"uri": "vecall://:memory:?scores=perhaps"},
        {"uri": "vecall://:memory:?warn_raw=false"},
        {"uri": "vecall://:memory:?embedder=unheard-of"},
        {"uri": "vecall://:memory:?trigger=sometimes"},
        {"uri": "vecall://:memory:?trigger=message_count"},
        {"uri": "vecall://:memory:?trigger=message_count:many"},
        {"uri": "vecall://:memory:?ttl=soon"},
        {"uri": "vecall://:memory:?durability=none"},
        {"uri": "vecall://:memory:?durability=full", "storage": "full"},
        {"uri": "vecall://no/such/folder/memory.db"},
        {"uri": "vecall://:memory:", "path": ":memory:"},
        {"colour": "red"},
        {"memory": "a service", "path": ":memory:"},
        {"memory": "a service", "top_k": 3},
    ],
    ids=str,
)
def test_a_wrong_configuration_is_refused(
    arguments: dict[str, Any], tmp_path: Path
) -> None:
    """S1.52: at construction, and as a ValueError, which google-adk reports."""
    with pytest.raises(vecall.ConfigError):
        VecallMemoryService(
            **grouped(**{"embedder": None, **arguments}, agents_dir=tmp_path)
        )
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A registry of services of our own, so that others keep theirs."""
    service_registry = pytest.importorskip("google.adk.cli.service_registry")
    monkeypatch.setattr(service_registry, "_service_registry_instance", None)
    return service_registry


def test_register_makes_the_scheme_known(registry: Any, tmp_path: Path) -> None:
    """S3.11: as services.py does."""
    assert vecall.adk.register(top_k=1) is True
    service = registry.get_service_registry().create_memory_service(
        "vecall://./memory.db", agents_dir=str(tmp_path)
    )
    assert isinstance(service, VecallMemoryService)
    add(service, "parrots one", "parrots two")
    assert len(search(service, "parrots").memories) == 1
    service.close()
    assert (tmp_path / "memory.db").exists()
    with pytest.raises(vecall.ConfigError):
        vecall.adk.register(colour="red")


@pytest.mark.filterwarnings(r"ignore:\[EXPERIMENTAL\]:UserWarning")
def test_the_web_server_finds_the_service_by_its_yaml_file(
    registry: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S0.47, S0.48, S0.50, S3.11: PATCH remembers a session that the server holds."""
    testclient = pytest.importorskip("fastapi.testclient")
    fast_api = pytest.importorskip("google.adk.cli.fast_api")
    monkeypatch.setattr(sys, "path", list(sys.path))
    opened = services_made(monkeypatch)
    agent = tmp_path / "hotel"
    agent.mkdir()
    (agent / "__init__.py").write_text("")
    (agent / "agent.py").write_text(
        "from google.adk.agents import LlmAgent\nroot_agent = LlmAgent(name='hotel')\n"
    )
    (tmp_path / "services.yaml").write_text(
        "services:\n"
        "  - scheme: vecall\n"
        "    type: memory\n"
        "    class: vecall.adk.VecallMemoryService\n"
    )
    app = fast_api.get_fast_api_app(
        agents_dir=str(tmp_path),
        session_service_uri="memory://",
        memory_service_uri="vecall://./memory.db?embedder=none",
        web=False,
    )
    user = "/apps/hotel/users/alice"
    with testclient.TestClient(app) as client:
        events = json.loads(a_trip().model_dump_json(by_alias=True))["events"]
        made = client.post(f"{user}/sessions", json={"events": events})
        assert made.status_code == 200
        session_id = made.json()["id"]
        done = client.patch(f"{user}/memory", json={"sessionId": session_id})
        assert (done.status_code, done.json()) == (200, None)
        missing = client.patch(f"{user}/memory", json={"sessionId": "no such"})
        assert missing.status_code == 404
    service = VecallMemoryService(tmp_path / "memory.db", embedder=None)
    assert PARROT in entries(service, "parrots")
    assert len(opened) == 2
    for each in opened:  # the server closes none
        each.close()


def services_made(monkeypatch: pytest.MonkeyPatch) -> list[VecallMemoryService]:
    """The list that each service which is made from now on is appended to."""
    made: list[VecallMemoryService] = []
    make = VecallMemoryService.__init__

    def noted(self: VecallMemoryService, *args: Any, **named: Any) -> None:
        make(self, *args, **named)
        made.append(self)

    monkeypatch.setattr(VecallMemoryService, "__init__", noted)
    return made


def server_class() -> Any:
    """The class behind `adk api_server`, which 1.21 and 2.0.0b1 call otherwise."""
    try:
        from google.adk.cli.api_server import ApiServer
    except ImportError:
        from google.adk.cli.adk_web_server import AdkWebServer as ApiServer
    return ApiServer


@pytest.mark.parametrize(("memory", "status"), [(None, 400), (":memory:", 200)])
def test_the_endpoint_knows_whether_there_is_a_memory(memory: Any, status: int) -> None:
    """S0.49: an empty vecall is no missing one."""
    testclient = pytest.importorskip("fastapi.testclient")
    sessions = InMemorySessionService()
    service = memory and VecallMemoryService(memory, embedder=None)
    server = server_class()(
        memory_service=service,
        session_service=sessions,
        agents_dir=".",
        **dict.fromkeys(
            [
                *("agent_loader", "artifact_service", "credential_service"),
                *("eval_sets_manager", "eval_set_results_manager"),
            ]
        ),
    )
    asyncio.run(
        sessions.create_session(app_name="hotel", user_id="alice", session_id="s")
    )
    client = testclient.TestClient(server.get_fast_api_app())
    answer = client.patch("/apps/hotel/users/alice/memory", json={"sessionId": "s"})
    assert answer.status_code == status
    if status == 400:
        assert answer.json() == {"detail": "Memory service is not configured."}
    else:
        service.close()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("ttl=3600", {"ttl": "3600s"}),
        (
            "ttl=90s&history_ttl=60",
            {"ttl": "90s", "writes": WritePolicy(history_ttl="60s")},
        ),
        ("trigger=session_end", {"trigger": "session_end"}),
        (
            "trigger=message_count:20",
            {"trigger": {"type": "message_count", "message_count": 20}},
        ),
        (
            "trigger=inactivity:60000",
            {"trigger": {"type": "inactivity", "inactivity_ms": 60_000}},
        ),
        (
            "min_confidence=0.5&min_score=-1",
            {"min_confidence": 0.5, "search": SearchOptions(min_similarity=-1)},
        ),
    ],
)
def test_a_uri_holds_the_options_that_are_words_and_numbers(
    query: str, expected: dict[str, Any]
) -> None:
    """S3.11: and what they stand for is what the service takes."""
    _, from_uri = parse_adk_uri(f"vecall://:memory:?{query}")
    options = with_uri_options({}, from_uri)
    assert options == expected
    if "search" not in options:
        VecallMemoryService(uri=f"vecall://:memory:?{query}", embedder=None).close()


@pytest.mark.parametrize(
    ("query", "group", "expected"),
    [
        ("authors=kim,agent", "search", SearchOptions(authors=("kim", "agent"))),
        ("durability=process", "storage", StorageOptions(durability="process")),
        ("memory_budget=9", "storage", StorageOptions(cache_bytes=9)),
        ("include=calls", "writes", WritePolicy(include=("calls",))),
    ],
)
def test_a_key_of_a_uri_is_a_field_of_a_group(
    query: str, group: str, expected: object
) -> None:
    """S3.11: the keys of a URI stay short, whatever the group of the option."""
    _, from_uri = parse_adk_uri(f"vecall://:memory:?{query}")
    assert with_uri_options({}, from_uri) == {group: expected}


def test_a_uri_changes_only_the_fields_that_it_names() -> None:
    """S3.11: the others of the same group stay as the code has them."""
    given = {
        "top_k": 7,
        "search": SearchOptions(min_similarity=0.1, authors=("kim",)),
        "storage": StorageOptions(durability="process", cache_bytes=5),
    }
    _, from_uri = parse_adk_uri("vecall://:memory:?min_score=0.4&durability=full&ttl=9")
    assert with_uri_options(given, from_uri) == {
        "top_k": 7,
        "ttl": "9s",
        "search": SearchOptions(min_similarity=0.4, authors=("kim",)),
        "storage": StorageOptions(durability="full", cache_bytes=5),
    }
    assert given["search"] == SearchOptions(min_similarity=0.1, authors=("kim",))


def test_the_refusal_of_an_option_names_those_that_there_are() -> None:
    """S1.52."""
    with pytest.raises(vecall.ConfigError, match=r"durability, .*top_k, .*ttl"):
        VecallMemoryService(uri="vecall://:memory:?colour=red", embedder=None)


def test_options_of_the_service_below_pass_through(tmp_path: Path) -> None:
    """S1.50: a corpus that nobody changes, limits, a gate, a lifetime."""
    path = tmp_path / "memory.db"
    service = VecallMemoryService(
        path,
        ttl="3600s",
        writes=WritePolicy(
            quota=vecall.Quota(memories=2),
            on_write=lambda write: REJECT if "secret" in write.memory.text else ALLOW,
        ),
        embedder=None,
    )
    add(service, "parrots one")
    with pytest.raises(vecall.WriteRejectedError):
        add(service, "a secret")
    service.close()
    corpus = VecallMemoryService(uri=f"vecall:///{path}?read_only=true", embedder=None)
    assert len(search(corpus, "parrots").memories) == 1
    with pytest.raises(vecall.ReadOnlyError):
        ingest(corpus, a_trip())
    corpus.close()
