"""Operations of the server, and the router that finds an operation by path.

The router splits paths before decoding them, so that a name may contain any character:
the user "a/b" is the single segment `a%2Fb`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, unquote

from starlette.responses import Response

from vecall.limits import HttpLimits, Owner
from vecall.server.limits import Durations, Pauses, Places, Readiness
from vecall.server.requests import HttpRequest, Schema
from vecall.server.responses import NO_MEMORY, HttpError, as_json
from vecall.server.tokens import Token
from vecall.service.admin import MemoryAdmin
from vecall.service.memory_service import MemoryService
from vecall.system import cached

Access = Literal[
    "public", "any", "list", "read", "write", "review", "admin", "admin_write"
]
"""The token that an operation needs: "public": none; "any": any; "list": a token of the
app, or an admin token; "read": a token of the user;
"write": a token of the user that may write; "review": also with the right to review;
"admin": an admin token; "admin_write": an admin token that may write."""

Repeat = Literal["always", "with_key", "never"]
"""When a client may repeat a request without knowing the fate of the first one:
"always"; "with_key": only with an `idempotency_key` in the body; "never"."""

PATH_ARGUMENTS = {
    "app": "app_name",
    "user": "user_id",
    "id": "memory_id",
    "session": "session_id",
}
"""The argument of a method that a name in the path is."""

SessionLoader = Callable[..., Awaitable[Any]]
"""Called with app_name, user_id and session_id; returns the session, or None."""


@dataclass(slots=True)
class ServerState:
    """The state of the server, shared by all requests."""

    memory: MemoryService | None
    limits: HttpLimits
    load_session: SessionLoader | None
    document: dict[str, Any] = field(default_factory=dict)  # of an app not mounted
    # The number of answered requests, by operation and status, and their durations.
    answered: Counter[tuple[str, int]] = field(default_factory=Counter)
    durations: Durations = field(default_factory=Durations)
    accepting: Callable[[], bool] = lambda: True  # the server is not about to end
    backups: Path | None = None  # the folder
    # The exports of each token that are queued, made or sent; each is a file.
    exporting: Counter[str] = field(default_factory=Counter)
    readiness: Readiness = field(init=False)
    making: Places = field(init=False)  # exports
    large: Places = field(init=False)  # answers in RAM
    turns: Places = field(init=False)  # large writes and long queries, one of a user
    backing_up: bool = False
    pauses: Pauses = field(default_factory=Pauses)  # from the first metrics on
    _documents: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Create the object with all places free."""
        limits = self.limits
        self.readiness = Readiness(self.memory, self.accepting)
        self.making = Places(2, 1, limits.request_seconds)
        self.large = Places(3, 2, limits.request_seconds)
        self.turns = Places(4 * limits.requests_at_once, 1, limits.request_seconds)

    def openapi_document_at(self, path: str) -> str:
        """Return the OpenAPI document as JSON, for an app mounted at a path."""
        if path not in self._documents:
            servers = {"servers": [{"url": path}]} if path else {}
            self._documents.clear()  # a server mounts the app at one path
            self._documents[path] = as_json({**self.document, **servers})
        return self._documents[path]

    @contextmanager
    def export_place(self, token: str, limit: int) -> Iterator[None]:
        """Hold one of the places for an export until its last byte is sent."""
        own = self.exporting[token] >= self.limits.exports_at_once
        if own or self.exporting.total() >= limit:
            raise HttpError("busy", "Many exports are under way.", {"Retry-After": "5"})
        self.exporting[token] += 1
        try:
            yield
        finally:
            self.exporting[token] -= 1
            self.exporting += Counter()  # drops tokens without exports


@dataclass(frozen=True)
class RequestContext:
    """An authorized request."""

    state: ServerState
    operation: Operation
    names: dict[str, str]  # in the path
    query: dict[str, Any]
    body: dict[str, Any]
    token: Token | None = None  # None for a public operation
    still_admitted: Callable[[], bool] = lambda: True  # the token is still valid
    mounted_at: str = ""  # the path of the app

    @property
    def memory(self) -> MemoryService:
        """The memory service, with the rights of the token."""
        if self.state.memory is None:
            raise HttpError("not_configured", NO_MEMORY)
        if self.token is None:
            return self.state.memory
        return self.state.memory.restricted(self.token.rights)

    @cached
    def arguments(self) -> dict[str, Any]:
        """The arguments of the operation's method that the request has."""
        operation, given = self.operation, {**self.query, **self.body}
        return {
            **operation.defaults,
            **{PATH_ARGUMENTS[name]: value for name, value in self.names.items()},
            **{
                argument: int(given[name]) if name in operation.whole else given[name]
                for name, argument in operation.arguments.items()
                if name in given
            },
        }

    async def ask_memory(self, **more: Any) -> Any:
        """Call the operation's method; `more` replaces arguments of the request."""
        method = self.operation.calls
        assert method is not None, "the operation calls no method"
        is_admin = method.__qualname__.startswith(MemoryAdmin.__name__)
        owner = self.memory.admin if is_admin else self.memory
        return await getattr(owner, method.__name__)(**{**self.arguments, **more})

    @property
    def by(self) -> Token:
        """The client's token."""
        assert self.token is not None, "the operation is public"
        return self.token

    @property
    def whose(self) -> Owner:
        """The app and the user of the path, as arguments of the memory service."""
        return {"app_name": self.names["app"], "user_id": self.names["user"]}


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of the HTTP API.

    The fields of one that `calls` a method are the arguments of that method: their
    names, types, bounds, defaults and docs are read from it (`vecall.server.schemas`).
    """

    id: str
    path: str  # with names in braces
    answer: str | None = None  # the name of its schema, or a media type; None: no body
    calls: Callable[..., Awaitable[Any]] | None = None
    _: KW_ONLY
    method: str
    access: Access
    handler: Callable[[RequestContext], Awaitable[Response]]
    left_out: tuple[str, ...] = ()  # arguments of the method that a request lacks
    defaults: Mapping[str, Any] = field(default_factory=dict)  # other than its own
    summary: str = ""  # default: that of the method or handler
    status: int = 200  # of success
    body: str | None = None  # the name of its schema
    body_limit: Literal["small", "text", "batch"] = "small"
    schema: Schema | None = None  # of the body; None: a shared one
    query: dict[str, Schema] = field(default_factory=dict)
    needs: tuple[str, ...] = ()  # required query parameters
    arguments: Mapping[str, str] = field(default_factory=dict)  # by field
    whole: frozenset[str] = frozenset()  # integers, which JSON may write as 5.0
    errors: tuple[int, ...] = ()  # the statuses of its own errors
    timed: bool = True  # has a timeout
    repeat: Repeat = "never"


class Router:
    """Finds operations by path and method."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        """Index the operations by path."""
        paths: dict[str, dict[str, Operation]] = {}
        for operation in operations:
            paths.setdefault(operation.path, {})[operation.method] = operation
        # By the number of segments and the last one, which is "{}" for any name.
        self._paths: dict[
            tuple[int, str], list[tuple[list[str], dict[str, Operation]]]
        ] = {}
        for path, methods in paths.items():
            segments = path.split("/")
            last = "{}" if segments[-1].startswith("{") else segments[-1]
            alike = self._paths.setdefault((len(segments), last), [])
            alike.append((segments, methods))

    def find_operation(self, request: HttpRequest) -> tuple[Operation, dict[str, str]]:
        """Return the operation of a request, and the names in its path.

        HEAD finds the operation of GET; the server omits the body.
        """
        segments = _raw_path(request).split("/")
        method = "GET" if request.method == "HEAD" else request.method
        allowed: set[str] = set()
        count = len(segments)
        with_last = self._paths.get((count, segments[-1]), ())
        for pattern, methods in (*with_last, *self._paths.get((count, "{}"), ())):
            found = _match_path(pattern, segments)
            if found is None:
                continue
            operation = methods.get(method)
            if operation is not None:
                return operation, _decoded_path_names(found)
            allowed |= methods.keys()
        if allowed:
            allowed |= {"HEAD"} if "GET" in allowed else set()
            msg = "The method is not allowed here."
            headers = {"Allow": ", ".join(sorted(allowed))}
            raise HttpError("method_not_allowed", msg, headers)
        raise HttpError("not_found", "There is nothing at this path.")


def _raw_path(request: HttpRequest) -> str:
    """Return the undecoded path, without the prefix at which the app is mounted."""
    raw = request.scope.get("raw_path")
    path = raw.decode("latin-1") if raw else quote(request.scope["path"])
    return path.removeprefix(quote(request.scope.get("root_path", "")))


def _match_path(pattern: list[str], segments: list[str]) -> dict[str, str] | None:
    """Return the names in the braces; None if the path does not match."""
    names = {}
    for expected, given in zip(pattern, segments, strict=True):
        if expected.startswith("{"):
            if not given:
                return None
            names[expected[1:-1]] = given
        elif expected != given:
            return None
    return names


def _decoded_path_names(names: dict[str, str]) -> dict[str, str]:
    try:
        return {key: unquote(name, errors="strict") for key, name in names.items()}
    except UnicodeDecodeError:
        raise HttpError("bad_path", "A name in the path is not UTF-8.") from None
