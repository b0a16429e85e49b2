"""Limits on the size, speed and rate of requests."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, fields

from vecall.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class HttpLimits:
    """The limits on the size, speed and rate of requests.

    The memory service has its own limits on texts, names, metadata and k.

    Attributes:
        max_body_bytes: Bytes of a body that may hold many memories or turns.
        max_text_body_bytes: Bytes of a body that corrects one memory.
        max_small_body_bytes: Bytes of any other body, such as a search's.
        max_json_parts: Fields and items in a body, counted as its characters [ { and
            comma.
        max_held_bytes: Bytes in RAM of all bodies above 16 KiB. One token may use a
            quarter, but at least one body.
        max_batch: Memories or events in one request.
        max_answer_bytes: Bytes of the memories in a response, as JSON. Further memories
            are left out, and the response says so. One memory always fits. Exports have
            no such limit.
        max_header_bytes: Bytes of the request line and the headers together.
        header_seconds: Timeout of the headers, from the first byte on.
        body_seconds: Timeout of the body.
        request_seconds: Timeout of the memory service, and of a client that reads a
            chunk of the response.
        max_connections: Open connections. For one more, the server closes the one that
            has been sending headers longest, or else the one idle longest.
        writes_per_second: Writes of one token; also the size of a burst.
        reads_per_second: Reads of one token; also the size of a burst.
        body_bytes_per_second: Bytes of all bodies of one token; also the size of a
            burst. Above it the server slows the client down.
        requests_at_once: Requests of one token that run at the same time; of all tokens
            four times as many. Other requests wait, round robin by token.
        exports_at_once: Exports of one token that are made or sent at the same time.
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
        """Check that every limit is positive, and that counts are integers."""
        for field in fields(self):
            value = getattr(self, field.name)
            whole = not field.name.endswith("_seconds")
            fits = type(value) is int or (not whole and type(value) is float)
            if not fits or not 0 < value < math.inf:
                kind = "integer of at least 1" if whole else "number above 0"
                msg = f"limits.{field.name}: must be a finite {kind}"
                raise ConfigError(msg)


class RateLimiter:
    """Token buckets by token and kind of cost. For one event loop."""

    def __init__(self, limits: HttpLimits) -> None:
        """Start with full buckets."""
        self._rates = {
            "read": limits.reads_per_second,
            "write": limits.writes_per_second,
            "bytes": limits.body_bytes_per_second,
        }
        self._buckets: dict[tuple[str, str], tuple[float, float]] = {}

    def wait(self, token: str, kind: str) -> float:
        """Take one request from a bucket.

        Args:
            token: The token's public id.
            kind: "read" or "write"; "bytes" takes one byte, and admits a body.

        Returns:
            0.0 if the request may proceed, else the seconds until it may be repeated.
        """
        rate, left = self._rates[kind], self._left(token, kind)
        if left < 1.0:
            return (1.0 - left) / rate
        self.spend(token, kind, 1)
        return 0.0

    def spend(self, token: str, kind: str, amount: int) -> None:
        """Take an amount from a bucket, even more than it holds.

        Args:
            token: The token's public id.
            kind: As in `wait`.
            amount: The amount to take.
        """
        left = self._left(token, kind)
        self._buckets[token, kind] = left - amount, time.monotonic()

    def _left(self, token: str, kind: str) -> float:
        rate, now = float(self._rates[kind]), time.monotonic()
        left, then = self._buckets.get((token, kind), (rate, now))
        return min(rate, left + (now - then) * rate)
