"""The base class of memory tools: a name, a schema, and a call bound to one user."""

from __future__ import annotations

import copy
import inspect
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextlib import suppress
from typing import Any, ClassVar, Literal, get_args

from vecall.errors import (
    ConfigError,
    InvalidArgumentError,
    InvalidTypeError,
    MemoryNotConfiguredError,
)
from vecall.protocols import MemoryProtocol
from vecall.timestamps import utc_seconds
from vecall.tools.any_service import can, limits_of, require
from vecall.validation import check_name

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
        """Return those arguments of the schema that are there, as the schema says.

        Raises:
            InvalidArgumentError: A time cannot be read.
        """
        given: dict[str, Any] = {}
        for name, schema in self._properties.items():
            value = arguments.get(name)
            if isinstance(value, str):
                if not value and name not in self._required:
                    continue  # models that must give each argument send ""
                value = as_schema_says(value, schema)
            if value is None:
                continue
            given[name] = utc_seconds(value, name) if name in self._times else value
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

        signature = self._signature()
        types = {each.name: each.annotation for each in signature.parameters.values()}
        function.__name__ = function.__qualname__ = self.name
        function.__doc__ = self._docstring()
        function.__annotations__ = {**types, "return": signature.return_annotation}
        function.__signature__ = signature  # type: ignore[attr-defined]
        return function

    def _signature(self) -> inspect.Signature:
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

    def _docstring(self) -> str:
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
        """Answer a call; `given` has the arguments of the schema that are not None."""


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
