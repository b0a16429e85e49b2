"""Operations, and how a path finds one.

Paths are split before they are decoded, so that a name may hold any character: the user
"a/b" is the segment `a%2Fb`, and never two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import Response

from vecall.scopes import Owner
from vecall.server.limits import HttpLimits
from vecall.server.places import Places
from vecall.server.request_body import BodyPlaces
from vecall.server.responses import NO_MEMORY, HttpError, as_json
from vecall.server.tokens import Token
from vecall.server.validation import Schema
from vecall.service.memory_service import MemoryService
from vecall.service.user import UserMemory

Access = Literal["public", "read", "write", "review", "admin", "admin_write"]
"""Who may: anybody, a token of the user, one that may write, one that may write and
review, an admin's, one of those that may write."""

SessionLoader = Callable[..., Awaitable[Any]]
"""Called with app_name, user_id and session_id; gives the session, or None."""


@dataclass(slots=True)
class ServerState:
    """What all requests share.

    Attributes:
        memory: The memory service, if there is one.
        limits: How large and frequent requests may be.
        load_session: Finds sessions, if there is one who does.
        document: The OpenAPI document, for an app that is not mounted.
        answered: How many requests were answered, by operation and status.
        backups: The folder of backups, if there is one.
        exporting: How many exports of each token are waited for, made or sent; each is
            a file.
        making: Keeps many exports from being made at once.
        large: Keeps many large answers from filling the memory at once.
        working: Keeps one token from having all threads of the memory service.
        bodies: The places of large bodies.
        backing_up: Whether a backup is being made.
    """

    memory: MemoryService | None
    limits: HttpLimits
    load_session: SessionLoader | None
    document: dict[str, Any] = field(default_factory=dict)
    answered: Counter[tuple[str, int]] = field(default_factory=Counter)
    backups: Path | None = None
    exporting: Counter[str] = field(default_factory=Counter)
    making: Places = field(init=False)
    large: Places = field(init=False)
    working: Places = field(init=False)
    bodies: BodyPlaces = field(init=False)
    backing_up: bool = False
    _documents: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin with all places free."""
        limits = self.limits
        self.making = Places(2, 1, limits.request_seconds)
        self.large = Places(3, 2, limits.request_seconds)
        each = limits.requests_at_once
        self.working = Places(4 * each, each, limits.request_seconds)
        self.bodies = BodyPlaces(limits)

    def document_at(self, path: str) -> str:
        """Return the OpenAPI document as JSON, for an app mounted at a path."""
        if path not in self._documents:
            servers = {"servers": [{"url": path}]} if path else {}
            self._documents.clear()  # a server mounts it at one place
            self._documents[path] = as_json({**self.document, **servers})
        return self._documents[path]

    @contextmanager
    def export_place(self, token: str, most: int) -> Iterator[None]:
        """Keep a place for an export until its last byte is sent.

        Args:
            token: The id of the token that asks.
            most: How many there are.

        Raises:
            HttpError: 503, all are taken, or all that one token may have.
        """
        own = self.exporting[token] >= self.limits.exports_at_once
        if own or self.exporting.total() >= most:
            msg = "Many exports are under way."
            raise HttpError(503, "busy", msg, {"Retry-After": "5"})
        self.exporting[token] += 1
        try:
            yield
        finally:
            self.exporting[token] -= 1
            self.exporting += Counter()  # without those that have none


@dataclass(frozen=True, slots=True)
class RequestContext:
    """One request that was let in.

    Attributes:
        door: What all requests share.
        names: The names in the path.
        query: The values in the query.
        body: The body.
        token: Who asks; None where anybody may.
        still_admitted: Whether the token counts now.
        mounted_at: The path at which the app is mounted.
    """

    door: ServerState
    names: dict[str, str]
    query: dict[str, Any]
    body: dict[str, Any]
    token: Token | None = None
    still_admitted: Callable[[], bool] = lambda: True
    mounted_at: str = ""

    @property
    def memory(self) -> MemoryService:
        """The memory service.

        Raises:
            HttpError: 400, there is none.
        """
        if self.door.memory is None:
            raise HttpError(400, "not_configured", NO_MEMORY)
        return self.door.memory

    @property
    def user(self) -> UserMemory:
        """The memories of the user in the path.

        Raises:
            HttpError: 400, there is no memory service.
            InvalidArgumentError: A bad name.
        """
        return self.memory.user(**self.whose)

    @property
    def by(self) -> Token:
        """Who asks."""
        assert self.token is not None, "the operation is public"
        return self.token

    @property
    def whose(self) -> Owner:
        """App and user as the memory service takes them."""
        return {"app_name": self.names["app"], "user_id": self.names["user"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One thing to ask for.

    Attributes:
        id: Its name.
        method: The HTTP method.
        path: Its path, with names in braces.
        summary: What it does, in a sentence.
        access: Who may.
        handler: Does it.
        status: The status of success.
        answer: The name of the answer's schema, or its media type; None is no body.
        body: The name of the body's schema.
        body_limit: Which limit on bytes the body has.
        query: Schemas of what the query may hold.
        needs: What of that it must hold.
        errors: Statuses of its own errors.
        timed: Whether it is given up after a while.
    """

    id: str
    method: str
    path: str
    summary: str
    access: Access
    handler: Callable[[RequestContext], Awaitable[Response]]
    status: int = 200
    answer: str | None = None
    body: str | None = None
    body_limit: Literal["small", "text", "batch"] = "small"
    query: dict[str, Schema] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    errors: tuple[int, ...] = ()
    timed: bool = True


class Router:
    """Finds operations.

    Args:
        operations: All of them.
    """

    def __init__(self, operations: Sequence[Operation]) -> None:
        """Sort them by path."""
        self._paths: dict[str, dict[str, Operation]] = {}
        for operation in operations:
            self._paths.setdefault(operation.path, {})[operation.method] = operation

    def find(self, request: Request) -> tuple[Operation, dict[str, str]]:
        """Return what is asked for, and the names in the path.

        HEAD is answered as GET is; the server leaves the body out.

        Raises:
            HttpError: 400 a name is not UTF-8, 404 no such path, 405 no such method.
        """
        segments = _raw_path(request).split("/")
        method = "GET" if request.method == "HEAD" else request.method
        allowed: set[str] = set()
        for path, methods in self._paths.items():
            found = _match(path.split("/"), segments)
            if found is None:
                continue
            operation = methods.get(method)
            if operation is not None:
                return operation, _decoded(found)
            allowed |= methods.keys()
        if allowed:
            allowed |= {"HEAD"} if "GET" in allowed else set()
            msg = "The method is not allowed here."
            headers = {"Allow": ", ".join(sorted(allowed))}
            raise HttpError(405, "method_not_allowed", msg, headers)
        raise HttpError(404, "not_found", "There is nothing at this path.")


def _raw_path(request: Request) -> str:
    """The path as it was sent, without the prefix under which the app is mounted."""
    raw = request.scope.get("raw_path")
    path = raw.decode("latin-1") if raw else quote(request.scope["path"])
    return path.removeprefix(quote(request.scope.get("root_path", "")))


def _match(pattern: list[str], segments: list[str]) -> dict[str, str] | None:
    """The names in the braces; None where another path is meant."""
    if len(pattern) != len(segments):
        return None
    names = {}
    for expected, given in zip(pattern, segments, strict=True):
        if expected.startswith("{"):
            if not given:
                return None
            names[expected[1:-1]] = given
        elif expected != given:
            return None
    return names


def _decoded(names: dict[str, str]) -> dict[str, str]:
    try:
        return {key: unquote(name, errors="strict") for key, name in names.items()}
    except UnicodeDecodeError:
        msg = "A name in the path is not UTF-8."
        raise HttpError(400, "bad_path", msg) from None
