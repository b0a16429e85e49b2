"""Reading a request's body as JSON, and its query.

A parsed body takes many times its bytes, and parsing holds the GIL: large bodies have
places, and what would become too many objects is refused while it is read.
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
_WHOLE = re.compile(r"-?[0-9]{1,9}", re.ASCII)
_PARSED_AT_ONCE = 16 * 1024  # bytes: some 0.1 ms of the event loop
_READ_AT_ONCE = 4  # large bodies of one token
_PARTS = b"[{,"  # what begins an item or a field, in a text too
_DISCARDED = 4  # times the limit: so that a client that still sends hears the answer


class BodyPlaces:
    """The places of large bodies, which all requests share.

    Attributes:
        reading: Bodies that are read, a few of each token; so many that no token waits
            for another one.
        held: Bytes of bodies that are read or worked on.
        parsing: Bodies that are parsed: one by one, as parsing holds the GIL.
    """

    def __init__(self, limits: HttpLimits) -> None:
        """Begin with all places free."""
        most = max(limits.max_held_bytes, limits.max_body_bytes)
        each = max(most // 4, limits.max_body_bytes)
        everybody = limits.max_connections * _READ_AT_ONCE
        self.reading = Places(everybody, _READ_AT_ONCE, limits.request_seconds)
        self.held = Places(most, each, limits.request_seconds)
        self.parsing = Places(1, 1, limits.request_seconds)


@dataclass(frozen=True, slots=True)
class BodyRules:
    """What one body may be.

    Attributes:
        limits: The limits of the server.
        most: The most bytes.
        schema: What it has to be.
        validator: Knows the schemas.
    """

    limits: HttpLimits
    most: int
    schema: Schema
    validator: Validator


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sends a body, and what it may still take.

    Attributes:
        token: The id of the token.
        rates: What each token has left of requests and bytes.
        places: The places of large bodies.
        held: Gets the place of a large body; to be closed when it is done with.
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
        HttpError: 400 no JSON, 408 too slow, 413 too large, 415 another type, 422
            another shape or too many parts, 429 too many bytes of this token, 503 too
            many large bodies at once.
    """
    limits = rules.limits
    kinds = request.headers.getlist("content-type")
    if len(kinds) != 1 or not _JSON.fullmatch(kinds[0].strip()):
        msg = "The Content-Type must be application/json."
        raise HttpError(415, "unsupported_media_type", msg)
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        msg = "The body must not be compressed."
        raise HttpError(415, "unsupported_media_type", msg)
    size = _declared(request)
    if size is not None and size <= _PARSED_AT_ONCE:
        body = await _read_in_time(request, rules, sender, size)
    else:
        async with sender.places.reading.place(sender.token):
            await _within_budget(sender, limits.request_seconds)
            if size is None or size <= rules.most:
                place = sender.places.held.place(sender.token, size or rules.most)
                await sender.held.enter_async_context(place)
            body = await _read_in_time(request, rules, sender, size)
    if len(body) <= _PARSED_AT_ONCE:
        return _parse(body, rules)
    async with sender.places.parsing.place(sender.token):
        return await asyncio.to_thread(_parse, body, rules)


async def _within_budget(sender: Sender, seconds: float) -> None:
    """Wait until the token has bytes left; the client meanwhile cannot send more.

    Raises:
        HttpError: 429, it will not have any soon.
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


def _declared(request: Request) -> int | None:
    """The length that a request says its body has; None where it says none."""
    declared = request.headers.get("content-length")
    if declared is None:
        return None
    # What is too long to be read as a number is too long for every limit.
    return int(declared) if _WHOLE.fullmatch(declared) else 10**10


async def _read(
    request: Request, rules: BodyRules, sender: Sender, declared: int | None
) -> bytes:
    most = rules.most
    if "expect" in request.headers and declared is not None and declared > most:
        raise _too_large(most)
    most_parts = rules.limits.max_json_parts
    counted = declared is None or declared > most_parts
    pieces = []
    size = parts = 0
    async for piece in request.stream():
        size += len(piece)
        sender.rates.spend(sender.token, "bytes", len(piece))
        if counted and size <= most and parts <= most_parts:
            parts += _parts(piece)
        if size <= most and parts <= most_parts:
            pieces.append(piece)
        else:
            pieces.clear()
        if size > _DISCARDED * most:
            break
    if size > most:
        raise _too_large(most)
    if parts > most_parts:
        msg = f"body: at most {most_parts} of the characters [ {{ ,"
        raise HttpError(422, "invalid", msg)
    return b"".join(pieces)


def _parts(piece: bytes) -> int:
    """How many items and fields begin in a piece of JSON; those in texts count, too."""
    data = np.frombuffer(piece, np.uint8)
    return sum(int(np.count_nonzero(data == each)) for each in _PARTS)


def _too_large(most: int) -> HttpError:
    return HttpError(413, "too_large", f"The body has at most {most} bytes.")


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
    """An object whose fields have different names: whoever checked it saw the same."""
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
        told = parse_qsl(text, keep_blank_values=True, errors="strict")
    except ValueError:
        raise HttpError(400, "bad_query", "The query is not valid.") from None
    values: dict[str, Any] = {}
    for name, value in told:
        if name not in schemas or name in values:
            known = ", ".join(schemas) or "none"
            msg = f"query: has these fields, each at most once: {known}"
            raise HttpError(422, "invalid", msg)
        values[name] = _typed(value, schemas[name]["type"])
        validator.check(values[name], schemas[name], f"query.{name}")
    for name in needs:
        if name not in values:
            raise HttpError(422, "invalid", f"query.{name}: is missing")
    return values


def _typed(value: str, kind: str) -> object:
    """A query's text as what the schema wants, where it is one."""
    if kind == "boolean" and value in ("true", "false"):
        return value == "true"
    if kind == "integer" and _WHOLE.fullmatch(value):
        return int(value)
    return value
