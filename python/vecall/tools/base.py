"""The base class of memory tools: a name, a schema, and a call bound to one user."""

from __future__ import annotations

import copy
import inspect
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any, ClassVar, Generic, Literal, TypeVar, get_args

from vecall.clock import to_seconds, utc_seconds
from vecall.content import get_field, text_parts
from vecall.errors import (
    ConfigError,
    EmbedderError,
    InvalidArgumentError,
    InvalidTypeError,
    MemoryNotConfiguredError,
    VecallError,
)
from vecall.filters.rights import Rights
from vecall.ingest.parts import is_instruction
from vecall.limits import Limits
from vecall.protocols import BaseMemoryService, MemoryProtocol
from vecall.service.memory_service import MemoryService
from vecall.types import Filter, MemoryEntry, SearchMemoryResponse
from vecall.validation import check_filter, check_name, checked_owner

# Adapts the methods and the search results of any memory service to tools.
#
# Every memory service has `add_session_to_memory` and `search_memory`. A tool that
# needs another method checks for it, and raises a typed error if the service lacks it.


_NAMES = ("id", "author", "session_id", "event_id", "kind", "source", "trust")


def limits_of(memory: object) -> Limits:
    """Return the limits of a service; the default limits if it has none."""
    limits = getattr(memory, "limits", None)
    return limits if isinstance(limits, Limits) else Limits()


def can(memory: object, *names: str) -> bool:
    """Return whether a service has the named methods and supports them."""
    if set(names) & set(getattr(memory, "lacking", ())):
        return False
    if isinstance(memory, BaseMemoryService):
        inherited = {name for name in names if hasattr(BaseMemoryService, name)}
        required = {"add_session_to_memory", "search_memory"}
        if not inherited - required <= memory.capabilities:
            return False
    return all(callable(getattr(memory, name, None)) for name in names)


def require(memory: object, who: str, *names: str) -> None:
    """Raise ConfigError if a service lacks methods that a tool or a call needs."""
    if not can(memory, *names):
        needed = " and ".join(names)
        msg = f"{who}: this memory service has no {needed}, which is needed"
        raise ConfigError(msg)


def restricted(memory: Any, rights: Rights) -> Any:
    """Return a service for a caller with fewer rights; None stays None.

    Raises:
        ConfigError: There is a floor on trust, and the service cannot apply it.
    """
    if memory is None or rights.is_full:
        return memory
    if callable(restrict := getattr(memory, "restricted", None)):
        return restrict(rights)
    if rights.has_floor:
        msg = "min_trust: this memory service has no method `restricted`"
        raise ConfigError(msg)
    return memory


def checked_filter(memory: object, condition: object) -> Filter | None:
    """Return the filter of a tool's searches, or None.

    Args:
        memory: The memory service, or None.
        condition: A `Filter`, a mapping with its fields, or None.

    Raises:
        InvalidArgumentError: The filter is invalid, or the service's search does not
            support one of its conditions.
        ConfigError: The service's search takes no filter.
    """
    if condition is None:
        return None
    checked = check_filter(condition, limits_of(memory), by_metadata=True)
    if isinstance(memory, MemoryService):
        return checked
    # Most processes have no vector store.
    from vecall.other_storage.vector_store import VectorStoreMemoryService
    from vecall.other_storage.vector_store_memory import scope_of_filter

    if isinstance(memory, VectorStoreMemoryService):
        scope_of_filter("app", "user", checked, memory.store)
    elif memory is not None and not takes(
        getattr(memory, "search_memory", None), "filter"
    ):
        msg = "filter: this memory service's search takes none"
        raise ConfigError(msg)
    return checked


def takes(method: object, name: str) -> bool:
    """Return whether a method takes an argument of this name."""
    known = _argument_names(getattr(method, "__func__", method))
    return name in known or "**" in known


@lru_cache(maxsize=256)
def _argument_names(function: Any) -> frozenset[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return frozenset({"**"})
    return frozenset(
        "**" if each.kind is inspect.Parameter.VAR_KEYWORD else each.name
        for each in parameters
    )


def taken(method: object, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that a method takes."""
    return {name: value for name, value in arguments.items() if takes(method, name)}


def found_by(response: object) -> SearchMemoryResponse:
    """Return a search result as vecall's own types, for any service.

    Raises:
        VecallError: The response is not a search result.
    """
    if isinstance(response, SearchMemoryResponse):
        return response
    memories = get_field(response, "memories")
    if not isinstance(memories, list | tuple):
        msg = "the memory service returned something else than memories"
        raise VecallError(msg)
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


OnMissing = Literal["error", "empty"]
Schema = Mapping[str, Mapping[str, Any]]
"""The JSON Schema of each argument, by name."""
Answer = Mapping[str, Any]

_log = logging.getLogger("vecall")
_LONGEST_NUMBER = 64  # characters
_TYPES: dict[str, Any] = {"string": str, "number": float, "array": list[str]}


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
    _properties: ClassVar[Schema]
    _required: ClassVar[tuple[str, ...]] = ()
    _times: ClassVar[tuple[str, ...]] = ()  # arguments that are times
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
            msg = 'on_missing: must be "error" or "empty"'
            raise ConfigError(msg)
        self._limits = limits_of(memory)
        if memory is not None:
            require(memory, self.name, *self._needs)
        self._memory = memory
        self.app_name = check_name(app_name, "app_name", self._limits)
        self.user_id = check_name(user_id, "user_id", self._limits)
        self._on_missing = on_missing
        if memory is None and on_missing == "empty":
            _log.warning("%s has no memory service and finds nothing", self.name)

    @classmethod
    def serves(cls, memory: MemoryProtocol | None) -> bool:
        """Return whether a service has the methods that the tool needs."""
        return memory is None or can(memory, *cls._needs)

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        properties = {name: dict(each) for name, each in self._properties.items()}
        return {
            "type": "object",
            "properties": properties,
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

    async def __call__(self, /, **arguments: Any) -> dict[str, Any]:
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
                raise MemoryNotConfiguredError(msg)
            return copy.deepcopy(dict(self._without_memory))
        untyped: object = arguments
        if not isinstance(untyped, Mapping):
            return {"error": "arguments: expected an object"}
        try:
            given = self._converted(untyped)
            return await self._answer(self._memory, given, turn)
        except InvalidArgumentError as error:
            return {"error": str(error)}
        except NotImplementedError:
            msg = f"{self.name}: this memory service lacks a method that the tool needs"
            raise ConfigError(msg) from None

    def _converted(self, arguments: Mapping[str, object]) -> dict[str, Any]:
        """Return the arguments of the schema that are there or have a default.

        Raises:
            InvalidArgumentError: One is not as the schema says.
        """
        given: dict[str, Any] = {}
        for name, schema in self._properties.items():
            value = arguments.get(name)
            if isinstance(value, str):
                value = as_schema_says(value, schema)
            is_absent = value is None or (isinstance(value, str) and not value)
            if is_absent and name not in self._required:
                # "": from models that must give each argument
                if "default" in schema:
                    given[name] = schema["default"]
                continue
            if name in self._times:
                given[name] = utc_seconds(value, name)
            else:
                given[name] = checked_by_schema(value, name, schema)
        return given

    def as_function(self) -> Callable[..., Awaitable[dict[str, Any]]]:
        """Return the tool as an async function, for frameworks that inspect one.

        The function has the name, docstring, signature and annotations of the tool.
        """
        names = tuple(self._properties)

        async def function(*values: Any, **arguments: Any) -> dict[str, Any]:
            return await self.call(
                {**dict(zip(names, values, strict=False)), **arguments}
            )

        signature = self._make_signature()
        types = {each.name: each.annotation for each in signature.parameters.values()}
        function.__name__ = function.__qualname__ = self.name
        function.__doc__ = self._make_docstring()
        function.__annotations__ = {**types, "return": signature.return_annotation}
        function.__signature__ = signature  # type: ignore[attr-defined]
        return function

    def _make_signature(self) -> inspect.Signature:
        parameters = []
        for name, schema in self._properties.items():
            kind: Any = _TYPES[schema["type"]]
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
        if self._properties:
            lines += ["", "Args:"]
        for name, schema in self._properties.items():
            lines.append(f"    {name}: {schema['description']}")
        return "\n".join(lines)

    @abstractmethod
    async def _answer(
        self, memory: Any, given: Mapping[str, Any], turn: Hashable, /
    ) -> dict[str, Any]:
        """Answer a call; `given` has arguments that are as the schema says."""


def as_schema_says(text: str, schema: Mapping[str, Any]) -> object:
    """Return a text as the type of its schema, if it can be read as that."""
    kind = schema["type"]
    if kind in ("number", "integer") and len(text) <= _LONGEST_NUMBER:
        with suppress(ValueError):
            return float(text)
    elif kind == "array":
        with suppress(ValueError, RecursionError):
            listed = json.loads(text)
            return listed if isinstance(listed, list) else text
    elif "enum" in schema and text.strip().lower() in schema["enum"]:
        return text.strip().lower()
    return text


def checked_by_schema(value: object, name: str, schema: Mapping[str, Any]) -> Any:
    """Return an argument if it is as its schema says.

    The range is checked here for an "integer" alone: a "number" the tool clamps, or the
    service checks.

    Raises:
        InvalidTypeError: It has another type.
        InvalidArgumentError: It is outside the range, or none of the choices.
    """
    kind, choices = schema["type"], schema.get("enum")
    if choices is not None and value not in choices:
        msg = f"{name}: must be {' or '.join(map(json.dumps, choices))}"
        raise InvalidArgumentError(msg)
    if kind == "string" and not isinstance(value, str):
        msg = f"{name}: expected a string"
        raise InvalidTypeError(msg)
    if kind not in ("number", "integer"):
        return value
    is_whole = kind == "integer"
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or (is_whole and value % 1 != 0):  # type: ignore[operator]
        msg = f"{name}: expected a {'whole ' * is_whole}number"
        raise InvalidTypeError(msg)
    if not is_whole:
        return value
    low, high = schema["minimum"], schema["maximum"]
    if not low <= value <= high:
        msg = f"{name}: must be from {low} to {high}"
        raise InvalidArgumentError(msg)
    return int(value)  # type: ignore[call-overload]


def at_least_one(value: object, name: str) -> int:
    """Return `value` if it is a valid number of memories.

    Raises:
        InvalidTypeError: `value` is not an integer.
        InvalidArgumentError: `value` is below 1.
    """
    if type(value) is not int:
        msg = f"{name}: expected an integer"
        raise InvalidTypeError(msg)
    if value < 1:
        msg = f"{name}: must be at least 1"
        raise InvalidArgumentError(msg)
    return value


# The app and the user of a run, where a function says them.


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


# A search that falls back to words if the embedder fails.


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
    known = taken(memory.search_memory, given)
    if missing := given.keys() - known.keys() - {"top_k"}:
        msg = f"{', '.join(sorted(missing))}: this memory service's search has none"
        raise ConfigError(msg)
    try:
        found = found_by(await memory.search_memory(**known))
        return found.with_memories(found.memories[: arguments.get("top_k")]), False
    except EmbedderError as error:
        if not isinstance(memory, MemoryService):
            raise
        _log.warning("searched by words alone: %s", error)
    words = replace(memory.ranking, fusion="words")
    known.pop("min_similarity", None)
    return await memory.search_memory(**known, ranking=words), True


# Inserts a block of recalled memories into the messages of a request.


Placement = Literal["user", "system"]
Message = dict[str, Any]


def insert_block(
    messages: Sequence[Message], block: str, placement: Placement
) -> list[Message]:
    """Return messages with the block inserted; the arguments are not changed.

    Args:
        messages: Dicts with "role" and "content": a text or a list of parts.
        block: The text; "" changes nothing.
        placement: "user" appends the block as a separate user message. "system" appends
            it to the system text, or adds a system message if there is none.
    """
    given = list(messages)
    if not block:
        return given
    if placement == "user":
        return [*given, {"role": "user", "content": block}]
    for at, message in enumerate(given):
        if is_instruction(message.get("role")):
            given[at] = {
                **message,
                "content": _content_with_block(message.get("content"), block),
            }
            return given
    return [{"role": "system", "content": block}, *given]


def _content_with_block(content: Any, block: str) -> Any:
    if isinstance(content, list):
        return [*content, {"type": "text", "text": block}]
    return f"{content}\n\n{block}" if content else block
