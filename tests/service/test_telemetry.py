"""Spans, metrics and log records say what happened, never what it was about."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import random
import subprocess
import sys
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from helpers.campaigns import SCALE
from helpers.embedders import Recorder
from helpers.memories import ALICE, Held, until
from helpers.methods import method_of
from helpers.operations import walk
from vecall import Filter, MemoryService, VecallError
from vecall.telemetry import OPERATIONS

pytest.importorskip("opentelemetry.sdk")

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

Call = Callable[..., Any]


class Seen:
    """A program's OpenTelemetry, which keeps what it is told."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.meters = MeterProvider([self.reader])

    def spans(self) -> list[ReadableSpan]:
        spans = self.exporter.get_finished_spans()
        return [span for span in spans if span.name.startswith("vecall.")]

    def metrics(self) -> dict[str, list[dict[str, Any]]]:
        told = json.loads(self.reader.get_metrics_data().to_json())
        (resource,) = told["resource_metrics"]
        (scope,) = resource["scope_metrics"]
        assert scope["scope"]["name"] == "vecall"
        return {one["name"]: one["data"]["data_points"] for one in scope["metrics"]}


@pytest.fixture
def seen(monkeypatch) -> Iterator[Seen]:
    """What services that are opened from now on tell."""
    seen = Seen()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: seen.tracers)
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: seen.meters)
    yield seen
    seen.tracers.shutdown()
    seen.meters.shutdown()


def blocking(service: MemoryService) -> Call:
    return lambda name, *args, **named: method_of(service.sync, name)(*args, **named)


def on_a_loop(service: MemoryService) -> Call:
    return lambda name, *args, **named: asyncio.run(
        method_of(service, name)(*args, **named)
    )


def counted(points: list[dict[str, Any]], field: str = "value") -> dict[str, int]:
    return {point["attributes"]["operation"]: point[field] for point in points}


@pytest.mark.parametrize("way", [blocking, on_a_loop])
def test_each_operation_is_one_span_and_is_counted_in_the_metrics(
    way, seen, open_service, tmp_path
):
    """Counts, outcomes and durations of all operations, blocking or not."""
    service = open_service(
        tmp_path / "m.db", embedder=Recorder(), maintenance_interval=None
    )
    start = time.perf_counter()
    done = walk(way(service), tmp_path)
    elapsed = time.perf_counter() - start
    assert {name for name, _ in done} == set(OPERATIONS)

    spans = seen.spans()
    told = [(span.name, dict(span.attributes)) for span in spans]
    assert told == [
        (f"vecall.{name}", {"operation": name, "outcome": "ok", **numbers})
        for name, numbers in done
    ]
    assert {span.status.status_code for span in spans} == {StatusCode.UNSET}
    points = seen.metrics()
    times = Counter(name for name, _ in done)
    ended = [point["attributes"] for point in points["vecall.operations"]]
    assert ended == [{"operation": name, "outcome": "ok"} for name in times]
    assert counted(points.pop("vecall.operations")) == times
    lasted = points.pop("vecall.operation.duration")
    assert counted(lasted, "count") == times
    assert all(point["sum"] > 0.0 for point in lasted)
    assert lasted[0]["explicit_bounds"][0] == 1e-5
    # In seconds; a moment is in two operations while `explain` searches.
    assert sum(point["sum"] for point in lasted) < 2 * elapsed
    totals: dict[str, Counter[str]] = {}
    for name, numbers in done:
        for kind, number in numbers.items():
            metric = "vecall." + ("bytes." if kind == "freed" else "memories.") + kind
            totals.setdefault(metric, Counter())[name] += number
    assert {metric: counted(some) for metric, some in points.items()} == totals
    del times["stats"]  # so that asking twice gives the same answer
    assert service.sync.admin.stats()["operations"] == {**times, "errors": 0}


@pytest.mark.campaign
def test_nothing_that_a_caller_handed_in_is_told(seen, open_service, tmp_path, caplog):
    """Spans, metrics and log records hold no text, query, name, id or metadata."""
    rounds = 100 if SCALE >= 1 else 25
    rng = random.Random(7)
    words: list[str] = []

    def word() -> str:
        words.append(f"q{rng.getrandbits(64):016x}")
        return words[-1]

    def refused(*args: Any, **named: Any) -> None:
        with pytest.raises(VecallError):
            call(*args, **named)

    class Quoting(Recorder):
        def embed(self, texts):
            if any("fail" in text for text in texts):
                raise ValueError(texts[0])
            return super().embed(texts)

    caplog.set_level(logging.DEBUG)
    service = open_service(tmp_path / f"{word()}.db", embedder=Quoting())
    call = blocking(service)
    for _ in range(rounds):
        mine = {"app_name": word(), "user_id": word()}
        turn = {"id": word(), "author": word(), "text": word()}
        turn["custom_metadata"] = {word(): word()}
        call("add_session_to_memory", {**mine, "id": word(), "events": [turn]})
        more = {"session_id": word(), "idempotency_key": word()}
        call("add_events_to_memory", **mine, events=[turn], **more)
        ids = call("add_memory", **mine, memories=[word(), word()])
        words.extend(ids)
        call("search_memory", **mine, query=f"{word()} {words[3]}", explain=True)
        call("delete_memory", **mine, memory_id=ids[0])
        call("delete_where", **mine, filter=Filter(session_id=word(), author=word()))
        refused("get_memory", **mine, memory_id=word())
        refused("add_memory", **mine, memories=[f"{word()} fail"])
        refused("search_memory", **mine, query=f"{word()} fail")
        refused("search_memory", **mine, query="x", filter={word(): word()})
        refused("admin.import_jsonl", tmp_path / word())
    call("admin.backup", tmp_path / word())
    assert len(set(words)) > 20 * rounds

    spans = seen.spans()
    records = [vars(record) for record in caplog.records]
    # A service of another test that was not closed may still do its own work.
    counts = service._memory.telemetry.operation_counts()
    assert len(spans) >= sum(counts.values()) - rounds * 5
    assert len([one for one in records if "operation" in one]) == len(spans)
    told = [span.to_json() for span in spans] + [repr(one) for one in records]
    told += [seen.reader.get_metrics_data().to_json(), caplog.text]
    everything = "\n".join(told)
    assert "EmbedderError" in everything
    assert [word for word in words if word in everything] == []


def test_an_error_is_told_by_its_class_alone(seen, open_service, caplog):
    """The outcome and the status are the class's name; no message, no stack."""
    caplog.set_level(logging.DEBUG, "vecall")
    service = open_service()
    with pytest.raises(VecallError):
        service.sync.get_memory(**ALICE, memory_id="none")
    with pytest.raises(VecallError):
        service.sync.search_memory(**ALICE, query="zebra", top_k=0)
    spans = seen.spans()
    outcomes = [span.attributes["outcome"] for span in spans]
    assert outcomes == ["NotFoundError", "InvalidArgumentError"]
    for span, record in zip(spans, caplog.records, strict=True):
        assert span.status.status_code is StatusCode.ERROR
        assert span.status.description == span.attributes["outcome"] == record.outcome
        assert (span.events, record.exc_info) == ((), None)
        assert set(span.attributes) == {"operation", "outcome"}
    points = seen.metrics()["vecall.operations"]
    assert outcomes == [point["attributes"]["outcome"] for point in points]
    counts = service.sync.admin.stats()["operations"]
    assert (counts["get"], counts["search"], counts["errors"]) == (1, 1, 2)


def test_a_cancelled_operation_ends_its_span(seen, open_service):
    """Cancellation is an outcome like any error."""
    service = open_service(embedder=(held := Held()))

    async def give_up() -> None:
        task = asyncio.create_task(service.add_memory(**ALICE, memories=["zebra"]))
        await until(held.entered.is_set)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        held.go_on.set()

    asyncio.run(give_up())
    (span,) = seen.spans()
    assert span.attributes == {"operation": "add_entries", "outcome": "CancelledError"}


def test_a_span_belongs_to_the_caller_s_span(seen, open_service):
    """Also where operations of one loop run at the same time."""
    service, tracer = open_service(), seen.tracers.get_tracer("program")

    async def ask(number: int) -> int:
        with tracer.start_as_current_span(f"request {number}") as mine:
            asked = [service.search_memory(**ALICE, query="zebra") for _ in range(3)]
            await asyncio.gather(*asked)
            assert trace.get_current_span() is mine
        return mine.context.span_id

    async def ask_all() -> list[int]:
        return await asyncio.gather(*map(ask, range(5)))

    parents = asyncio.run(ask_all())
    told = Counter(span.parent.span_id for span in seen.spans())
    assert told == dict.fromkeys(parents, 3)


class Failing:
    """A provider of tracers and meters all of whose work fails, from some step on."""

    def __init__(self, step: str) -> None:
        self._step = step

    def __getattr__(self, name: str) -> Any:
        if name == self._step:
            raise RuntimeError("zebra")
        return lambda *args, **named: self


STEPS = "get_tracer create_histogram start_span add record set_status end".split()


@pytest.mark.parametrize("step", STEPS)
def test_operations_go_on_where_telemetry_fails(
    step, open_service, monkeypatch, caplog
):
    """A tracer, meter or exporter that raises breaks nothing and is told once."""
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: Failing(step))
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: Failing(step))
    service = open_service()
    service.sync.add_memory(**ALICE, memories=["zebra"])
    for _ in range(3):
        assert service.sync.search_memory(**ALICE, query="zebra").memories
        with pytest.raises(VecallError, match="no such memory"):
            service.sync.get_memory(**ALICE, memory_id="none")
    told = [record.getMessage() for record in caplog.records]
    assert told == ["OpenTelemetry failed: RuntimeError"]
    assert service.sync.admin.stats()["operations"]["search"] == 3


def test_log_records_carry_the_same_as_fields_at_debug_only(open_service, caplog):
    """Also where OpenTelemetry is not set up."""
    service = open_service()
    service.sync.add_memory(**ALICE, memories=["zebra"])
    assert caplog.records == []
    caplog.set_level(logging.DEBUG, "vecall")
    service.sync.search_memory(**ALICE, query="zebra")
    (record,) = caplog.records
    assert (record.levelname, record.getMessage()) == ("DEBUG", "search: ok")
    assert (record.operation, record.outcome, record.returned) == ("search", "ok", 1)
    assert 0.0 < record.seconds < 60.0


def test_counts_are_exact_from_many_threads(open_service):
    """No operation is lost, none counted twice, while others read the counts."""
    service = open_service()

    def work(_: int) -> None:
        for _ in range(200):
            service.sync.search_memory(**ALICE, query="zebra")
            service._memory.telemetry.operation_counts()
            with pytest.raises(VecallError):
                service.sync.search_memory(**ALICE, query="zebra", top_k=0)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    counts = service.sync.admin.stats()["operations"]
    used = {name: number for name, number in counts.items() if number}
    assert used == {"search": 3200, "errors": 1600}


def test_nothing_handed_in_is_kept(seen, open_service):
    """Neither arguments nor errors outlive the operation."""

    class Turn:
        id, author, content = "e", "user", "zebra"

    service = open_service()
    turn = Turn()
    service.sync.add_events_to_memory(**ALICE, events=[turn])
    service.sync.add_events_to_memory(**ALICE, events=[turn, 3])
    with pytest.raises(VecallError):
        service.sync.add_events_to_memory(**ALICE, events=[turn], session_id="")
    gone = weakref.ref(turn)
    del turn
    gc.collect()
    assert (gone(), len(seen.spans())) == (None, 3)


SEARCH = """
import sys
from vecall import MemoryService
sys.addaudithook(lambda event, _: event.startswith("socket.") and print(event))
who = {"app_name": "app", "user_id": "alice"}
service = MemoryService(embedder=None)
service.sync.add_memory(**who, memories=["zebra"])
print(len(service.sync.search_memory(**who, query="zebra").memories))
"""

IMPORTED = """
print([name for name in sys.modules if name.startswith("opentelemetry.")])
"""

SET_UP = """
import time
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider, export
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(export.SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
time.sleep(0.15)
service.sync.search_memory(**who, query="zebra")
print([span.name for span in exporter.get_finished_spans()])
"""


def lines_of(program: str) -> list[str]:
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, timeout=60, check=True)
    assert not done.stderr
    return done.stdout.decode().splitlines()


@pytest.mark.parametrize(
    "before", ["import sys; sys.modules['opentelemetry'] = None", ""]
)
def test_without_opentelemetry_all_works_and_nobody_is_called(before):
    """vecall does not import the package and opens no connection."""
    assert lines_of(before + SEARCH + IMPORTED) == ["1", "[]"]


@pytest.mark.parametrize("before", ["import opentelemetry.trace", ""])
def test_opentelemetry_may_be_set_up_after_the_service_is_opened(before):
    """Operations that begin a tenth of a second later are seen."""
    assert lines_of(before + SEARCH + SET_UP) == ["1", "['vecall.search']"]
