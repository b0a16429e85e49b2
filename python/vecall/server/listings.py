"""Lists what a token may know: apps, users and sessions, and the token itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from vecall.server.handlers import run, summaries
from vecall.server.responses import json_response
from vecall.server.routing import Operation, RequestContext
from vecall.server.tokens import to_json
from vecall.service.admin import MemoryAdmin
from vecall.service.memory_service import MemoryService
from vecall.types import AppSummary, Page, UserSummary


def of_lists() -> list[Operation]:
    """Operations on what a token may know."""
    return [
        Operation(
            id="listApps",
            method="GET",
            path="/apps",
            access="any",
            handler=list_apps,
            calls=MemoryAdmin.list_apps,
            summary="Return the apps that the token may know, in order of names.",
            answer="Apps",
            repeat="always",
        ),
        Operation(
            id="listUsers",
            method="GET",
            path="/apps/{app}/users",
            access="list",
            handler=list_users,
            calls=MemoryAdmin.list_users,
            summary="Return the users that the token may know, in order of names.",
            answer="Users",
            repeat="always",
        ),
        Operation(
            id="listSessions",
            method="GET",
            path="/apps/{app}/users/{user}/sessions",
            access="read",
            handler=run,
            calls=MemoryService.list_sessions,
            answer="Sessions",
            repeat="always",
        ),
        Operation(
            id="memoryFigures",
            method="GET",
            path="/apps/{app}/users/{user}/figures",
            access="read",
            handler=run,
            calls=MemoryService.memory_figures,
            answer="Figures",
            repeat="always",
        ),
        Operation(
            id="showToken",
            method="GET",
            path="/token",
            summary="Return what the token permits.",
            access="any",
            handler=token,
            answer="TokenRights",
            repeat="always",
        ),
    ]


_SUMMED = ("memories", "text_bytes", "items", "created_at", "updated_at")


async def list_apps(call: RequestContext) -> Response:
    """List the apps that the token may know; of one user, with this user's figures."""
    token, given = call.by, call.arguments
    if token.lists_all:
        return await run(call)
    admin, app = call.memory.admin, token.app
    assert app is not None, "the token is for one app"
    found: list[AppSummary] = []
    if _is_on_page(app, given):
        if token.user is None:
            apps = await admin.list_apps(prefix=app, limit=1)
            found = [each for each in apps if each.app_name == app]
        else:
            users = await admin.list_users(app_name=app, prefix=token.user, limit=1)
            for user in users:
                if user.user_id == token.user:
                    figures = {name: getattr(user, name) for name in _SUMMED}
                    found = [AppSummary(app, users=1, **figures)]
    return await summaries("apps")(call, Page(found))


async def list_users(call: RequestContext) -> Response:
    """List the users of an app that the token may know."""
    token, given = call.by, call.arguments
    if token.user is None:
        return await run(call)
    users: list[UserSummary] = []
    if _is_on_page(token.user, given):
        users = await call.ask(prefix=token.user, after=None, limit=1)
    own = [each for each in users if each.user_id == token.user]
    return await summaries("users")(call, Page(own))


def _is_on_page(name: str, given: Mapping[str, Any]) -> bool:
    """Whether a list with a prefix, after a name, may have this one."""
    return name.startswith(given.get("prefix", "")) and name > given.get("after", "")


async def token(call: RequestContext) -> Response:
    """Return what the client's token permits."""
    fields = to_json(call.by)
    del fields["sha256"]
    return json_response(fields)
