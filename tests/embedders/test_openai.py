"""OpenAI's SDK against a real local server that speaks the API."""

from __future__ import annotations

import asyncio
import base64
import socket
import threading
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from helpers.embedding_server import (
    KEY,
    Answer,
    EmbeddingServer,
    Request,
    failure,
    forget_environment,
    serving,
    vectors,
)
from helpers.memories import ALICE, SECRET
from vecall import ConfigError, Embedder, MemoryService

if find_spec("openai") is None:  # imported where it is used: that takes a second
    pytest.skip("openai is not installed", allow_module_level=True)
from vecall.embedders import OpenAIEmbedder, OpenAiEmbedder

Make = Callable[..., OpenAIEmbedder]
AT_ONCE = {"retry-after-ms": "1"}


@pytest.fixture(scope="module")
def running() -> Iterator[EmbeddingServer]:
    with serving() as server:
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
    made: dict[str, OpenAIEmbedder] = {}

    def make_one(**options: Any) -> OpenAIEmbedder:
        known = {"api_key": KEY, "base_url": f"{running.url}/v1", "dimensions": 8}
        known = {"model": "m", **known, **options}
        if repr(known) not in made:
            made[repr(known)] = OpenAIEmbedder(**known)
        return made[repr(known)]

    yield make_one
    for embedder in made.values():
        embedder.close()


@pytest.mark.parametrize("encoding", ["base64", "float"])
def test_vectors_come_in_the_order_of_the_texts_whatever_that_of_the_answer(
    make, server, encoding
):
    """S0.22, S0.23: rows are put in order by their index; both encodings are read."""
    texts = [f"text {i}" for i in range(50)]
    embedder = make(encoding_format=encoding)
    assert isinstance(embedder, Embedder)
    got = embedder.embed(texts)
    assert got.dtype == np.float32
    assert np.array_equal(got, vectors(texts, 8))
    (request,) = server.requests
    assert request.path == "/v1/embeddings"
    assert request.body == {"model": "m", "input": texts, "encoding_format": encoding}
    assert request.headers["authorization"] == f"Bearer {KEY}"


def test_a_server_that_does_not_know_base64_is_understood(make, server):
    server.always = Answer(
        body=lambda request: server.truth(
            Request(request.path, {}, {**request.body, "encoding_format": "float"})
        )
    )
    assert np.array_equal(make().embed(["a", "b"]), vectors(["a", "b"], 8))


def test_many_texts_go_in_batches_of_bounded_count_and_bytes(make, server):
    """S0.23: the API's limits, and one text over the bound goes alone."""
    texts = [f"{i:04}" for i in range(25)] + ["ü" * 50]
    got = make(batch_size=10, batch_bytes=20).embed(texts)
    assert np.array_equal(got, vectors(texts, 8))
    sizes = sorted(len(request.texts) for request in server.requests)
    assert sizes == [1, 5, 5, 5, 5, 5]
    server.requests.clear()
    make(batch_size=10).embed(texts)
    assert make().embed([]).shape == (0, 8)
    assert sorted(len(request.texts) for request in server.requests) == [6, 10, 10]


def test_a_text_is_cut_between_characters_at_what_the_api_takes(make, server):
    """A long memory must not make the ingest of a session fail."""
    make(max_text_bytes=5).embed(["äöü", "abcdefg", "a\ud800b"])
    assert server.requests[0].texts == ["äö", "abcde", "a?b"]


def test_known_models_know_their_dimensions_and_others_must_be_told(make):
    """S0.23."""
    for model, size in [
        ("text-embedding-3-small", 1536),
        ("text-embedding-3-large", 3072),
        ("text-embedding-ada-002", 1536),
    ]:
        embedder = make(model=model, dimensions=None)
        assert embedder.dimensions == size
        assert embedder.model_id == f"openai:{model}"
    with pytest.raises(ConfigError, match="dimensions"):
        make(model="other", dimensions=None)
    with pytest.raises(ConfigError, match="1536"):
        make(model="text-embedding-3-small", dimensions=1537)
    with pytest.raises(ConfigError, match="shorten"):
        make(model="text-embedding-ada-002", dimensions=8)


def test_shortened_vectors_are_asked_for(make, server):
    """S0.23: `dimensions` is sent where it changes something, or where told to."""
    short = make(model="text-embedding-3-large", dimensions=3)
    assert np.array_equal(short.embed(["a"]), vectors(["a"], 3))
    make().embed(["a"])
    make(send_dimensions=True).embed(["a"])
    asked = [request.body.get("dimensions") for request in server.requests]
    assert asked == [3, None, 8]


def test_a_refusal_for_now_is_asked_again_when_the_server_said(make, server):
    """S0.24, S4.9: 429 with Retry-After."""
    server.planned.append(Answer(429, headers={"retry-after": "0.2"}))
    assert np.array_equal(make().embed(["a"]), vectors(["a"], 8))
    assert server.requests[1].at - server.requests[0].at >= 0.2


@pytest.mark.parametrize("status", [429, 500, 503])
@pytest.mark.parametrize("retries", [0, 3])
def test_a_refusal_for_good_fails_after_so_many_attempts(make, server, status, retries):
    """S0.24: the error names the status, never what the server said."""
    server.always = Answer(status, headers=AT_ONCE)
    embedder = make(max_retries=retries)
    told = failure(lambda: embedder.embed([SECRET]))
    assert f"HTTP status {status}" in told
    assert len(server.requests) == 1 + retries


@pytest.mark.parametrize("status", [400, 401, 404])
def test_a_wrong_request_is_not_repeated(make, server, status):
    """S0.24: a bad key stays bad."""
    server.always = Answer(status)
    assert f"HTTP status {status}" in failure(lambda: make().embed([SECRET]))
    assert len(server.requests) == 1


def test_a_silent_server_is_given_up_after_the_timeout(make, server):
    server.always = Answer(silent=True)
    began = time.monotonic()
    impatient = make(timeout=0.2, max_retries=0)
    assert "Timeout" in failure(lambda: impatient.embed([SECRET]))
    assert time.monotonic() - began < 5


def test_a_refused_connection_is_an_embedder_error(make):
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    nowhere = make(base_url=url, max_retries=0)
    assert "Connection" in failure(lambda: nowhere.embed([SECRET]))


def rows(*given: tuple[int, Any]) -> dict[str, Any]:
    return {"data": [{"index": index, "embedding": row} for index, row in given]}


GOOD = [1.0] * 8
NONSENSE = {
    "no JSON": b'{"data": [',
    "no data": {"object": "list"},
    "empty": {"data": []},
    "a missing row": rows((0, GOOD)),
    "a row too many": rows((0, GOOD), (1, GOOD), (2, GOOD)),
    "a row twice": rows((0, GOOD), (1, GOOD), (1, GOOD)),
    "a wrong index": rows((0, GOOD), (7, GOOD)),
    "no index": {"data": [{"embedding": GOOD}, {"embedding": GOOD}]},
    "one short vector": rows((0, GOOD), (1, GOOD[1:])),
    "NaN": rows((0, GOOD), (1, [*GOOD[1:], float("nan")])),
    "null": rows((0, GOOD), (1, None)),
    "broken base64": rows((0, GOOD), (1, "!")),
    "short base64": rows((0, GOOD), (1, base64.b64encode(b"123").decode())),
}


@pytest.mark.parametrize("body", NONSENSE.values(), ids=NONSENSE.keys())
def test_an_answer_that_cannot_be_used_is_an_embedder_error(make, server, body):
    """S0.22: count, indices, dimensions, finiteness, form."""
    server.always = Answer(body=body)
    failure(lambda: make(max_retries=0).embed([SECRET, "b"]))


def test_one_failing_batch_fails_the_call(make, server):
    """S0.22: all vectors or none."""
    server.planned.append(Answer(400))
    texts = [f"{SECRET} {i}" for i in range(9)]
    failure(lambda: make(batch_size=2).embed(texts))


def test_never_more_requests_are_under_way_than_allowed(make, server):
    """S0.24: over all threads; the server measures it."""
    server.hold_until = 3
    embedder = make(batch_size=1, max_concurrency=3)
    texts = [f"text {i}" for i in range(6)]
    results: list[Any] = []
    threads = [
        threading.Thread(target=lambda: results.append(embedder.embed(texts)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.peak == 3
    assert all(np.array_equal(result, vectors(texts, 8)) for result in results)
    assert len(results) == 2


def test_a_key_is_needed_unless_the_server_is_another_one(monkeypatch, make, server):
    """S0.23: the message names the variable."""
    for value in (None, "", "  "):
        with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
            OpenAIEmbedder(api_key=value)
    make(api_key=None).embed(["a"])
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    make(api_key=None, timeout=31.0).embed(["a"])
    without, with_one = (
        request.headers["authorization"] for request in server.requests
    )
    assert KEY not in without
    assert KEY in with_one
    OpenAIEmbedder().close()


def test_the_key_is_nowhere_to_be_seen(make):
    embedder = make()
    assert KEY not in repr(embedder)
    assert KEY not in repr(vars(embedder))
    assert OpenAiEmbedder is OpenAIEmbedder


@pytest.mark.parametrize(
    "option",
    [
        *({name: 0} for name in ("batch_size", "batch_bytes", "max_concurrency")),
        *({"max_retries": bad} for bad in (-1, 1.5, True)),
        *({"timeout": bad} for bad in (0, -1, float("nan"), float("inf"), "1")),
        {"dimensions": 0},
        {"max_text_bytes": 0},
        {"encoding_format": "hex"},
    ],
)
def test_arguments_that_cannot_be_used_are_refused(make, option):
    with pytest.raises(ConfigError, match=next(iter(option))):
        make(**option)


def test_a_memory_service_uses_it_from_one_event_loop_after_another(make, server):
    """S0.18, S0.25: the client outlives every loop; equal texts are sent once."""
    embedder = make()

    async def use(service: MemoryService, text: str) -> list[str]:
        await service.add_memory(**ALICE, memories=[text, "okapi"])
        found = await service.search_memory(**ALICE, query=text, top_k=1)
        return [memory.text for memory in found.memories]

    for _ in range(2):
        with MemoryService(embedder=embedder) as service:
            for text in ("zebra", "quagga"):
                assert asyncio.run(use(service, text)) == [text]
            assert service.sync.admin.stats()["model"] == "openai:m"
    sent = [text for request in server.requests for text in request.texts]
    assert sent[: len(sent) // 2] == sent[len(sent) // 2 :]


def test_a_failing_api_leaves_the_service_as_it_was(make, server):
    """S0.22: nothing is written, and the service goes on."""
    with MemoryService(embedder=make(max_retries=0)) as service:
        server.planned.append(Answer(500))
        failure(lambda: service.sync.add_memory(**ALICE, memories=[SECRET]))
        assert service.sync.admin.stats()["memories"] == 0
        service.sync.add_memory(**ALICE, memories=["zebra"])
        assert service.sync.admin.stats()["embedded"] == 1
