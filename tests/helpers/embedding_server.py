"""A real HTTP server on this machine that speaks the embedding APIs' shapes."""

from __future__ import annotations

import base64
import json
import random
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest
from vecall import EmbedderError

from helpers.memories import SECRET

KEY = "sk-very-secret-key"
WAIT_S = 10.0
# What the SDKs and their HTTP clients read, and no test may depend on.
ENVIRONMENT = (
    *("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"),
    *("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"),
    *("GOOGLE_GEMINI_BASE_URL", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"),
)


def vector(text: str, dimensions: int) -> np.ndarray:
    """What the server thinks of a text."""
    seed = blake2b(text.encode(), digest_size=8).digest()
    rng = np.random.default_rng(int.from_bytes(seed, "little"))
    return rng.standard_normal(dimensions).astype(np.float32)


def vectors(texts: list[str], dimensions: int) -> np.ndarray:
    return np.stack([vector(text, dimensions) for text in texts])


@dataclass
class Request:
    """What a client sent."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    at: float = field(default_factory=time.monotonic)

    @property
    def texts(self) -> list[str]:
        if "input" in self.body:
            return list(self.body["input"])
        parts = [one["content"]["parts"] for one in self.body["requests"]]
        assert all(len(part) == 1 for part in parts), "texts were merged"
        return [part[0]["text"] for part in parts]


@dataclass
class Answer:
    """What the server says instead of the truth.

    `body` may be a function of the request; `silent` says nothing as long as the test
    lasts.
    """

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    silent: bool = False


class EmbeddingServer:
    """Answers as OpenAI's or Gemini's API does, once a test's own answers are given."""

    def __init__(self, url: str, dimensions: int) -> None:
        self.url = url
        self.dimensions = dimensions
        self.over = threading.Event()
        self._here = 0
        self._changed = threading.Condition()
        self.reset()

    def reset(self) -> None:
        """Let go who still waits, and begin anew: for the next test."""
        self.over.set()
        with self._changed:
            assert self._changed.wait_for(lambda: self._here == 0, WAIT_S)
        self.over = threading.Event()
        self.requests: list[Request] = []
        self.planned: deque[Answer] = deque()
        self.always: Answer | None = None
        self.hold_until = 0
        """Nothing is answered before this many requests were there at once."""
        self.peak = 0

    def answer(self, request: Request) -> Answer:
        """Decide about a request, on the request's own thread."""
        with self._changed:
            self.requests.append(request)
            self._here += 1
            self.peak = max(self.peak, self._here)
            self._changed.notify_all()
            said = self.planned.popleft() if self.planned else self.always
            self._changed.wait_for(lambda: self.peak >= self.hold_until, WAIT_S)
        if self.hold_until:
            self.over.wait(0.05)  # time for one too many to show
        said = said or Answer()
        if said.silent:
            self.over.wait(WAIT_S)
        body = said.body(request) if callable(said.body) else said.body
        with self._changed:
            self._here -= 1
            self._changed.notify_all()
        if body is None:
            refusal = {"error": {"message": f"no {request.texts} {KEY}", "code": 1}}
            body = self.truth(request) if said.status == 200 else refusal
        return Answer(said.status, body, said.headers)

    def truth(self, request: Request) -> dict[str, Any]:
        """What the real API would answer; OpenAI's rows in any order."""
        if "input" not in request.body:
            size = request.body["requests"][0].get("outputDimensionality")
            rows = vectors(request.texts, size or self.dimensions)
            return {"embeddings": [{"values": row.tolist()} for row in rows]}
        size = request.body.get("dimensions", self.dimensions)
        data = [
            {"object": "embedding", "index": i, "embedding": self._coded(request, row)}
            for i, row in enumerate(vectors(request.texts, size))
        ]
        random.Random(1).shuffle(data)
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return {"object": "list", "data": data, "model": "m", "usage": usage}

    def _coded(self, request: Request, row: np.ndarray) -> Any:
        if request.body.get("encoding_format") == "base64":
            return base64.b64encode(row.astype("<f4").tobytes()).decode()
        return row.tolist()


def handler(server: Callable[[], EmbeddingServer]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # connections are kept, as the real ones are
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = server().answer(Request(self.path, headers, body))
            raw = answer.body
            if not isinstance(raw, bytes):
                raw = json.dumps(raw).encode()
            try:
                self.send_response(answer.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(raw)))
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(raw)
            except OSError:
                self.close_connection = True  # the client did not wait

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


def failure(work: Callable[[], object]) -> str:
    """The error's message, after a look at what else it tells."""
    with pytest.raises(EmbedderError) as caught:
        work()
    error = caught.value
    printed = "".join(traceback.format_exception(error))
    for told in (repr(error), repr(error.__context__), printed):
        assert SECRET not in told
        assert KEY not in told
    return str(error)


def forget_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)


@contextmanager
def serving(dimensions: int = 8) -> Iterator[EmbeddingServer]:
    """A server on a free port."""
    server: EmbeddingServer
    http = ThreadingHTTPServer(("127.0.0.1", 0), handler(lambda: server))
    http.daemon_threads = True
    server = EmbeddingServer(f"http://127.0.0.1:{http.server_port}", dimensions)
    thread = threading.Thread(target=http.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        http.shutdown()
        thread.join()
        http.server_close()
