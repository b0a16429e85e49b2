"""Handlers of admin operations: maintenance of the file, without its memories."""

from __future__ import annotations

import secrets
import time
from pathlib import Path

from starlette.responses import Response

from vecall.errors import ConfigError
from vecall.server.metrics import as_text
from vecall.server.responses import HttpError, json_response
from vecall.server.routing import RequestContext

NO_FOLDER = "No folder of backups is configured."


async def metrics(call: RequestContext) -> Response:
    """Return the metrics in the text format of Prometheus."""
    pauses = call.state.pauses
    pauses.begin()
    text = as_text(await call.memory.admin.stats(), call.state.answered, pauses)
    return Response(text, media_type="text/plain; version=0.0.4")


async def backup(call: RequestContext) -> Response:
    """Copy the file to the folder of backups, under a name that the server chooses."""
    memory, state = call.memory, call.state
    if state.backups is None:
        raise HttpError(400, "not_configured", NO_FOLDER)
    if state.backing_up:
        msg = "A backup is being made."
        raise HttpError(409, "conflict", msg, {"Retry-After": "1"})
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    name = f"memory-{moment}-{secrets.token_hex(4)}.db"
    target: Path = state.backups / name
    state.backing_up = True
    try:
        await memory.admin.backup(target)
    except ConfigError as error:  # its message contains a path
        msg = "The folder of backups cannot be used."
        raise HttpError(503, "storage", msg, {"Retry-After": "1"}) from error
    finally:
        state.backing_up = False
    return json_response({"name": name, "bytes": target.stat().st_size}, 201)


async def delete_app(call: RequestContext) -> Response:
    """Delete all memories of all users of an app."""
    count = await call.memory.admin.delete_app(app_name=call.names["app"], **call.query)
    return json_response({"deleted": count})
