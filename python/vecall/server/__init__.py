"""Memory over HTTP: an ASGI app, its tokens and its limits. Needs vecall[server]."""

from __future__ import annotations

try:
    import httptools  # noqa: F401
    import starlette  # noqa: F401
    import uvicorn  # noqa: F401
except ImportError as error:
    names = "starlette, uvicorn and httptools"
    msg = f'vecall.server needs {names}: pip install "vecall[server]"'
    raise ImportError(msg) from error

from vecall.limits import HttpLimits
from vecall.server.app import create_app
from vecall.server.tokens import Token, TokenFile, Tokens, TokenSource, mint

__all__ = [
    "HttpLimits",
    "Token",
    "TokenFile",
    "TokenSource",
    "Tokens",
    "create_app",
    "mint",
]
