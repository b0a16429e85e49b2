"""The page at `/ui`: three files without a build step, which speak the HTTP API."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from starlette.responses import Response

from vecall.server.routing import Operation, RequestContext

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; "
    "style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
FILES = {
    "/ui": ("index.html", "text/html"),
    "/ui/app.js": ("app.js", "text/javascript"),
    "/ui/style.css": ("style.css", "text/css"),
}


def page_operations() -> list[Operation]:
    """Return the operations that serve the page; they are no part of the HTTP API."""
    return [
        Operation("page", path, method="GET", access="public", handler=serve_page_file)
        for path in FILES
    ]


async def serve_page_file(call: RequestContext) -> Response:
    """Return a file of the page."""
    name, media_type = FILES[call.operation.path]
    return Response(_page_file_content(name), headers=HEADERS, media_type=media_type)


@lru_cache
def _page_file_content(name: str) -> bytes:
    return (Path(__file__).parent / name).read_bytes()
