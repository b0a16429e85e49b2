"""How memories are added, beside what and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple


class WriteOptions(NamedTuple):
    """How memories are added.

    Attributes:
        restore: Bring back memories that are gone.
        key: The caller's idempotency key.
        instead_of: Delete other turns of this session.
        scope: Where to.
        told: App and user as the caller named them.
        edit: They correct memories that must be there.
        judged: The hook has seen them.
        done: A session, and its turns that were kept for a trigger and need be no more.
        fold: Live memories that these sum up, with the hashes of their texts.
        again: Store facts that were deleted.
    """

    restore: bool = False
    key: str | None = None
    replace_session: str | None = None
    scope: str = "user"
    told: tuple[str, str] | None = None
    edit: bool = False
    judged: bool = False
    done: tuple[str, Sequence[str]] | None = None
    fold: Mapping[str, bytes] = MappingProxyType({})
    again: bool = False


def fact_how(restore: bool | None, key: str | None, scope: str) -> WriteOptions:
    """How explicit memories are added: deleted ones too unless `restore` is False."""
    return WriteOptions(bool(restore), key, scope=scope, again=restore is not False)
