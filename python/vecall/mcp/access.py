"""Whose memories a client of the server may access, and how it may write them."""

from __future__ import annotations

from dataclasses import dataclass

from vecall.filters.rights import Rights


@dataclass(frozen=True, kw_only=True)
class Access:
    """The user of a client, and its permissions. No argument of a model changes them.

    Attributes:
        app_name: The app.
        user_id: The user.
        write: Whether the client may write.
        author: The author of memories that it writes.
        source: The source of memories that it writes.
        trust: The trust of memories that it writes.
        min_trust: The lowest tier, of `TRUST_TIERS`, of memories that it reads,
            corrects or deletes; None: any.
    """

    app_name: str
    user_id: str
    write: bool = True
    author: str = "agent"
    source: str = "mcp"
    trust: str = "unknown"
    min_trust: str | None = None

    @property
    def rights(self) -> Rights:
        """The rights of the client; a model does not review."""
        return Rights(min_trust=self.min_trust, review=False, read_only=not self.write)
