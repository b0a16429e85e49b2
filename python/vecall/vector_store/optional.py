"""Checks for the optional methods of a vector store."""

from __future__ import annotations

from typing import Any

from vecall.errors import ConfigError


def has_method(store: object, name: str) -> bool:
    """Return whether a store has a method of this name."""
    return callable(getattr(store, name, None))


def needed_method(store: object, name: str, who: str) -> Any:
    """Return a method that a call or an option needs.

    Args:
        store: The store.
        name: The method's name.
        who: The call or the option, for the message.

    Raises:
        ConfigError: The store has no such method.
    """
    if not has_method(store, name):
        msg = f"{who}: needs the method {name}, which this vector store does not have"
        raise ConfigError(msg)
    return getattr(store, name)
