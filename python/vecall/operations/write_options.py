"""Options of a write: those of the caller and those of other operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple


class WriteOptions(NamedTuple):
    """How memories are added.

    Attributes:
        restore: Bring back memories that are gone.
        key: The caller's idempotency key.
        replace_session: Delete the other turns of this session.
        scope: The scope to write to.
        requested_by: App and user as the caller named them.
        edit: The drafts correct memories that must exist.
        reviewed: The write hook has already seen the drafts.
        done: A session, and its buffered turns that the drafts replace.
        fold: Live memories that these sum up, with the hashes of their texts.
        again: Store facts that were deleted.
    """

    restore: bool = False
    key: str | None = None
    replace_session: str | None = None
    scope: str = "user"
    requested_by: tuple[str, str] | None = None
    edit: bool = False
    reviewed: bool = False
    done: tuple[str, Sequence[str]] | None = None
    fold: Mapping[str, bytes] = MappingProxyType({})
    again: bool = False


def fact_how(restore: bool | None, key: str | None, scope: str) -> WriteOptions:
    """How explicit memories are added: deleted ones too unless `restore` is False."""
    return WriteOptions(bool(restore), key, scope=scope, again=restore is not False)
