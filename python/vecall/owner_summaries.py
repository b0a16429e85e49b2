"""Counts and times of the apps and the users that have memories."""

from __future__ import annotations

from dataclasses import dataclass

from vecall.reprs import short_repr


@dataclass(frozen=True, slots=True)
class AppSummary:
    """An app that has memories.

    Attributes:
        app_name: The app.
        users: Number of its users who have memories.
        memories: Number of their live memories.
    """

    app_name: str
    users: int
    memories: int

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class UserSummary:
    """A user who has memories.

    Attributes:
        user_id: The user.
        memories: Number of live memories.
        text_bytes: UTF-8 bytes of their texts.
        created_at: When the first of the stored memories was created, in seconds since
            1970.
        updated_at: When one of them was last changed, in seconds since 1970.
    """

    user_id: str
    memories: int
    text_bytes: int
    created_at: float
    updated_at: float

    __repr__ = short_repr
