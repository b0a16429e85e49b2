"""What operations did, as counts, times and outcomes; never what they were about.

Spans and metrics go to OpenTelemetry if the program set it up, log records at DEBUG to
the logger "vecall". Nothing is sent anywhere from here. No text, query, id, name or
metadata comes into this module: it sees the name of an operation, how it ended, and a
number.
"""

from __future__ import annotations

import functools
import itertools
import logging
import math
import sys
import warnings
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from vecall.scalars import exact_arguments

if TYPE_CHECKING:
    from opentelemetry.trace import Span


P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound="_Observable")

_log = logging.getLogger("vecall")

OK = "ok"

_COUNTED: Mapping[str | None, str] = {
    "written": (
        "add_session add_events add_entries import observe_session end_session "
        "items_write restore"
    ),
    "returned": (
        "search get get_many expand_session items_get items_find items_namespaces "
        "items_count history list"
    ),
    None: (
        "explain update count list_sessions figures archive propose_forget "
        "consolidate conflicts backup warm stats list_apps list_users"
    ),
    "marked": "mark_used touch",
    "deleted": (
        "delete delete_many delete_session delete_where delete_user delete_app "
        "run_due items_delete items_sweep confirm_forget"
    ),
    "exported": "export",
    "embedded": "reembed",
    "freed": "purge",
}

OPERATIONS: Mapping[str, str | None] = {
    name: counted for counted, names in _COUNTED.items() for name in names.split()
}
"""Every operation, and what is counted of its result."""

_COUNTERS = {
    kind: (f"vecall.memories.{kind}", "{memory}")
    for kind in "written returned deleted marked exported embedded".split()
} | {"freed": ("vecall.bytes.freed", "By")}

# Seconds: a search takes some 1e-4, a synced write 1e-3, a rewritten file many.
_BOUNDARIES = tuple(
    digits * 10.0**power for power in range(-5, 2) for digits in (1.0, 2.5, 5.0)
)

_LOOK_EVERY = 0.1  # seconds; asking OpenTelemetry for its providers takes microseconds


class _Observable(Protocol):
    @property
    def telemetry(self) -> Telemetry: ...


class _Instruments:
    """What OpenTelemetry gave out: a tracer, and the instruments of a meter."""

    def __init__(self, tracers: Any, meters: Any) -> None:
        """Take them from the providers that the program set up."""
        from opentelemetry.trace import Status, StatusCode

        self._status = functools.partial(Status, StatusCode.ERROR)
        self._tracer = tracers.get_tracer("vecall")
        meter = meters.get_meter("vecall")
        self._operations = meter.create_counter(
            "vecall.operations", "{operation}", "Operations that ended."
        )
        self._duration = meter.create_histogram(
            "vecall.operation.duration",
            "s",
            "How long operations took.",
            explicit_bucket_boundaries_advisory=_BOUNDARIES,
        )
        self._counters = {
            kind: meter.create_counter(name, unit)
            for kind, (name, unit) in _COUNTERS.items()
        }

    def start(self, operation: str) -> Span:
        """Open a span, which belongs to the caller's."""
        span: Span = self._tracer.start_span(
            f"vecall.{operation}",
            record_exception=False,  # its message may hold content
            set_status_on_exception=False,
        )
        return span

    def record_span(
        self,
        span: Span | None,
        ended: dict[str, str],
        seconds: float,
        counted: dict[str, int],
    ) -> None:
        """Count, and close the span."""
        operation, outcome = ended["operation"], ended["outcome"]
        self._operations.add(1, ended)
        self._duration.record(seconds, {"operation": operation})
        for kind, number in counted.items():
            self._counters[kind].add(number, {"operation": operation})
        if span is not None:
            span.set_attributes({**ended, **counted})
            if outcome != OK:
                span.set_status(self._status(outcome))
            span.end()


@dataclass(slots=True, repr=False, eq=False)
class _Watch:
    """One operation under observation."""

    start: float
    instruments: _Instruments | None
    span: Span | None = None


class Telemetry:
    """Watches the operations of one service. Safe to share between threads.

    OpenTelemetry is used once the program has imported it and set a provider, which it
    may do before or after the service is opened. vecall never imports it by itself.
    """

    def __init__(self) -> None:
        """Start at zero."""
        # Steps of these are atomic, so that counting takes no lock.
        self._ended = {name: itertools.count() for name in OPERATIONS}
        self._errors = itertools.count()
        self._instruments: _Instruments | None = None
        self._next_look = 0.0
        self._complained = False

    def operation_counts(self) -> dict[str, int]:
        """Return how many operations ended, by name, and how many with an error."""
        # All but "stats", which shows them: asking twice gives the same answer.
        shown = (item for item in self._ended.items() if item[0] != "stats")
        ended = {name: _current_count(count) for name, count in shown}
        return {**ended, "errors": _current_count(self._errors)}

    def begin_operation(self, operation: str) -> _Watch | None:
        """Begin to observe an operation; None if no exporter is configured."""
        start = perf_counter()
        if self._instruments is None and start >= self._next_look:
            self._find_providers(start)
        instruments = self._instruments
        if instruments is None and not _log.isEnabledFor(logging.DEBUG):
            return None
        watch = _Watch(start, instruments)
        try:
            watch.span = None if instruments is None else instruments.start(operation)
        except Exception as error:
            self._log_export_error_once(error)
        return watch

    def end_operation(
        self, operation: str, watch: _Watch | None, outcome: str, number: int | None
    ) -> None:
        """Tell how an operation ended: "ok", or an error's class; and what to count."""
        next(self._ended[operation])
        if outcome != OK:
            next(self._errors)
        if watch is None:
            return
        kind = OPERATIONS[operation]
        seconds = perf_counter() - watch.start
        ended = {"operation": operation, "outcome": outcome}
        counted = {}
        if kind is not None and number is not None:
            counted[kind] = max(number, 0)  # a purged file may have grown
        if watch.instruments is not None:
            try:
                watch.instruments.record_span(watch.span, ended, seconds, counted)
            except Exception as error:
                self._log_export_error_once(error)
        fields = {**ended, **counted, "seconds": seconds}
        _log.debug("%s: %s", operation, outcome, extra=fields)

    def _find_providers(self, now: float) -> None:
        """Use OpenTelemetry if the program has set it up by now."""
        self._next_look = now + _LOOK_EVERY
        if sys.modules.get("opentelemetry") is None:
            return
        try:
            from opentelemetry import metrics, trace

            tracers = trace.get_tracer_provider()
            meters = metrics.get_meter_provider()
            if not (_is_idle_provider(tracers) and _is_idle_provider(meters)):
                self._instruments = _Instruments(tracers, meters)
        except ImportError:
            self._next_look = math.inf
        except Exception as error:
            self._next_look = math.inf
            self._log_export_error_once(error)

    def _log_export_error_once(self, error: Exception) -> None:
        if not self._complained:
            self._complained = True
            _log.warning("OpenTelemetry failed: %s", type(error).__name__)


def _current_count(count: itertools.count[int]) -> int:
    return int(repr(count)[len("count(") : -1])


def is_traced() -> bool:
    """Whether the process has an OpenTelemetry provider that records spans."""
    trace = sys.modules.get("opentelemetry.trace")
    return trace is not None and not _is_idle_provider(trace.get_tracer_provider())


def _is_idle_provider(provider: object) -> bool:
    """Whether it is one of those that the API package stands in with."""
    module = type(provider).__module__
    return module.startswith(("opentelemetry.trace", "opentelemetry.metrics"))


def observed(
    operation: str, count: Callable[[Any], int] | None = None
) -> Callable[
    [Callable[Concatenate[S, P], Coroutine[Any, Any, T]]],
    Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
]:
    """Watch a coroutine method of an object that has a `telemetry`."""
    # Every public operation is such a method. Scalars among its arguments arrive in it
    # as exactly str, int, float or bool. `count` takes what `OPERATIONS` names from a
    # result.
    if operation not in OPERATIONS:
        raise KeyError(operation)

    def decorate(
        method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
    ) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
        async def watched(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
            telemetry = self.telemetry
            watch = telemetry.begin_operation(operation)
            given: Any = exact_arguments(args)
            if kwargs:
                named: Any = exact_arguments(tuple(kwargs.values()))
                kwargs = dict(zip(kwargs, named, strict=True))  # type: ignore[assignment]
            try:
                result = await method(self, *given, **kwargs)
            except BaseException as error:
                telemetry.end_operation(operation, watch, type(error).__name__, None)
                raise
            number = None if watch is None or count is None else count(result)
            telemetry.end_operation(operation, watch, OK, number)
            return result

        functools.update_wrapper(watched, method)
        return watched

    return decorate


# Warnings that point at the line of a program that called vecall.

_PACKAGE = __name__.partition(".")[0]


class RawTurnsWarning(UserWarning):
    """Turns are embedded as they are, since the service has no summarizer.

    Python ignores it, as it ignores a DeprecationWarning, unless a filter selects it:
    `warnings.simplefilter("default", vecall.RawTurnsWarning)`.
    """


warnings.simplefilter("ignore", RawTurnsWarning, append=True)  # the program's go first


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost call that is not of this package."""
    level = 2
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_module_of_package(
        frame.f_globals.get("__name__")
    ):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)


def _is_module_of_package(module: object) -> bool:
    return isinstance(module, str) and module.partition(".")[0] == _PACKAGE
