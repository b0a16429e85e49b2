"""Checks the arguments of a memory service."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, replace
from datetime import datetime, timedelta, timezone, tzinfo
from pathlib import Path
from typing import Any, TypeGuard, get_args

from vecall import errors
from vecall.clock import to_seconds
from vecall.filters.metadata import check_metadata_conditions
from vecall.filters.rights import TRUST_TIERS, check_trust_tier, reaches, tiers_from
from vecall.limits import (
    APP_WIDE,
    MOST_OFFSET,
    RESERVED,
    SHARED_APP,
    Limits,
    Owner,
    Scope,
    Scopes,
)
from vecall.scalars import exact
from vecall.types import Filter, Names, as_names, check_share

LABEL_FIELDS = (
    *("author", "kind", "not_kind", "trust", "source", "not_session_id"),
    *("session_prefix", "kind_prefix"),
)
"""Fields of a `Filter` that take one name or several."""

DEFAULT_PAGE = 100
"""Names or memories in a page of a listing, if no limit is given."""

MOST_NAMES = 64
"""Maximum number of names in such a field."""

MOST_IDS = 512
"""Maximum number of ids in `Filter.not_id`."""

_DATABASES = ("postgresql://", "postgres://")


def check_name(value: object, name: str, limits: Limits) -> str:
    """Return `value` if it may name an app, a user, a session, an event or a memory."""
    if type(value) is not str:
        value = exact(value)
        if type(value) is not str:
            raise errors.InvalidTypeError(f"{name}: expected a string")
    if not value or "\0" in value:
        raise errors.InvalidArgumentError(
            f"{name}: must be a non-empty string without NUL"
        )
    try:
        size = len(value) if value.isascii() else len(value.encode())
    except UnicodeEncodeError:
        msg = f"{name}: must not contain lone surrogates"
        raise errors.InvalidArgumentError(msg) from None
    if size > limits.max_name_bytes:
        msg = f"{name}: at most max_name_bytes = {limits.max_name_bytes} bytes"
        raise errors.LimitExceededError(msg)
    return value


def is_valid_name(value: str, limits: Limits) -> bool:
    """Return whether `check_name` accepts a string."""
    try:
        check_name(value, "", limits)
    except errors.InvalidArgumentError:
        return False
    return True


def checked_owner(
    app_name: object, user_id: object, limits: Limits | None = None
) -> Owner:
    """Return the checked names of an app and a user."""
    most = Limits() if limits is None else limits
    app = check_name(app_name, "app_name", most)
    user = check_name(user_id, "user_id", most)
    partition_key(Scopes(), "user", app, user, write=False)  # no reserved name
    return {"app_name": app, "user_id": user}


def partition_key(
    scopes: Scopes, scope: object, app: str, user: str, *, write: bool
) -> tuple[str, str]:
    """Return the names of the partition behind a scope."""
    if app in RESERVED or user in RESERVED:
        raise errors.InvalidArgumentError("app_name, user_id: this name is reserved")
    if type(scope) is not str:
        scope = exact(scope)
    if type(scope) is str and scope == "user":
        return app, user
    if type(scope) is not str or scope not in get_args(Scope):
        raise errors.InvalidArgumentError('scope: must be "user", "shared" or "app"')
    allowed = scopes.write if write else scopes.read
    if scope not in allowed:
        way = "write" if write else "read"
        msg = f"scope: MemoryService(scopes=Scopes({way}=...)) does not allow it"
        raise errors.ScopeError(msg)
    return (SHARED_APP, user) if scope == "shared" else (app, APP_WIDE)


def check_query(value: object) -> str:
    """Return `value` if it is a string, of any content."""
    if type(value) is not str:
        value = exact(value)
        if type(value) is not str:
            raise errors.InvalidTypeError("query: expected a string")
    return value


def checked_name_page(
    prefix: object, after: object, limit: object, limits: Limits
) -> tuple[str, str, int]:
    """Return the arguments of a page of names: "" is every name, or the beginning."""
    count = check_top_k(limit, limits, "limit", DEFAULT_PAGE)
    begin = "" if after is None else check_name(after, "after", limits)
    if type(prefix) is str and not prefix:
        return "", begin, count
    return check_name(prefix, "prefix", limits), begin, count


def check_top_k(
    value: object, limits: Limits, name: str = "top_k", default: int | None = None
) -> int:
    """Return a number of results; None is `default`, or `max_top_k` if that is less."""
    if value is None and default is not None:
        return min(default, limits.max_top_k)
    return _check_count_argument(value, limits, name, least=1)


def check_turns(value: object, name: str, limits: Limits) -> int:
    """Return `value` if it is a number of turns, at least 0."""
    return _check_count_argument(value, limits, name, least=0)


def _check_count_argument(value: object, limits: Limits, name: str, least: int) -> int:
    count = exact(value)
    if type(count) is not int:
        raise errors.InvalidTypeError(f"{name}: expected an integer")
    if count < least:
        raise errors.InvalidArgumentError(f"{name}: must be at least {least}")
    if count > limits.max_top_k:
        raise errors.LimitExceededError(
            f"{name}: at most max_top_k = {limits.max_top_k}"
        )
    return count


def check_min_similarity(value: object) -> float:
    """Return `value` if it is a minimum cosine, in [-1, 1]."""
    return check_share(value, "min_similarity", -1)


def checked_bool(value: object, name: str) -> bool:
    """Return a bool."""
    if value is True or value is False:
        return value
    value = exact(value)
    if not isinstance(value, bool):
        raise errors.InvalidTypeError(f"{name}: expected True or False")
    return value


def check_offset(offset: object) -> int:
    """Return the number of results that a search leaves out."""
    if type(offset) is int and offset == 0:
        return 0
    offset = exact(offset)
    if type(offset) is not int:
        raise errors.InvalidTypeError("offset: expected an integer")
    if not 0 <= offset <= MOST_OFFSET:
        raise errors.InvalidArgumentError(f"offset: must be from 0 to {MOST_OFFSET}")
    return offset


_OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)", re.ASCII)


def check_time_zone(value: object, name: str = "time_zone") -> tzinfo | None:
    """Return a time zone as a tzinfo; None for None."""
    rule = (
        f'{name}: expected an IANA name such as "Europe/Berlin", which needs the '
        'system\'s zone data or the package tzdata, an offset such as "+02:00", or a '
        "tzinfo"
    )
    value = exact(value)
    if value is None:
        return None
    if isinstance(value, str):
        if value in ("Z", "z"):
            return timezone.utc
        if parts := _OFFSET.fullmatch(value):
            sign, hours, minutes = parts.groups()
            if int(hours) > 23 or int(minutes) > 59:
                raise errors.InvalidArgumentError(rule)
            ahead = timedelta(hours=int(hours), minutes=int(minutes))
            return timezone(-ahead if sign == "-" else ahead)
        from zoneinfo import ZoneInfo  # few processes name a zone

        try:
            return ZoneInfo(value)
        except (KeyError, ValueError, OSError):  # no zone, no name of a file, a folder
            raise errors.InvalidArgumentError(rule) from None
    if not isinstance(value, tzinfo):
        raise errors.InvalidTypeError(rule)
    with suppress(Exception):  # whatever a class of the caller's raises
        if datetime.fromtimestamp(0, value).utcoffset() is not None:
            return value
    raise errors.InvalidArgumentError(rule)


def check_path(path: object) -> Path | None:
    """Return the path of a file as a `Path`; None for a database in memory."""
    path = exact(path)
    if path is None or str(path) == ":memory:":
        return None
    if not isinstance(path, str | Path) or not _is_valid_file_name(str(path)):
        raise errors.ConfigError("path: expected the name of a file, or ':memory:'")
    try:
        return Path(path).expanduser()
    except RuntimeError:
        msg = "path: begins with ~ and an unknown user; write ./~ for a file name"
        raise errors.ConfigError(msg) from None


def _is_valid_file_name(name: str) -> bool:
    try:
        return bool(name) and b"\0" not in os.fsencode(name)
    except UnicodeEncodeError:
        return False


def check_storage_path(path: object) -> Path | str | None:
    """Return where memories are: a file, the URL of a database, or None for memory."""
    path = exact(path)
    return path if is_database_url(path) else check_path(path)


def is_database_url(path: object) -> TypeGuard[str]:
    """Whether a path is the URL of a database."""
    return isinstance(path, str) and path.startswith(_DATABASES)


def check_filter(
    filter_: object, limits: Limits, *, by_metadata: bool = False
) -> Filter:
    """Return a checked and normalised filter."""
    # A field of names becomes a string for one name, and a tuple for several.
    # `min_trust` is replaced by the tiers that reach it.
    if isinstance(filter_, Mapping):
        known = [field.name for field in fields(Filter)]
        if not filter_.keys() <= set(known):
            msg = f"filter: unknown field; fields are {', '.join(known)}"
            raise errors.InvalidArgumentError(msg)
        filter_ = Filter(**filter_)
    if not isinstance(filter_, Filter):
        msg = "filter: expected a vecall.Filter, or a mapping with its fields"
        raise errors.InvalidTypeError(msg)
    if filter_.metadata is not None and not by_metadata:
        msg = "filter.metadata: this call does not filter by metadata"
        raise errors.InvalidArgumentError(msg)
    changed: dict[str, Any] = {
        name: _check_filter_names(getattr(filter_, name), f"filter.{name}", limits)
        for name in LABEL_FIELDS
        if getattr(filter_, name) is not None
    }
    if filter_.session_id is not None:
        name = "filter.session_id"
        changed["session_id"] = check_name(filter_.session_id, name, limits)
    if filter_.after is not None:
        changed["after"] = to_seconds(filter_.after, "filter.after")
    if filter_.before is not None:
        changed["before"] = to_seconds(filter_.before, "filter.before")
    if filter_.not_id is not None:
        ids = _check_filter_names(filter_.not_id, "filter.not_id", limits, MOST_IDS)
        changed["not_id"] = ids
    if filter_.metadata is not None:
        max_bytes = limits.max_metadata_bytes
        changed["metadata"] = check_metadata_conditions(filter_.metadata, max_bytes)
    if filter_.min_trust is not None:
        tiers = _tiers_of_filter(filter_.min_trust, changed.get("trust"))
        changed |= {"min_trust": None, "trust": tiers}
    return replace(filter_, **changed) if changed else filter_


def _tiers_of_filter(floor: object, trust: Names | None) -> Names | None:
    """Return the tiers of `trust`, or of all, that reach a minimum tier."""
    lowest = check_trust_tier(floor, "filter.min_trust")
    if trust is None:
        return None if lowest == TRUST_TIERS[-1] else tiers_from(lowest)
    tiers = tuple(tier for tier in as_names(trust) if reaches(tier, lowest))
    if not tiers:
        msg = "filter.trust: has no tier that reaches filter.min_trust"
        raise errors.InvalidArgumentError(msg)
    return tiers


def _check_filter_names(
    names: object, name: str, limits: Limits, most: int = MOST_NAMES
) -> Names:
    if isinstance(names, str):
        return check_name(names, name, limits)
    if not isinstance(names, list | tuple | set | frozenset):
        raise errors.InvalidTypeError(f"{name}: expected a string or a list of strings")
    if not 1 <= len(names) <= most:
        raise errors.InvalidArgumentError(f"{name}: must have 1 to {most} names")
    checked = tuple(dict.fromkeys(check_name(item, name, limits) for item in names))
    return checked[0] if len(checked) == 1 else checked
