"""Messages of JSON-RPC as lines of bytes, for versions 1 and 2 of the SDK."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from vecall.mcp.server import IS_FIRST

PARSE_ERROR = -32700
INVALID_REQUEST = -32600


def decoded(line: bytes) -> Any:
    """Return a message of the SDK.

    Raises:
        ValueError: The line is not a message.
    """
    if IS_FIRST:
        from mcp.types import JSONRPCMessage

        return JSONRPCMessage.model_validate_json(line)
    from mcp_types import jsonrpc_message_adapter

    return jsonrpc_message_adapter.validate_json(line, by_name=False)


def encoded(message: Any) -> bytes:
    """Return the line of a message of the SDK."""
    text: str
    if IS_FIRST:
        text = message.model_dump_json(by_alias=True, exclude_none=True)
    else:
        text = message.model_dump_json(by_alias=True, exclude_unset=True)
    return text.encode() + b"\n"


def parts(message: Any) -> Any:
    """Return the request, response or notification in a message of the SDK."""
    return message.root if IS_FIRST else message


def refusal(line: bytes) -> bytes:
    """Return the line that answers a line which is not a message.

    The answer has the id of the line, if it can be read: otherwise the client would
    wait for ever.
    """
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return _error(None, PARSE_ERROR, "Parse error")
    id_ = value.get("id") if isinstance(value, Mapping) else None
    is_id = isinstance(id_, str | int) and not isinstance(id_, bool)
    return _error(id_ if is_id else None, INVALID_REQUEST, "Invalid request")


def _error(id_: str | int | None, code: int, message: str) -> bytes:
    error = {"code": code, "message": message}
    return json.dumps({"jsonrpc": "2.0", "id": id_, "error": error}).encode() + b"\n"
