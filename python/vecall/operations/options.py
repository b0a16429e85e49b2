"""Options of a service: clock, TTL, write hook, scopes, and the checks on them."""

from __future__ import annotations

from typing import NamedTuple, cast

from vecall.caller_warnings import RawTurnsWarning, warn_caller
from vecall.clock import Clock, checked_clock
from vecall.errors import ConfigError, InvalidArgumentError
from vecall.hooks import WriteHook
from vecall.ingest.inner_parts import checked_include
from vecall.limits import Limits
from vecall.scopes import Scopes
from vecall.store import UserQuota
from vecall.summaries import SummaryProvider
from vecall.timestamps import ttl_seconds
from vecall.triggers import Compaction


class ServiceOptions(NamedTuple):
    """The options of a service, checked.

    Attributes:
        clock: The clock.
        ttl: The default TTL of memories, in seconds.
        history_ttl: The TTL of overwritten texts, in seconds.
        read_only: Whether the service refuses writes.
        on_write: The write hook.
        scopes: The scopes to read and write besides a user's own memories.
        sweep_interval: Seconds between background runs; None disables them.
        include: The parts of a turn to store besides its text.
    """

    clock: Clock
    ttl: float | None
    history_ttl: float | None
    read_only: bool
    on_write: WriteHook | None
    scopes: Scopes
    sweep_interval: float | None
    include: frozenset[str]


def checked_rules(
    *,
    clock: object,
    ttl: object,
    history_ttl: object,
    read_only: object,
    on_write: object,
    scopes: object,
    sweep_interval: object,
    include: object,
) -> ServiceOptions:
    """Check the options of a service.

    Raises:
        ConfigError: An invalid option.
    """
    if not isinstance(read_only, bool):
        msg = "read_only: expected True or False"
        raise ConfigError(msg)
    if on_write is not None and not callable(on_write):
        msg = "on_write: expected a function"
        raise ConfigError(msg)
    if not isinstance(scopes, Scopes | None):
        msg = "scopes: expected a vecall.Scopes"
        raise ConfigError(msg)
    return ServiceOptions(
        checked_clock(clock),
        checked_seconds(ttl, "ttl"),
        checked_seconds(history_ttl, "history_ttl"),
        read_only,
        cast("WriteHook | None", on_write),
        scopes or Scopes(),
        checked_seconds(sweep_interval, "sweep_interval"),
        checked_include(include),
    )


def checked_seconds(value: object, name: str) -> float | None:
    """Return a duration in seconds; None stays None.

    Raises:
        ConfigError: Not a positive duration.
    """
    if value is None:
        return None
    try:
        return ttl_seconds(value)
    except InvalidArgumentError:
        msg = f'{name}: expected positive seconds, a timedelta, "3600s", or None'
        raise ConfigError(msg) from None


def checked_summarizer(given: object) -> SummaryProvider | None:
    """Return a summarizer; None stays None.

    Raises:
        ConfigError: It has no `get_summaries`.
    """
    if given is None or callable(getattr(given, "get_summaries", None)):
        return cast("SummaryProvider | None", given)
    msg = "summarizer: expected an object with get_summaries"
    raise ConfigError(msg)


def quota_of(limits: Limits) -> UserQuota | None:
    """Return the quota of a user; None is unlimited."""
    if limits.max_user_memories is None and limits.max_user_bytes is None:
        return None
    return UserQuota(limits.max_user_memories, limits.max_user_bytes, limits.eviction)


def warn_of_raw_turns(summarizer: SummaryProvider | None, trigger: object) -> None:
    """Warn the caller if turns are embedded without a summary."""
    if summarizer is None and not isinstance(trigger, Compaction):
        warn_caller(
            "turns are embedded as they are, without a summary", RawTurnsWarning
        )
