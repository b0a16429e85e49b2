"""Options of a service: storage and write policy."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from functools import wraps
from typing import ParamSpec, TypeVar, cast, get_args

from vecall.clock import Clock, checked_clock, ttl_seconds
from vecall.errors import ConfigError, InvalidArgumentError
from vecall.hooks import WriteHook
from vecall.ingest.parts import Inner, checked_included_parts
from vecall.limits import Compaction, Quota, Scopes
from vecall.scalars import Shown, exact, make_fields_exact
from vecall.store import Durability
from vecall.summaries import SummaryProvider
from vecall.telemetry import RawTurnsWarning, warn_caller

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class StorageOptions(Shown):
    """Options for the file, the cache and the background thread of a service.

    Attributes:
        durability: "full" syncs every write; it survives a power cut. "process" syncs
            at checkpoints: a write survives the end of the process, but a power cut may
            lose the newest writes.
        cache_bytes: RAM in bytes for users' partitions, texts and vectors of items, at
            least 0. What was not searched recently is evicted; its next search loads
            it. Running searches may exceed the limit. A service without a file applies
            it to the vectors of items only.
        min_free_bytes: Free disk space in bytes, at least 0. Below it adding memories
            fails, so that deletions and other programs still have space. 0 uses the
            disk to the last byte.
        allow_network_filesystem: Whether to open a file on a network filesystem. One
            process at a time may be safe there; two are not.
        maintenance_interval: Time between two runs of the background thread: seconds, a
            timedelta or "60s". The thread makes memories of sessions that are due,
            deletes expired memories and consolidates. With None, only `admin.run_due`
            does this work.
        clock: The source of the time; None uses the system clock.
        max_staleness: With a database: a search may miss writes of other servers for so
            long, and saves the check: seconds, a timedelta or "2s". With None, every
            search sees all writes that were acknowledged before it.

    Raises:
        ConfigError: A value is not allowed.
    """

    durability: Durability = "full"
    cache_bytes: int = 256 * 1024 * 1024
    min_free_bytes: int = 64 * 1024 * 1024
    allow_network_filesystem: bool = False
    maintenance_interval: float | timedelta | str | None = 60.0
    clock: Clock | None = None
    max_staleness: float | timedelta | str | None = None

    def __post_init__(self) -> None:
        """Check every value."""
        make_fields_exact(self)
        durability: object = self.durability
        if type(durability) is not str or durability not in get_args(Durability):
            raise ConfigError('storage.durability: must be "full" or "process"')
        for name in ("cache_bytes", "min_free_bytes"):
            value = getattr(self, name)
            if type(value) is not int or value < 0:
                msg = f"storage.{name}: must be a number of bytes, at least 0"
                raise ConfigError(msg)
        name = "allow_network_filesystem"
        checked_bool_option(self.allow_network_filesystem, f"storage.{name}")
        for name in ("maintenance_interval", "max_staleness"):
            checked_seconds(getattr(self, name), f"storage.{name}")
        if self.clock is not None:
            checked_clock(self.clock)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class WritePolicy(Shown):
    """Rules for writes: review, history, quota, scopes and parts of turns.

    Attributes:
        on_write: Called with each memory before it is written, except imported
            memories; see `vecall.hooks`.
        history_ttl: TTL of overwritten texts: seconds, a timedelta or "30d". None
            deletes them together with the memory.
        quota: The limits on what each user may store.
        scopes: The scopes, besides a user's own, that may be read and written.
        include: What to store of a conversation besides what was said: "thoughts",
            "calls" for the calls of functions and tools and their responses, and
            "system" for system and developer messages. Calls and responses are cut to
            1,000 characters each.

    Raises:
        ConfigError: A value is not allowed.
    """

    on_write: WriteHook | None = None
    history_ttl: float | timedelta | str | None = None
    quota: Quota = field(default_factory=Quota)
    scopes: Scopes = field(default_factory=Scopes)
    include: Sequence[Inner] = ()

    def __post_init__(self) -> None:
        """Check every value."""
        make_fields_exact(self)
        hook: object = self.on_write
        if hook is not None and not callable(hook):
            raise ConfigError("writes.on_write: expected a function")
        checked_seconds(self.history_ttl, "writes.history_ttl")
        for name, kind in (("quota", Quota), ("scopes", Scopes)):
            if not isinstance(getattr(self, name), kind):
                raise ConfigError(f"writes.{name}: expected a vecall.{kind.__name__}")
        checked_included_parts(self.include)
        object.__setattr__(self, "include", tuple(self.include))


def checked_option_group(value: object, group: type[T], name: str) -> T:
    """Return a group of options; for None, the group with its defaults."""
    if value is None:
        return group()
    if not isinstance(value, group):
        raise ConfigError(f"{name}: expected a vecall.{group.__name__}")
    return value


def only_known_options(value: object, group: type[T], name: str, known: set[str]) -> T:
    """Return options of which `VectorStoreMemoryService` has only the `known` ones."""
    checked = checked_option_group(value, group, name)
    usual = group()
    for option in fields(group):  # type: ignore[arg-type]
        own = getattr(checked, option.name)
        if option.name not in known and own != getattr(usual, option.name):
            names = " and ".join(f"{name}.{option}" for option in sorted(known))
            msg = f"{name}.{option.name}: VectorStoreMemoryService has only {names}"
            raise ConfigError(msg)
    return checked


def checked_bool_option(value: object, name: str) -> bool:
    """Return a bool; raise ConfigError for a value of another type."""
    value = exact(value)
    if not isinstance(value, bool):
        raise ConfigError(f"{name}: expected True or False")
    return value


def checked_seconds(value: object, name: str) -> float | None:
    """Return a duration in seconds; None stays None."""
    if value is None:
        return None
    try:
        return ttl_seconds(value)
    except InvalidArgumentError:
        msg = f'{name}: expected positive seconds, a timedelta, "30d", or None'
        raise ConfigError(msg) from None


def checked_summarizer(value: object) -> SummaryProvider | None:
    """Return the summarizer, or None."""
    if value is None or callable(getattr(value, "get_summaries", None)):
        return cast("SummaryProvider | None", value)
    raise ConfigError("summarizer: expected an object with get_summaries")


def warn_of_raw_turns(summarizer: SummaryProvider | None, trigger: object) -> None:
    """Warn the caller if turns are embedded without a summary."""
    if summarizer is None and not isinstance(trigger, Compaction):
        warn_caller(
            "turns are embedded as they are, without a summary", RawTurnsWarning
        )


# Makes a constructor list its options in the error for an unknown option.

P = ParamSpec("P")


def refuse_unknown_options(init: Callable[P, None]) -> Callable[P, None]:
    """Return a constructor that raises ConfigError for an unknown option."""
    names = list(inspect.signature(init).parameters)[1:]  # without self

    @wraps(init)
    def checked(*args: P.args, **kwargs: P.kwargs) -> None:
        for name in kwargs:
            if name not in names:
                msg = f"{name}: unknown option; options are {', '.join(names)}"
                raise ConfigError(msg)
        init(*args, **kwargs)

    return checked
