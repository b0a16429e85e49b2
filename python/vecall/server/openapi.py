"""The OpenAPI document, generated from the table of operations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import vecall
from vecall.server.request_checks import changes
from vecall.server.routing import Operation
from vecall.server.schema_parts import Schema, ref
from vecall.server.schemas import NAME, error_schema

_SAYS = {
    200: "Done.",
    201: "Made.",
    204: "Deleted, or not there.",
    400: "Not JSON, not UTF-8, headers too large, or nothing to ask is configured.",
    401: "No valid token.",
    403: "The token, the Host or the Origin is not allowed.",
    404: "Not there.",
    408: "The body came too slowly.",
    409: "The idempotency key was used for other content, the memory was changed since "
    "it was read, or a backup is being made.",
    413: "The body is too large.",
    415: "The body is not of type application/json.",
    422: "A field breaks a rule; the message names both.",
    429: "Too many requests with this token.",
    500: "The server failed.",
    503: "Busy or not available; come again.",
    507: "The disk is full.",
}
_HEADERS = {
    401: "WWW-Authenticate",
    429: "Retry-After",
    503: "Retry-After",
}


def openapi(operations: Sequence[Operation], shared: dict[str, Schema]) -> Schema:
    """Return the document.

    `x-repeat` of an operation is its `repeat`; `x-line-schema` of JSON lines is the
    schema of one line.

    Args:
        operations: All operations.
        shared: The shared schemas by name.
    """
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        document = paths.setdefault(operation.path, {})
        document[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "vecall",
            "version": vecall.__version__,
            "description": "Long-term memory for AI agents.",
        },
        "paths": paths,
        "components": {
            "schemas": shared,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(operation: Operation) -> dict[str, Any]:
    names = re.findall(r"{(\w+)}", operation.path)
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": NAME} for name in names
    ]
    parameters += [
        {
            "name": name,
            "in": "query",
            "required": name in operation.needs,
            "schema": schema,
        }
        for name, schema in operation.query.items()
    ]
    document = {
        "operationId": operation.id,
        "summary": operation.summary,
        "parameters": parameters,
        "responses": _responses(operation),
        "security": [] if operation.access == "public" else [{"bearer": []}],
        "x-repeat": operation.repeat,
    }
    if operation.body is not None:
        content = {"application/json": {"schema": ref(operation.body)}}
        document["requestBody"] = {"required": True, "content": content}
    return document


def _responses(operation: Operation) -> dict[str, Any]:
    statuses = {operation.status}
    if operation.answer == "Added":
        statuses.add(200)  # nothing was stored; the response has the reasons
    answers = {str(each): _success(operation, each) for each in sorted(statuses)}
    for status in sorted(_errors(operation)):
        document: dict[str, Any] = {
            "description": _SAYS[status],
            "content": {"application/json": {"schema": error_schema(status)}},
        }
        if status in _HEADERS:
            header = {"required": True, "schema": {"type": "string"}}
            document["headers"] = {_HEADERS[status]: header}
        answers[str(status)] = document
    return answers


def _success(operation: Operation, status: int) -> dict[str, Any]:
    document: dict[str, Any] = {"description": _SAYS[status]}
    if operation.answer is None:
        return document
    if "/" in operation.answer:
        content: dict[str, Any] = {"schema": {"type": "string"}}
        if operation.answer == "application/x-ndjson":
            content["x-line-schema"] = ref("ExportLine")
        document["content"] = {operation.answer: content}
    else:
        document["content"] = {"application/json": {"schema": ref(operation.answer)}}
    return document


def _errors(operation: Operation) -> set[int]:
    errors = {400, 403, 500, *operation.errors}
    if operation.access != "public":
        errors |= {401, 422, 429, 503}
    if operation.query:
        errors |= {422}
    if operation.body is not None:
        errors |= {408, 413, 415}
    if changes(operation.access):
        errors |= {507}
    return errors
