"""The custom_metadata of a call and of its memories, read by convention or verbatim."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from vecall.errors import InvalidArgumentError
from vecall.ingest.custom_metadata import metadata_of
from vecall.timestamps import ttl_seconds
from vecall.validation import checked_bool


class GivenMetadata(NamedTuple):
    """The arguments of a call for metadata and TTL, not checked yet.

    Attributes:
        values: The custom_metadata of the call.
        verbatim: Whether every key of every custom_metadata is stored as it is.
        ttl: TTL of the memories: seconds, a timedelta or "30d".
    """

    values: Mapping[str, Any] | None = None
    verbatim: object = False
    ttl: float | timedelta | str | None = None


class CallMetadata(NamedTuple):
    """The values that all memories of a call share.

    Attributes:
        meta: Metadata of all memories.
        ttl: TTL of the memories, in seconds.
        revision_ttl: TTL of overwritten revisions, in seconds.
        app: The app that the call names.
        user: The user that the call names.
        include: Inner parts to remember besides the text; see `inner_reader`.
        verbatim: Whether every key of the metadata is stored, in its order.
    """

    meta: dict[str, Any]
    ttl: float | None = None
    revision_ttl: float | None = None
    app: str | None = None
    user: str | None = None
    include: frozenset[str] = frozenset()
    verbatim: bool = False


def call_metadata(
    given: GivenMetadata, app: str | None = None, user: str | None = None
) -> CallMetadata:
    """Return the values that all memories of a call share.

    Without `verbatim`, `ttl` in custom_metadata is the TTL of the memories, and
    `history_ttl` that of the revisions they overwrite. `revision_ttl`, Vertex AI's
    name, counts if `history_ttl` is absent. The values of `metadata` and all other keys
    are stored with each memory, sorted. `wait_for_completion` is ignored: every call
    waits.

    Raises:
        InvalidTypeError: Not a mapping, `verbatim` is not a bool, or a TTL has another
            type.
        InvalidArgumentError: A TTL that is not positive, or two TTLs.
    """
    verbatim = checked_bool(given.verbatim, "verbatim")
    none = CallMetadata({}, app=app, user=user, verbatim=verbatim)
    shared = merged(none, given.values)
    if given.ttl is None:
        return shared
    if shared.ttl is not None:
        msg = "ttl: expected either the argument or the key of custom_metadata"
        raise InvalidArgumentError(msg)
    return shared._replace(ttl=ttl_seconds(given.ttl))


def merged(outer: CallMetadata, custom_metadata: object) -> CallMetadata:
    """Merge the custom_metadata of one memory into those of its call."""
    if custom_metadata is None:
        return outer
    meta = metadata_of(custom_metadata)
    if outer.verbatim:
        return outer._replace(meta={**outer.meta, **meta})
    inner = meta.pop("metadata", None)
    if isinstance(inner, Mapping):
        meta = {**inner, **meta}
    elif inner is not None:
        meta["metadata"] = inner
    meta.pop("wait_for_completion", None)
    given = {
        name: ttl_seconds(value)
        for name in ("ttl", "revision_ttl", "history_ttl")
        if (value := meta.pop(name, None)) is not None
    }
    vertex_name = given.get("revision_ttl", outer.revision_ttl)
    return outer._replace(
        meta={**outer.meta, **meta},
        ttl=given.get("ttl", outer.ttl),
        revision_ttl=given.get("history_ttl", vertex_name),
    )
