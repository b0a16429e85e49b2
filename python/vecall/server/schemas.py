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
from vecall.clock import Time
from vecall.filters.metadata import MOST_KEYS, MOST_VALUES, TIMES
from vecall.filters.rights import TRUST_TIERS
from vecall.ingest.fields import ENTRY, EVENT
from vecall.limits import HttpLimits, Limits
from vecall.server.requests import EACH_ALONE, Schema, changes, closed, ref
from vecall.server.responses import CODES
from vecall.server.routing import PATH_ARGUMENTS, Operation
from vecall.server.tokens import Token
from vecall.store import State
from vecall.tools import PreloadFormat
from vecall.types import (
    UNSET,
    AppSummary,
    Content,
    Explanation,
    FilterLike,
    ForgetProposal,
    LeftOutReason,
    ListedSession,
    MemoryEntry,
    MemoryFigures,
    Unset,
    UserSummary,
)
from vecall.validation import LABEL_FIELDS, MOST_IDS, MOST_NAMES

# The schemas of filters.


def _list_of(items: Schema, most: int = MOST_VALUES, least: int = 1) -> Schema:
    bounds = {"minItems": least} if least else {}
    return {"type": "array", "items": items, **bounds, "maxItems": most}


def _one_of(words: Iterable[Any]) -> Schema:
    return {"type": "string", "enum": list(words)}


_NAMES: Schema = {"anyOf": [ref("Name"), _list_of(ref("Name"), MOST_NAMES)]}
_IDS: Schema = {"anyOf": [ref("Name"), _list_of(ref("Name"), MOST_IDS)]}
_CONDITIONS = {
    "session_id": ref("Name"),
    "after": ref("Time"),
    "before": ref("Time"),
    **dict.fromkeys(LABEL_FIELDS, _NAMES),
    "not_id": _IDS,
}
SCALARS: list[Schema] = [
    {"type": kind} for kind in ("string", "number", "boolean", "null")
]
_ORDERED: Schema = {"anyOf": [{"type": "number"}, {"type": "string"}]}
_VALUE: Schema = ref("Operand")
_OPERATORS: Schema = {
    **closed(
        {
            **dict.fromkeys(("$eq", "$ne"), _VALUE),
            **dict.fromkeys(("$gt", "$gte", "$lt", "$lte"), _ORDERED),
            **dict.fromkeys(("$in", "$nin"), _list_of(_VALUE)),
            "$contains": ref("Scalar"),
            **dict.fromkeys(("$all", "$any"), _list_of(ref("Scalar"))),
            "$exists": {"type": "boolean"},
            "$not": {"anyOf": [_VALUE, ref("Operators")]},
        }
    ),
    "minProperties": 1,
}
_TIME_OPERATORS: Schema = {
    **closed(
        {
            **dict.fromkeys(("$eq", "$ne", "$gt", "$gte", "$lt", "$lte"), ref("Time")),
            **dict.fromkeys(("$in", "$nin"), _list_of(ref("Time"))),
            "$exists": {"type": "boolean"},
            "$not": {"anyOf": [ref("Time"), ref("TimeOperators")]},
        }
    ),
    "minProperties": 1,
}
_TIME_CONDITION: Schema = {"anyOf": [ref("Time"), ref("TimeOperators")]}
_VALUES: Schema = {
    "type": "object",
    "description": "Keys of custom_metadata, or dotted paths, and the value of each, "
    "or operators with operands; $timestamp and $updated_at, times of the memory; "
    "$and, $or and $not around such conditions.",
    "properties": {
        **dict.fromkeys(("$and", "$or"), _list_of(ref("MetadataConditions"))),
        "$not": ref("MetadataConditions"),
        **dict.fromkeys(TIMES, _TIME_CONDITION),
    },
    "propertyNames": {
        "pattern": r"^(?!\$[A-Za-z])|"
        r"^\$(and|or|not|timestamp|updated_at)(?![\s\S])",
    },
    "additionalProperties": {"anyOf": [_VALUE, ref("Operators")]},
    "minProperties": 1,
    "maxProperties": MOST_KEYS,
}
FILTER = closed(
    {
        **_CONDITIONS,
        "metadata": ref("MetadataConditions"),
        "min_trust": _one_of(TRUST_TIERS),
    }
)

FILTER_SCHEMAS: dict[str, Schema] = {
    "Scalar": {"anyOf": SCALARS},
    "Operand": {"anyOf": [*SCALARS, _list_of(ref("Scalar"), least=0)]},
    "Operators": _OPERATORS,
    "TimeOperators": _TIME_OPERATORS,
    "MetadataConditions": _VALUES,
    "Filter": FILTER,
}
"""The schemas by name."""


_WORD: Schema = {"type": "string"}
_LABEL: Schema = {"type": "string", "maxLength": 512}
_NULL: Schema = {"type": "null"}
_SHARED: dict[str, Schema] = {
    "Name": {
        "type": "string",
        "minLength": 1,
        "maxLength": 512,
        "description": "At most 512 bytes in UTF-8, without NUL.",
    },
    "Metadata": {
        "type": "object",
        "description": 'JSON values; the key "ttl" makes a memory expire.',
    },
    "Time": {
        "description": "Seconds since 1970, or ISO 8601 with an offset.",
        "anyOf": [{"type": "number"}, {"type": "string"}],
    },
}
_NUMBERS: Schema = {
    **_list_of({"type": "number"}, 8192),
    "description": "A vector by the model of the file.",
}
_VECTOR: Schema = {
    **_NUMBERS,
    "description": "The query's vector by the model of the file.",
}
_SHARE: Schema = {"type": "number", "minimum": 0, "maximum": 1}
SECONDS: Schema = {"type": "number"}
_DONE: Schema = {"type": "integer", "minimum": 0}

FLAG: Schema = {"type": "boolean"}
YES: Schema = {"type": "boolean", "enum": [True]}


NAME = _NAME = ref("Name")
_META = ref("Metadata")
_TIME = ref("Time")


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [_NULL, *schema.get("anyOf", [schema])]}


def _open(properties: dict[str, Schema], *required: str) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required)}


def _batch_schema(items: Schema, limits: HttpLimits) -> Schema:
    return _list_of(items, limits.max_batch, least=0)


def _array_of(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _whole(properties: dict[str, Schema]) -> Schema:
    """Return the schema of an object that has all of its fields."""
    return _open(properties, *properties)


_MESSAGE_PARTS = _list_of({"type": "object"}, 1024, least=0)
_PARTS = {"parts": _MESSAGE_PARTS, "role": _LABEL}
_PART_LIST: Schema = {
    **_MESSAGE_PARTS,
    "description": 'Parts of a chat message, such as {"type": "text", "text": ...}.',
}
_NEW_CONTENT = ref("NewContent")
_NEW_PARTS = [_PART_LIST, closed(_PARTS, "parts")]
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
}
_OF = dict.fromkeys(("id", "event_id", "session_id", "app_name", "user_id"), _NAME)
_NEW_MEMORY = closed(
    {
        **_TOLD,
        **_OF,
        "parts": _PART_LIST,
        "valid_until": _TIME,
        "supersedes": _NAME,
        **{name: {} for name in ENTRY.ignored},
    }
)
_NEW_MEMORY_OR_TEXT: Schema = {
    "anyOf": [{"type": "string", "minLength": 1}, ref("NewMemory")]
}
_NEW_EVENT = closed(
    {
        **{name: {} for name in (*EVENT.names, *EVENT.ignored)},
        **_TOLD,
        **_OF,
        "content": {"anyOf": [_NULL, _WORD, *_NEW_PARTS]},
        "parts": _or_null(_PART_LIST),
        "id": _or_null(_WORD),
        "event_id": _or_null(_WORD),
    }
)
_MEMORY = _open(
    {
        "id": _WORD,
        "content": ref("Content"),
        "author": _WORD,
        "timestamp": SECONDS,
        "session_id": _WORD,
        "event_id": _WORD,
        "kind": _WORD,
        "source": _WORD,
        "trust": _WORD,
        "custom_metadata": {"type": "object"},
        "importance": _SHARE,
        "score": {"type": "number"},
        "similarity": {"type": "number"},
        "confidence": _SHARE,
        "explanation": {
            "type": "object",
            "additionalProperties": {"type": "number"},
        },
        "created_at": SECONDS,
        "updated_at": SECONDS,
        "valid_until": SECONDS,
        "supersedes": _WORD,
        "scope": _WORD,
    },
    "id",
    "content",
    "scope",
)
_REVISION = _open(
    {
        "memory": ref("Memory"),
        "state": _one_of([*get_args(State), "overwritten"]),
        "at": SECONDS,
        "why": _WORD,
        "by": _WORD,
        "uses": _DONE,
        "expires_at": SECONDS,
    },
    "memory",
    "state",
)
_LEFT_OUT = _open(
    {
        "index": _DONE,
        "reason": _one_of(get_args(LeftOutReason)),
        "detail": _WORD,
    },
    "index",
    "reason",
)


def _error_schema_of_codes(codes: Iterable[str]) -> Schema:
    code = _one_of(sorted(codes))
    fields = {"code": code, "message": _WORD, "request_id": _WORD}
    return _whole({"error": _whole(fields)})


def error_schema(status: int) -> Schema:
    """Return the schema of the error responses with an HTTP status."""
    return _error_schema_of_codes(CODES[status])


_PRELOADED = _whole(
    {"memory": ref("Memory"), "fate": _one_of(["shown", "unsure", "no_room"])}
)
_KINDS: dict[Any, Schema] = {
    str: _WORD,
    int: _DONE,
    float: {"type": "number"},
    bool: YES,
    MemoryEntry: ref("Memory"),
}


def _record(kind: type[Any], without: str = "") -> Schema:
    """Return the schema of a dataclass in a response, without its None and False."""
    hints = get_type_hints(kind)
    names = [name for name in kind.__dataclass_fields__ if name != without]
    fields = {name: _in_answer(hints[name]) for name in names}
    always = [n for n in names if NoneType not in get_args(hints[n])]
    return _open(fields, *(name for name in always if hints[name] is not bool))


def _in_answer(hint: Any) -> Schema:
    """Return the schema of a value of a type in a response."""
    first, *_ = args = get_args(hint) or (hint,)
    if get_origin(hint) is Literal:
        return _one_of(args)
    if get_origin(hint) in (list, tuple):
        return {"type": "array", "items": _in_answer(first)}
    if get_origin(hint) is dict:
        return {"type": "object", "additionalProperties": _in_answer(args[1])}
    return _KINDS[first]


def _page_of(name: str, kind: type[Any]) -> Schema:
    return _open({name: _array_of(_record(kind)), "next": _WORD}, name)


def shared_schemas(
    operations: Sequence[Operation], limits: HttpLimits
) -> dict[str, Schema]:
    """Return all schemas by name; the operations are those of `declared`."""
    ids = _whole({"ids": _array_of(_WORD)})
    added = _open(
        {
            "ids": _array_of(_or_null(_WORD)),
            "left_out": _array_of(_LEFT_OUT),
            "similar": {"type": "array", "items": _array_of(ref("SimilarMemory"))},
        },
        "ids",
    )
    compared = {"score": _SHARE, "says": _one_of(["same", "update"])}
    pair = {"earlier": ref("Memory"), "later": ref("Memory"), **compared}
    similar = {"memory": ref("Memory"), **compared}
    ingest = closed({"sessionId": _NAME, "session_id": _NAME})
    new_content = [{"type": "string", "minLength": 1}, *_NEW_PARTS]
    return {
        **_SHARED,
        **FILTER_SCHEMAS,
        **{
            operation.body: operation.schema
            for operation in operations
            if operation.body is not None and operation.schema is not None
        },
        "NewContent": {"anyOf": new_content},
        "Content": {"anyOf": [_WORD, _open(_PARTS, "parts")]},
        "Ingest": {**ingest, "minProperties": 1, "maxProperties": 1},
        "NewMemory": _NEW_MEMORY,
        "NewEvent": _NEW_EVENT,
        "Turns": closed(turns(limits)),
        "Memory": _MEMORY,
        "Found": _open(
            {"memories": _array_of(ref("Memory")), "truncated": YES}, "memories"
        ),
        "Page": _open(
            {"memories": _array_of(ref("Memory")), "next": _WORD}, "memories"
        ),
        "Apps": _page_of("apps", AppSummary),
        "Users": _page_of("users", UserSummary),
        "Sessions": _page_of("sessions", ListedSession),
        "Explanation": _record(Explanation),
        "Preload": closed(
            {
                "query": {"type": "string", "description": "The user's message."},
                "max_entries": {"type": "integer", "minimum": 1, "maximum": 100},
                "max_tokens": {"type": "integer", "minimum": 1, "maximum": 1_000_000},
                "min_confidence": _SHARE,
                "format": _one_of(get_args(PreloadFormat)),
            },
            "query",
        ),
        "Preloaded": _open(
            {
                "block": _WORD,
                "tokens": _DONE,
                "floor": _SHARE,
                "memories": _array_of(_PRELOADED),
            },
            "block",
            "tokens",
            "memories",
        ),
        "Figures": _record(MemoryFigures),
        "Proposal": _record(ForgetProposal),
        "TokenRights": _record(Token, without="sha256"),
        "Revision": _REVISION,
        "History": _open(
            {"revisions": _array_of(ref("Revision")), "truncated": YES}, "revisions"
        ),
        "Consolidation": _whole(
            {
                "merged": _DONE,
                "folded": _DONE,
                "summaries": _array_of(_WORD),
                "groups": _array_of(ref("DuplicateGroup")),
                "similarity": {"anyOf": [{"type": "number"}, {"type": "null"}]},
                "dry_run": {"type": "boolean"},
                "conflicts": _array_of(ref("Conflict")),
            }
        ),
        "Conflict": _whole(pair),
        "Conflicts": _whole({"conflicts": _array_of(ref("Conflict"))}),
        "SimilarMemory": _whole(similar),
        "DuplicateGroup": _whole(
            {
                "kept": _WORD,
                "merged": _array_of(_WORD),
                "similarity": {"anyOf": [{"type": "number"}, {"type": "null"}]},
            }
        ),
        "Ids": ids,
        "Added": added,
        "Counted": _whole({"count": _DONE}),
        "Touched": _whole({"touched": _DONE}),
        "Marked": _whole({"marked": _DONE}),
        "Deleted": _whole({"deleted": _DONE}),
        "Backup": _whole({"name": _WORD, "bytes": _DONE}),
        "Health": _open({"status": _one_of(["ok"])}, "status"),
        "Document": {"type": "object"},
        "ExportLine": {
            "type": "object",
            "description": "The header, or the only field names the kind of the line.",
        },
        "Error": _error_schema_of_codes(chain.from_iterable(CODES.values())),
    }


# The fields of a request, from the signature of the method that the operation calls.


_NOT_ASKED = {"app_name", "user_id", "scope", "scopes", "ranking", "summarizer"}
"""Arguments that the path names, or that a client does not choose."""

_RENAMED = {"top_k": "k", "memory_ids": "ids"}
"""The fields of arguments with another name."""

_BY_TYPE: dict[frozenset[Any], Schema] = {
    frozenset({bool}): FLAG,
    frozenset({int}): {"type": "integer"},
    frozenset({float}): SECONDS,
    frozenset({str}): NAME,
    frozenset(get_args(FilterLike)): ref("Filter"),
    frozenset(get_args(Time)): _TIME,
    frozenset(get_args(Content)): _NEW_CONTENT,
    frozenset({Mapping[str, Any]}): _META,
    frozenset({Sequence[float], NDArray[np.generic]}): _NUMBERS,
    frozenset({str, tzinfo}): NAME,
    frozenset({str, Sequence[str]}): {
        "anyOf": [NAME, {"type": "array", "items": NAME, "maxItems": 100}]
    },
    frozenset({float, timedelta, str}): {
        "anyOf": [{"type": "number"}, {"type": "string"}, _NULL]
    },
}
_BY_NAME: dict[str, Schema] = {
    "query": {**_WORD, "description": "Any text."},
    **dict.fromkeys(("author", "kind", "source"), _LABEL),
}


def turns(limits: HttpLimits) -> dict[str, Schema]:
    """Return the fields of turns; each is checked alone."""
    said = {**_batch_schema(ref("NewEvent"), limits), EACH_ALONE: True}
    return {"events": said, "messages": said}


@cache
def _declared_by(
    method: Callable[..., Any],
) -> tuple[Mapping[str, Any], Mapping[str, inspect.Parameter]]:
    """Return the types and the parameters of a method."""
    types = get_type_hints(method, include_extras=True)
    return types, inspect.signature(method).parameters


def declared(operation: Operation, limits: HttpLimits, of_memory: Limits) -> Operation:
    """Return an operation with the fields that the method it calls declares."""
    method = operation.calls
    told = inspect.getdoc(method or operation.handler) or ""
    summary = operation.summary or " ".join(told.split("\n\n")[0].split("\n"))
    if method is None:
        return replace(operation, summary=summary)
    hints, parameters = _declared_by(method)
    in_path = {PATH_ARGUMENTS[name] for name in path_names(operation)}
    of_names = {
        "memories": _batch_schema(_NEW_MEMORY_OR_TEXT, limits),
        "vectors": _batch_schema(_or_null(_NUMBERS), limits),
        "filter": ref("Filter"),
        **turns(limits),
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
            schema = {**FILTER, "minProperties": 1}
        if given.default is UNSET and NoneType in get_args(hints[name]):
            schema = _or_null(schema)
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
        return replace(operation, schema=closed(fields, *needs))
    both = {**fields, **operation.query}
    return replace(operation, query=both, needs=(*operation.needs, *needs))


def _schema_of(hint: Any, limits: HttpLimits, of_memory: Limits) -> Schema:
    """Return the schema of a type; None is what a request does not have."""
    args = get_args(hint)
    union = get_origin(hint) in (Union, UnionType)
    members = frozenset(args if union else (hint,)) - {NoneType, Unset}
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
        return _one_of(get_args(only))
    return _batch_schema(_schema_of(kind, limits, of_memory), limits)


def argument_doc(told: str, name: str) -> str:
    """Return what a docstring says of an argument, unless it refers to another."""
    found = re.search(rf"^    {name}: (.*\n(?:     .*\n)*)", told + "\n", re.MULTILINE)
    said = " ".join(found[1].split()) if found else ""
    return "" if said.startswith("As in ") else said


def path_names(operation: Operation) -> list[str]:
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
_HEADERS = {
    401: "WWW-Authenticate",
    429: "Retry-After",
    503: "Retry-After",
}


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
        {"name": name, "in": "path", "required": True, "schema": NAME}
        for name in path_names(operation)
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
            "content": {"application/json": {"schema": error_schema(status)}},
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
    if changes(operation.access):
        errors |= {507}
    return errors
