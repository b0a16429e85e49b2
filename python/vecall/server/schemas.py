"""The JSON Schemas of requests and responses."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta, tzinfo
from functools import cache
from itertools import chain
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

import vecall
from vecall import types
from vecall.clock import Time
from vecall.filters.metadata import MOST_KEYS, MOST_VALUES, TIMES
from vecall.filters.rights import TRUST_TIERS
from vecall.ingest.fields import ENTRY, EVENT
from vecall.limits import HttpLimits, Limits
from vecall.server.requests import EACH_ALONE, Schema, access_writes, closed_schema
from vecall.server.responses import CODES
from vecall.server.routing import PATH_ARGUMENTS, Operation
from vecall.server.tokens import Token
from vecall.tools import PreloadFormat
from vecall.validation import LABEL_FIELDS, MOST_IDS, MOST_NAMES

_WORD: Schema = {"type": "string"}
_NULL: Schema = {"type": "null"}
_NUMBER: Schema = {"type": "number"}
_DONE: Schema = {"type": "integer", "minimum": 0}
_SHARE: Schema = {**_NUMBER, "minimum": 0, "maximum": 1}
_LABEL: Schema = {**_WORD, "maxLength": 512}
FLAG: Schema = {"type": "boolean"}
YES: Schema = {**FLAG, "enum": [True]}


def ref(name: str) -> Schema:
    """Refer to a shared schema."""
    return {"$ref": f"#/components/schemas/{name}"}


_NAME = ref("Name")
_META = ref("Metadata")
_TIME = ref("Time")
_MEMORY = ref("Memory")


def _list_schema(items: Schema, most: int = MOST_VALUES, least: int = 1) -> Schema:
    bounds = {"minItems": least} if least else {}
    return {"type": "array", "items": items, **bounds, "maxItems": most}


def _batch_schema(items: Schema, limits: HttpLimits) -> Schema:
    return _list_schema(items, limits.max_batch, least=0)


def _array_schema(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _enum_of(words: Iterable[Any]) -> Schema:
    return {**_WORD, "enum": list(words)}


def _any_of(*schemas: Schema) -> Schema:
    return {"anyOf": list(schemas)}


def _nullable_schema(schema: Schema) -> Schema:
    return _any_of(_NULL, *schema.get("anyOf", [schema]))


def _open_object(properties: dict[str, Schema], *required: str) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required)}


def _whole(**properties: Schema) -> Schema:
    """Return the schema of an object that has all of its fields."""
    return _open_object(properties, *properties)


# The schemas of filters.


def _operator_schemas(
    name: str, operand: Schema, ordered: Schema, **more: Schema
) -> dict[str, Schema]:
    """Return the operators of a condition as a schema, by its name."""
    fields = {
        **dict.fromkeys(("$eq", "$ne"), operand),
        **dict.fromkeys(("$gt", "$gte", "$lt", "$lte"), ordered),
        **dict.fromkeys(("$in", "$nin"), _list_schema(operand)),
        **more,
        "$exists": FLAG,
        "$not": _any_of(operand, ref(name)),
    }
    return {name: {**closed_schema(fields), "minProperties": 1}}


_SCALARS = [_WORD, _NUMBER, FLAG, _NULL]
_ORDERED = _any_of(_NUMBER, _WORD)
_CONDITIONS: Schema = {
    "type": "object",
    "description": "Keys of custom_metadata, or dotted paths, and the value of each, "
    "or operators with operands; $timestamp and $updated_at, times of the memory; "
    "$and, $or and $not around such conditions.",
    "properties": {
        **dict.fromkeys(("$and", "$or"), _list_schema(ref("MetadataConditions"))),
        "$not": ref("MetadataConditions"),
        **dict.fromkeys(TIMES, _any_of(_TIME, ref("TimeOperators"))),
    },
    "propertyNames": {
        "pattern": r"^(?!\$[A-Za-z])|"
        r"^\$(and|or|not|timestamp|updated_at)(?![\s\S])"
    },
    "additionalProperties": _any_of(ref("Operand"), ref("Operators")),
    "minProperties": 1,
    "maxProperties": MOST_KEYS,
}
_FILTER = closed_schema(
    {
        "session_id": _NAME,
        "after": _TIME,
        "before": _TIME,
        **dict.fromkeys(LABEL_FIELDS, _any_of(_NAME, _list_schema(_NAME, MOST_NAMES))),
        "not_id": _any_of(_NAME, _list_schema(_NAME, MOST_IDS)),
        "metadata": ref("MetadataConditions"),
        "min_trust": _enum_of(TRUST_TIERS),
    }
)
_OF_FILTERS: dict[str, Schema] = {
    "Scalar": _any_of(*_SCALARS),
    "Operand": _any_of(*_SCALARS, _list_schema(ref("Scalar"), least=0)),
    **_operator_schemas(
        "Operators",
        ref("Operand"),
        _ORDERED,
        **{"$contains": ref("Scalar")},
        **dict.fromkeys(("$all", "$any"), _list_schema(ref("Scalar"))),
    ),
    **_operator_schemas("TimeOperators", _TIME, _TIME),
    "MetadataConditions": _CONDITIONS,
    "Filter": _FILTER,
}
"""The schemas by name."""


# The schemas of memories and turns, as they come in.


_NUMBERS: Schema = {
    **_list_schema(_NUMBER, 8192),
    "description": "A vector by the model of the file.",
}
_MESSAGE_PARTS = _list_schema({"type": "object"}, 1024, least=0)
_PARTS = {"parts": _MESSAGE_PARTS, "role": _LABEL}
_PART_LIST: Schema = {
    **_MESSAGE_PARTS,
    "description": 'Parts of a chat message, such as {"type": "text", "text": ...}.',
}
_NEW_CONTENT = ref("NewContent")
_NEW_PARTS = [_PART_LIST, closed_schema(_PARTS, "parts")]
_NEW_TEXT: Schema = {**_WORD, "minLength": 1}
_TOLD = {
    "content": _NEW_CONTENT,
    "text": {**_NEW_CONTENT, "description": "Another name for content."},
    "memory": {**_NEW_CONTENT, "description": "Another name for content."},
    "role": {**_LABEL, "description": "Another name for author."},
    "created_at": {**_TIME, "description": "Another name for timestamp."},
    "metadata": {**_META, "description": "Another name for custom_metadata."},
    "author": _LABEL,
    "timestamp": _TIME,
    "kind": _LABEL,
    "source": _LABEL,
    "trust": _LABEL,
    "custom_metadata": _META,
    "importance": _SHARE,
    **dict.fromkeys(("id", "event_id", "session_id", "app_name", "user_id"), _NAME),
}
_NEW_MEMORY = closed_schema(
    {
        **_TOLD,
        "parts": _PART_LIST,
        "valid_until": _TIME,
        "supersedes": _NAME,
        **{name: {} for name in ENTRY.ignored},
    }
)
_NEW_EVENT = closed_schema(
    {
        **{name: {} for name in (*EVENT.names, *EVENT.ignored)},
        **_TOLD,
        "content": _any_of(_NULL, _WORD, *_NEW_PARTS),
        "parts": _nullable_schema(_PART_LIST),
        "id": _nullable_schema(_WORD),
        "event_id": _nullable_schema(_WORD),
    }
)


# The schemas of answers.


def error_schema(codes: Iterable[str]) -> Schema:
    """Return the schema of the error responses with some codes."""
    code = _enum_of(sorted(codes))
    return _whole(error=_whole(code=code, message=_WORD, request_id=_WORD))


_KINDS: dict[Any, Schema] = {
    str: _WORD,
    int: _DONE,
    float: _NUMBER,
    bool: YES,
    types.MemoryEntry: _MEMORY,
    types.Conflict: ref("Conflict"),
    types.DuplicateGroup: ref("DuplicateGroup"),
}


def _record(kind: type[Any], without: str = "", **instead: Schema) -> Schema:
    """Return the schema of a dataclass in a response, without its None and False.

    `instead` has the schemas of fields whose type says too little.
    """
    hints = get_type_hints(kind)
    fields = {
        name: instead.get(name) or _response_schema(hints[name])
        for name in kind.__dataclass_fields__
        if name != without
    }
    always = [n for n in fields if NoneType not in get_args(hints[n])]
    return _open_object(fields, *(name for name in always if hints[name] is not bool))


def _response_schema(hint: Any) -> Schema:
    """Return the schema of a value of a type in a response."""
    first, *_ = args = get_args(hint) or (hint,)
    if get_origin(hint) is Literal:
        return _enum_of(args)
    if get_origin(hint) in (list, tuple):
        return _array_schema(_response_schema(first))
    if get_origin(hint) is dict:
        return {"type": "object", "additionalProperties": _response_schema(args[1])}
    return _KINDS[first]


def _page_schema(name: str, items: Schema) -> Schema:
    return _open_object({name: _array_schema(items), "next": _WORD}, name)


def _cut_list_schema(name: str, items: Schema) -> Schema:
    return _open_object({name: _array_schema(items), "truncated": YES}, name)


def _schema_with_all_fields(schema: Schema) -> Schema:
    """Return the schema of an object that has all fields of another."""
    return _whole(**schema["properties"])


_SHOWN: dict[str, Schema] = {
    "Memory": {
        **_record(
            types.MemoryEntry,
            content=ref("Content"),
            custom_metadata={"type": "object"},
            importance=_SHARE,
            confidence=_SHARE,
            explanation={"type": "object", "additionalProperties": _NUMBER},
        ),
        "required": ["id", "content", "scope"],
    },
    "Found": _cut_list_schema("memories", _MEMORY),
    "Page": _page_schema("memories", _MEMORY),
    "Apps": _page_schema("apps", _record(types.AppSummary)),
    "Users": _page_schema("users", _record(types.UserSummary)),
    "Sessions": _page_schema("sessions", _record(types.ListedSession)),
    "Explanation": _record(types.Explanation),
    "Preload": closed_schema(
        {
            "query": {**_WORD, "description": "The user's message."},
            "max_entries": {"type": "integer", "minimum": 1, "maximum": 100},
            "max_tokens": {"type": "integer", "minimum": 1, "maximum": 1_000_000},
            "min_confidence": _SHARE,
            "format": _enum_of(get_args(PreloadFormat)),
        },
        "query",
    ),
    "Preloaded": _open_object(
        {
            "block": _WORD,
            "tokens": _DONE,
            "floor": _SHARE,
            "memories": _array_schema(
                _whole(memory=_MEMORY, fate=_enum_of(["shown", "unsure", "no_room"]))
            ),
        },
        "block",
        "tokens",
        "memories",
    ),
    "Figures": _record(types.MemoryFigures),
    "Proposal": _record(types.ForgetProposal),
    "TokenRights": _record(Token, without="sha256"),
    "Revision": _record(types.Revision),
    "History": _cut_list_schema("revisions", ref("Revision")),
    "Consolidation": _schema_with_all_fields(
        _record(types.Consolidation, similarity=_any_of(_NUMBER, _NULL), dry_run=FLAG)
    ),
    "Conflict": _record(types.Conflict, score=_SHARE),
    "Conflicts": _whole(conflicts=_array_schema(ref("Conflict"))),
    "SimilarMemory": _record(types.SimilarMemory, score=_SHARE),
    "DuplicateGroup": _schema_with_all_fields(
        _record(types.DuplicateGroup, similarity=_any_of(_NUMBER, _NULL))
    ),
    "Ids": _whole(ids=_array_schema(_WORD)),
    "Added": _open_object(
        {
            "ids": _array_schema(_nullable_schema(_WORD)),
            "left_out": _array_schema(_record(types.LeftOut)),
            "similar": _array_schema(_array_schema(ref("SimilarMemory"))),
        },
        "ids",
    ),
    "Counted": _whole(count=_DONE),
    "Touched": _whole(touched=_DONE),
    "Marked": _whole(marked=_DONE),
    "Deleted": _whole(deleted=_DONE),
    "Backup": _whole(name=_WORD, bytes=_DONE),
    "Health": _whole(status=_enum_of(["ok"])),
    "Document": {"type": "object"},
    "ExportLine": {
        "type": "object",
        "description": "The header, or the only field names the kind of the line.",
    },
    "Error": error_schema(chain.from_iterable(CODES.values())),
}


def shared_schemas(
    operations: Sequence[Operation], limits: HttpLimits
) -> dict[str, Schema]:
    """Return all schemas by name; the operations are those of `with_fields`."""
    ingest = closed_schema({"sessionId": _NAME, "session_id": _NAME})
    return {
        "Name": {
            **_NEW_TEXT,
            "maxLength": 512,
            "description": "At most 512 bytes in UTF-8, without NUL.",
        },
        "Metadata": {
            "type": "object",
            "description": 'JSON values; the key "ttl" makes a memory expire.',
        },
        "Time": {
            "description": "Seconds since 1970, or ISO 8601 with an offset.",
            **_ORDERED,
        },
        **_OF_FILTERS,
        **{
            operation.body: operation.schema
            for operation in operations
            if operation.body is not None and operation.schema is not None
        },
        "NewContent": _any_of(_NEW_TEXT, *_NEW_PARTS),
        "Content": _any_of(_WORD, _open_object(_PARTS, "parts")),
        "Ingest": {**ingest, "minProperties": 1, "maxProperties": 1},
        "NewMemory": _NEW_MEMORY,
        "NewEvent": _NEW_EVENT,
        "Turns": closed_schema(turn_fields(limits)),
        **_SHOWN,
    }


# The fields of a request, from the signature of the method that the operation calls.


_NOT_ASKED = {"app_name", "user_id", "scope", "scopes", "ranking", "summarizer"}
"""Arguments that the path names, or that a client does not choose."""

_RENAMED = {"top_k": "k", "memory_ids": "ids"}
"""The fields of arguments with another name."""

_BY_TYPE: dict[frozenset[Any], Schema] = {
    frozenset({bool}): FLAG,
    frozenset({int}): {"type": "integer"},
    frozenset({float}): _NUMBER,
    frozenset({str}): _NAME,
    frozenset(get_args(types.FilterLike)): ref("Filter"),
    frozenset(get_args(Time)): _TIME,
    frozenset(get_args(types.Content)): _NEW_CONTENT,
    frozenset({Mapping[str, Any]}): _META,
    frozenset({Sequence[float], NDArray[np.generic]}): _NUMBERS,
    frozenset({str, tzinfo}): _NAME,
    frozenset({str, Sequence[str]}): _any_of(_NAME, _list_schema(_NAME, 100, least=0)),
    frozenset({float, timedelta, str}): _any_of(_NUMBER, _WORD, _NULL),
}
_BY_NAME: dict[str, Schema] = {
    "query": {**_WORD, "description": "Any text."},
    **dict.fromkeys(("author", "kind", "source"), _LABEL),
}


def turn_fields(limits: HttpLimits) -> dict[str, Schema]:
    """Return the fields of turns; each is checked alone."""
    said = {**_batch_schema(ref("NewEvent"), limits), EACH_ALONE: True}
    return {"events": said, "messages": said}


@cache
def _declared_parameters(
    method: Callable[..., Any],
) -> tuple[Mapping[str, Any], Mapping[str, inspect.Parameter]]:
    """Return the types and the parameters of a method."""
    hints = get_type_hints(method, include_extras=True)
    return hints, inspect.signature(method).parameters


def with_fields(
    operation: Operation, limits: HttpLimits, of_memory: Limits
) -> Operation:
    """Return an operation with the fields that the method it calls declares."""
    method = operation.calls
    told = inspect.getdoc(method or operation.handler) or ""
    summary = operation.summary or " ".join(told.split("\n\n")[0].split("\n"))
    if method is None:
        return replace(operation, summary=summary)
    hints, parameters = _declared_parameters(method)
    in_path = {PATH_ARGUMENTS[name] for name in path_names_of(operation)}
    of_names = {
        "memories": _batch_schema(_any_of(_NEW_TEXT, ref("NewMemory")), limits),
        "vectors": _batch_schema(_nullable_schema(_NUMBERS), limits),
        "filter": ref("Filter"),
        **turn_fields(limits),
        **_BY_NAME,
    }
    fields: dict[str, Schema] = {}
    needs: list[str] = []
    arguments: dict[str, str] = {}
    for name, given in parameters.items():
        if name == "self" or name in _NOT_ASKED | in_path | {*operation.left_out}:
            continue
        field = _RENAMED.get(name, name)
        arguments[field] = name
        default = operation.defaults.get(name, given.default)
        if default is given.empty:
            needs.append(field)
        schema = of_names.get(name) or _schema_of(hints[name], limits, of_memory)
        if name == "filter" and name in needs:  # nothing is not everything
            schema = {**_FILTER, "minProperties": 1}
        if given.default is types.UNSET and NoneType in get_args(hints[name]):
            schema = _nullable_schema(schema)
        if default and isinstance(default, int | str | tuple):
            listed = list(default) if isinstance(default, tuple) else default
            schema = {**schema, "default": listed}
        said = "" if name in of_names else argument_doc(told, name)
        fields[field] = {**schema, "description": said} if said else schema
    whole = {name for name in fields if fields[name].get("type") == "integer"}
    operation = replace(
        operation, summary=summary, arguments=arguments, whole=frozenset(whole)
    )
    if operation.body is not None:
        return replace(operation, schema=closed_schema(fields, *needs))
    both = {**fields, **operation.query}
    return replace(operation, query=both, needs=(*operation.needs, *needs))


def _schema_of(hint: Any, limits: HttpLimits, of_memory: Limits) -> Schema:
    """Return the schema of a type; None is what a request does not have."""
    args = get_args(hint)
    union = get_origin(hint) in (Union, UnionType)
    members = frozenset(args if union else (hint,)) - {NoneType, types.Unset}
    if members in _BY_TYPE:
        return _BY_TYPE[members]
    (only,) = members
    kind, *more = get_args(only)
    if get_origin(only) is Annotated:
        (bounds,) = more
        high = bounds.high
        most = getattr(of_memory, high) if isinstance(high, str) else high
        schema = _schema_of(kind, limits, of_memory)
        return {**schema, "minimum": bounds.low, "maximum": most}
    if get_origin(only) is Literal:
        return _enum_of(get_args(only))
    return _batch_schema(_schema_of(kind, limits, of_memory), limits)


def argument_doc(told: str, name: str) -> str:
    """Return what a docstring says of an argument, unless it refers to another."""
    found = re.search(rf"^    {name}: (.*\n(?:     .*\n)*)", told + "\n", re.MULTILINE)
    said = " ".join(found[1].split()) if found else ""
    return "" if said.startswith("As in ") else said


def path_names_of(operation: Operation) -> list[str]:
    """Return the names in the path of an operation."""
    return re.findall(r"{(\w+)}", operation.path)


# The OpenAPI document, generated from the table of operations.


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
_HEADERS = {401: "WWW-Authenticate", 429: "Retry-After", 503: "Retry-After"}


def openapi(operations: Sequence[Operation], shared: dict[str, Schema]) -> Schema:
    """Return the document.

    `x-repeat` of an operation is its `repeat`; `x-line-schema` of JSON lines is the
    schema of one line.
    """
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        document = paths.setdefault(operation.path, {})
        document[operation.method.lower()] = _operation_document(operation)
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


def _operation_document(operation: Operation) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": _NAME}
        for name in path_names_of(operation)
    ]
    for name, schema in operation.query.items():
        is_needed = name in operation.needs
        parameters.append(
            {"name": name, "in": "query", "required": is_needed, "schema": schema}
        )
    document = {
        "operationId": operation.id,
        "summary": operation.summary,
        "parameters": parameters,
        "responses": _operation_responses(operation),
        "security": [] if operation.access == "public" else [{"bearer": []}],
        "x-repeat": operation.repeat,
    }
    if operation.body is not None:
        content = {"application/json": {"schema": ref(operation.body)}}
        document["requestBody"] = {"required": True, "content": content}
    return document


def _operation_responses(operation: Operation) -> dict[str, Any]:
    statuses = {operation.status}
    if operation.answer == "Added":
        statuses.add(200)  # nothing was stored; the response has the reasons
    answers = {
        str(each): _success_response(operation, each) for each in sorted(statuses)
    }
    for status in sorted(_error_statuses(operation)):
        document: dict[str, Any] = {
            "description": _SAYS[status],
            "content": {"application/json": {"schema": error_schema(CODES[status])}},
        }
        if status in _HEADERS:
            header = {"required": True, "schema": {"type": "string"}}
            document["headers"] = {_HEADERS[status]: header}
        answers[str(status)] = document
    return answers


def _success_response(operation: Operation, status: int) -> dict[str, Any]:
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


def _error_statuses(operation: Operation) -> set[int]:
    errors = {400, 403, 500, *operation.errors}
    if operation.access != "public":
        errors |= {401, 422, 429, 503}
    if operation.query:
        errors |= {422}
    if operation.body is not None:
        errors |= {408, 413, 415}
    if access_writes(operation.access):
        errors |= {507}
    return errors
