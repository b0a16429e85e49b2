"""The client of a Redis server for a vector store, and its errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vecall.errors import (
    BusyError,
    ConfigError,
    ReadOnlyError,
    StorageError,
    StorageFullError,
    VecallError,
)

if TYPE_CHECKING:
    from redis import Redis


def require_redis() -> None:
    """Check that the package is installed.

    Raises:
        ImportError: It is not.
    """
    try:
        import redis.backoff
        import redis.retry  # noqa: F401
    except ImportError as error:
        msg = 'RedisVectorStore needs redis: pip install "vecall[redis]"'
        raise ImportError(msg) from error


def open_client(url: str, timeout: float) -> Redis:
    """Return a client, which connects at its first command.

    Args:
        url: The URL of the server.
        timeout: Seconds that it waits for a connection, and for each answer.

    Raises:
        ConfigError: The URL is invalid.
    """
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
        raise ConfigError(msg) from None
    if options.get("decode_responses") or options.get("protocol") not in (2, "2"):
        msg = "url: decode_responses and protocol cannot be set"
        raise ConfigError(msg)
    # Versions of the package convert this answer in different ways.
    client.set_response_callback("VSIM", lambda answer, **_: answer)
    client.set_response_callback("VGETATTR", lambda answer, **_: answer)
    return client


def typed_error(error: Exception) -> VecallError:  # noqa: PLR0911 -- one a kind
    """Return vecall's error for one of the client's; it repeats no text of it."""
    from redis import exceptions

    text = str(error).lower()
    if isinstance(error, exceptions.TimeoutError):
        return BusyError("the server did not answer in time; try again")
    if isinstance(error, exceptions.BusyLoadingError):
        return BusyError("the server is loading its data; try again")
    refused = (exceptions.AuthenticationError, exceptions.NoPermissionError)
    if isinstance(error, refused) or "noauth" in text or "wrongpass" in text:
        return ConfigError("url: the server refused access; check user and password")
    if isinstance(error, exceptions.ConnectionError):
        return StorageError("the server cannot be reached, or ended the connection")
    if isinstance(error, exceptions.OutOfMemoryError):
        return StorageFullError("the server has no memory left (maxmemory)")
    if isinstance(error, exceptions.ReadOnlyError):
        return ReadOnlyError("the server is a replica, which is read-only")
    if "unknown" in text or "syntax error" in text:
        return ConfigError("the server has no vector sets of Redis 8.2 or later")
    if "wrongtype" in text:
        return ConfigError("prefix: the keys of this prefix hold other data")
    return StorageError("the server refused a command")
