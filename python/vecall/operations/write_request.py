"""The options of a write: of the caller, and of internal operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple


class WriteRequest(NamedTuple):
    """The options of a write.

    Attributes:
        restore: Restore deleted turns.
        idempotency_key: The caller's idempotency key.
        replace_session: Delete the other turns of this session.
        scope: The scope to write to.
        requested_by: App and user as the caller named them.
        corrects: The drafts correct memories that must exist.
        reviewed: The write hook has already seen the drafts.
        consumed_turns: A session, and its buffered turns that the drafts replace.
        folds: Live memories that the drafts summarize, with the hashes of their texts.
        restore_facts: Store deleted facts again.
    """

    restore: bool = False
    idempotency_key: str | None = None
    replace_session: str | None = None
    scope: str = "user"
    requested_by: tuple[str, str] | None = None
    corrects: bool = False
    reviewed: bool = False
    consumed_turns: tuple[str, Sequence[str]] | None = None
    folds: Mapping[str, bytes] = MappingProxyType({})
    restore_facts: bool = False


def fact_request(restore: bool | None, key: str | None, scope: str) -> WriteRequest:
    """Return a request for explicit memories; `restore=False` skips deleted ones."""
    restore_facts = restore is not False
    return WriteRequest(bool(restore), key, scope=scope, restore_facts=restore_facts)
