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
        max_body_bytes: A request's body, where it may hold many memories or turns.
        max_text_body_bytes: A body that corrects one memory.
        max_small_body_bytes: Any other body, such as a search's.
        max_json_parts: Fields and items in a body: how often it may have one of the
            characters [ { and comma.
        max_held_bytes: Bodies above 16 KiB that are read or worked on at the same time,
            together; of one token a quarter, but at least one body.
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
        body_bytes_per_second: Of one token in all bodies; so many may also come at
            once. What exceeds it waits: the client is slowed down.
        requests_at_once: Of one token that the memory service works on; of all tokens
            four times as many. Others wait, each token in turn.
        exports_at_once: Of one token that are made or sent.
    """

    max_body_bytes: int = 4 * 1024 * 1024
    max_text_body_bytes: int = 1024 * 1024
    max_small_body_bytes: int = 256 * 1024
    max_json_parts: int = 100_000
    max_held_bytes: int = 64 * 1024 * 1024
    max_batch: int = 256
    max_answer_bytes: int = 4 * 1024 * 1024
    max_header_bytes: int = 16 * 1024
    header_seconds: float = 10.0
    body_seconds: float = 30.0
    request_seconds: float = 30.0
    max_connections: int = 256
    writes_per_second: int = 60
    reads_per_second: int = 600
    body_bytes_per_second: int = 8 * 1024 * 1024
    requests_at_once: int = 16
    exports_at_once: int = 4

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
    """One bucket for each token and kind of cost. For one event loop."""

    def __init__(self, limits: HttpLimits) -> None:
        """Start with full buckets."""
        self._rates = {
            "read": limits.reads_per_second,
            "write": limits.writes_per_second,
            "bytes": limits.body_bytes_per_second,
        }
        self._buckets: dict[tuple[str, str], tuple[float, float]] = {}

    def wait(self, token: str, kind: str) -> float:
        """Take one request out of a bucket.

        Args:
            token: The token's public id.
            kind: "read" or "write"; "bytes" takes one byte, and lets a body in.

        Returns:
            0.0 if it may go on, otherwise the seconds after which it may come again.
        """
        rate, left = self._rates[kind], self._left(token, kind)
        if left < 1.0:
            return (1.0 - left) / rate
        self.spend(token, kind, 1)
        return 0.0

    def spend(self, token: str, kind: str, amount: int) -> None:
        """Take out of a bucket, also more than there is.

        Args:
            token: The token's public id.
            kind: As in `wait`.
            amount: How much.
        """
        left = self._left(token, kind)
        self._buckets[token, kind] = left - amount, time.monotonic()

    def _left(self, token: str, kind: str) -> float:
        rate, now = float(self._rates[kind]), time.monotonic()
        left, then = self._buckets.get((token, kind), (rate, now))
        return min(rate, left + (now - then) * rate)
