"""Checks arguments that mem0 has and vecall has not, or has otherwise."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from vecall.errors import ConfigError, InvalidArgumentError

Extract = Callable[[list[dict[str, Any]]], Sequence[str] | Awaitable[Sequence[str]]]
"""A function from chat messages to the facts in them, such as a call of a model."""


def check_extract(extract: object) -> None:
    """Check a function that extracts facts.

    Raises:
        ConfigError: Neither a function nor None.
    """
    if extract is not None and not callable(extract):
        msg = "extract: expected a function from messages to facts"
        raise ConfigError(msg)


def check_infer(extract: Extract | None) -> None:
    """Check that there is a function that extracts facts.

    Raises:
        ConfigError: There is none.
    """
    if extract is None:
        msg = (
            "infer: needs a model; give extract=, a function from messages to "
            "facts, or infer=False to store the messages"
        )
        raise ConfigError(msg)


def check_update(text: object, metadata: object, set_expiry: bool) -> None:
    """Check that an update changes something.

    Raises:
        InvalidArgumentError: It does not.
    """
    if text is None and metadata is None and not set_expiry:
        msg = "update: expected text, metadata or expiration_date"
        raise InvalidArgumentError(msg)


def checked_facts(found: object) -> list[str]:
    """Return what a function extracted.

    Raises:
        ConfigError: Not a list of texts.
    """
    if isinstance(found, str) or not isinstance(found, Sequence):
        msg = "extract: must return a list of texts"
        raise ConfigError(msg)
    if not all(isinstance(fact, str) and fact.strip() for fact in found):
        msg = "extract: must return texts that are not blank"
        raise ConfigError(msg)
    return list(found)


def checked_config(config: object) -> dict[str, Any]:
    """Return the arguments of `from_config`.

    Raises:
        ConfigError: Not a mapping, or a key that is no argument.
    """
    known = ("memory", "app_name", "embedder", "extract")
    if not isinstance(config, Mapping) or not set(config) <= set(known):
        msg = f"config: keys are {', '.join(known)}; mem0's have no meaning here"
        raise ConfigError(msg)
    return dict(config)


def check_query(query: object) -> None:
    """Check a query.

    Raises:
        InvalidArgumentError: Not a text, or blank.
    """
    if not isinstance(query, str) or not query.strip():
        msg = "query: must not be blank"
        raise InvalidArgumentError(msg)


def checked_count(top_k: object) -> int:
    """Return a number of memories.

    Raises:
        InvalidArgumentError: Not an integer of at least 0.
    """
    if not isinstance(top_k, int) or isinstance(top_k, bool) or top_k < 0:
        msg = "top_k: must be an integer of at least 0"
        raise InvalidArgumentError(msg)
    return top_k


def refuse_unsupported(
    names: Mapping[str, object],
    rerank: bool,
    reference_date: object,
    show_expired: bool,
) -> None:
    """Refuse what mem0 also refuses, and what vecall does not support.

    Raises:
        InvalidArgumentError: One of them is given.
    """
    if "limit" in names:
        msg = "limit: is top_k here, as in mem0 2"
        raise InvalidArgumentError(msg)
    if names:
        msg = (
            "user_id, agent_id and run_id belong into filters; other arguments are "
            "top_k, filters, threshold and explain"
        )
        raise InvalidArgumentError(msg)
    if rerank or reference_date is not None or show_expired:
        msg = "rerank, reference_date and show_expired are not supported"
        raise InvalidArgumentError(msg)
