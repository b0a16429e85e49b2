"""The app and the user of a run, where a function says them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from vecall.tools.any_service import limits_of
from vecall.validation import check_name, checked_owner

C = TypeVar("C")


class RunOwner(Generic[C]):
    """The app and the user, each a name or a function of a run's context.

    Args:
        memory: The memory service.
        app_name: The app, or a function.
        user_id: The user, or a function.

    Raises:
        InvalidArgumentError: A name is invalid.
    """

    def __init__(
        self,
        memory: object,
        app_name: str | Callable[[C], str],
        user_id: str | Callable[[C], str],
    ) -> None:
        """Check the names that are no functions."""
        self._limits = limits_of(memory)
        self._app, self._user = app_name, user_id
        if self.is_fixed:
            self.of(None)  # type: ignore[arg-type]
        elif not callable(app_name):
            check_name(app_name, "app_name", self._limits)
        elif not callable(user_id):
            check_name(user_id, "user_id", self._limits)

    @property
    def is_fixed(self) -> bool:
        """Whether both are names."""
        return not callable(self._app) and not callable(self._user)

    def of(self, context: C) -> tuple[str, str]:
        """Return the app and the user of a run.

        Raises:
            InvalidArgumentError: A function returned something else than a valid name.
        """
        app, user = (
            name(context) if callable(name) else name
            for name in (self._app, self._user)
        )
        owner = checked_owner(app, user, self._limits)
        return owner["app_name"], owner["user_id"]
