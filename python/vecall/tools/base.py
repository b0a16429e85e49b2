"""The base class of memory tools: a name, a schema, and a call bound to one user."""

from __future__ import annotations

import copy
import inspect
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from functools import lru_cache
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    TypeVar,
    get_args,
    get_origin,
)

from vecall import errors
from vecall.clock import Time, to_seconds, utc_seconds
from vecall.content import get_field, text_parts
from vecall.filters.rights import Rights
from vecall.limits import Limits, Owner, Share, Within
from vecall.protocols import BaseMemoryService, MemoryProtocol
from vecall.service.memory_service import MemoryService
from vecall.types import Filter, MemoryEntry, SearchMemoryResponse
from vecall.validation import check_filter, check_name, checked_owner

# Adapts the methods and the search results of any memory service to tools.
#
# Every memory service has `add_session_to_memory` and `search_memory`. A tool that
# needs another method checks for it, and raises a typed error if the service lacks it.

_NAMES = ("id", "author", "session_id", "event_id", "kind", "source", "trust")


def limits_of_service(memory: object) -> Limits:
    """Return the limits of a service; the default limits if it has none."""
    limits = getattr(memory, "limits", None)
    return limits if isinstance(limits, Limits) else Limits()


def has_memory_methods(memory: object, *names: str) -> bool:
    """Return whether a service has the named methods and supports them."""
    if set(names) & set(getattr(memory, "lacking", ())):
        return False
    if isinstance(memory, BaseMemoryService):
        inherited = {name for name in names if hasattr(BaseMemoryService, name)}
        required = {"add_session_to_memory", "search_memory"}
        if not inherited - required <= memory.capabilities:
            return False
    return all(callable(getattr(memory, name, None)) for name in names)


def require_methods(memory: object, who: str, *names: str) -> None:
    """Raise ConfigError if a service lacks methods that a tool or a call needs."""
    if not has_memory_methods(memory, *names):
        needed = " and ".join(names)
        msg = f"{who}: this memory service has no {needed}, which is needed"
        raise errors.ConfigError(msg)


def restrict_service(memory: Any, rights: Rights) -> Any:
    """Return a service for a caller with fewer rights, or raise ConfigError."""
    if memory is None or rights.is_full:
        return memory
    if callable(restrict := getattr(memory, "restricted", None)):
        return restrict(rights)
    if rights.has_floor:
        raise errors.ConfigError(
            "min_trust: this memory service has no method `restricted`"
        )
    return memory


def checked_filter(memory: object, condition: object) -> Filter | None:
    """Return the filter of a tool's searches, which the service must support."""
    if condition is None:
        return None
    checked = check_filter(condition, limits_of_service(memory), by_metadata=True)
    if isinstance(memory, MemoryService):
        return checked
    # Most processes have no vector store.
    from vecall.other_storage.vector_store import VectorStoreMemoryService
    from vecall.other_storage.vector_store_memory import scope_of_filter

    if isinstance(memory, VectorStoreMemoryService):
        scope_of_filter("app", "user", checked, memory.store)
    elif memory is not None and not takes_argument(
        getattr(memory, "search_memory", None), "filter"
    ):
        raise errors.ConfigError("filter: this memory service's search takes none")
    return checked


def takes_argument(method: object, name: str) -> bool:
    """Return whether a method takes an argument of this name."""
    known = _argument_names(getattr(method, "__func__", method))
    return known is None or name in known


@lru_cache(maxsize=256)
def _argument_names(function: Any) -> frozenset[str] | None:
    """Return the names of the arguments that a function takes; None: any."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None
    kinds = {each.kind for each in parameters.values()}
    return None if inspect.Parameter.VAR_KEYWORD in kinds else frozenset(parameters)


def arguments_taken_by(method: object, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that a method takes."""
    return {
        name: value for name, value in arguments.items() if takes_argument(method, name)
    }


def as_search_response(response: object) -> SearchMemoryResponse:
    """Return a search result of any service as vecall's own types."""
    if isinstance(response, SearchMemoryResponse):
        return response
    memories = get_field(response, "memories")
    if not isinstance(memories, list | tuple):
        raise errors.VecallError(
            "the memory service returned something else than memories"
        )
    return SearchMemoryResponse([_read_foreign_memory(each) for each in memories])


def _read_foreign_memory(memory: object) -> MemoryEntry:
    """Read a memory of another library, such as google-adk's MemoryEntry."""
    if isinstance(memory, MemoryEntry):
        return memory
    content = memory if isinstance(memory, str) else get_field(memory, "content")
    if content is None:
        content = get_field(memory, "text")
    given = {name: get_field(memory, name) for name in _NAMES}
    named: dict[str, Any] = {
        name: value for name, value in given.items() if isinstance(value, str)
    }
    own = get_field(memory, "custom_metadata")
    return MemoryEntry(
        "\n".join(text_parts(content)),
        timestamp=_time_in_seconds(get_field(memory, "timestamp")),
        custom_metadata=dict(own) if isinstance(own, Mapping) else {},
        **named,
    )


def _time_in_seconds(given: object) -> float | None:
    """Return a time in seconds. Without an offset it is local, as in google-adk."""
    if isinstance(given, str):
        try:
            given = datetime.fromisoformat(given)
        except ValueError:
            return None
    if isinstance(given, datetime):
        return given.astimezone(timezone.utc).timestamp()
    if isinstance(given, int | float) and not isinstance(given, bool):
        return to_seconds(given, "timestamp")
    return None


_LONGEST_NUMBER = 64  # characters
_MOST_WHOLE = 2**53 - 1  # that every JSON parser reads exactly
_JSON_TYPES: dict[object, str] = {float: "number", int: "integer", list[str]: "array"}

DEFAULT_LIMIT = 5
"""The most memories of a search whose query asks for no list."""

_TIME_FORMS = '"2025-06-18" or "2025-06-18T10:00:00+02:00"; without an offset it is UTC'


class Argument(NamedTuple):
    """An argument that a model may give.

    The kind is `str`, `float`, `int`, `list[str]`, `Time` or a `Literal` of texts; with
    bounds, an `Annotated` as in `vecall.limits`. {low} and {high} in the words stand
    for the bounds. The default is the value in a call without the argument.
    """

    kind: Any
    says: str
    default: Any = None

    @property
    def type(self) -> Any:
        """The type without bounds and choices, as in a signature."""
        kind = get_args(self.kind)[0] if self._schema_bounds else self.kind
        return kind if kind in _JSON_TYPES else str

    @property
    def _schema_bounds(self) -> Within | None:
        is_bounded = get_origin(self.kind) is Annotated
        return self.kind.__metadata__[0] if is_bounded else None

    @property
    def _schema_choices(self) -> list[str]:
        is_choice = get_origin(self.kind) is Literal
        return list(get_args(self.kind)) if is_choice else []

    def argument_schema(self, *, clamps: bool) -> dict[str, Any]:
        """Return the JSON Schema, without what a tool that clamps does not refuse."""
        kind, bounds, choices = self.type, self._schema_bounds, self._schema_choices
        schema: dict[str, Any] = {"type": _JSON_TYPES.get(kind, "string")}
        if kind == list[str]:
            schema["items"] = {"type": "string"}
        if choices:
            schema["enum"] = choices
        says = self.says
        if bounds is not None:
            says = says.format(low=bounds.low, high=bounds.high)
        if clamps and self.default is not None:
            schema["type"] = "number"
            says = f"{says} (default: {self.default})"
        elif not clamps:
            if bounds is not None:
                schema |= {"minimum": bounds.low, "maximum": bounds.high}
            if self.default is not None:
                schema["default"] = self.default
        return {**schema, "description": says}

    def read_argument(self, value: object, name: str, *, clamps: bool) -> Any:
        """Return a value as the type says; the service checks the range of a float."""
        kind, bounds, choices = self.type, self._schema_bounds, self._schema_choices
        if self.kind == Time:
            return utc_seconds(value, name)
        if choices and value not in choices:
            msg = f"{name}: must be {' or '.join(map(json.dumps, choices))}"
            raise errors.InvalidArgumentError(msg)
        if kind is str and not isinstance(value, str):
            raise errors.InvalidTypeError(f"{name}: expected a string")
        if kind not in (float, int):
            return value
        is_whole = kind is int and not clamps
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or (is_whole and value % 1 != 0):  # type: ignore[operator]
            raise errors.InvalidTypeError(
                f"{name}: expected a {'whole ' * is_whole}number"
            )
        number: Any = value
        if kind is float or bounds is None:
            return number
        low, high = bounds.low, bounds.high
        if clamps:
            return int(max(low, min(high, number)))
        if not low <= number <= high:
            raise errors.InvalidArgumentError(f"{name}: must be from {low} to {high}")
        return int(number)

    def argument_from_text(self, text: str) -> object:
        """Return what a text stands for: a number, an array as JSON, a choice."""
        if self.type in (float, int) and len(text) <= _LONGEST_NUMBER:
            with suppress(ValueError):
                return float(text)
        elif self.type == list[str]:
            with suppress(ValueError, RecursionError):
                listed = json.loads(text)
                return listed if isinstance(listed, list) else text
        elif (choice := text.strip().lower()) in self._schema_choices:
            return choice
        return text


_Turns = Annotated[int, Within(0, 10)]

ARGUMENTS: dict[str, Argument] = {
    "query": Argument(str, "What to search for"),
    "load_memory.query": Argument(str, "What to look for"),
    "forget_memory.query": Argument(str, "What to forget"),
    "recall_memory.limit": Argument(float, f"Max results (default: {DEFAULT_LIMIT})"),
    "search_memory.limit": Argument(
        Annotated[int, Within(1, 50)],
        f"The most memories to return (default: {DEFAULT_LIMIT}, more for a list)",
    ),
    "search_memory.kind": Argument(
        str, 'Only of this kind, such as "fact" or "preference"'
    ),
    "search_memory.after": Argument(
        Time, f"Only from this time on: {_TIME_FORMS}; a date is its beginning"
    ),
    "search_memory.before": Argument(
        Time, 'Only before this time, in the forms of "after"'
    ),
    "id": Argument(str, "The id of the memory"),
    "begin": Argument(
        Annotated[int, Within(0, _MOST_WHOLE)],
        "The character of its text to begin at",
        0,
    ),
    "turns_before": Argument(_Turns, "Turns before it, {low} to {high}", 2),
    "turns_after": Argument(_Turns, "Turns after it, {low} to {high}", 2),
    "list_memories.limit": Argument(
        Annotated[int, Within(1, 200)], "The most memories of a page", 50
    ),
    "list_memories.after": Argument(
        str, 'The "next" of the page before; without it, the first page'
    ),
    "list_memories.state": Argument(
        Literal["live", "archived"],
        "Archived memories are stored, but not searched",
        "live",
    ),
    "text": Argument(str, "What to remember, as a sentence that is clear by itself"),
    "update_memory.text": Argument(
        str, "What it should say, as a sentence that is clear by itself"
    ),
    "kind": Argument(str, 'What it is: "fact", "preference" or "decision"'),
    "importance": Argument(Share, "How much it matters, from {low} to {high}"),
    "supersedes": Argument(list[str], "The ids of memories that it replaces"),
    "timestamp": Argument(
        Time, f"When it was said, if not now, as for old notes: {_TIME_FORMS}"
    ),
    "token": Argument(str, "The token of the first call, to confirm it"),
    "ids": Argument(
        list[str],
        "With the token: the ids of the memories to forget; without ids all that were "
        "shown go",
    ),
}
"""The arguments by name; after a tool and a dot, those of the tool alone."""


OnMissing = Literal["error", "empty"]
Answer = dict[str, Any]
Given = Mapping[str, Any]

_log = logging.getLogger("vecall")


class MemoryTool(ABC):
    """A tool over the memory of one user, independent of frameworks.

    Arguments come from a model and are untrusted. Argument names outside the schema are
    ignored, such as apps, users, authors and sources. null counts as absent, and so
    does "" for an argument that is not required. Where the schema has a number, a text
    with one is taken; for an array, an array as JSON; for a time, what `utc_seconds`
    reads. For an invalid value the call returns `{"error": …}`. The error states the
    allowed values and does not repeat the invalid one. A call raises only errors that a
    model cannot correct: no memory service, a failing embedder or file, a closed
    service.

    Every answer is a new dict of JSON values.

    Args:
        memory: The memory service: vecall's, another with the two methods of
            `MemoryProtocol`, or None.
        app_name: The app.
        user_id: The user.
        on_missing: The behaviour if `memory` is None. "error" raises when the tool is
            called. "empty" logs a warning now and answers calls without memories.

    Raises:
        InvalidArgumentError: A name is invalid.
        ConfigError: `on_missing` is invalid, or the service lacks a method that the
            tool needs.

    Attributes:
        name: The name of the tool for models.
        description: The description of the tool for models.
        app_name: The app.
        user_id: The user.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    _takes: ClassVar[tuple[str, ...]]  # names of ARGUMENTS
    _required: ClassVar[tuple[str, ...]] = ()
    _clamps: ClassVar[bool] = False  # whole numbers into their bounds
    _without_memory: ClassVar[Answer]
    _needs: ClassVar[tuple[str, ...]] = ("search_memory",)

    def __init__(
        self,
        memory: MemoryProtocol | None,
        app_name: str,
        user_id: str,
        *,
        on_missing: OnMissing = "error",
    ) -> None:
        """Bind the tool to one user."""
        if on_missing not in get_args(OnMissing):
            raise errors.ConfigError('on_missing: must be "error" or "empty"')
        self._limits = limits_of_service(memory)
        if memory is not None:
            require_methods(memory, self.name, *self._needs)
        self._memory = memory
        self.app_name = check_name(app_name, "app_name", self._limits)
        self.user_id = check_name(user_id, "user_id", self._limits)
        self._owner: Owner = {"app_name": self.app_name, "user_id": self.user_id}
        self._on_missing = on_missing
        if memory is None and on_missing == "empty":
            _log.warning("%s has no memory service and finds nothing", self.name)

    @classmethod
    def serves(cls, memory: MemoryProtocol | None) -> bool:
        """Return whether a service has the methods that the tool needs."""
        return memory is None or has_memory_methods(memory, *cls._needs)

    @property
    def _arguments(self) -> dict[str, Argument]:
        return {
            name: ARGUMENTS.get(f"{self.name}.{name}") or ARGUMENTS[name]
            for name in self._takes
        }

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        return {
            "type": "object",
            "properties": {
                name: argument.argument_schema(clamps=self._clamps)
                for name, argument in self._arguments.items()
            },
            "required": list(self._required),
        }

    def declaration(self) -> dict[str, Any] | None:
        """Return the tool's name, description and parameters, for a model.

        Returns None for a tool that models cannot call.
        """
        return {
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
        }

    def openai_schema(self) -> dict[str, Any] | None:
        """Return the declaration in the format of OpenAI's chat API, or None."""
        declared = self.declaration()
        return None if declared is None else {"type": "function", "function": declared}

    async def __call__(self, /, **arguments: Any) -> Answer:
        """Answer a model's call, as `call` does."""
        return await self.call(arguments)

    async def call(
        self, arguments: Mapping[str, Any], *, turn: Hashable = None
    ) -> dict[str, Any]:
        """Answer a model's call.

        Args:
            arguments: The model's arguments, by name.
            turn: The turn of the call, the same as in `PreloadMemory.block`.

        Raises:
            MemoryNotConfiguredError: `memory` is None, and `on_missing` is "error".
            VecallError: The memory service failed; see its methods.
        """
        if self._memory is None:
            if self._on_missing == "error":
                msg = f"{self.name}: no memory service is configured"
                raise errors.MemoryNotConfiguredError(msg)
            return copy.deepcopy(self._without_memory)
        untyped: object = arguments
        if not isinstance(untyped, Mapping):
            return {"error": "arguments: expected an object"}
        try:
            given = self._convert_arguments(untyped)
            return await self._call_tool(self._memory, given, turn)
        except errors.InvalidArgumentError as error:
            return {"error": str(error)}
        except NotImplementedError:
            msg = f"{self.name}: this memory service lacks a method that the tool needs"
            raise errors.ConfigError(msg) from None

    def _convert_arguments(self, arguments: Mapping[str, object]) -> dict[str, Any]:
        """Return the arguments that are there, checked, or that have a default."""
        given: dict[str, Any] = {}
        for name, argument in self._arguments.items():
            value = arguments.get(name)
            if isinstance(value, str):
                value = argument.argument_from_text(value)
            is_absent = value is None or (isinstance(value, str) and not value)
            if not is_absent or name in self._required:
                given[name] = argument.read_argument(value, name, clamps=self._clamps)
            elif argument.default is not None:
                # "": from models that must give each argument
                given[name] = argument.default
        return given

    def as_function(self) -> Callable[..., Awaitable[dict[str, Any]]]:
        """Return the tool as an async function, for frameworks that inspect one.

        The function has the name, docstring, signature and annotations of the tool.
        """

        async def function(*values: Any, **arguments: Any) -> dict[str, Any]:
            by_place = zip(self._takes, values, strict=False)
            return await self.call({**dict(by_place), **arguments})

        signature = self._make_signature()
        types = {each.name: each.annotation for each in signature.parameters.values()}
        function.__name__ = function.__qualname__ = self.name
        function.__doc__ = self._make_docstring()
        function.__annotations__ = {**types, "return": signature.return_annotation}
        function.__signature__ = signature  # type: ignore[attr-defined]
        return function

    def _make_signature(self) -> inspect.Signature:
        parameters = []
        for name, argument in self._arguments.items():
            kind: Any = float if argument.type is int else argument.type
            required = name in self._required
            parameters.append(
                inspect.Parameter(
                    name,
                    inspect.Parameter.POSITIONAL_OR_KEYWORD,
                    default=inspect.Parameter.empty if required else None,
                    annotation=kind if required else kind | None,
                )
            )
        return inspect.Signature(parameters, return_annotation=dict[str, Any])

    def _make_docstring(self) -> str:
        lines = [self.description]
        if self._takes:
            lines += ["", "Args:"]
        for name, schema in self.parameters["properties"].items():
            lines.append(f"    {name}: {schema['description']}")
        return "\n".join(lines)

    @abstractmethod
    async def _call_tool(self, memory: Any, given: Given, turn: Hashable, /) -> Answer:
        """Answer a call; `given` has arguments that are as the schema says."""


def at_least_one(value: object, name: str) -> int:
    """Return a number of memories, which must be an integer of at least 1."""
    if type(value) is not int:
        raise errors.InvalidTypeError(f"{name}: expected an integer")
    if value < 1:
        raise errors.InvalidArgumentError(f"{name}: must be at least 1")
    return value


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
        self._limits = limits_of_service(memory)
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


async def search_with_fallback(
    memory: Any, **arguments: Any
) -> tuple[SearchMemoryResponse, bool]:
    """Search; if the embedder fails, search by words. Return whether it failed.

    The fallback keeps an agent's turn working when embedding fails, and logs a warning.
    A search by words has no cosine: the floor on the cosine, of the call or of the
    service, does not apply to it. The floor on the confidence does. If the service's
    search takes no `top_k`, this function cuts the result to `top_k` memories.

    Args:
        memory: The memory service, of vecall or another library.
        arguments: The arguments of vecall's `search_memory`.

    Raises:
        ConfigError: The service's search does not support a floor or the filter.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    known = arguments_taken_by(memory.search_memory, given)
    if missing := given.keys() - known.keys() - {"top_k"}:
        msg = f"{', '.join(sorted(missing))}: this memory service's search has none"
        raise errors.ConfigError(msg)
    try:
        found = as_search_response(await memory.search_memory(**known))
        return found.with_memories(found.memories[: arguments.get("top_k")]), False
    except errors.EmbedderError as error:
        if not isinstance(memory, MemoryService):
            raise
        _log.warning("searched by words alone: %s", error)
    words = replace(memory.ranking, fusion="words")
    known.pop("min_similarity", None)
    return await memory.search_memory(**known, ranking=words), True


Placement = Literal["user", "system"]
Message = dict[str, Any]
