"""Metrics for Prometheus, without names of apps or users and without texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vecall.server.pauses import Pauses


def as_text(
    stats: Mapping[str, Any], answered: Mapping[tuple[str, int], int], pauses: Pauses
) -> str:
    """Return counts in Prometheus' text format.

    Args:
        stats: The result of `MemoryService.stats`.
        answered: The number of answered requests, by operation and status.
        pauses: The pauses of the interpreter.
    """
    operations = dict(stats["operations"])
    errors = operations.pop("errors")
    lines = []
    for name, value in stats.items():
        if isinstance(value, int):
            lines += [f"# TYPE vecall_{name} gauge", f"vecall_{name} {value}"]
    for name, seconds in (("max", pauses.longest), ("recent_max", pauses.recent)):
        gauge = f"vecall_interpreter_pause_seconds_{name}"
        lines += [f"# TYPE {gauge} gauge", f"{gauge} {seconds:.6f}"]
    lines.append("# TYPE vecall_operations_total counter")
    for name, value in operations.items():
        lines.append(f'vecall_operations_total{{operation="{name}"}} {value}')
    lines += ["# TYPE vecall_errors_total counter", f"vecall_errors_total {errors}"]
    lines.append("# TYPE vecall_http_requests_total counter")
    for (name, status), value in sorted(answered.items()):
        labels = f'operation="{name}",status="{status}"'
        lines.append(f"vecall_http_requests_total{{{labels}}} {value}")
    return "\n".join(lines) + "\n"
