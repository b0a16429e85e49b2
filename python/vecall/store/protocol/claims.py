"""Claims: how the processes of several servers share periodic work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from vecall.store.results import DueSession
from vecall.store.rows import RowWithVector


class ClaimedUser(NamedTuple):
    """A user whose expired data this process removes.

    Attributes:
        part: The number of the user's partition.
        app: The app.
        user: The user.
    """

    part: int
    app: str
    user: str


class ClaimedRows(NamedTuple):
    """Rows that this process embeds.

    Attributes:
        rids: The numbers of all claimed rows; some may have no valid row any more.
        rows: The rows.
        is_last: Whether no other process has claimed rows that are not done.
    """

    rids: list[int]
    rows: list[RowWithVector]
    is_last: bool


class Claims(Protocol):
    """Gives each piece of due work to one process, under a lease. Thread-safe.

    Work whose lease has ended, because its process died, is claimed again. A claim
    waits for no other claim.
    """

    def session(self, lease_s: float) -> DueSession | None:
        """Claim the session that has been due for the longest time; None if none is.

        Args:
            lease_s: Seconds after which the session is due again, unless memories were
                made of it.
        """
        ...

    def users(self, most: int, lease_s: float) -> list[ClaimedUser]:
        """Claim at most `most` users who have expired data.

        Args:
            most: Maximum number of users.
            lease_s: Seconds after which others may claim them.
        """
        ...

    def release_users(self, users: Sequence[ClaimedUser]) -> None:
        """End claims, so that data that expires later can be claimed at once."""
        ...

    def rows_to_embed(self, model: int, most: int, lease_s: float) -> ClaimedRows:
        """Claim rows that need a vector of the migrating model.

        Args:
            model: The number of the migrating model.
            most: Maximum number of rows.
            lease_s: Seconds after which others may claim them.

        Raises:
            ConflictError: The migration to this model is not running.
        """
        ...

    def release_rows(self, rids: Sequence[int]) -> None:
        """End claims of rows. Those that are not done can be claimed at once."""
        ...
