"""A vector store in the vector sets of Redis 8. Needs the extra `vecall[redis]`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vecall import errors
from vecall.limits import Limits
from vecall.vector_store import base

if TYPE_CHECKING:
    from redis import Redis


def open_redis_client(url: str, timeout: float) -> Redis:
    """Return a client, which connects at its first command."""
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    try:
        client: Redis = redis.Redis.from_url(
            url,
            socket_timeout=timeout,
            socket_connect_timeout=timeout,
            protocol=2,
            # A repeated VREM would report that there was no row.
            retry=Retry(NoBackoff(), 0),
        )
        pool = client.connection_pool
        options = pool.connection_kwargs
        pool.connection_class(**options)  # does not connect; checks the options
    except (ValueError, TypeError, AttributeError, redis.RedisError):
        msg = "url: expected redis://, rediss:// or unix://, with known options"
        raise errors.ConfigError(msg) from None
    if options.get("decode_responses") or options.get("protocol") not in (2, "2"):
        raise errors.ConfigError("url: decode_responses and protocol cannot be set")
    # Versions of the package convert this answer in different ways.
    client.set_response_callback("VSIM", lambda answer, **_: answer)
    client.set_response_callback("VGETATTR", lambda answer, **_: answer)
    return client


def typed_redis_error(error: Exception) -> errors.VecallError:  # noqa: PLR0911 -- one a kind
    """Return vecall's error for one of the client's; it repeats no text of it."""
    from redis import exceptions

    text = str(error).lower()
    if isinstance(error, exceptions.TimeoutError):
        return errors.BusyError("the server did not answer in time; try again")
    if isinstance(error, exceptions.BusyLoadingError):
        return errors.BusyError("the server is loading its data; try again")
    refused = (exceptions.AuthenticationError, exceptions.NoPermissionError)
    if isinstance(error, refused) or "noauth" in text or "wrongpass" in text:
        return errors.ConfigError(
            "url: the server refused access; check user and password"
        )
    if isinstance(error, exceptions.ConnectionError):
        return errors.StorageError(
            "the server cannot be reached, or ended the connection"
        )
    if isinstance(error, exceptions.OutOfMemoryError):
        return errors.StorageFullError("the server has no memory left (maxmemory)")
    if isinstance(error, exceptions.ReadOnlyError):
        return errors.ReadOnlyError("the server is a replica, which is read-only")
    if "unknown" in text or "syntax error" in text:
        return errors.ConfigError("the server has no vector sets of Redis 8.2 or later")
    if "wrongtype" in text:
        return errors.ConfigError("prefix: the keys of this prefix hold other data")
    return errors.StorageError("the server refused a command")


# Rows of a vector store as a vector set of Redis holds them.

_SECOND = 1_000_000
# The language of FILTER has neither integers above 2^53 nor negative numbers, so a time
# is two numbers: seconds since the year -1199, and microseconds.
_SHIFT = 100_000_000_000


def attributes_of_row(row: base.StoredRow) -> bytes:
    """Return a row without its id. Conditions read the first three fields."""
    seconds, micros = divmod(row.micros, _SECOND)
    fields = {
        "session": _session_name_as_hex(row.session),
        "seconds": seconds + _SHIFT,
        "micros": micros,
        "metadata": row.metadata,
    }
    return json.dumps(fields).encode()


def row_of(id: bytes, attributes: bytes) -> base.StoredRow:
    """Return the row of an id with its attributes."""
    try:
        fields = json.loads(attributes)
        session = bytes.fromhex(fields["session"]).decode() or None
        micros = (fields["seconds"] - _SHIFT) * _SECOND + fields["micros"]
        return base.StoredRow(id.decode(), session, micros, fields["metadata"])
    except (ValueError, TypeError, KeyError):
        msg = "a row of the vector store was not written by RedisVectorStore"
        raise errors.CorruptFileError(msg) from None


def redis_filter_of(scope: base.PartitionScope) -> list[str]:
    """Return the conditions of a filter apart from `where`, for FILTER."""
    terms = []
    if scope.session is not None:
        terms.append(f'.session == "{_session_name_as_hex(scope.session)}"')
    for bound, beyond, within in ((scope.after, ">", ">="), (scope.before, "<", "<")):
        if bound is not None:
            seconds, micros = divmod(bound, _SECOND)
            seconds += _SHIFT
            terms.append(
                f"(.seconds {beyond} {seconds} or "
                f"(.seconds == {seconds} and .micros {within} {micros}))"
            )
    return terms


def _session_name_as_hex(session: str | None) -> str:
    """Return a name without quotes, backslashes and letters that JSON escapes."""
    return "" if session is None else session.encode().hex()


_PREFIX = re.compile(r"[A-Za-z0-9_.{}-]{1,64}")
_MOST_DIMENSIONS = 32_768
_ALL = 2**62
_PIECE = 500  # rows that one script deletes

# A script is atomic: a first row and the length of all vectors, in one step. The graph
# of a vector set is not searched, so it gets the fewest links.
_UPSERT = """
local length = redis.call('GET', KEYS[1])
if length and length ~= ARGV[1] then return length end
redis.call('VADD', KEYS[2], 'FP32', ARGV[2], ARGV[3], 'NOQUANT', 'EF', 4, 'M', 4,
  'SETATTR', ARGV[4])
if not length then redis.call('SET', KEYS[1], ARGV[1]) end
return ARGV[1]
"""
_DELETE_ALL = """
local count = redis.call('VCARD', KEYS[1])
redis.call('UNLINK', KEYS[1])
return count
"""
# Deletes rows that are as they were read: names and attributes take turns.
_DELETE_UNCHANGED = """
local count = 0
for n = 1, #ARGV, 2 do
  if redis.call('VGETATTR', KEYS[1], ARGV[n]) == ARGV[n + 1] then
    count = count + redis.call('VREM', KEYS[1], ARGV[n])
  end
end
return count
"""


class RedisVectorStore(base.RemoteVectorStore):
    """A `DeletingVectorStore` in Redis 8.2 or later, one vector set for each user.

    A search is exact: it scores all rows of the user (`TRUTH`) with float32 vectors
    (`NOQUANT`). No command of a user has the key of another user.

    Rows are as durable as the server is set up to be: without an append-only file, or
    with a `maxmemory-policy` other than `noeviction`, it can lose them. A cluster is
    not supported.
    """

    def __init__(
        self,
        url: str,
        *,
        dimensions: int | None = None,
        prefix: str = "vecall",
        connections: int = 4,
        timeout: float = 10.0,
        limits: Limits | None = None,
    ) -> None:
        """Create a store; the first call connects.

        Args:
            url: "redis://user:password@host:6379/0", "rediss://…" or "unix://…".
            dimensions: Length of every vector, 1 to 32,768; None uses that of the first
                stored vector, which the key "PREFIX:length" holds.
            prefix: The first part of each key: letters, digits and "_.{}-", at most 64.
            connections: Number of connections and threads, at most 64.
            timeout: Seconds, 0.1 to 3600, that a call waits for a connection, and for
                each answer of the server.
            limits: Maximum sizes of names, metadata and results. Metadata holds the
                text, so its limit is `max_text_bytes`.

        Raises:
            ConfigError: An option is invalid.
            ImportError: The extra `vecall[redis]` is not installed.
        """
        with errors.needs_extra("RedisVectorStore", "redis", "redis"):
            import redis.backoff
            import redis.retry  # noqa: F401
        super().__init__(
            dimensions,
            limits,
            connections=connections,
            timeout=timeout,
            most_dimensions=_MOST_DIMENSIONS,
        )
        given: object = prefix
        if not isinstance(given, str) or not _PREFIX.fullmatch(given):
            allowed = 'letters, digits and "_.{}-", at most 64'
            raise errors.ConfigError(f"prefix: expected {allowed}")
        self._prefix = prefix
        self._length_key = f"{prefix}:length".encode()
        self._client = open_redis_client(url, timeout)

    def _store_row(
        self, key: base.Key, row: base.StoredRow, vector: NDArray[np.float32]
    ) -> None:
        self._require_dim(vector, self._read_redis_vector_length)
        keys = (self._length_key, self._redis_key_of_user(key))
        values = (vector.size, vector.astype("<f4").tobytes(), row.id.encode())
        answer = self._send("EVAL", _UPSERT, 2, *keys, *values, attributes_of_row(row))
        self._dimensions = int(answer)
        self._require_dim(vector, self._read_redis_vector_length)

    def _read_redis_vector_length(self) -> int | None:
        found = self._send("GET", self._length_key)
        return None if found is None else int(found)

    def _nearest_rows(
        self, vector: NDArray[np.float32], count: int, scope: base.PartitionScope
    ) -> list[tuple[float, base.StoredRow]]:
        if not self._require_dim(vector, self._read_redis_vector_length):
            return []
        terms, query = redis_filter_of(scope), vector.astype("<f4").tobytes()
        # On a thread of the server (without NOTHREAD), a search beside writers missed a
        # row that was being replaced in 7 of 7,474 searches.
        answer = self._send(
            *("VSIM", self._redis_key_of_user(scope.key), "FP32", query),
            *("WITHSCORES", "WITHATTRIBS", "COUNT", count),
            *(("FILTER", " and ".join(terms)) if terms else ()),
            "TRUTH",
            "NOTHREAD",
        )
        # Redis maps a cosine to [0, 1].
        return [
            (2 * float(score) - 1, row_of(id, attributes))
            for id, score, attributes in _pairs_of_redis_reply(answer, 3)
        ]

    def _delete_row(self, key: base.Key, id: str) -> bool:
        return bool(self._send("VREM", self._redis_key_of_user(key), id.encode()))

    def _delete_rows(self, scope: base.PartitionScope) -> int:
        key = self._redis_key_of_user(scope.key)
        if scope == base.PartitionScope(scope.key):
            return int(self._send("EVAL", _DELETE_ALL, 1, key))
        count = 0
        # A number of at least that of the rows returns all of them. That of a VCARD
        # before would be too low beside writers.
        ids = self._send("VRANDMEMBER", key, _ALL)
        for piece in _pairs_of_redis_reply(ids or [], _PIECE):
            with (
                self._redis_client_errors(),
                self._client.pipeline(transaction=False) as pipeline,
            ):
                for id in piece:
                    pipeline.execute_command("VGETATTR", key, id)
                found = pipeline.execute()
            unchanged = [
                part
                for id, attributes in zip(piece, found, strict=True)
                if attributes is not None and row_of(id, attributes).passes_scope(scope)
                for part in (id, attributes)
            ]
            if unchanged:
                count += int(self._send("EVAL", _DELETE_UNCHANGED, 1, key, *unchanged))
        return count

    def _redis_key_of_user(self, key: base.Key) -> bytes:
        """Return the key of a user; the length of the app's name makes it unique."""
        app, user = (name.encode() for name in key)
        return b"%s:%d:%s:%s" % (self._prefix.encode(), len(app), app, user)

    def _send(self, *command: Any) -> Any:
        with self._redis_client_errors():
            return self._client.execute_command(*command)

    @contextmanager
    def _redis_client_errors(self) -> Iterator[None]:
        """Raise vecall's errors instead of the client's."""
        import redis

        self._check_open()
        try:
            yield
        except redis.RedisError as error:
            raise typed_redis_error(error) from None
        except (ValueError, AttributeError, OSError):
            # What the client raises where a thread has closed another's connection.
            if self._closed:
                raise base.closed_store_error() from None
            msg = "the connection to the server ended in the middle of a call"
            raise errors.StorageError(msg) from None
        finally:
            if self._closed:
                self._disconnect()

    def _disconnect(self) -> None:
        self._client.connection_pool.disconnect(inuse_connections=False)


def _pairs_of_redis_reply(values: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (values[n : n + size] for n in range(0, len(values), size))
