"""Whose memories a run reads and writes."""

from __future__ import annotations

from collections.abc import Callable

from vecall.service.memory_service import MemoryService

Name = str | Callable[[str | None], str]
"""A name, or a function from the id of a session to a name."""


class SessionOwner:
    """The app and the user of a session.

    Args:
        memory: The memory service.
        app_name: The app, or a function of the session's id.
        user_id: The user, or a function of the session's id.

    Raises:
        InvalidArgumentError: A name is invalid.
    """

    def __init__(self, memory: MemoryService, app_name: Name, user_id: Name) -> None:
        """Check the names that are no functions."""
        self._app = app_name
        self._user = user_id
        if isinstance(app_name, str) and isinstance(user_id, str):
            memory.user(app_name, user_id)  # checks the names

    def of(self, session_id: str | None) -> tuple[str, str]:
        """Return the app and the user of a session."""
        app, user = (
            name if isinstance(name, str) else name(session_id)
            for name in (self._app, self._user)
        )
        return app, user
