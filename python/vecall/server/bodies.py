"""Reading a request's body as JSON, and its query."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Collection
from typing import Any, NoReturn
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

from vecall.server.answers import HttpError
from vecall.server.limits import HttpLimits
from vecall.server.validation import Schema, Validator

_JSON = re.compile(r"application/json(?: *; *charset=\"?utf-8\"?)?", re.I | re.ASCII)
_WHOLE = re.compile(r"-?[0-9]{1,9}", re.ASCII)
_PARSED_AT_ONCE = 16 * 1024  # bytes: some 0.1 ms of the event loop
_DISCARDED = 4  # times the limit: so that a client that still sends hears the answer


async def read_json(
    request: Request, limits: HttpLimits, validator: Validator, schema: Schema
) -> dict[str, Any]:
    """Return a body that fits a schema.

    Raises:
        HttpError: 400 no JSON, 408 too slow, 413 too large, 415 another type, 422
            another shape.
    """
    kinds = request.headers.getlist("content-type")
    if len(kinds) != 1 or not _JSON.fullmatch(kinds[0].strip()):
        msg = "The Content-Type must be application/json."
        raise HttpError(415, "unsupported_media_type", msg)
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        msg = "The body must not be compressed."
        raise HttpError(415, "unsupported_media_type", msg)
    try:
        body = await asyncio.wait_for(_read(request, limits), limits.body_seconds)
    except asyncio.TimeoutError:
        msg = f"The body must be there within {limits.body_seconds:g} s."
        raise HttpError(408, "too_slow", msg) from None
    except ClientDisconnect:
        raise HttpError(400, "disconnected", "The body has no end.") from None
    if len(body) <= _PARSED_AT_ONCE:
        return _parse(body, validator, schema)
    return await asyncio.to_thread(_parse, body, validator, schema)


async def _read(request: Request, limits: HttpLimits) -> bytes:
    most = limits.max_body_bytes
    declared = request.headers.get("content-length", "0")
    waits = "expect" in request.headers
    if waits and (not _WHOLE.fullmatch(declared) or int(declared) > most):
        raise _too_large(most)
    pieces = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size <= most:
            pieces.append(piece)
        else:
            pieces.clear()
        if size > _DISCARDED * most:
            break
    if size > most:
        raise _too_large(most)
    return b"".join(pieces)


def _too_large(most: int) -> HttpError:
    return HttpError(413, "too_large", f"The body has at most {most} bytes.")


def _parse(body: bytes, validator: Validator, schema: Schema) -> dict[str, Any]:
    try:
        value = json.loads(
            body.decode(),
            parse_constant=_refuse,
            object_pairs_hook=_object,
        )
    except (ValueError, RecursionError):
        raise HttpError(400, "not_json", "The body is not JSON.") from None
    validator.check(value, schema)
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
