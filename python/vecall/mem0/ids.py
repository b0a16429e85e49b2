"""Owners of memories, and ids that hold the owner.

mem0's ids are unique in a whole store; those of vecall are unique for one user. So an
id here has three parts: the kind of the owner, its name and vecall's id.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vecall.errors import InvalidArgumentError, NotFoundError

KINDS = ("user_id", "agent_id", "run_id")
"""The names that an owner may have; the first one that is given owns the memory."""

_SHORT = {"user_id": "u", "agent_id": "a", "run_id": "r"}
_LONG = {short: kind for kind, short in _SHORT.items()}


class MemoryIdError(InvalidArgumentError):
    """An id was not returned by this memory."""


class MemoryNotFoundError(NotFoundError, ValueError):
    """There is no memory with this id; a ValueError as in mem0."""


def not_found() -> MemoryNotFoundError:
    """Return the error for an id that no memory has."""
    return MemoryNotFoundError("memory_id: there is no such memory")


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose memories a call reads or writes.

    Attributes:
        kind: One of `KINDS`.
        name: Its name.
    """

    kind: str
    name: str

    @property
    def user_id(self) -> str:
        """The user of vecall: names of different kinds never meet."""
        return f"{_SHORT[self.kind]}:{self.name}"


@dataclass(frozen=True, slots=True)
class Scope:
    """The owner of a call, and the names that narrow it.

    Attributes:
        owner: The user, else the agent, else the run.
        agent_id: The agent of a user's memories; None for any.
        run_id: The run, which is the session; None for any.
    """

    owner: Owner
    agent_id: str | None
    run_id: str | None


def scope_of(names: Mapping[str, Any], where: str) -> Scope:
    """Return the scope of names.

    Args:
        names: user_id, agent_id and run_id, or some of them.
        where: The argument that has them, for the message.

    Raises:
        InvalidArgumentError: None is given, or a name is empty or has white space.
    """
    given = {kind: _checked(names.get(kind), kind) for kind in KINDS}
    for kind, name in given.items():
        if name is not None:
            agent = given["agent_id"] if kind == "user_id" else None
            return Scope(Owner(kind, name), agent, given["run_id"])
    msg = f"{where}: expected at least one of user_id, agent_id and run_id"
    raise InvalidArgumentError(msg)


def packed(owner: Owner, memory_id: str) -> str:
    """Return the id for callers."""
    name = base64.urlsafe_b64encode(owner.name.encode()).decode().rstrip("=")
    return f"{_SHORT[owner.kind]}.{name}.{memory_id}"


def unpacked(memory_id: object) -> tuple[Owner, str]:
    """Return the owner and vecall's id of an id for callers.

    Raises:
        MemoryIdError: It is not such an id.
    """
    parts = memory_id.split(".", 2) if isinstance(memory_id, str) else []
    if len(parts) == 3 and parts[0] in _LONG and parts[2]:
        kind, name, own = parts
        try:
            padded = name + "=" * (-len(name) % 4)
            decoded = base64.b64decode(padded, b"-_", validate=True).decode()
        except (binascii.Error, ValueError):
            decoded = ""
        if decoded:
            return Owner(_LONG[kind], decoded), own
    msg = "memory_id: expected an id that this memory returned"
    raise MemoryIdError(msg)


def _checked(value: object, name: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str | int) or isinstance(value, bool):
        msg = f"{name}: expected a name"
        raise InvalidArgumentError(msg)
    trimmed = str(value).strip()
    if not trimmed or any(map(str.isspace, trimmed)):
        msg = f"{name}: must not be empty or contain white space"
        raise InvalidArgumentError(msg)
    return trimmed
