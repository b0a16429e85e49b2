"""What the server takes from one client, and how often."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, fields

from vecall.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class HttpLimits:
    """How large, slow and frequent requests may be.

    Texts, names, metadata and k have the limits of the memory service.

    Attributes:
        max_body_bytes: A request's body.
        max_batch: Memories or events in one request.
        max_answer_bytes: The memories in an answer, as JSON; those that no longer fit
            are left out, which the answer says. One always fits. Not of an export.
        max_header_bytes: The request line and headers together.
        header_seconds: Until the headers are there, from the first byte on.
        body_seconds: Until the body is there.
        request_seconds: Until the memory service answered, and for a client to take
            each piece of the answer.
        max_connections: Open at the same time. When one more comes, the one is closed
            that has been at its headers for longest, or else idle for longest.
        writes_per_second: Of one token; so many may also come at once.
        reads_per_second: Of one token; so many may also come at once.
    """

    max_body_bytes: int = 4 * 1024 * 1024
    max_batch: int = 256
    max_answer_bytes: int = 4 * 1024 * 1024
    max_header_bytes: int = 16 * 1024
    header_seconds: float = 10.0
    body_seconds: float = 30.0
    request_seconds: float = 30.0
    max_connections: int = 256
    writes_per_second: int = 60
    reads_per_second: int = 600

    def __post_init__(self) -> None:
        """Check that every limit is positive, and whole where it is a count."""
        for field in fields(self):
            value = getattr(self, field.name)
            whole = not field.name.endswith("_seconds")
            fits = type(value) is int or (not whole and type(value) is float)
            if not fits or not 0 < value < math.inf:
                kind = "integer of at least 1" if whole else "number above 0"
                msg = f"limits.{field.name}: must be a finite {kind}"
                raise ConfigError(msg)


class RateLimiter:
    """One bucket for each token and kind of request. For one event loop."""

    def __init__(self, limits: HttpLimits) -> None:
        """Start with full buckets."""
        self._rates = {
            "read": limits.reads_per_second,
            "write": limits.writes_per_second,
        }
        self._buckets: dict[tuple[str, str], tuple[float, float]] = {}

    def wait(self, token: str, kind: str) -> float:
        """Take one request out of a bucket.

        Args:
            token: The token's public id.
            kind: "read" or "write".

        Returns:
            0.0 if it may go on, otherwise the seconds after which it may come again.
        """
        rate, now = self._rates[kind], time.monotonic()
        left, then = self._buckets.get((token, kind), (float(rate), now))
        left = min(float(rate), left + (now - then) * rate)
        if left < 1.0:
            self._buckets[token, kind] = left, now
            return (1.0 - left) / rate
        self._buckets[token, kind] = left - 1.0, now
        return 0.0
