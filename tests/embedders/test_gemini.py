"""Google's SDK against a real local server that speaks the Gemini API."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from helpers.embedding_server import (
    KEY,
    Answer,
    EmbeddingServer,
    failure,
    forget_environment,
    serving,
    vectors,
)
from helpers.memories import ALICE, SECRET
from vecall import ConfigError, MemoryService
from vecall.embedders import AsymmetricEmbedder

pytest.importorskip("google.genai")
from vecall.embedders import GeminiEmbedder

Make = Callable[..., GeminiEmbedder]
AT_ONCE = {"retry-after": "0.001"}
TASKS = ("RETRIEVAL_DOCUMENT", "RETRIEVAL_QUERY")


@pytest.fixture(scope="module")
def running() -> Iterator[EmbeddingServer]:
    with serving(dimensions=3072) as server:
        yield server


@pytest.fixture(autouse=True)
def server(
    running: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> EmbeddingServer:
    forget_environment(monkeypatch)
    running.reset()
    return running


@pytest.fixture(scope="module")
def make(running: EmbeddingServer) -> Iterator[Make]:
    """Makes each embedder once: a client reads the system's certificates at length."""
    made: dict[str, GeminiEmbedder] = {}

    def make_one(model: str = "gemini-embedding-001", **options: Any) -> GeminiEmbedder:
        known = {"api_key": KEY, "base_url": running.url, "dimensions": 8}
        known = {"model": model, **known, **options}
        if repr(known) not in made:
            made[repr(known)] = GeminiEmbedder(**known)
        return made[repr(known)]

    yield make_one
    for embedder in made.values():
        embedder.close()


def unit(texts: list[str], dimensions: int = 8) -> Any:
    given = vectors(texts, dimensions)
    return pytest.approx(given / np.linalg.norm(given, axis=1, keepdims=True), abs=1e-6)


def test_vectors_come_in_order_and_shortened_ones_have_norm_one(make, server):
    """S0.23: the API does not normalize what it shortens."""
    texts = [f"text {i}" for i in range(9)]
    embedder = make()
    assert isinstance(embedder, AsymmetricEmbedder)
    got = embedder.embed(texts)
    assert got.dtype == np.float32
    assert got == unit(texts)
    (request,) = server.requests
    assert request.path.endswith("/models/gemini-embedding-001:batchEmbedContents")
    assert request.headers["x-goog-api-key"] == KEY
    assert {one["outputDimensionality"] for one in request.body["requests"]} == {8}


@pytest.mark.parametrize("model", ["gemini-embedding-001", "gemini-embedding-2"])
def test_known_models_give_what_they_give_unless_told_otherwise(make, server, model):
    embedder = make(model, dimensions=None)
    assert embedder.model_id == f"gemini:{model}"
    assert embedder.dimensions == 3072
    assert embedder.embed(["a"]).shape == (1, 3072)
    assert "outputDimensionality" not in server.requests[0].body["requests"][0]
    with pytest.raises(ConfigError, match="dimensions"):
        make("other", dimensions=None)
    with pytest.raises(ConfigError, match="3072"):
        make(model, dimensions=3073)


def test_memories_and_queries_are_embedded_for_their_task(make, server):
    """S0.22: one space of vectors, two tasks."""
    embedder = make()
    embedder.embed(["a", "b"])
    embedder.embed_queries(["c"])
    asked = [
        {one["taskType"] for one in request.body["requests"]}
        for request in server.requests
    ]
    assert asked == [{task} for task in TASKS]


def test_newer_models_are_told_the_task_in_words_and_texts_stay_apart(make, server):
    """S0.23: they refuse task types, and the SDK would merge plain strings into one."""
    embedder = make("gemini-embedding-2")
    assert embedder.embed(["a", "b"]).shape == (2, 8)
    embedder.embed_queries(["c"])
    documents, queries = server.requests
    assert documents.texts == ["title: none | text: a", "title: none | text: b"]
    assert queries.texts == ["task: search result | query: c"]
    for request in server.requests:
        assert all("taskType" not in one for one in request.body["requests"])


def test_many_texts_go_in_batches_of_at_most_a_hundred(make, server):
    texts = [f"text {i}" for i in range(250)]
    assert make(batch_size=1000).embed(texts) == unit(texts)
    assert sorted(len(one.texts) for one in server.requests) == [50, 100, 100]
    assert make().embed([]).shape == (0, 8)


def test_the_environment_has_the_key(monkeypatch, server):
    """S0.23: GEMINI_API_KEY before GOOGLE_API_KEY; what is empty is not there."""
    monkeypatch.setenv("GEMINI_API_KEY", " ")
    for ask in (GeminiEmbedder, GeminiEmbedder.from_env):
        with pytest.raises(ConfigError, match="GEMINI_API_KEY or GOOGLE_API_KEY"):
            ask()
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, name)
        embedder = GeminiEmbedder.from_env("gemini-embedding-001", base_url=server.url)
        embedder.embed(["a"])
        embedder.close()
    sent = [request.headers["x-goog-api-key"] for request in server.requests]
    assert sent == ["GOOGLE_API_KEY", "GEMINI_API_KEY"]


def test_the_key_is_nowhere_to_be_seen(make):
    embedder = make()
    assert KEY not in repr(embedder)
    assert KEY not in repr(vars(embedder))


def told_by_body(seconds: str) -> dict[str, Any]:
    kind = "type.googleapis.com/google.rpc.RetryInfo"
    details = [{"@type": kind, "retryDelay": seconds}]
    return {"error": {"code": 429, "message": "slowly", "details": details}}


@pytest.mark.parametrize(
    "answer",
    [
        Answer(429, headers={"Retry-After": "0.2"}),
        Answer(429, body=told_by_body("0.2s")),
        Answer(429, headers={"Retry-After": "soon"}, body=told_by_body("0.2s")),
    ],
    ids=["header", "body", "unreadable header"],
)
def test_a_refusal_for_now_is_asked_again_when_the_server_said(make, server, answer):
    """S0.24: both ways in which the API says when."""
    server.planned.append(answer)
    assert make().embed(["a"]) == unit(["a"])
    first, second = server.requests
    assert second.at - first.at >= 0.2


def test_without_such_a_word_it_is_asked_again_after_a_while(make, server):
    server.planned.append(Answer(503))
    assert make().embed(["a"]) == unit(["a"])
    first, second = server.requests
    assert 0.4 < second.at - first.at < 5


def test_a_wait_of_more_than_a_minute_is_not_waited_for(make, server):
    server.always = Answer(429, body=told_by_body("3600s"))
    assert "429" in failure(lambda: make().embed([SECRET]))
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [429, 500, 503])
@pytest.mark.parametrize("retries", [0, 3])
def test_a_refusal_for_good_fails_after_so_many_attempts(make, server, status, retries):
    """S0.24: the error names the status, never what the server said."""
    server.always = Answer(status, headers=AT_ONCE)
    embedder = make(max_retries=retries)
    told = failure(lambda: embedder.embed([SECRET]))
    assert f"HTTP status {status}" in told
    assert len(server.requests) == 1 + retries
    assert server.requests[-1].at - server.requests[0].at < 3, "it was said: at once"


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_a_wrong_request_is_not_repeated(make, server, status):
    server.always = Answer(status)
    assert f"HTTP status {status}" in failure(lambda: make().embed([SECRET]))
    assert len(server.requests) == 1


def test_a_silent_server_is_given_up_after_the_timeout(make, server):
    server.always = Answer(silent=True)
    began = time.monotonic()
    told = failure(lambda: make(timeout=0.2, max_retries=1).embed([SECRET]))
    assert "Timeout" in told
    assert len(server.requests) == 2
    assert time.monotonic() - began < 8


def test_a_refused_connection_is_an_embedder_error(make):
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    told = failure(lambda: make(base_url=url, max_retries=0).embed([SECRET]))
    assert "ConnectError" in told


def rows(*values: Any) -> dict[str, Any]:
    return {"embeddings": [{"values": one} for one in values]}


GOOD = [1.0] * 8
NONSENSE = {
    "no JSON": b'{"embeddings": [',
    "no object": [1, 2],
    "nothing": {},
    "empty": {"embeddings": []},
    "a missing row": rows(GOOD),
    "a row too many": rows(GOOD, GOOD, GOOD),
    "no values": {"embeddings": [{}, {}]},
    "short vectors": rows(GOOD[1:], GOOD[1:]),
    "one short vector": rows(GOOD, GOOD[1:]),
    "NaN": rows(GOOD, [*GOOD[1:], float("nan")]),
    "Inf": rows(GOOD, [*GOOD[1:], float("inf")]),
    "words": rows(GOOD, ["many"] * 8),
    "null": rows(GOOD, None),
}


@pytest.mark.parametrize("body", NONSENSE.values(), ids=NONSENSE.keys())
def test_an_answer_that_cannot_be_used_is_an_embedder_error(make, server, body):
    """S0.22: count, dimensions, finiteness, form."""
    server.always = Answer(body=body)
    failure(lambda: make(max_retries=0).embed([SECRET, "b"]))


def test_never_more_requests_are_under_way_than_allowed(make, server):
    """S0.24: over all threads; the server measures it."""
    server.hold_until = 3
    embedder = make(batch_size=1, max_concurrency=3)
    texts = [f"text {i}" for i in range(6)]
    threads = [threading.Thread(target=embedder.embed, args=(texts,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.peak == 3
    assert len(server.requests) == 12


def test_a_memory_service_uses_it_from_one_event_loop_after_another(make, server):
    """S0.25: the client outlives every loop."""
    embedder = make()

    async def use(service: MemoryService, text: str) -> list[str]:
        await service.add_memory(**ALICE, memories=[text, "okapi"])
        found = await service.search_memory(**ALICE, query=text, top_k=1)
        return [memory.text for memory in found.memories]

    for _ in range(2):
        with MemoryService(embedder=embedder) as service:
            for text in ("zebra", "quagga"):
                assert asyncio.run(use(service, text)) == [text]
            assert service.sync.admin.stats()["model"] == "gemini:gemini-embedding-001"
