"""Limits the trust, source and author that the writes of a token may claim."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vecall.errors import InvalidArgumentError
from vecall.filters.trust import TRUST_TIERS, exceeds
from vecall.server.responses import HttpError
from vecall.server.tokens import Token

_NAMES_OF = {"source": ("source",), "author": ("author", "role")}


_ITEMS = ("memories", "events", "messages")


def stamped(token: Token, body: dict[str, Any]) -> dict[str, Any]:
    """Return a body whose items have the trust, source and author of the token.

    Raises:
        HttpError: 403, an item claims a value that the token does not permit.
    """
    if token.ceiling is None and token.source is None and token.author is None:
        return body
    items = {
        name: [_stamped(token, item) for item in body[name]]
        for name in _ITEMS
        if name in body
    }
    return {**body, **items}


def _stamped(token: Token, item: Any) -> Any:
    if isinstance(item, InvalidArgumentError):
        return item  # an item that is left out
    made = {"content": item} if isinstance(item, str) else dict(item)
    check_names(token, made)
    ceiling = token.ceiling
    if ceiling is not None:
        tier = made.setdefault("trust", ceiling)
        if tier not in TRUST_TIERS or exceeds(tier, ceiling):
            below = ", ".join(TRUST_TIERS[TRUST_TIERS.index(ceiling) :])
            msg = f"With this token trust must be one of {below}."
            raise HttpError(403, "trust", msg)
    for name, fields in _NAMES_OF.items():
        bound = getattr(token, name)
        if bound is not None:
            others = {key: value for key, value in made.items() if key not in fields}
            made = {**others, name: bound}
    return made


def check_names(token: Token, item: Mapping[str, Any]) -> None:
    """Refuse a source or an author other than the token's, if it has one.

    Raises:
        HttpError: 403.
    """
    for name, fields in _NAMES_OF.items():
        bound = getattr(token, name)
        if bound is not None and any(item.get(each, bound) != bound for each in fields):
            msg = f"The token is bound to another {name}; leave it out."
            raise HttpError(403, name, msg)
