"""The options of a write: of the caller, and of internal operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from vecall.timestamps import to_seconds
from vecall.validation import checked_bool


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
        if_absent: Refuse the call if one of the memories exists.
        if_version: Refuse the call if the memory has another version.
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
    if_absent: bool = False
    if_version: float | None = None


def fact_request(
    restore: bool | None, key: str | None, scope: str, if_absent: object = False
) -> WriteRequest:
    """Return a request for explicit memories; `restore=False` skips deleted ones.

    Raises:
        InvalidTypeError: `if_absent` is not a bool.
    """
    restore = None if restore is None else checked_bool(restore, "restore")
    if_absent = checked_bool(if_absent, "if_absent")
    return WriteRequest(
        bool(restore),
        key,
        scope=scope,
        restore_facts=restore is not False,
        if_absent=if_absent,
    )


def checked_version(version: object) -> float | None:
    """Return the version of a memory that a caller has seen; None stays None.

    Raises:
        InvalidTypeError: Not a number.
        InvalidArgumentError: Not a version of a memory.
    """
    return None if version is None else to_seconds(cast("Any", version), "if_version")
