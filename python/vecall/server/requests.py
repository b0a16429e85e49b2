"""Reading and checking the bodies and queries of requests."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Collection
from contextlib import AsyncExitStack
from typing import Any, NoReturn
from urllib.parse import parse_qsl

import numpy as np
from starlette.requests import ClientDisconnect, Request
from starlette.types import Scope

from vecall.concurrency.join import await_within
from vecall.errors import InvalidArgumentError
from vecall.ingest.parts import speaker_of_event, unwrap_langchain_message
from vecall.limits import HttpLimits
from vecall.scalars import is_field_name
from vecall.server.limits import Places, RateLimiter
from vecall.server.responses import HttpError
from vecall.server.tokens import Token, TokenSource
from vecall.system import cached


class HttpRequest(Request):
    """A request whose headers are read once."""

    @cached
    def given(self) -> dict[str, list[str]]:
        """The values of each header, by its name in lower case."""
        found: dict[str, list[str]] = {}
        for name, value in self.scope["headers"]:
            found.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))
        return found

    @property
    def declared_size(self) -> int | None:
        """The Content-Length; None without one."""
        if "content-length" not in self.given:
            return None
        declared = self.given["content-length"][0]
        # A number with too many digits exceeds every limit.
        return int(declared) if _WHOLE.fullmatch(declared) else 10**10

    @property
    def has_body(self) -> bool:
        """Whether a body follows the headers."""
        declared = self.given.get("content-length", _NO_BODY)
        return declared[0] != "0" or "transfer-encoding" in self.given


_NO_BODY = ["0"]
_LOOPBACK = re.compile(
    r"(?:127\.0\.0\.1|localhost|\[::1\])(?::([0-9]{1,5}))?", re.ASCII
)
_BEARER = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +([!-~]+)", re.ASCII)
_DEFAULT_PORTS = {"http": 80, "https": 443}


def _is_loopback(host: str, scope: Scope) -> bool:
    """Whether a host is this machine, with the port of the server."""
    local = _LOOPBACK.fullmatch(host)
    default = _DEFAULT_PORTS.get(scope["scheme"])
    server = scope.get("server")
    bound = (server[1] if server else None) or default
    return local is not None and int(local[1] or default or 0) == bound


def authorize_access(token: Token, access: str, names: dict[str, str]) -> None:
    """Refuse with 403 an access, as in `Operation`, that a token does not permit."""
    if access == "any":
        allowed = True
    elif access == "list":
        allowed = token.lists_all or token.app == names["app"]
    elif access.startswith("admin"):
        allowed = token.admin
    else:
        allowed = token.opens(names["app"], names["user"])
    if access_writes(access) and token.read_only:
        raise HttpError("read_only", "The token may only read.")
    if not allowed:
        raise HttpError("forbidden", "The token is not for this.")
    if access == "review" and not token.review:
        raise HttpError("review", "This needs a token with the right to review.")


def access_writes(access: str) -> bool:
    """Whether an access includes writes."""
    return access.endswith("write") or access == "review"


Schema = dict[str, Any]

EACH_ALONE = "x-each-alone"
"""Of an array: an invalid item is left out, with its reason, and no other item."""


def closed_schema(properties: dict[str, Schema], *required: str) -> Schema:
    """Return the schema of an object without further fields."""
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": list(required)} if required else schema


_PREFIX = "#/components/schemas/"


def _is_json_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "number": _is_json_number,
    "integer": lambda value: _is_json_number(value) and value == value // 1,
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}

# Measured quantity, whether the bound is a lower one, and the message.
_BOUNDS: dict[str, tuple[Callable[[Any], float], bool, str]] = {
    "minimum": (lambda value: value, True, "must be at least {}"),
    "maximum": (lambda value: value, False, "must be at most {}"),
    "minLength": (len, True, "must have at least {} characters"),
    "maxLength": (len, False, "must have at most {} characters"),
    "minItems": (len, True, "must have at least {} items"),
    "maxItems": (len, False, "must have at most {} items"),
    "minProperties": (len, True, "must have at least {} fields"),
    "maxProperties": (len, False, "must have at most {} fields"),
}


class Validator:
    """Checks values against the schemas of the OpenAPI document.

    It supports the part of JSON Schema that those use. Its messages name a field and a
    rule, never a value.
    """

    def __init__(self, shared: dict[str, Schema]) -> None:
        """Use the shared schemas, by name."""
        self._shared = shared

    def check_value(self, value: object, schema: Schema, where: str = "body") -> None:
        """Refuse a value with 422, the field and its rule.

        An invalid item of an array with `EACH_ALONE`, which are turns, is replaced by
        its error, which leaves out that item alone. One that nobody said stays as it
        is: the service leaves it out by its role, whatever fields it has.
        """
        schema = self._resolve_schema_ref(schema)
        if "anyOf" in schema:
            self._check_any_of(value, schema["anyOf"], where)
            return
        if "type" not in schema:
            return  # any value
        kind = schema["type"]
        if not _TYPES[kind](value):
            article = "an" if kind[0] in "aio" else "a"
            raise _broken_rule_error(where, f"expected {article} {kind}")
        if "enum" in schema and value not in schema["enum"]:
            words = (str(word).lower() for word in schema["enum"])
            raise _broken_rule_error(where, f"must be one of {', '.join(words)}")
        for keyword, bound in schema.items():
            if keyword in _BOUNDS:
                measure, floor, rule = _BOUNDS[keyword]
                given = measure(value)
                # With `not`, NaN fails the check; JSON has no NaN.
                if not (given >= bound if floor else given <= bound):
                    raise _broken_rule_error(where, rule.format(bound))
        if kind == "array" and "items" in schema:
            assert isinstance(value, list)
            items, alone = schema["items"], EACH_ALONE in schema
            for number, item in enumerate(value):
                place = f"{where}[{number}]"
                if alone:
                    value[number] = self._checked_body_turn(item, items, place)
                else:
                    self.check_value(item, items, place)
        elif kind == "object":
            assert isinstance(value, dict)
            self._check_fields(value, schema, where)

    def _checked_body_turn(self, item: object, schema: Schema, where: str) -> object:
        turn = unwrap_langchain_message(item)
        try:
            self.check_value(turn, schema, where)
        except HttpError as error:
            if speaker_of_event(turn).program is None:
                return InvalidArgumentError(error.message)
        return turn

    def _resolve_schema_ref(self, schema: Schema) -> Schema:
        if "$ref" in schema:
            return self._shared[schema["$ref"].removeprefix(_PREFIX)]
        return schema

    def _check_any_of(self, value: object, schemas: list[Schema], where: str) -> None:
        """Check a value against the schemas of its type, or else against all."""
        fitting = [
            schema
            for schema in map(self._resolve_schema_ref, schemas)
            if "type" not in schema or _TYPES[schema["type"]](value)
        ]
        schemas = fitting or schemas
        for schema in schemas[:-1]:
            try:
                self.check_value(value, schema, where)
            except HttpError:
                continue
            return
        self.check_value(value, schemas[-1], where)

    def _check_fields(self, value: dict[str, Any], schema: Schema, where: str) -> None:
        known = schema.get("properties", {})
        more = schema.get("additionalProperties", True)
        names = schema.get("propertyNames", {}).get("pattern")
        if names is not None and not all(re.search(names, name) for name in value):
            raise _broken_rule_error(
                where, f"an unknown operator; known are {', '.join(known)}"
            )
        for name in schema.get("required", ()):
            if name not in value:
                field = f"{where}.{name}"
                raise _broken_rule_error(field, "is missing")
        for name, item in value.items():
            if name in known:
                self.check_value(item, known[name], f"{where}.{name}")
            elif more is False:
                # An unusual name may be user text; the error must not contain it.
                shown = f' "{name}"' if is_field_name(name) else ""
                fields = ", ".join(known)
                raise _broken_rule_error(
                    where, f"unknown field{shown}; fields are {fields}"
                )
            elif more is not True:
                self.check_value(item, more, f"{where}.*")


def _broken_rule_error(where: str, rule: str) -> HttpError:
    return HttpError("invalid", f"{where}: {rule}")


_JSON = re.compile(r"application/json(?: *; *charset=\"?utf-8\"?)?", re.I | re.ASCII)
_NUMBER = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?(e[+-]?[0-9]{1,2})?")
_WHOLE = re.compile(r"-?[0-9]{1,9}", re.ASCII)
_INLINE_PARSE_LIMIT = 16 * 1024  # bytes: some 0.1 ms of the event loop
_MAX_CONCURRENT_READS = 4  # large bodies of one token
_PARTS = b"[{,"  # characters that start an item or a field; also counted in strings
_PLAIN = ["identity"]
_DISCARDED = 4  # times the limit; reading on lets a sending client get the response


class Gate:
    """Checks requests at a door: their head, token, rate and body.

    A parsed body needs many times its bytes of RAM, and parsing holds the GIL. So the
    number of concurrent large bodies is limited, and one with too many items and fields
    is refused while it is read.
    """

    def __init__(
        self,
        tokens: TokenSource,
        limits: HttpLimits | None,
        hosts: Collection[str],
        origins: Collection[str],
    ) -> None:
        """Create the object with all places free."""
        self.limits = limits = limits or HttpLimits()
        self.rates = RateLimiter(limits)
        self._tokens = tokens
        self._hosts = frozenset(host.lower() for host in hosts)
        self._origins = frozenset(origin.lower() for origin in origins)
        seconds, each = limits.request_seconds, limits.requests_at_once
        self.working = Places(4 * each, each, seconds)  # threads of the memory service
        # No token waits for another to read.
        readers = limits.max_connections * _MAX_CONCURRENT_READS
        self._reading = Places(readers, _MAX_CONCURRENT_READS, seconds)
        total = max(limits.max_held_bytes, limits.max_body_bytes)
        by_token = max(total // 4, limits.max_body_bytes)
        self._bytes = Places(total, by_token, seconds)
        self._parsing = Places(1, 1, seconds)

    def check_head(self, request: HttpRequest) -> None:
        """Refuse what the headers of a request say with 400 or 403.

        Their size has a limit. A body whose end is ambiguous to proxies would let
        requests be smuggled. Another host than the loopback ones and those of the door
        would allow DNS rebinding. Another origin is a foreign web page.
        """
        scope, given = request.scope, request.given
        size = len(scope.get("raw_path") or b"") + len(scope["query_string"])
        size += sum(len(name) + len(value) + 4 for name, value in scope["headers"])
        if size > self.limits.max_header_bytes:
            msg = f"The headers have at most {self.limits.max_header_bytes} bytes."
            raise HttpError("headers_too_large", msg)
        if "transfer-encoding" in given and "content-length" in given:
            raise HttpError(
                "bad_request", "A body has a length or is chunked, not both."
            )
        host, *others = given.get("host", ("", ""))  # none is as bad as two
        host = host.lower()
        if others or not (host in self._hosts or _is_loopback(host, scope)):
            raise HttpError("host", "The Host header is not allowed.")
        for origin in given.get("origin", ()):
            own = [f"{scheme}://{host}" for scheme in _DEFAULT_PORTS]
            if origin.lower() not in own and origin.lower() not in self._origins:
                raise HttpError("origin", "The Origin is not allowed.")

    def authenticate(self, request: HttpRequest, more: str = "") -> Token:
        """Return the client's token, or refuse with 401 and `more` in the challenge."""
        given = request.given.get("authorization", ())
        shaped = _BEARER.fullmatch(given[0]) if len(given) == 1 else None
        token = self._tokens.find(shaped[1]) if shaped else None
        if token is None:
            challenge = {"WWW-Authenticate": f'Bearer realm="vecall"{more}'}
            raise HttpError(
                "unauthorized", "A valid bearer token is needed.", challenge
            )
        return token

    def still_admits(self, request: HttpRequest) -> bool:
        """Whether the token of a request is still valid."""
        try:
            self.authenticate(request)
        except HttpError:
            return False
        return True

    def check_rate(self, token: str, kind: str) -> None:
        """Refuse with 429 a request above the rate of `RateLimiter.seconds_to_wait`."""
        seconds = self.rates.seconds_to_wait(token, kind)
        if seconds:
            headers = {"Retry-After": str(int(seconds) + 1)}
            msg = "Too many requests or bytes with this token."
            raise HttpError("too_many_requests", msg, headers)

    async def read_bytes(
        self, request: HttpRequest, token: str, max_bytes: int, held: AsyncExitStack
    ) -> bytes:
        """Return a body of JSON that is not parsed yet; `held` then frees its place."""
        max_bytes = min(max_bytes, self.limits.max_body_bytes)
        kinds = request.given.get("content-type", ())
        if len(kinds) != 1 or not _JSON.fullmatch(kinds[0].strip()):
            msg = "The Content-Type must be application/json."
            raise HttpError("unsupported_media_type", msg)
        if request.given.get("content-encoding", _PLAIN)[0].lower() != _PLAIN[0]:
            msg = "The body must not be compressed."
            raise HttpError("unsupported_media_type", msg)
        size = request.declared_size
        if size is not None and size <= _INLINE_PARSE_LIMIT:
            return await self._read_body_in_time(request, token, max_bytes)
        async with self._reading.place(token):
            wait = self.rates.seconds_to_wait(token, "bytes")
            if wait and wait <= self.limits.request_seconds:
                await asyncio.sleep(wait)
            elif wait:
                self.check_rate(token, "bytes")
            if size is None or size <= max_bytes:
                place = self._bytes.place(token, size or max_bytes)
                await held.enter_async_context(place)
            return await self._read_body_in_time(request, token, max_bytes)

    async def _read_body_in_time(
        self, request: HttpRequest, token: str, max_bytes: int
    ) -> bytes:
        seconds = self.limits.body_seconds
        try:
            return await await_within(seconds, self._receive(request, token, max_bytes))
        except TimeoutError:
            msg = f"The body must be there within {seconds:g} s."
            raise HttpError("too_slow", msg) from None
        except ClientDisconnect:
            raise HttpError("disconnected", "The body has no end.") from None

    async def _receive(self, request: HttpRequest, token: str, max_bytes: int) -> bytes:
        declared, max_parts = request.declared_size, self.limits.max_json_parts
        too_large = f"The body has at most {max_bytes} bytes."
        if "expect" in request.given and declared is not None and declared > max_bytes:
            raise HttpError("too_large", too_large)
        counted = declared is None or declared > max_parts
        pieces = []
        size = parts = 0
        async for piece in request.stream():
            size += len(piece)
            self.rates.spend_rate(token, "bytes", len(piece))
            if counted and size <= max_bytes and parts <= max_parts:
                parts += _count_json_parts(piece)
            if size <= max_bytes and parts <= max_parts:
                pieces.append(piece)
            else:
                pieces.clear()
            if size > _DISCARDED * max_bytes:
                break
        if size > max_bytes:
            raise HttpError("too_large", too_large)
        if parts > max_parts:
            msg = f"body: at most {max_parts} of the characters [ {{ ,"
            raise HttpError("invalid", msg)
        return b"".join(pieces)

    async def parse_body(
        self, body: bytes, token: str, schema: Schema, validator: Validator
    ) -> dict[str, Any]:
        """Parse a body that fits a schema; a large one on another thread."""
        if len(body) <= _INLINE_PARSE_LIMIT:
            return _parse_body(body, schema, validator)
        async with self._parsing.place(token):
            return await asyncio.to_thread(_parse_body, body, schema, validator)


def _parse_body(body: bytes, schema: Schema, validator: Validator) -> dict[str, Any]:
    try:
        value = _decode(body.decode())
    except (ValueError, RecursionError):
        raise HttpError("not_json", "The body is not JSON.") from None
    validator.check_value(value, schema)
    assert isinstance(value, dict)
    return value


def _count_json_parts(piece: bytes) -> int:
    """Return how many items and fields begin in JSON, also those inside strings."""
    data = np.frombuffer(piece, np.uint8)
    return sum(int(np.count_nonzero(data == each)) for each in _PARTS)


def _refuse_json_constant(_: str) -> NoReturn:
    raise ValueError("not JSON")


def _object_without_repeats(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; refuse duplicate names, which parsers read differently."""
    value = dict(fields)
    if len(value) < len(fields):
        raise HttpError("invalid", "body: an object has a field twice")
    return value


_decode = json.JSONDecoder(
    parse_constant=_refuse_json_constant, object_pairs_hook=_object_without_repeats
).decode


def read_query(
    request: HttpRequest,
    validator: Validator,
    schemas: dict[str, Schema],
    needs: Collection[str] = (),
) -> dict[str, Any]:
    """Return the values of a query that fits its schemas."""
    if not (needs or request.scope["query_string"]):
        return {}
    try:
        text = request.scope["query_string"].decode("ascii")
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict")
    except ValueError:
        raise HttpError("bad_query", "The query is not valid.") from None
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name not in schemas or name in values:
            known = ", ".join(schemas) or "none"
            msg = f"query: has these fields, each at most once: {known}"
            raise HttpError("invalid", msg)
        values[name] = _typed_query_value(value, schemas[name].get("type", "string"))
        validator.check_value(values[name], schemas[name], f"query.{name}")
    for name in needs:
        if name not in values:
            raise HttpError("invalid", f"query.{name}: is missing")
    return values


def _typed_query_value(value: str, kind: str) -> object:
    """Return the value of a query parameter in the type of its schema."""
    if kind == "boolean" and value in ("true", "false"):
        return value == "true"
    if kind == "integer" and _WHOLE.fullmatch(value):
        return int(value)
    if kind == "number" and _NUMBER.fullmatch(value):
        return float(value)
    return value
