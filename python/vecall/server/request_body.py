"""Reads the JSON body and the query of a request.

A parsed body needs many times its bytes of RAM, and parsing holds the GIL. So the
server limits the number of concurrent large bodies. It refuses a body with too many
items and fields while reading it.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Collection
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, NoReturn
from urllib.parse import parse_qsl

import numpy as np
from starlette.requests import ClientDisconnect, Request

from vecall.server.limits import HttpLimits, RateLimiter
from vecall.server.places import Places
from vecall.server.request_checks import check_rate
from vecall.server.responses import HttpError
from vecall.server.validation import Schema, Validator

_JSON = re.compile(r"application/json(?: *; *charset=\"?utf-8\"?)?", re.I | re.ASCII)
_NUMBER = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?(e[+-]?[0-9]{1,2})?")
_WHOLE = re.compile(r"-?[0-9]{1,9}", re.ASCII)
_INLINE_PARSE_LIMIT = 16 * 1024  # bytes: some 0.1 ms of the event loop
_MAX_CONCURRENT_READS = 4  # large bodies of one token
_PARTS = b"[{,"  # characters that start an item or a field; also counted in strings
_DISCARDED = 4  # times the limit; reading on lets a sending client get the response


class BodyPlaces:
    """The places of large bodies, shared by all requests.

    Attributes:
        reading: Limits the bodies that are read for each token. There are enough places
            that no token waits for another.
        held: Limits the bytes of bodies in RAM.
        parsing: Parses one body at a time, because parsing holds the GIL.
    """

    def __init__(self, limits: HttpLimits) -> None:
        """Create the object with all places free."""
        total = max(limits.max_held_bytes, limits.max_body_bytes)
        by_token = max(total // 4, limits.max_body_bytes)
        readers = limits.max_connections * _MAX_CONCURRENT_READS
        self.reading = Places(readers, _MAX_CONCURRENT_READS, limits.request_seconds)
        self.held = Places(total, by_token, limits.request_seconds)
        self.parsing = Places(1, 1, limits.request_seconds)


@dataclass(frozen=True, slots=True)
class BodyRules:
    """The rules for a body.

    Attributes:
        limits: The limits of the server.
        max_bytes: The limit on the bytes of the body.
        schema: The schema of the body.
        validator: The validator of the shared schemas.
    """

    limits: HttpLimits
    max_bytes: int
    schema: Schema
    validator: Validator


@dataclass(frozen=True, slots=True)
class Sender:
    """The sender of a body, and its remaining budget.

    Attributes:
        token: The id of the token.
        rates: The rate limits of the tokens.
        places: The places of large bodies.
        held: The stack that releases the place of a large body; close it after use.
    """

    token: str
    rates: RateLimiter
    places: BodyPlaces
    held: AsyncExitStack


async def read_json(
    request: Request, rules: BodyRules, sender: Sender
) -> dict[str, Any]:
    """Return a body that fits a schema.

    Raises:
        HttpError: 400 invalid JSON, 408 timeout, 413 too large, 415 wrong content type,
            422 schema violation or too many parts, 429 rate limit on bytes, 503 too
            many large bodies at once.
    """
    return await parsed(await read_bytes(request, rules, sender), rules, sender)


async def parsed(body: bytes, rules: BodyRules, sender: Sender) -> dict[str, Any]:
    """Parse a body that fits a schema; a large one on another thread.

    Raises:
        HttpError: 400 invalid JSON, 422 schema violation, 503 too many large bodies at
            once.
    """
    if len(body) <= _INLINE_PARSE_LIMIT:
        return _parse(body, rules)
    async with sender.places.parsing.place(sender.token):
        return await asyncio.to_thread(_parse, body, rules)


async def read_bytes(request: Request, rules: BodyRules, sender: Sender) -> bytes:
    """Return a body of JSON that is not parsed yet.

    Raises:
        HttpError: As in `read_json`, except for what the body contains.
    """
    limits = rules.limits
    kinds = request.headers.getlist("content-type")
    if len(kinds) != 1 or not _JSON.fullmatch(kinds[0].strip()):
        msg = "The Content-Type must be application/json."
        raise HttpError(415, "unsupported_media_type", msg)
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        msg = "The body must not be compressed."
        raise HttpError(415, "unsupported_media_type", msg)
    size = declared_size(request)
    if size is not None and size <= _INLINE_PARSE_LIMIT:
        return await _read_in_time(request, rules, sender, size)
    async with sender.places.reading.place(sender.token):
        await _within_budget(sender, limits.request_seconds)
        if size is None or size <= rules.max_bytes:
            place = sender.places.held.place(sender.token, size or rules.max_bytes)
            await sender.held.enter_async_context(place)
        return await _read_in_time(request, rules, sender, size)


async def _within_budget(sender: Sender, seconds: float) -> None:
    """Wait until the token has bytes left; the server stops reading until then.

    Raises:
        HttpError: 429, the wait would be too long.
    """
    wait = sender.rates.wait(sender.token, "bytes")
    if wait and wait <= seconds:
        await asyncio.sleep(wait)
    elif wait:
        check_rate(sender.rates, sender.token, "bytes")


async def _read_in_time(
    request: Request, rules: BodyRules, sender: Sender, declared: int | None
) -> bytes:
    seconds = rules.limits.body_seconds
    try:
        return await asyncio.wait_for(_read(request, rules, sender, declared), seconds)
    except asyncio.TimeoutError:
        msg = f"The body must be there within {seconds:g} s."
        raise HttpError(408, "too_slow", msg) from None
    except ClientDisconnect:
        raise HttpError(400, "disconnected", "The body has no end.") from None


def declared_size(request: Request) -> int | None:
    """Return the Content-Length of a request; None without one."""
    declared = request.headers.get("content-length")
    if declared is None:
        return None
    # A number with too many digits exceeds every limit.
    return int(declared) if _WHOLE.fullmatch(declared) else 10**10


async def _read(
    request: Request, rules: BodyRules, sender: Sender, declared: int | None
) -> bytes:
    max_bytes = rules.max_bytes
    if "expect" in request.headers and declared is not None and declared > max_bytes:
        raise _too_large(max_bytes)
    max_parts = rules.limits.max_json_parts
    counted = declared is None or declared > max_parts
    pieces = []
    size = parts = 0
    async for piece in request.stream():
        size += len(piece)
        sender.rates.spend(sender.token, "bytes", len(piece))
        if counted and size <= max_bytes and parts <= max_parts:
            parts += _parts(piece)
        if size <= max_bytes and parts <= max_parts:
            pieces.append(piece)
        else:
            pieces.clear()
        if size > _DISCARDED * max_bytes:
            break
    if size > max_bytes:
        raise _too_large(max_bytes)
    if parts > max_parts:
        msg = f"body: at most {max_parts} of the characters [ {{ ,"
        raise HttpError(422, "invalid", msg)
    return b"".join(pieces)


def _parts(piece: bytes) -> int:
    """Return the number of items and fields that begin in a piece of JSON.

    Characters inside strings count too.
    """
    data = np.frombuffer(piece, np.uint8)
    return sum(int(np.count_nonzero(data == each)) for each in _PARTS)


def _too_large(max_bytes: int) -> HttpError:
    return HttpError(413, "too_large", f"The body has at most {max_bytes} bytes.")


def _parse(body: bytes, rules: BodyRules) -> dict[str, Any]:
    try:
        value = json.loads(
            body.decode(),
            parse_constant=_refuse,
            object_pairs_hook=_object,
        )
    except (ValueError, RecursionError):
        raise HttpError(400, "not_json", "The body is not JSON.") from None
    rules.validator.check(value, rules.schema)
    assert isinstance(value, dict)
    return value


def _refuse(_: str) -> NoReturn:
    msg = "not JSON"
    raise ValueError(msg)


def _object(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; refuse duplicate names, which parsers read differently."""
    value = dict(fields)
    if len(value) < len(fields):
        msg = "body: an object has a field twice"
        raise HttpError(422, "invalid", msg)
    return value


def read_query(
    request: Request,
    validator: Validator,
    schemas: dict[str, Schema],
    needs: Collection[str] = (),
) -> dict[str, Any]:
    """Return the values of a query that fits its schemas.

    Raises:
        HttpError: 400 not UTF-8, 422 another shape.
    """
    try:
        text = request.scope["query_string"].decode("ascii")
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict")
    except ValueError:
        raise HttpError(400, "bad_query", "The query is not valid.") from None
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name not in schemas or name in values:
            known = ", ".join(schemas) or "none"
            msg = f"query: has these fields, each at most once: {known}"
            raise HttpError(422, "invalid", msg)
        values[name] = _typed(value, schemas[name].get("type", "string"))
        validator.check(values[name], schemas[name], f"query.{name}")
    for name in needs:
        if name not in values:
            raise HttpError(422, "invalid", f"query.{name}: is missing")
    return values


def _typed(value: str, kind: str) -> object:
    """Return the value of a query parameter in the type of its schema."""
    if kind == "boolean" and value in ("true", "false"):
        return value == "true"
    if kind == "integer" and _WHOLE.fullmatch(value):
        return int(value)
    if kind == "number" and _NUMBER.fullmatch(value):
        return float(value)
    return value
